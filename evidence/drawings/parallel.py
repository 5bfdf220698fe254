"""The figure of chapter 9: one update of Act-PRM in two processes."""

from evidence.drawings.style import (
    ACCENT,
    AGAINST,
    GREY,
    INK,
    LINE,
    PAPER,
    SOFT,
    WIDTH,
    bar,
    page,
    write,
)

LEFT = 56  # where time begins; before it stand the names of the lanes
LANES = (34, 72)  # upper edges
TALL = 22  # of a lane
# (what, begin, how long each process is at it: its own share of the work)
SHARED = (("write", 56, (74, 90)), ("score", 160, (56, 48)), ("learn", 268, (80, 88)))
# (what, begin, width): the same in every process
SAME = (("credit", 230, 32), ("step", 368, 28))
# (where everybody waits for everybody, what is sent, how much of it)
SENT = (
    (153, "thoughts", "12 B a token"),
    (223, "log-probs", "8 B a token"),
    (362, "gradients", "4 B a weight"),
)
BOTTOM = LANES[-1] + TALL
STRIP = 160  # of weights that are spread


def parallel():
    """One update of Act-PRM in two processes, from left to right. Each writes after its share of
    the prompts, scores its share of the thoughts and learns from its share of the samples; after
    each of the three all wait, and get what the other has found. Credit and the step of the
    optimiser are the same work in both. Below, what is sent beside that where weights are spread:
    all weights once for writing, and those of each layer while learning."""
    figure, axes = page(196)
    for number, top in enumerate(LANES):
        write(axes, 0, top + 15, f"process {number}", size=8, color=SOFT)
        axes.plot([LEFT, WIDTH], [top + TALL / 2] * 2, color=LINE, linewidth=1, zorder=0)
    for what, begin, widths in SHARED:
        write(axes, begin, 26, what, weight="bold", color=INK)
        for top, width in zip(LANES, widths, strict=True):
            bar(axes, begin, top, width, TALL, ACCENT)
            write(axes, begin + 5, top + 15, "its share", size=8, color=PAPER)
    for what, begin, width in SAME:
        write(axes, begin, 26, what, weight="bold", color=INK)
        for top in LANES:
            bar(axes, begin, top, width, TALL, GREY)
            write(axes, begin + width / 2, top + 15, "all", size=8, color=INK, ha="center")
    for x, what, much in SENT:
        crossing(axes, x)
        write(axes, x, BOTTOM + 21, what, size=8, color=INK, ha="center")
        write(axes, x, BOTTOM + 33, much, size=7.5, color=SOFT, ha="center")
    write(axes, LEFT, 8, "for each step of the logs", size=8, color=SOFT)
    axes.plot([LEFT, LEFT, 225, 225], [17, 13, 13, 17], color=SOFT, linewidth=1)
    spread(axes)
    return figure


def crossing(axes, x: float) -> None:
    """A line through both lanes at which each gets what the other has."""
    axes.plot([x, x], [LANES[0] - 2, BOTTOM + 8], color=INK, linewidth=1)
    ends = ((x, LANES[0] + TALL + 1), (x, LANES[1] - 1))
    axes.annotate("", *ends, arrowprops={"arrowstyle": "<|-|>", "color": INK, "shrinkA": 0})


def spread(axes) -> None:
    """What is sent beside that where each process holds a part of the weights."""
    write(axes, 0, STRIP + 2, "weights", size=8, color=SOFT)
    write(axes, 0, STRIP + 12, "if spread", size=8, color=SOFT)
    axes.plot([LEFT, WIDTH], [STRIP] * 2, color=LINE, linewidth=1, zorder=0)
    bar(axes, LEFT, STRIP - 6, 8, 12, AGAINST)
    write(axes, LEFT, STRIP + 20, "all of them,", size=8, color=INK)
    write(axes, LEFT, STRIP + 31, "put together once", size=8, color=SOFT)
    for tick in range(268, 356, 8):
        bar(axes, tick, STRIP - 6, 4, 12, AGAINST)
    write(axes, 268, STRIP + 20, "a layer at a time,", size=8, color=INK)
    write(axes, 268, STRIP + 31, "for every micro-batch", size=8, color=SOFT)


FIGURES = {"parallel": parallel}
