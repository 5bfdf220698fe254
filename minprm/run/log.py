"""What a run leaves behind: console, TensorBoard, JSONL, the ladder's table and its chart."""

import json
import math
import os
import statistics
import sys
from pathlib import Path

from loguru import logger
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

from minprm.constants import flat

COLUMNS = ("success", "thought_rate", "copy_rate", "seconds")
# two-sided 95 % quantiles of Student's t, for 1, 2, … degrees of freedom
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160)


class Log:
    """One run's files. Lines carry seed, stage and update, so that a resumed run can drop what it
    is about to do again."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        logger.remove()
        logger.add(lambda line: tqdm.write(line, end="", file=sys.stderr),
                   format="{time:HH:mm:ss} {message}")  # fmt: skip
        logger.add(folder / "log.txt", format="{time} {message}")
        self.writer = SummaryWriter(folder / "tensorboard")

    def config(self, knobs: dict) -> None:
        """The configuration as a file and as TensorBoard's table."""
        write_atomically(self.folder / "config.json", json.dumps(knobs, indent=1))
        rows = "".join(f"|{key}|{value}|\n" for key, value in flat(knobs))
        self.writer.add_text("config", "|knob|value|\n|-|-|\n" + rows)

    def update(self, seed: int, stage: str, update: int, stats: dict[str, float]) -> None:
        """One line of metrics.jsonl and one point a curve."""
        line = {"seed": seed, "stage": stage, "update": update, **stats}
        with open(self.folder / "metrics.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")
        for key, value in stats.items():
            self.writer.add_scalar(f"{key}/{stage}-{seed}", value, update)

    def samples(self, seed: int, stage: str, update: int, groups: list[dict]) -> None:
        """Whole groups, thoughts with rewards and advantages, for people to read."""
        head = {"seed": seed, "stage": stage, "update": update}
        with open(self.folder / "samples.jsonl", "a") as file:
            file.writelines(json.dumps({**head, **group}) + "\n" for group in groups)
        if groups:
            self.writer.add_text(f"samples/{stage}-{seed}", json.dumps(groups[0], indent=1), update)

    def rewind(self, seed: int, stage: str, update: int) -> None:
        """Forgets what was logged of this stage from `update` on."""
        for name in ("metrics.jsonl", "samples.jsonl"):
            path = self.folder / name
            lines = path.read_text().splitlines() if path.exists() else []
            kept = [x for x in lines if not _later(x, seed, stage, update)]
            if len(kept) < len(lines):
                write_atomically(path, "".join(x + "\n" for x in kept))


def _later(line: str, seed: int, stage: str, update: int) -> bool:
    try:
        row = json.loads(line)
    except ValueError:  # the process was killed while it wrote this line
        return True
    return (row["seed"], row["stage"]) == (seed, stage) and row["update"] >= update


def write_atomically(path: Path, text: str) -> None:
    """The whole new file or the whole old one, also after a crash."""
    half = path.with_name(f".{path.name}.tmp")
    half.write_text(text)
    os.replace(half, path)


def wilson(p: float, n: int, z: float = 1.96) -> tuple[float, float]:
    """95 % interval of a share p of n trials (Wilson 1927).

    >>> [round(x, 3) for x in wilson(0.0, 400)]
    [0.0, 0.01]
    """
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return min(max(centre - half, 0.0), p), max(min(centre + half, 1.0), p)  # rounding aside


def pass_at_k(n: int, c: int, k: int) -> float:
    """1 - C(n - c, k) / C(n, k): chance that k of n samples, c of them right, hold a right one.

    Unbiased, where 1 - (1 - c/n)^k is not (Chen et al., arXiv:2107.03374).

    >>> pass_at_k(4, 1, 2)
    0.5
    """
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def interval(rows: list[dict]) -> tuple[float, float, float]:
    """(mean, low, high) of success. Several seeds: mean ± t sd / sqrt(n), the spread of whole runs;
    one seed: Wilson over its episodes, which says nothing about other seeds."""
    values = [row["success"] for row in rows]
    mean = statistics.fmean(values)
    if len(values) == 1:
        return mean, *wilson(mean, rows[0]["episodes"])
    t = T_975[len(values) - 2] if len(values) - 2 < len(T_975) else 1.96
    half = t * statistics.stdev(values) / math.sqrt(len(values))
    return mean, max(mean - half, 0.0), min(mean + half, 1.0)


def table(ladder: dict[str, list[dict]]) -> str:
    """The ladder, a line an arm: mean success, interval, other columns' means, every seed."""
    seeds = max(map(len, ladder.values()))
    kind = "95 % (Wilson, episodes)" if seeds == 1 else f"95 % (t, {seeds} seeds)"
    lines = [
        f"{'arm':<22}{'success':>8}  {kind:<24}{'thoughts':>9}{'copies':>8}{'seconds':>9}  seeds"
    ]
    replayed = all("likelihood" in row for rows in ladder.values() for row in rows)
    if replayed:
        lines[0] += "  p(a | s, z) of the expert's action, success being the share of steps matched"
    for arm, rows in ladder.items():
        mean, low, high = interval(rows)
        rest = [statistics.fmean(row[c] for row in rows) for c in COLUMNS[1:]]
        each = " ".join(f"{row['success']:.3f}" for row in rows)
        lines.append(
            f"{arm:<22}{mean:>8.3f}  {f'[{low:.3f}, {high:.3f}]':<24}"
            f"{rest[0]:>9.2f}{rest[1]:>8.2f}{rest[2]:>9.1f}  {each}"
        )
        if replayed:
            p = [f"{r['likelihood']:.3f} ± {1.96 * r['likelihood_se']:.3f}" for r in rows]
            lines[-1] += f"  {'  '.join(p)}"
    return "\n".join(lines)


def details(ladder: dict[str, list[dict]]) -> str:
    """What success does not say: reward, turns, actions, thoughts; chance of success in k tries."""
    keys = ["reward", "turns", "valid", "effective", "thought_length"]
    found = [k for rows in ladder.values() for k in rows[0] if k.startswith("pass@")]
    keys += dict.fromkeys(found)  # of checkpoints: random and expert are played once
    lines = [f"{'':<22}" + "".join(f"{key:>16}" for key in keys)]
    for arm, rows in ladder.items():
        cells = (statistics.fmean(row.get(key, math.nan) for row in rows) for key in keys)
        lines.append(f"{arm:<22}" + "".join(f"{cell:>16.3f}" for cell in cells))
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
