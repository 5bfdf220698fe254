"""Runs made by hand for the page that is made from them, and texts that would like to be more."""

import json
import math
from dataclasses import asdict
from pathlib import Path

from minprm.arms import starts
from minprm.constants import Config
from minprm.look.log import to_json

# What a model, a world or a file may say, and what must never be more than text.
HOSTILE = [
    "</script><script>window.pwned = 1</script>",
    '<img src=x onerror="window.pwned = 2">',
    "<!-- <script>",
    "'\"><svg onload=window.pwned=3>",
    "red \x1b[31m and \x00 null \x7f",
    "\u202egnisrever",
    "half \ud800 of a pair \udfff",
    "__proto__",
    "constructor",
    "javascript:window.pwned=4",
    "&lt;b&gt; &#x3c;script&#x3e;",
    "\u2028 ends a line \u2029",
    "{{ 7 * 7 }} {% endraw %} {# of a template #}",
]


def tokens(words: list[str], advantage: float, after: bool = True) -> dict:
    """A thought of these words between its tags, then the expert's action `open d`."""
    text = ["<think>", *words, "</think>", "<act>", "open", "d", "</act>", "<end>"]
    role = "t" + "z" * len(words) + "etaatt"
    drawn = [False, *[True] * (len(words) + 1), *[False] * 5]
    logp = [-0.12345 - 0.4567 * (i % 3) for i in range(len(text))]
    return {
        "text": text,
        "role": role,
        "advantage": [None, *[advantage] * (len(text) - 1)],
        "sampler": [x if d else None for x, d in zip(logp, drawn, strict=True)],
        "before": [None, *logp[1:]],
        "after": [None, *[x + 0.05 * advantage for x in logp[1:]]] if after else None,
        "entropy": [None, *[abs(x) for x in logp[1:]]],
    }


def action(p: float) -> dict:
    """How likely `open d` was, token by token."""
    pairs = [["d", p], ["a", 1 - p - 0.0005], ["b", 0.0004]]
    logp = [math.log(0.999), math.log(max(p, 1e-9))]
    return {"text": ["open", "d"], "logp": logp, "likely": [[["open", 0.999]], pairs]}


def thought(words: str, reward: float, committed: bool = False, **more) -> dict:
    """One thought of a group of Act-PRM."""
    return {
        "thought": words,
        "reward": reward,
        "advantage": 2 * reward,
        "action_weight": 2 * reward,
        "kind": "faithful" if reward > 0.5 else "wrong",
        "usable": True,
        "closed": True,
        "copied": False,
        "committed": committed,
        "tokens": tokens(words.split(), 2 * reward),
        "action": action(min(reward, 0.99)),
        "up": None,
        "descendants": None,
        **more,
    }


def sample(update: int, watched: int, group: list[dict], stage: str = "act_prm", **more) -> dict:
    """A line of samples.jsonl."""
    return {
        "seed": 0,
        "stage": stage,
        "update": update,
        "watched": watched,
        "where": "held out" if watched else "training log",
        "task": f"Cups-{watched}",
        "step": 0,
        "state": f"ball under {'abc'[watched % 3]} . swap a d .",
        "action": "open d",
        "prompt": ["<user>", "ball", "under", "a", "<asst>"],
        "group": group,
        "without_thought": action(0.2),
        **more,
    }


