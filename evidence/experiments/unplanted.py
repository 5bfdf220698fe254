"""python -m evidence.experiments.unplanted: can Act-PRM find a skill that no thought ever showed?

The bases of documents.py can follow a ball in a document. In a chat they never read a thought about
the state before it, and so their thoughts ignore it. Half of the documents of one base list the
swaps before they tell them (twice), those of the other only tell them (once). The sentence "Act-PRM
pulls the skill out of the documents into the thought" is false if after it the world's own thought
is as rare as before, or if success is no higher than without thoughts.
"""

from transformers import AutoTokenizer

from evidence import tables
from evidence.experiments.documents import raised
from evidence.experiments.runs import SEEDS, recipe
from evidence.results import over_seeds, save_run, t_interval, take_json_flag
from minprm.commands.train import CHECKPOINTS, go_on
from minprm.constants import Config
from minprm.envs.cups import Cups
from minprm.load import tiny
from minprm.load.pretrained import load_model, pretrained
from minprm.model.policy import Policy

CASES = [("twice", 2), ("once", 2), ("twice", 3)]  # the base, and the swaps of all logs and tests
ARMS = "base action_sft best_of_base_matched act_prm expert_thoughts"


def good_share(path: str, swaps: int) -> float:
    """p of the world's own thought, in the mean over states."""
    policy = Policy(load_model(path), pretrained(AutoTokenizer, path), Config().micro_tokens)
    return tiny.gate(policy, Cups(rounds=1, swaps=swaps), Config().thought_tokens)["good"]


def measured(name: str, swaps: int, seed: int) -> tuple[dict, dict]:
    """(success of each arm, share of good thoughts before Act-PRM and after it)."""
    base = raised(name, seed)
    run = f"evidence-unplanted-{name}-{swaps}-{seed}"
    world = f"--preset smoke --world-args rounds=1 swaps={swaps} --episodes 400 --eval-every 0"
    flags = f"{world} --model {base} --instruction none --arms {ARMS} --seeds {seed} --jobs 2"
    ladder, _ = go_on(run, f"{flags} {recipe()}".split())
    places = {"before": base, "after": CHECKPOINTS / run / f"act_prm-{seed}"}
    shares = {when: good_share(str(place), swaps) for when, place in places.items()}
    return {arm: row["success"] for arm, (row,) in ladder.items()}, shares


def main() -> None:
    path = take_json_flag()
    rows = {}
    shares = {}
    for name, swaps in CASES:
        success, share = zip(*[measured(name, swaps, seed) for seed in SEEDS], strict=True)
        for arm in success[0]:
            rows[f"{name} | {swaps} | {arm}"] = over_seeds([each[arm] for each in success])
        shares[f"{name} | {swaps}"] = {w: [each[w] for each in share] for w in share[0]}
    print(tables.successes(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows, shares=shares)


if __name__ == "__main__":
    main()
