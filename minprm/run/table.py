"""The ladder as a table and as a chart, and the intervals in them."""

import math
from pathlib import Path
from statistics import fmean, stdev

# two-sided 95 % quantiles of Student's t, for 1, 2, ... degrees of freedom
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160)


def wilson(p: float, n: int) -> tuple[float, float]:
    """95 % interval of a share p of n trials (Wilson 1927).

    >>> [round(x, 3) for x in wilson(0.0, 400)]
    [0.0, 0.01]
    """
    z = 1.96
    scale = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return min(max(centre - half, 0.0), p), max(min(centre + half, 1.0), p)  # rounding aside


def pass_at_k(n: int, c: int, k: int) -> float:
    """1 - C(n - c, k) / C(n, k): chance that k of n samples, c of them right, hold a right one.

    Unbiased, where 1 - (1 - c/n)^k is not (Chen et al., arXiv:2107.03374).

    >>> pass_at_k(4, 1, 2)
    0.5
    """
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def interval(rows: list[dict]) -> tuple[float, float, float]:
    """(mean, low, high) of success, one row a seed.

    Several seeds: mean ± t sd / sqrt(n), the spread of whole runs. One seed: Wilson over its
    episodes, which says nothing about other seeds.
    """
    values = [row["success"] for row in rows]
    mean = fmean(values)
    if len(values) == 1:
        low, high = wilson(mean, rows[0]["episodes"])
        return mean, low, high
    freedom = len(values) - 1
    t = T_975[freedom - 1] if freedom <= len(T_975) else 1.96
    half = t * stdev(values) / math.sqrt(len(values))
    return mean, max(mean - half, 0.0), min(mean + half, 1.0)


def table(ladder: dict[str, list[dict]]) -> str:
    """The ladder, one line for each arm: mean success, interval, other means, every seed."""
    seeds = max(map(len, ladder.values()))
    kind = "95 % (Wilson, episodes)" if seeds == 1 else f"95 % (t, {seeds} seeds)"
    head = f"{'arm':<22}{'success':>8}  {kind:<24}{'thoughts':>9}{'copies':>8}{'seconds':>9}  seeds"
    replayed = all("likelihood" in row for rows in ladder.values() for row in rows)
    if replayed:
        head += "  p(a | s, z) of the expert's action, success being the share of steps matched"
    lines = [head]
    for arm, rows in ladder.items():
        line = _line(arm, rows)
        if replayed:
            for row in rows:
                line += f"  {row['likelihood']:.3f} ± {1.96 * row['likelihood_se']:.3f}"
        lines.append(line)
    return "\n".join(lines)


def _line(arm: str, rows: list[dict]) -> str:
    mean, low, high = interval(rows)
    thoughts = fmean(row["thought_rate"] for row in rows)
    copies = fmean(row["copy_rate"] for row in rows)
    seconds = fmean(row["seconds"] for row in rows)
    seeds = " ".join(f"{row['success']:.3f}" for row in rows)
    between = f"[{low:.3f}, {high:.3f}]"
    shares = f"{thoughts:>9.2f}{copies:>8.2f}"
    return f"{arm:<22}{mean:>8.3f}  {between:<24}{shares}{seconds:>9.1f}  {seeds}"


def details(ladder: dict[str, list[dict]]) -> str:
    """What success does not say: reward, turns, actions, thoughts; chance of success in k tries."""
    keys = ["reward", "turns", "valid", "effective", "thought_length"]
    for rows in ladder.values():  # of checkpoints: random and expert are played once
        keys += [key for key in rows[0] if key.startswith("pass@") and key not in keys]
    lines = [f"{'':<22}" + "".join(f"{key:>16}" for key in keys)]
    for arm, rows in ladder.items():
        line = f"{arm:<22}"
        for key in keys:
            line += f"{fmean(row.get(key, math.nan) for row in rows):>16.3f}"
        lines.append(line)
    return "\n".join(lines)


def chart(ladder: dict[str, list[dict]], path: Path, title: str) -> None:
    """The same as a bar chart, one dot a seed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 0.4 * len(ladder) + 1.2))
    for i, (arm, rows) in enumerate(ladder.items()):
        mean, low, high = interval(rows)
        colour = "#bbbbbb" if arm in ("random", "expert") else "#3b6fb6"
        axes.barh(i, mean, xerr=[[mean - low], [high - mean]], color=colour, ecolor="#333333")
        axes.scatter([row["success"] for row in rows], [i] * len(rows), s=8, c="black", zorder=3)
    axes.set_yticks(range(len(ladder)), list(ladder))
    axes.invert_yaxis()
    axes.set(xlim=(0, 1), xlabel="success, 95 % interval", title=title)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
