"""python -m evidence.experiments.scales [WIDTH ...]: does the gap close with a larger model?

The ladder of scarce.py with embedded models of four widths, on the same logs. Nothing is tuned for
a width: all learning rates fall as the width grows, and initial weights with its square root
(load/tiny.py), as in arXiv:2203.03466. The sentence "learning is ahead of choosing at every scale"
is false if, at any width, the best of 44 come near what Act-PRM makes of 44. Both are asked a
second time as in refused.py: they leave out the steps whose best thought is bad, and learning has
the library's default weight.
"""

import sys

from evidence import tables
from evidence.experiments import refused
from evidence.experiments.runs import CENTRED, SEEDS, base, by_each, good_shares, recipe, successes
from evidence.experiments.scarce import ARMS
from evidence.results import save_run, t_interval, take_json_flag
from minprm.constants import SFT, Tiny
from minprm.envs.cups import Cups
from minprm.load.tiny import untrained

WIDTHS = (64, 112, 208, 416)  # 0.14, 0.43, 1.5 and 5.9 million parameters


def sized(width: int, **changed) -> str:
    """Flags of a base of this width, and of what is learned from it."""
    slower = Tiny().dim / width
    learns = recipe(lr=6e-4 * slower, **changed)
    return f"{base()} --tiny.dim {width} {learns} --sft.lr {SFT().lr * slower}"


def flags(width: int) -> str:
    """The run of this width."""
    return f"{sized(width)} --arms {ARMS}"


def refusing(width: int) -> str:
    """The run in which both leave out the steps whose best thought is bad."""
    return refused.refusing(sized(width, **CENTRED))


def parameters(width: int) -> int:
    """How many weights the model has; its table of words counts once."""
    network, _ = untrained(Cups(), Tiny(dim=width), seed=0)
    return sum(weights.numel() for weights in network.parameters())


def main() -> None:
    path = take_json_flag()
    widths = {parameters(width): width for width in map(int, sys.argv[1:] or WIDTHS)}

    def measured(size: float) -> dict[str, dict]:
        width = widths[size]
        rows = successes(f"scales-{width}", flags(width))
        fewer = successes(f"scales-{width}-refusing", refusing(width))
        return rows | {f"{arm}, refusing": fewer[arm] for arm in refused.ARMS}

    rows = by_each("parameters", widths, measured)
    shares = {str(size): good_shares(f"scales-{width}") for size, width in widths.items()}
    print(tables.successes(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows, shares=shares)


if __name__ == "__main__":
    main()
