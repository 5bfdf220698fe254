"""python -m benchmarks.prefetch: what playing ahead saves where a world takes its time.

Cups whose every step waits outside Python, as a web page or a game server does. GRPO plays and
learns in turn (level 0), or plays the next batch while it learns (level 1). Prints seconds an
update, and what an update is made of.
"""

import time
from statistics import median

from evidence import tables
from evidence.results import save_run, take_json_flag
from minprm.arms.ladder import run_stage, start
from minprm.commands.cli import parse
from minprm.commands.train import CHECKPOINTS
from minprm.envs import WORLDS
from minprm.envs.cups import Cups
from minprm.load.threads import set_threads
from minprm.look.log import Log
from minprm.report.files import RUNS, read_lines

# nothing is played ahead over a snapshot, so none is taken; 4 passes: learning as slow as playing
FLAGS = "--world slow --rl.updates 10 --optim.passes 4 --rl.loss is --save-every 100"
DELAY = 0.3  # seconds of a step


class Slow(Cups):
    """Cups at the other end of a slow line, once the base model is raised and asked."""

    waits = True
    delay = 0.0

    def step(self, action):
        time.sleep(self.delay)
        return super().step(action)


def seconds(level: int) -> tuple[float, float, float]:
    """(an update, waiting for its batch, learning from it); medians but for the first two."""
    run = f"prefetch-{level}-{time.strftime('%H%M%S')}"
    cfg = parse(["--run", run, "--rl.max-async-level", str(level), *FLAGS.split()])
    Slow.delay = 0.0
    log = Log(RUNS / run)
    log.open(cfg)
    one = start(cfg, 0, log, CHECKPOINTS)
    Slow.delay = DELAY
    run_stage(one, "rl")
    lines = read_lines(RUNS / run / "metrics.jsonl")
    times = [(x["time/sample"], x["time/update"]) for x in lines[2:-1]]
    return median(map(sum, times)), *(median(t) for t in zip(*times, strict=True))


if __name__ == "__main__":
    path = take_json_flag()
    set_threads("tiny")
    WORLDS["slow"] = f"{__name__}:Slow"
    names = ("seconds", "waiting", "learning")
    rows = {f"level {i}": dict(zip(names, seconds(i), strict=True)) for i in (0, 1)}
    print(tables.prefetch(rows))
    ratio = rows["level 0"]["seconds"] / rows["level 1"]["seconds"]
    print(f"{ratio:.2f}x")
    save_run(path, [0], "medians over updates", rows, ratio=ratio, delay=DELAY)
