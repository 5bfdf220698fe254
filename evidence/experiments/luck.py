"""python -m evidence.experiments.luck: where some runs learn and others fail, is it the base?

With .3 good thoughts in 100 learning wins nearly all games on some of ten bases and none on others,
and the share of good thoughts does not tell on which. In ahead.py each base has met one set of logs
and one run of noise. Here it meets two more. A run wins if it wins more than half of its games.
Written before the first run: "the base decides" is false if on three or more bases some runs win
and others do not; "chance decides" is false if on nine or more bases all end alike.
"""

from evidence import tables
from evidence.experiments.ahead import flags
from evidence.experiments.fresh import SEEDS
from evidence.experiments.runs import CENTRED, recipe, successes
from evidence.results import save_run, take_json_flag
from minprm.commands.cli import parse
from minprm.commands.train import CHECKPOINTS
from minprm.envs.cups import Cups
from minprm.load import tiny
from minprm.load.threads import set_threads

SHARE = 0.003
AGAIN = [321, 322]  # of the logs and of the noise; the test tasks are the same


def base(seed: int) -> str:
    """Flags of the base of ahead.py with this seed. It is raised if it is not there."""
    cfg = parse(flags(SHARE).split())
    set_threads("tiny")
    tiny.raised(Cups(), cfg.tiny, seed, cfg.micro_tokens, CHECKPOINTS)
    path = tiny.path_of(Cups(), cfg.tiny, seed, cfg.micro_tokens, CHECKPOINTS)
    return f"--preset cups --model {path} --instruction none"


def main() -> None:
    path = take_json_flag()
    rows = {}
    for seed in SEEDS:
        again = f"{base(seed)} {recipe(**CENTRED)} --arms act_prm"
        found = successes(f"luck-{seed}", again, AGAIN)["act_prm"]
        rows[f"base {seed}"] = {"base": seed, **found}
    print(tables.successes(rows))
    save_run(path, AGAIN, "none: each run is told", rows)


if __name__ == "__main__":
    main()
