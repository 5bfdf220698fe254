"""Figures of chapter 2, the ladder: success of every arm, and how it came about on cups."""

from evidence.drawings.style import (
    ACCENT,
    AGAINST,
    GREY,
    INCHES,
    INK,
    SOFT,
    WIDTH,
    bar,
    page,
    plt,
    write,
)
from evidence.results import load
from evidence.tables import share

# What each group of arms asks, so that a control stands beside what it controls.
QUESTIONS = {
    "Is the log enough without thoughts?": ["base", "action_sft"],
    "Is it the format, the style or the tokens?": [
        "base_thoughts",
        "shuffled_thoughts",
        "copied_actions",
    ],
    "Is choosing enough?": ["best_of_base", "best_of_base_matched", "act_prm"],
    "… and if paths are resampled?": ["best_of_base_resampled", "act_prm_resampled"],
    "What would the world's own thoughts give?": ["expert_thoughts"],
    "What would an environment give?": ["rl", "rl_dense", "act_prm_rl"],
}
LEFT, RIGHT = 134, 362  # where success is 0 and 1
ROW, GAP = 14, 21  # points from arm to arm, and from group to group


def ladder_cups():
    """Success of every arm on cups, three seeds each. Act-PRM is as good as the world's own
    thoughts; SFT on actions alone, unchosen thoughts, shuffled thoughts and copied actions stay
    where random play is."""
    return ladder("cups", {"act_prm": ACCENT, "act_prm_resampled": ACCENT})


def ladder(name: str, colours: dict[str, str]):
    """Every arm of a run: seeds as dots, the 95 % interval as a line, the mean as a number."""
    rows = load(name)["rows"]
    height = 38 + ROW * (len(rows) - 2) + GAP * len(QUESTIONS)
    figure, axes = page(height)
    for arm in ("random", "expert"):
        label = f"{arm} {share(rows[arm]['mean'])}"
        write(axes, place(rows[arm]["mean"]), 10, label, size=8, color=SOFT, ha="center")
    y = 12
    for question, arms in QUESTIONS.items():
        y += GAP
        write(axes, 0, y, question, color=SOFT)
        for arm in ("random", "expert"):
            bar(axes, place(rows[arm]["mean"]) - 0.4, y + 3, 0.8, ROW * len(arms), GREY)
        for arm in arms:
            y += ROW
            draw_arm(axes, y, arm, rows[arm], colours.get(arm, SOFT))
    write(axes, 0, height, "success in play: a dot for each seed, 95 % interval, mean", color=SOFT)
    return figure


def place(success: float) -> float:
    return LEFT + (RIGHT - LEFT) * success


def draw_arm(axes, y: float, arm: str, row: dict, colour: str) -> None:
    ink = {"color": INK} if colour == SOFT else {"color": colour, "weight": "bold"}
    write(axes, 0, y, arm, size=8, mono=True, **ink)
    write(axes, WIDTH, y, share(row["mean"]), size=8, ha="right", **ink)
    low, high = place(row["low"]), place(row["high"])
    bar(axes, low, y - 3.2, high - low, 0.9, colour)
    dots = [place(value) for value in row["values"]]
    axes.scatter(dots, [y - 2.8] * len(dots), s=18, color=colour, linewidth=0, zorder=3)


# ------------------------------------------------------------ Learning, update by update
LOOK = {"marker": "o", "markersize": 3, "linewidth": 1.1, "clip_on": False}


def learning():
    """Learning on cups, a line for each seed. Rewards of Act-PRM's thoughts on held-out steps rise
    from below a guess to .8 or more within twenty updates, and success in play with them; RL, paid
    once an episode, wins next to nothing in its twenty."""
    curves = load("cups")["curves"]
    act_prm, rl = curves["act_prm"], curves["rl"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(INCHES, 2.3), sharey=True)
    for values in act_prm["held_out_reward"]:
        left.plot(act_prm["updates"], values, color=ACCENT, **LOOK)
    for values in rl["reward"]:
        left.plot(values, color=AGAINST, linewidth=1.1, clip_on=False)
    for curve, colour in ((act_prm, ACCENT), (rl, AGAINST)):
        for values in curve["success"]:
            right.plot(curve["updates"], values, color=colour, **LOOK)
    left.set_title("reward", loc="left")
    left.text(44, 0.7, "of a thought,\nheld-out steps", color=ACCENT, va="top")
    left.text(24, 0.2, "of an episode:\n1 if it is won", color=AGAINST, va="top")
    right.set_title("success in play, held-out tasks", loc="left")
    right.text(44, 0.52, "Act-PRM", color=ACCENT)
    right.text(24, 0.1, "RL", color=AGAINST)
    for axes in (left, right):
        axes.set(xlabel="update", xticks=[0, 20, 40, 60, 80])
        axes.set(ylim=(0, 1), yticks=[0, 0.5, 1], yticklabels=["0", ".5", "1"])
    return figure


FIGURES = {"ladder-cups": ladder_cups, "learning": learning}
