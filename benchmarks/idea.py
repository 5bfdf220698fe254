"""python -m benchmarks.idea: act_prm.py on five seeds, and what its thoughts do.

The file is run as it is, and what it prints is kept: success of each model, the mean reward as it
rises, one group of thoughts before and after. Beside each thought of that group stands how probable
it makes each of the five cups, and beside the group how probable they are without a thought.
"""

import contextlib
import io
import re
import runpy
import sys
import time
from pathlib import Path

import torch

from docs.results import over_seeds, save_run, t_interval, take_json_flag

FILE = Path(__file__).parents[1] / "act_prm.py"
SEEDS = [0, 1, 2, 3, 4]
LINE = re.compile(
    r" *(?P<advantage>[\d.]+) +(?P<reward>[\d.]+) +(?P<times>\d+)  (?P<thought>.+?) +"
    r"(?P<kind>follows.*|restates.*|says.*|something.*)"
)


def run(seed: int) -> tuple[dict, str, float]:
    """(the names that act_prm.py leaves, what it printed, seconds)."""
    told = io.StringIO()
    began = time.perf_counter()
    sys.argv = [FILE.name, "--seed", str(seed)]
    with contextlib.redirect_stdout(told):
        names = runpy.run_path(str(FILE), run_name="__main__")
    return names, told.getvalue(), time.perf_counter() - began


def successes(told: str) -> dict[str, float]:
    """Success of each model by its name, from the last lines.

    >>> successes("reward 0.5\\nsuccess on 400 new tasks, chance .2\\nAct-PRM    0.980")
    {'Act-PRM': 0.98}
    """
    table = told.partition("chance .2\n")[2]
    rows = re.findall(r"^(\S.*?) +(\d\.\d+)$", table, re.MULTILINE)
    return {name: float(number) for name, number in rows}


def rewards(told: str) -> dict[str, list]:
    """The mean reward at the updates that were printed."""
    found = re.findall(r"^update +(\d+) +mean reward ([\d.]+)$", told, re.MULTILINE)
    return {"updates": [int(i) for i, _ in found], "mean": [float(x) for _, x in found]}


def groups(names: dict, told: str) -> dict[str, dict]:
    """The group that was printed before learning and the one after."""
    parts = told.split("\nstate: ")[1:]
    models = {"before": names["base"], "after": names["thinker"]}
    found = {}
    for (when, model), part in zip(models.items(), parts, strict=True):
        thoughts = []
        for line in filter(None, map(LINE.fullmatch, part.splitlines())):
            thought = line["thought"].strip()
            thoughts.append({
                "thought": thought, "kind": line["kind"], "times": int(line["times"]),
                "reward": float(line["reward"]), "advantage": float(line["advantage"]),
                "cups": cups(names, model, f"<think> {thought} </think>"),
            })  # fmt: skip
        task = names["log"][0]
        found[when] = {
            "state": names["state"](task), "expert": names["expert_action"](task),
            "without_thought": cups(names, model, ""), "thoughts": thoughts,
        }  # fmt: skip
    return found


@torch.no_grad()
def cups(names: dict, model, thought: str) -> dict[str, float]:
    """How probable the model is to open each of the five cups after this thought."""
    encode = names["encode"]
    before = names["prompt"](names["log"][0]) + encode(thought)
    turns = [encode(f"<act> open {cup} </act> <end>") for cup in names["CUPS"]]
    logps = names["log_probs"](model, [before] * len(turns), turns)
    chances = [logp[names["OPEN_X"]].sum().exp().item() for logp in logps]
    return {cup: round(p, 4) for cup, p in zip(names["CUPS"], chances, strict=True)}


def main() -> None:
    path = take_json_flag()
    rows: dict[str, list[float]] = {}
    curves, seconds, group = {}, [], {}
    for seed in SEEDS:
        names, told, time_taken = run(seed)
        seconds.append(round(time_taken))
        curves[str(seed)] = rewards(told)
        for name, number in successes(told).items():
            rows.setdefault(name, []).append(number)
        group = group or groups(names, told)  # of the first seed
        print(f"seed {seed}: {successes(told)} in {seconds[-1]} s", flush=True)
    table = {name: over_seeds(values) for name, values in rows.items()}
    save_run(path, SEEDS, t_interval(SEEDS), table, note="groups are of seed 0", seconds=seconds,
             curves=curves, groups=group)  # fmt: skip


if __name__ == "__main__":
    main()
