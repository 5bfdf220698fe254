"""Figures of chapter 10: a pretrained model, at one desk and at three; scarce good thoughts."""

from evidence.drawings.ladder import GAP, ROW, draw_arm, place
from evidence.drawings.style import (
    ACCENT,
    GREY,
    INCHES,
    INK,
    LINE,
    SOFT,
    WIDTH,
    page,
    plt,
    write,
)
from evidence.results import load
from evidence.tables import share

DESKS = {  # what the expert does there
    "refund": "refund: a sum",
    "orders": "orders: a question to a tool, then a sum",
    "returns": "returns: one of two words",
}
ARMS = {"expert_thoughts": GREY, "best_of_base_matched": SOFT, "act_prm": ACCENT}
SAID = {  # of each arm, and where the words stand
    "expert_thoughts": ("the world's own thoughts", 0.89, GREY),
    "act_prm": ("Act-PRM, 44 thoughts a step", 0.8, ACCENT),
    "best_of_base_matched": ("the best of 44 of the base's thoughts", 0.2, SOFT),
}


def pretrained():
    """Success of SmolLM2 on new questions of a refund desk. Act-PRM answers a third of them as the
    expert does, choosing nearly as many, and fine-tuning on actions alone none; an expert's own
    thoughts would give more than half."""
    rows = load("pretrained")["rows"]
    height = 22 + 18 * len(rows)
    figure, axes = page(height)
    for x in (0, 0.5, 1):
        axes.plot([place(x)] * 2, [2, height - 18], color=LINE, linewidth=0.8)
        write(axes, place(x), height - 6, f"{x:g}".replace("0.", "."), color=SOFT, ha="center")
    for i, (arm, row) in enumerate(rows.items()):
        draw_arm(axes, 14 + 18 * i, arm, row, ACCENT if arm == "act_prm" else SOFT)
    return figure


def ground():
    """Success of SmolLM2 at three desks of a shop. Where a sum must be done Act-PRM wins more than
    SFT on actions, and each win comes after a right thought. Where two words are to choose from it
    does not, and its thoughts are wrong."""
    rows = load("ground")["rows"]
    height = 30 + ROW * len(rows) + GAP * len(DESKS)
    figure, axes = page(height)
    for x in (0, 0.5, 1):
        axes.plot([place(x)] * 2, [14, height - 14], color=LINE, linewidth=0.8)
        write(axes, place(x), 10, f"{x:g}".replace("0.", "."), color=SOFT, ha="center")
    y = 10
    for desk, told in DESKS.items():
        y += GAP
        write(axes, 0, y, told, color=SOFT)
        for name, row in rows.items():
            if not name.startswith(f"{desk} | "):
                continue
            y += ROW
            arm = name.removeprefix(f"{desk} | ")
            colour = ACCENT if arm == "act_prm" else SOFT
            draw_arm(axes, y, arm, row, colour)
            right = place(row["means"]["right"])
            axes.scatter([right], [y - 2.8], s=42, facecolor="none", edgecolor=colour, zorder=4)
    ends = "success: a dot for each seed, 95 % interval, mean; ring: share of right thoughts"
    write(axes, 0, height, ends, color=SOFT, size=8)
    return figure


def scarce():
    """Ten bases with few good thoughts. For each the success of Act-PRM, of the best of as many of
    the base's own thoughts, and of the world's own thoughts, over the share of good thoughts in the
    tenth of the states where they are rarest."""
    results = load("scarce")
    rows = results["rows"]
    rarest = [1000 * x for x in results["shares"]["scarcest"]]
    figure, axis = plt.subplots(figsize=(INCHES, 3))
    for arm, colour in ARMS.items():
        axis.plot(rarest, rows[arm]["values"], "o", color=colour, markersize=6, clip_on=False)
        words, height, ink = SAID[arm]
        mean = share(rows[arm]["mean"])
        axis.text(7.8, height, f"{words}: {mean}", color=SOFT if ink == GREY else ink, ha="right")
    axis.axhline(rows["random"]["mean"], color=SOFT, linewidth=1, linestyle=":")
    axis.text(7.8, 0.03, "random play", color=SOFT, ha="right")
    axis.set(xlim=(2.5, 7.8), ylim=(0, 1), xticks=range(3, 8))
    axis.set_xlabel("good thoughts among 1,000 that the base writes, where they are rarest")
    axis.set_ylabel("success on 400 unseen tasks", color=INK)
    return figure


def paid():
    """Six ways to weigh the thoughts of a group on ten bases with few good thoughts: success of
    each seed, and the mean."""
    rows = load("paid")["rows"]
    height = 24 + 18 * len(rows)
    figure, axes = page(height)
    left, right = 236, 366
    for x in (0, 0.5, 1):
        place = left + (right - left) * x
        axes.plot([place, place], [6, height - 18], color=LINE, linewidth=0.8)
        write(axes, place, height - 6, f"{x:g}".replace("0.", "."), color=SOFT, ha="center")
    for i, (way, row) in enumerate(rows.items()):
        y = 16 + 18 * i
        ours = "recipe" in way
        colour = ACCENT if ours else SOFT
        write(axes, 0, y, way.replace("`", ""), size=8, color=colour if ours else INK)
        dots = [left + (right - left) * value for value in row["values"]]
        axes.scatter(dots, [y - 3] * len(dots), s=18, color=colour, linewidth=0, zorder=3)
        write(axes, WIDTH, y, share(row["mean"]), size=8, ha="right", color=colour)
    return figure


FIGURES = {
    "evidence-pretrained": pretrained,
    "evidence-ground": ground,
    "scarce": scarce,
    "paid": paid,
}
