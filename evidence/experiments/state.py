"""python -m evidence.experiments.state: do thoughts carry the state, and do actions read it there?

How many bits does the last cup of a thought tell of the right one (log2 5 = 2.32 at most)? And what
is opened after a thought that was changed? "Thoughts carry the state" is false if a trained model
does as well with the thought of another state. "Actions are read off the thought" is false if the
right cup is opened all the same after a thought that was cut short, or in which a cup was edited.
"""

from collections import Counter
from math import log2
from statistics import fmean

from evidence.experiments.changes import Case, Drawn, changed, drawn
from evidence.experiments.models import narrow_models
from evidence.experiments.runs import SEEDS
from evidence.experiments.traces import last_cup
from evidence.results import over_seeds, save_run, t_interval, take_json_flag
from minprm.arms.evaluation import load_agent
from minprm.data import Sample
from minprm.model.agent import Agent


def bits(pairs: list[tuple[str, str]]) -> float:
    """Mutual information of what stands left and right, in bits.
    >>> bits([("a", "x"), ("b", "y")]), bits([("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")])
    (1.0, 0.0)
    """
    left, right = (Counter(side) for side in zip(*pairs, strict=True))
    n = len(pairs)
    return sum(k / n * log2(k * n / left[a] / right[b]) for (a, b), k in Counter(pairs).items())


def informed(turns: list[Drawn]) -> dict[str, float]:
    """What is known of the right cup, as a share of log2 5 bits: by the thought's last cup; by its
    kind; and, as much as so few states tell by luck, by the last cup of another's thought."""
    others = zip(turns, turns[1:] + turns[:1], strict=True)
    pairs = {
        "told by the last cup": [(last_cup(t.text), t.right) for t in turns],
        "told by the kind": [(t.kind, t.right) for t in turns],
        "told by luck": [(last_cup(t.text), other.right) for t, other in others],
    }
    return {what: bits(found) / log2(5) for what, found in pairs.items()}


def scored(agent: Agent, cases: list[Case]) -> dict[str, float]:
    """Mean probability of the right cup, and of the one that the thought names."""
    samples = []
    for turn, thought, named in cases:
        read = Sample().extend(turn.state + agent.chat.opening(thought))
        for cup in (turn.right, named):
            samples.append(Sample(parent=read).extend(agent.chat.action(f"open {cup}"), 0.0))
    found = [logp.sum().exp().item() for logp in agent.policy.logprobs(samples)]
    return {"right": fmean(found[::2]), "named": fmean(found[1::2])}


def measured(path: str) -> dict[str, float]:
    """All numbers of one model."""
    agent, cfg = load_agent(path, episodes=500)
    turns = drawn(agent, cfg)
    kinds = Counter(f"kind {turn.kind}" for turn in turns)
    found = informed(turns) | {kind: n / len(turns) for kind, n in kinds.items()}
    for change, cases in changed(agent, turns).items():
        found |= {f"{change} | {cup}": p for cup, p in scored(agent, cases).items()}
    return found


def main() -> None:
    path = take_json_flag()
    rows = {}
    models = narrow_models()
    for arm in ("base", "act_prm", "expert_thoughts"):
        found = [measured(model) for model in models[arm]]
        for name in dict.fromkeys(name for one in found for name in one):
            rows[f"{arm} | {name}"] = over_seeds([one.get(name, 0.0) for one in found])
    print(*(f"{name:52} {row['mean']:.3f}" for name, row in rows.items()), sep="\n")
    save_run(path, SEEDS, t_interval(SEEDS), rows)


if __name__ == "__main__":
    main()
