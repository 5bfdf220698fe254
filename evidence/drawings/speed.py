"""Figures of chapter 8: what is read for an update, as rows and as a tree."""

import matplotlib.pyplot as plt

from evidence.drawings.style import ACCENT, GREY, INCHES, INK, LINE, SOFT
from evidence.results import load
from minprm.data import Sample
from minprm.model.tree import lineage, row

STEPS, GROUP = 3, 4
STATE, THOUGHT, ACTION = 200, 24, 6  # tokens, as in benchmarks/actprm.py


def episode() -> list[Sample]:
    """The samples of one log: states and the thoughts that were kept are the trunk."""
    trunk = Sample().extend([1] * STATE)
    samples = []
    for _ in range(STEPS):
        for thought in range(2, 2 + GROUP):  # no two begin alike: equal tokens would be read once
            samples.append(Sample(parent=trunk).extend([thought] * (THOUGHT + ACTION), 1.0))
        trunk = Sample(parent=trunk).extend([1] * (THOUGHT + ACTION + STATE))
    return samples


def before(sample: Sample) -> int:
    """Tokens that stand before the sample's own."""
    return sum(len(node.ids) for node in lineage(sample)[:-1])


def bar(axis, begin: int, tokens: int, y: float, colour: str) -> None:
    axis.barh(y, tokens, left=begin, height=0.62, color=colour, linewidth=0)


def rows(axis, samples: list[Sample]) -> None:
    """A row a thought: each reads all that stands before it."""
    for y, sample in enumerate(samples):
        bar(axis, 0, before(sample), y, GREY)
        bar(axis, before(sample), len(sample.ids), y, ACCENT)
    end = before(samples[0]) + len(samples[0].ids) + 10
    again = "what stands before it, read again in each row"
    axis.text(end, 0, "a thought and the action", color=ACCENT, va="center", fontsize=8)
    axis.text(end, 1, again, color=SOFT, va="center", fontsize=8)


def tree(axis, samples: list[Sample]) -> None:
    """One trunk, and each thought as a branch where it begins."""
    trunk = before(samples[-1])
    bar(axis, 0, trunk, 0, GREY)
    for i, sample in enumerate(samples):
        y = 1 + i % GROUP
        axis.plot([before(sample)] * 2, [0.31, y + 0.31], color=ACCENT, linewidth=1)
        bar(axis, before(sample), len(sample.ids), y, ACCENT)


def speed():
    """One log of three steps with four thoughts a step, drawn to scale. As twelve rows of one
    thought each, every row reads the states before its thought again. As one tree the states are
    one trunk that is read once, and the thoughts are its branches. The titles count the tokens."""
    samples = episode()
    many = sum(len(row([sample]).ids) for sample in samples)
    once = len(row(samples).ids)
    figure, axes = plt.subplots(
        2, 1, figsize=(INCHES, 3.6), sharex=True, height_ratios=(STEPS * GROUP, GROUP + 1)
    )
    rows(axes[0], samples)
    tree(axes[1], samples)
    told = (f"a row a thought: {many:,} tokens", f"one tree: {once:,} tokens")
    for axis, title in zip(axes, told, strict=True):
        axis.set_title(title, color=INK, loc="left", fontweight="bold")
        axis.invert_yaxis()
        axis.set_yticks([])
        axis.spines[:].set_visible(False)
        axis.tick_params(length=0)
    starts = [t * (STATE + THOUGHT + ACTION) for t in range(STEPS)]
    axes[1].set_xticks(starts, [f"state {t + 1}" for t in range(STEPS)], ha="left", color=SOFT)
    return figure


def trees():
    """Tokens read and seconds taken by an Act-PRM update of 1 to 16 steps with eight thoughts a
    step. As a row a thought both grow with the square of the steps; as trees the tokens grow with
    the steps, and the seconds a little faster."""
    grown = [row for row in load("actprm")["rows"].values() if (row["G"], row["state"]) == (8, 200)]
    steps = [row["T"] for row in grown]
    figure, axes = plt.subplots(1, 2, figsize=(INCHES, 2.6))
    for axis, unit, title in ((axes[0], "", "tokens read"), (axes[1], "_seconds", "seconds")):
        for way, colour, name in (("rows", GREY, "a row a thought"), ("trees", ACCENT, "trees")):
            values = [row[way + unit] for row in grown]
            axis.plot(steps, values, "o-", color=colour, markersize=4)
            if axis is axes[0]:
                above = values[2] * (2 if way == "rows" else 0.3)
                axis.text(steps[2], above, name, color=INK, ha="right", fontsize=8)
        axis.set(xscale="log", yscale="log", xlabel="steps of the log, T")
        axis.set_title(title, color=INK, loc="left", fontweight="bold")
        axis.set_xticks(steps, [str(t) for t in steps])
        axis.yaxis.set_major_formatter("{x:,.0f}")
        axis.minorticks_off()
        axis.grid(color=LINE, linewidth=0.8)
    return figure


def growth():
    """CPU seconds and memory of an update over the tokens it reads: 4 to 32 steps with eight
    thoughts each, 4 to 32 thoughts of eight steps, and 32 of both. Dashed lines are proportional to
    the tokens. Seconds follow them as groups grow and leave them upwards as logs grow. Memory
    follows them until a forward pass is full."""
    rows = list(load("growth")["rows"].values())
    longer = [row for row in rows if row["G"] == 8]
    wider = sorted((row for row in rows if row["T"] == 8), key=lambda row: row["G"])
    most = [row for row in rows if row["T"] == row["G"] == 32]
    series = ((longer, ACCENT, "steps"), (wider, INK, "thoughts"), (most, GREY, "both"))
    figure, axes = plt.subplots(1, 2, figsize=(INCHES, 2.8))
    for axis, what, title in ((axes[0], "seconds", "CPU seconds"), (axes[1], "gigabytes", "GiB")):
        for points, colour, name in series:
            values = [row[what] for row in points]
            tokens = [row["tokens"] for row in points]
            axis.plot(tokens, values, "o-", color=colour, markersize=4, label=name)
        ends = [longer[0]["tokens"], most[0]["tokens"]]
        line = [longer[0][what] * tokens / ends[0] for tokens in ends]
        axis.plot(ends, line, "--", color=SOFT, linewidth=1)
        axis.set(xscale="log", yscale="log", xlabel="tokens read")
        axis.set_title(title, color=INK, loc="left", fontweight="bold")
        ticks = (2_000, 5_000, 15_000, 50_000)
        axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axis.yaxis.set_major_formatter("{x:,.0f}")
        axis.minorticks_off()
        axis.grid(color=LINE, linewidth=0.8)
    axes[0].legend(title="what grows", frameon=False, fontsize=8, title_fontsize=8)
    return figure


FIGURES = {"speed": speed, "trees": trees, "growth": growth}
