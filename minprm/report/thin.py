"""What of a run's data goes into its page, so that the file stays small enough to open and to send.

LIMITS stand in an order, and the first is taken under which the data fits. Nothing is chosen at
random: of a list its first and last item stay, and those between at even steps. The page says what
was left out; the run's folder has all of it.
"""

from bisect import bisect_left
from dataclasses import dataclass

from minprm.report.page import escaped

UNLIKELY = 0.001  # tokens less likely than this are not told beside the expert's


@dataclass
class Limits:
    """How much stays; None: all of it."""

    decimals: int = 3  # of numbers
    points: int = 400  # of a curve
    frames: int | None = None  # of a stage: updates at which its groups are shown
    tokens: str = "all"  # thoughts of a group that are told token by token: all, some or none
    episodes: int | None = None  # of an arm and seed
    letters: int = 100_000  # of a text: nobody reads a megabyte


LIMITS = (
    Limits(decimals=4),
    Limits(),
    Limits(frames=20),
    Limits(frames=12),
    Limits(frames=8),
    Limits(frames=12, tokens="some"),
    Limits(frames=8, tokens="some"),
    Limits(frames=8, tokens="some", episodes=20),
    Limits(frames=5, tokens="some", episodes=20),
    Limits(frames=5, tokens="some", episodes=8),
    Limits(frames=3, tokens="some", episodes=8),
    Limits(points=200, frames=3, tokens="none", episodes=8),
    Limits(points=100, frames=3, tokens="none", episodes=4, letters=1000),
    Limits(points=25, frames=2, tokens="none", episodes=2, letters=200),
)


def thin(data: dict, size: int) -> dict:
    """The data with no more than `size` bytes in the page; by the last limits it may be more."""

    before = counts(data)
    # once for all limits: a curve of a hundred thousand updates takes seconds
    curves = [_curve(curve, Limits.points) for curve in data["curves"]]
    data = {**data, "curves": curves}

    def fits(limits: Limits) -> bool:
        return len(escaped(within(data, limits, before))) <= size

    place = bisect_left(LIMITS[:-1], True, key=fits)  # each leaves less than the one before it
    return within(data, LIMITS[place], before)


def within(data: dict, limits: Limits, before: dict[str, int] | None = None) -> dict:
    """The data within these limits, and `dropped` as a sentence. before: `counts`, where some is
    left out already."""
    small = dict(data)
    small["looks"] = short([_look(look, limits) for look in data["looks"]], limits)
    small["trees"] = short(_trees(data["trees"], limits), limits)
    small["curves"] = [_curve(curve, limits.points) for curve in data["curves"]]
    small["ladder"] = short(data["ladder"], Limits(decimals=4))
    episodes = []
    for part in data["episodes"]:
        episodes.append({**part, "episodes": evenly(part["episodes"], limits.episodes)})
    small["episodes"] = short(episodes, limits)
    small["dropped"] = left_out(before or counts(data), counts(small), limits)
    return small


def evenly(items: list, most: int | None) -> list:
    """At most so many of the items: the first, the last, and those between at even steps.

    >>> evenly([0, 1, 2, 3, 4, 5, 6], 3), evenly([0, 1, 2], None)
    ([0, 3, 6], [0, 1, 2])
    """
    if most is None or len(items) <= most:
        return items
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]


def _look(look: dict, limits: Limits) -> dict:
    """A stage with the same updates kept for all of its states, so that the slider stays whole."""
    updates = {frame["update"] for state in look["states"] for frame in state["frames"]}
    kept = set(evenly(sorted(updates), limits.frames))
    states = []
    for state in look["states"]:
        frames = [_frame(frame, limits) for frame in state["frames"] if frame["update"] in kept]
        if frames:
            states.append({**state, "frames": frames})
    return {**look, "states": states}


def _frame(frame: dict, limits: Limits) -> dict:
    """A group. Of each thought stays how likely it was as a whole: the sum of its tokens, which
    fewer decimals would make another for each of equal thoughts."""
    group = frame["group"]
    told = {"all": [*range(len(group))], "some": telling(group), "none": []}[limits.tokens]
    committed = [i for i, z in enumerate(group) if z["committed"]][:1] if told else []
    thoughts = []
    for i, z in enumerate(group):
        z = {**z, "written": written(z["tokens"])}
        z["action"] = likely(z["action"]) if i in told else None
        if i not in told and i not in committed:
            z["tokens"] = None
        thoughts.append(z)
    return {**frame, "group": thoughts, "without_thought": likely(frame["without_thought"])}


