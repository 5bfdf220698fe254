"""What of a run's data goes into its page, so that the file stays small enough to open and to send.

LIMITS stand in an order, and the first is taken under which the data fits. Nothing is chosen at
random: of a list its first and last item stay, and those between at even steps. The page says so;
the run's folder has all of it.
"""

import json
from typing import NamedTuple

UNLIKELY = 0.001  # tokens less likely than this are not told beside the expert's
DECIMALS = 4  # of numbers
LETTERS = 20_000  # of a text: nobody reads a megabyte


class Limits(NamedTuple):
    """How much stays at most; None: all of it."""

    looks: int | None = None  # of a stage: updates at which its groups are shown
    tokens: str = "all"  # thoughts of a group that are told token by token: all, some or none
    episodes: int | None = None  # of an arm and seed
    points: int = 400  # of a curve


LIMITS = (
    Limits(),
    Limits(looks=20, tokens="some", episodes=20),
    Limits(looks=8, tokens="some", episodes=20),
    Limits(looks=5, tokens="some", episodes=8),
    Limits(looks=3, tokens="none", episodes=4, points=100),
    Limits(looks=2, tokens="none", episodes=2, points=25),
)


def thin(data: dict, size: int) -> dict:
    """The data with no more than `size` bytes in the page; by the last limits it may be more."""
    small = data
    for limits in LIMITS:
        small = within(data, limits)
        if len(escaped(small)) <= size:
            break
    return small


def escaped(content: dict) -> str:
    """Strict JSON in ASCII without <, > and &. Raises ValueError for what is no finite number.

    >>> escaped({"said": "</script>"})
    '{"said":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def within(data: dict, limits: Limits) -> dict:
    """The data within these limits, and `dropped` as a sentence."""
    looks = [_look(look, limits) for look in data["looks"]]
    episodes = []
    for part in data["episodes"]:
        episodes.append({**part, "episodes": evenly(part["episodes"], limits.episodes)})
    return {
        **data,
        "looks": short(looks),
        "trees": short(_trees_of(looks, data["trees"])),
        "curves": [_curve(curve, limits.points) for curve in data["curves"]],
        "ladder": short(data["ladder"]),
        "episodes": short(episodes),
        "dropped": left_out(data, limits),
    }


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
    chosen = evenly(sorted(updates), limits.looks)
    states = []
    for state in look["states"]:
        frames = [_frame(frame, limits) for frame in state["frames"] if frame["update"] in chosen]
        if frames:
            states.append({**state, "frames": frames})
    return {**look, "states": states}


def _frame(frame: dict, limits: Limits) -> dict:
    """A group. Of each thought stays how likely it was as a whole: the sum of its tokens, of which
    the page may not have all, nor all digits."""
    group = frame["group"]
    detailed = {"all": [*range(len(group))], "some": telling(group), "none": []}[limits.tokens]
    thoughts = []
    for i, z in enumerate(group):
        z = {**z, "written": written(z["tokens"])}
        z["tokens"] = z["tokens"] if i in detailed else None
        z["action"] = likely(z["action"]) if i in detailed else None
        thoughts.append(z)
    return {**frame, "group": thoughts, "without_thought": likely(frame["without_thought"])}


def telling(group: list[dict]) -> list[int]:
    """The places of the best, the median and the worst thought, as the page names them, and of the
    one that the next step reads.

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
    committed = [i for i, z in enumerate(group) if z["committed"]]
    return [ranked[place] for place in (0, last // 2, last)] + committed[:1]


def written(tokens: dict | None) -> dict | None:
    """Log-probs of a whole thought before and after the update, and its number of tokens."""
    if not tokens:
        return None
    drawn = [i for i, x in enumerate(tokens["sampler"]) if x is not None]
    sums = {}
    for when in ("before", "after"):
        logps = [tokens[when][i] for i in drawn] if tokens[when] else []
        sums[when] = sum(logps) if logps and None not in logps else None
    return {**sums, "tokens": len(drawn)}


def likely(action: dict | None) -> dict | None:
    """The expert's action; what was hardly likely in its place is left out."""
    if not action:
        return action
    named = []
    for pairs in action["likely"]:
        named.append([pair for pair in pairs if pair[1] >= UNLIKELY])
    return {**action, "likely": named}


def _trees_of(looks: list[dict], trees: list[dict]) -> list[dict]:
    """The trees of the updates at which groups are shown."""
    shown = set()
    for look in looks:
        for state in look["states"]:
            for frame in state["frames"]:
                shown.add((look["run"], look["seed"], look["stage"], frame["update"]))
    places = ("run", "seed", "stage", "update")
    return [tree for tree in trees if tuple(tree[name] for name in places) in shown]


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
    for name, numbers in curve["metrics"].items():
        metrics[name] = [
            last_of(numbers[begin:end]) for begin, end in zip(begins, ends, strict=True)
        ]
    return {**curve, "updates": [curve["updates"][end - 1] for end in ends], "metrics": metrics}


def last_of(numbers: list[float | None]) -> float | None:
    """The last that was measured, to four digits; None where none was."""
    for number in reversed(numbers):
        if number is not None:
            return float(f"{number:.4g}")
    return None


def short(content: object) -> object:
    """The same with fewer decimals, and with long texts cut.

    >>> short({"logp": [-0.00004, -7.602391, 1.0, None]})
    {'logp': [0, -7.6024, 1, None]}
    """
    if isinstance(content, dict):
        shorter = {name: short(part) for name, part in content.items()}
        if isinstance(content.get("reward"), float):  # what sorts a group, however small it is
            shorter["reward"] = float(f"{content['reward']:.4g}")
        return shorter
    if isinstance(content, list):
        return [short(part) for part in content]
    if isinstance(content, float):
        number = round(content, DECIMALS)
        return int(number) if number.is_integer() else number  # 1, not 1.0
    if isinstance(content, str) and len(content) > LETTERS:
        return content[:LETTERS] + " …"
    return content


def left_out(data: dict, limits: Limits) -> str:
    """What the page does not have, as a sentence; "" where it has all."""
    most = []
    if limits.looks:
        most.append(f"{limits.looks} looks at a stage, and {limits.tokens} of the thoughts' tokens")
        most.append(f"{limits.episodes} evaluation episodes of an arm and seed")
    if any(len(curve["updates"]) > limits.points for curve in data["curves"]):
        most.append(f"{limits.points} points of a curve, between which nothing is seen")
    if not most:
        return ""
    beyond = "; ".join(most)
    return f"Left out to keep this file small: all beyond {beyond}. The run's folder has all of it."
