"""python -m evidence.experiments.ahead: is learning ahead of choosing that refuses, on new bases?

Centring was picked on seeds 301 to 310, and that choosing is strongest if it leaves bad steps out
was seen on 301 to 303 (filtered.py). Here both meet the ten seeds of fresh.py, with bases of 3, 1
and .3 good thoughts in 100, raised again: another processor rounds in another way, and gives bases
that are a little different. Written before the first run: "learning is ahead" is false of a share
if the 95 % t interval of the ten differences does not lie above 0. "It holds at 1 in 100" is false
if one of the ten seeds ends below .95.
"""

from statistics import fmean, stdev

from evidence import tables
from evidence.experiments.filtered import refusing_steps
from evidence.experiments.fresh import SEEDS
from evidence.experiments.runs import CENTRED, base, by_each, good_shares, recipe, successes
from evidence.results import save_run, t_interval, take_json_flag
from minprm.report.table import student_t

SHARES = (0.03, 0.01, 0.003)


def flags(share: float) -> str:
    """The run that learns from the bases with this share of good thoughts."""
    return f"{base(share)} {recipe(**CENTRED)} --arms act_prm"


def measured(share: float) -> dict[str, dict]:
    """Rows of the bases with this share of good thoughts."""
    learning = successes(f"ahead-{share}", flags(share), SEEDS)["act_prm"]
    choosing = refusing_steps("ahead", share, SEEDS)
    apart = difference(learning, choosing)
    return {"learning": learning, "steps left out": choosing, "difference": apart}


def difference(learning: dict, choosing: dict) -> dict:
    """A row: the first minus the second, seed by seed. Unlike a success it may be below 0."""
    pairs = zip(learning["values"], choosing["values"], strict=True)
    differences = [ours - theirs for ours, theirs in pairs]
    mean = fmean(differences)
    half = student_t(len(differences) - 1) * stdev(differences) / len(differences) ** 0.5
    return {"mean": mean, "low": mean - half, "high": mean + half, "values": differences}


def main() -> None:
    path = take_json_flag()
    rows = by_each("share", SHARES, measured)
    shares = {str(share): good_shares(f"ahead-{share}") for share in SHARES}
    print(tables.successes(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows, shares=shares)


if __name__ == "__main__":
    main()