def telling(group: list[dict]) -> list[int]:
    """The places of the best, the median and the worst thought, as the page names them.

    Of thoughts that can be read, where there are any: the others earn 0 whatever they say.

    >>> z = lambda reward, usable=True: {
    ...     "thought": "", "reward": reward, "usable": usable, "closed": True, "committed": False
    ... }
    >>> telling([z(0.1), z(0.9), z(0.5), z(0.0, usable=False), z(0.2)])
    [1, 2, 0]
    """
    readable = [i for i, z in enumerate(group) if z["usable"] and z["closed"]]
    texts = [z["thought"] for z in group]

    def rank(i: int) -> tuple:  # equal texts side by side, the committed one first
        return -(group[i]["reward"] or 0.0), texts.index(texts[i]), not group[i]["committed"]

    ranked = sorted(readable or range(len(group)), key=rank)
    last = len(ranked) - 1
    return [ranked[place] for place in (0, last // 2, last)]


def written(tokens: dict | None) -> dict | None:
    """Log-probs of a whole thought before and after the update, and its number of tokens."""
    if not tokens:
        return None
    drawn = [i for i, x in enumerate(tokens["sampler"]) if x is not None]
    sums = {}
    for when in ("before", "after"):
        values = tokens[when] or []
        known = [values[i] for i in drawn if i < len(values)]
        sums[when] = None if not known or None in known else sum(known)
    return {**sums, "tokens": len(drawn)}


def likely(action: dict | None) -> dict | None:
    """The expert's action; what was hardly likely in its place is left out."""
    if not action:
        return action
    kept = [[pair for pair in pairs if pair[1] >= UNLIKELY] for pairs in action["likely"]]
    return {**action, "likely": kept}


def _trees(trees: list[dict], limits: Limits) -> list[dict]:
    """The trees of each stage at fewer updates."""
    stages: dict[tuple, list[dict]] = {}
    for tree in trees:
        stages.setdefault((tree["run"], tree["seed"], tree["stage"]), []).append(tree)
    return [tree for many in stages.values() for tree in evenly(many, limits.frames)]


def _curve(curve: dict, points: int) -> dict:
    """A curve with fewer points. Each stands for a few updates, by the last number among them, so
    that what is measured now and then is not lost between two points. Seeds of different lengths
    share their points, so that they have a mean: one of 1, 2, 4, 8 ... updates is left."""
    count = len(curve["updates"])
    apart = 1
    while count > apart * (points - 1):
        apart *= 2
    ends = list(dict.fromkeys([*range(1, count + 1, apart), count]))
    begins = [0, *ends[:-1]]
    metrics = {}
    for name, values in curve["metrics"].items():
        kept = []
        for begin, end in zip(begins, ends, strict=True):
            known = [x for x in values[begin:end] if x is not None]
            kept.append(float(f"{known[-1]:.4g}") if known else None)
        metrics[name] = kept
    return {**curve, "updates": [curve["updates"][end - 1] for end in ends], "metrics": metrics}


def short(value: object, limits: Limits) -> object:
    """The same with fewer decimals, and with long texts cut.

    >>> short({"logp": [-0.00004, -7.60239, 1.0, None]}, Limits(decimals=3))
    {'logp': [0, -7.602, 1, None]}
    """
    if isinstance(value, dict):
        shorter = {name: short(part, limits) for name, part in value.items()}
        if isinstance(value.get("reward"), float):  # what sorts a group, however small it is
            shorter["reward"] = float(f"{value['reward']:.4g}")
        return shorter
    if isinstance(value, list):
        return [short(item, limits) for item in value]
    if isinstance(value, float):
        number = round(value, limits.decimals)
        return int(number) if number.is_integer() else number  # 1, not 1.0
    if isinstance(value, str) and len(value) > limits.letters:
        return value[: limits.letters] + " …"
    return value


def left_out(before: dict[str, int], after: dict[str, int], limits: Limits) -> str:
    """What was left out, as a sentence; "" where nothing was."""
    parts = []
    for name, number in before.items():
        if after[name] < number:
            parts.append(f"{number - after[name]:,} of {number:,} {name}")
    if limits.letters < Limits.letters:
        parts.append(f"what texts say after {limits.letters:,} letters")
    if not parts:
        return ""
    return f"Left out to keep this file small: {', '.join(parts)}. The run's folder has all of it."


def counts(data: dict) -> dict[str, int]:
    """How many there are of what may be left out."""
    groups = 0
    tokens = 0
    for look in data["looks"]:
        for state in look["states"]:
            groups += len(state["frames"])
            for frame in state["frames"]:
                tokens += sum(z["tokens"] is not None for z in frame["group"])
    return {
        "groups": groups,
        "thoughts' tokens": tokens,
        "trees": len(data["trees"]),
        "evaluation episodes": sum(len(part["episodes"]) for part in data["episodes"]),
        "points of curves, between which nothing is seen": sum(
            len(curve["updates"]) for curve in data["curves"]
        ),
    }