def four(update: int, words: str = "ball under d") -> list[dict]:
    """A group whose good thoughts grow in number with the update."""
    rewards = [0.9 if i < update // 5 else 0.1 * (i + 1) for i in range(4)]
    best = max(range(4), key=rewards.__getitem__)
    return [thought(f"{words} {i}", rewards[i], committed=i == best) for i in range(4)]


def played(task: int, won: bool, said: str = "ball under d", **more) -> dict:
    """One episode of two turns of the evaluation."""
    first = {
        "state": "ball under a .", "thought": said, "action": "open d", "expert": "open d",
        "right": True, "reward": 0.5, "tokens": 3, "copied": False, "closed": True, "valid": True,
    }  # fmt: skip
    second = {**first, "action": "open d" if won else "open a", "right": won, "thought": None}
    second |= {"reward": 0.5 * won}
    return {"task": task, "won": won, "outgrown": False, "turns": [first, second], **more}


def row(seed: int, success: float) -> dict:
    """A row of ladder.json."""
    return {
        "seed": seed, "episodes": 200, "success": success, "tasks": 200, "thought_rate": 1.0,
        "copy_rate": 0.05, "seconds": 12.3,
    }  # fmt: skip


def lines(path: Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def make_run(folder: Path, success: float = 0.9, words: str = "ball under d") -> Path:
    """A small finished run: Act-PRM with two watched states at four looks, RL with one task at two,
    a walk of two steps with resampling."""
    folder.mkdir(parents=True)
    config = asdict(Config(run=folder.name, arms=["base", "act_prm"], world_args=["rounds=1"]))
    (folder / "config.json").write_text(to_json(config), encoding="utf-8")
    samples = [sample(u, w, four(u, words)) for u in (0, 5, 10, 15) for w in (0, 1)]
    for update in (0, 10):
        samples += [
            sample(update, 0, [episode(i, update, words) for i in range(4)], "rl", where="batch",
                   task=f"Cups-{900 + update}", action=None, state=f"in update {update}"),
        ]  # fmt: skip
    for step in (0, 1):
        group = [
            thought(words, 0.1 * i, up=i // 2 if step else None, descendants=i) for i in range(4)
        ]
        samples.append(sample(0, 1, group, "act_prm:resample", step=step))
    lines(folder / "samples.jsonl", samples)
    metrics = []
    for stage in ("act_prm", "rl"):
        for update in range(15):
            line = {"seed": 0, "stage": stage, "update": update, "reward/mean": update / 20}
            metrics.append(line | ({"eval/success": update / 15} if update % 5 == 4 else {}))
    lines(folder / "metrics.jsonl", metrics)
    ladder = {
        "base": [row(0, 0.2)],
        "act_prm": [row(0, success)],
        "random": [row(0, 0.1)],
        "expert": [row(0, 1.0)],
    }
    (folder / "ladder.json").write_text(json.dumps(ladder), encoding="utf-8")
    kept = []
    for arm in ("base", "act_prm"):
        for task in range(4):
            kept.append(
                {"arm": arm, "seed": 0, **played(task, arm == "act_prm" or task == 0, words)}
            )
    lines(folder / "episodes.jsonl", kept)
    began = starts.this_start() | {"command": ["minprm", "train", "--preset", "smoke"]}
    lines(folder / starts.FILE, [began])
    return folder


def episode(i: int, update: int, words: str) -> dict:
    """One episode of a group of RL."""
    won = i < update // 5  # before the first update none is, so that nothing is learned
    advantage = won - 0.5 if update else 0.0
    turns = [{"state": "ball", "thought": words, "action": "open d", "reward": float(won)}]
    return {
        "thought": words, "turns": turns, "reward": float(won), "won": won, "advantage": advantage,
        "tokens": tokens(words.split(), advantage),
    }  # fmt: skip


def hostile_run(folder: Path) -> Path:
    """A run in which every text and every name of others is one of HOSTILE."""
    make_run(folder)
    evil = " ".join(HOSTILE)
    groups = []
    for update in (0, 5):
        group = []
        for i, words in enumerate(HOSTILE):
            z = thought(words, i / 20, committed=i == 0)
            z |= {"kind": words, "action": {**action(0.5), "text": [words, evil]}}
            z["action"]["likely"][0] = [[words, 0.5], [evil, 0.4]]
            group.append(z)
        texts = {
            "state": evil,
            "action": evil,
            "task": evil,
            "where": HOSTILE[0],
            "prompt": HOSTILE,
        }
        groups.append(sample(update, 0, group, **texts))
        for step in (0, 1):
            kin = [{**z, "up": i if step else None, "descendants": i} for i, z in enumerate(group)]
            groups.append(sample(update, 1, kin, "act_prm:resample", **texts, step=step))
    lines(folder / "samples.jsonl", groups)
    metrics = []
    for words in HOSTILE:
        metrics += [{"seed": 0, "stage": words, "update": u, words: 0.5 * u} for u in (0, 1)]
    lines(folder / "metrics.jsonl", metrics)
    (folder / "ladder.json").write_text(json.dumps({words: [row(0, 0.5)] for words in HOSTILE}))
    lines(folder / "episodes.jsonl", [
        {"arm": words, "seed": 0, **played(words, False, evil)} for words in HOSTILE
    ])  # fmt: skip
    config = json.loads((folder / "config.json").read_text())
    config |= {"model": evil, "world": HOSTILE[0], "demos": evil}
    (folder / "config.json").write_text(json.dumps(config))
    return folder
