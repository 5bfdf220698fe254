"""samples.jsonl as the page shows it: groups of thoughts look by look, and trees of paths.

A line of the file is one group before one update. A watched state is the same at every look, so its
groups are the frames of one state. The tasks of a batch change from update to update, so there a
frame names its own task, text and prompt.
"""

from dataclasses import asdict

from minprm.constants import Config
from minprm.report.files import grouped
from minprm.run.stage_ids import kind
from minprm.stages import RESAMPLE

# What a thought has; a file of an older version holds less.
THOUGHT = {
    "thought": "", "kind": None, "reward": None, "advantage": None, "action_weight": None,
    "usable": True, "closed": True, "cut": False, "copied": False, "committed": False,
    "tokens": None, "action": None, "up": None, "descendants": None,
}  # fmt: skip
PLACE = ("seed", "stage", "update", "watched")  # of a line; steps of one log share it
KNOBS = ("advantage", "reward", "baseline", "loss", "trained_on", "continues")
# Told only where they differ from their defaults: then the page has a sentence more.
RARE = ("scored_by", "reward_span", "thoughts_from", "patience", "groups")


def looks_of(samples: list[dict], config: dict, relabelled: dict[str, list[dict]]) -> list[dict]:
    """The looks of each seed and stage: their states, each with its frames.

    relabelled: the logs that relabelling wrote, by the names of their files.
    """
    stages: dict[tuple, dict[int, dict]] = {}  # the states of a stage by their numbers
    for (seed, stage, _, number), steps in grouped(samples, *PLACE).items():
        line = steps[0]  # the later steps of a log that was recorded to its end are in its tree
        states = stages.setdefault((seed, stage), {})
        if number not in states:
            state = {name: line.get(name) for name in ("task", "step", "where", "action", "prompt")}
            states[number] = {**state, "text": line["state"], "frames": []}
        states[number]["frames"].append(frame_of(line))
    looks = []
    for (seed, stage), states in stages.items():
        start = f"relabelled-{stage.replace(':', '-')}+"
        logs = []
        for name, lines in relabelled.items():
            logs += lines if name.startswith(start) and name.endswith(f"-{seed}") else []
        for state in states.values():
            state["relabelled"] = thought_in_log(state, logs)
        look = {"seed": seed, "stage": stage, "method": kind(stage)}
        look |= {"settings": settings(stage, config), "states": list(states.values())}
        looks.append(look)
    return looks


def thought_in_log(state: dict, logs: list[dict]) -> dict | None:
    """The thought that was written into the log of this state, and its reward; None where none was,
    or where several logs are of its task."""
    same = [log for log in logs if log["task"] == state["task"]]
    if state["where"] != "training log" or len(same) != 1:
        return None
    (log,) = same
    answers = [message for message in log["messages"] if message["role"] == "assistant"]
    learned = [answer for answer in answers if answer.get("weight") != 0][-len(log["rewards"]) :]
    thought = learned[state["step"]].get("reasoning_content")
    return {"thought": thought, "reward": log["rewards"][state["step"]]}


def frame_of(line: dict) -> dict:
    """One group before one update."""
    group = [THOUGHT | z for z in line["group"]]
    frame = {"update": line["update"], "group": group}
    frame["without_thought"] = line.get("without_thought")
    if line["where"] == "batch":
        frame |= {"task": line["task"], "text": line["state"], "prompt": line.get("prompt")}
        frame["action"] = line.get("action")
    return frame


def settings(stage: str, config: dict) -> dict:
    """The knobs that decide what a group teaches; null where a method has no such knob."""
    knobs = dict(config.get(kind(stage), {}))
    plain = asdict(Config()).get(kind(stage), {})
    rare = {name: knobs[name] for name in RARE if knobs.get(name) != plain.get(name)}
    if stage.endswith(":resample"):
        knobs |= RESAMPLE
    if stage.endswith((":dense", ":sum")):
        knobs["reward"] = "each turn's, from the world"
    chosen = {name: knobs.get(name) for name in KNOBS} | rare
    return chosen | {"temperature": config.get("temperature")}


def trees_of(samples: list[dict]) -> list[dict]:
    """The logs that were recorded step by step: which path each thought came from."""
    names = ("seed", "stage", "update", "task", "where")
    trees = []
    for steps in grouped(samples, *PLACE).values():
        if len(steps) > 1:
            tree = {name: steps[0][name] for name in names}
            trees.append({**tree, "steps": [step_of(line) for line in steps]})
    return trees


def step_of(line: dict) -> dict:
    """One step of a tree."""
    names = ("thought", "reward", "up", "descendants", "kind")
    thoughts = []
    for z in line["group"]:
        thoughts.append({name: z.get(name) for name in names})
    return {"state": line["state"], "action": line["action"], "thoughts": thoughts}
