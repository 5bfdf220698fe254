"""python -m examples.text_rewards: a reward on text, hacked without a KL and held with one.

Single-turn generation as RL4LMs has it (arXiv:2210.01241), on the world `text`: a supervised warm
start, then PPO with a reward on the text alone and an adaptive KL that holds the policy to the warm
start, beside the same without one. By default a tiny model learns to count in a few updates, and
the reward is the share of numbers that are larger than the one before, which "1 2" earns whole.

The same on your data: --file my.jsonl --reward chrf --model HUB_ID. docs/text.md has the format.
`--seeds 0 1 2` for several seeds, `--json FILE` for a file of the results.
"""

import sys
import time
from dataclasses import dataclass
from statistics import fmean

from evidence.results import save_run, take_json_flag
from minprm.commands.cli import read_flags
from minprm.commands.train import CHECKPOINTS, go_on
from minprm.constants import Config, fail
from minprm.envs import make_world


@dataclass
class Flags:
    """Warm start, then PPO on a reward of the text, with and without a KL to the warm start."""

    reward: str = "numbers"  # of the world `text`: a metric, or FILE.py:NAME
    file: str = ""  # JSONL of prompt and reference; none: counting tasks
    model: str = ""  # hub id or path of a chat model; none: a tiny one from nothing
    run: str = ""  # names of the three runs of a seed begin with it; default: text and the time
    demos: int = 640  # references of the warm start
    updates: int = 100  # updates of PPO
    tokens: int = 24  # longest answer, its tags included
    kl: float = 0.3  # first weight of the KL
    kl_target: float = 0.05  # nats a token
    seeds: tuple[int, ...] = (0,)


NAMES = ("reward", "right", "kl")
READ_NOTHING = ["--tiny.updates", "0"]  # the tiny model begins with the warm start


def main(argv: list[str], json_file: str = "") -> None:
    flags = read_flags(Flags, argv, "examples/text_rewards.py")
    if flags.file and not flags.model:
        fail("--file needs a --model: the tiny one knows numbers alone")
    if min(flags.updates, flags.demos, flags.tokens) < 1 or min(flags.kl, flags.kl_target) <= 0:
        fail("--updates, --demos and --tokens are at least 1, --kl and --kl-target above 0")
    run = flags.run or f"text-{time.strftime('%Y%m%d-%H%M%S')}"
    args = [f"reward={flags.reward}", f"file={flags.file}"]
    make_world(Config(world="text", world_args=args))  # a wrong name or file is told at once
    rows: dict[str, dict[str, list]] = {}
    for seed in flags.seeds:
        for name, numbers in runs_of(flags, f"{run}-{seed}", args, seed).items():
            row = rows.setdefault(name, {key: [] for key in NAMES})
            for key, number in zip(NAMES, numbers, strict=True):
                row[key].append(number)
    wide = 8 * len(flags.seeds)
    print(f"\n{'on test tasks':<22}{'reward':>{wide}}{'right':>{wide}}  "
          "KL, nats a token, last ten updates")  # fmt: skip
    for name, row in rows.items():
        cells = ["".join(f"{x:>8.3f}" for x in row[key]) for key in NAMES]
        print(f"{name:<22}{''.join(cells if any(row['kl']) else cells[:2])}")
    save_run(json_file, list(flags.seeds), "none: every seed is given", rows)


def runs_of(flags: Flags, run: str, args: list[str], seed: int) -> dict[str, tuple]:
    """The result of the warm start, and of PPO from there without a KL and with one."""
    shared = ["--world", "text", "--world-args", *args, "--seeds", str(seed)]
    shared += ["--action-tokens", str(flags.tokens), "--thought-tokens", "1"]
    shared += ["--eval-temperature", "1"]
    warm = [*shared, "--stages", "sft:actions", "--num-demos", str(flags.demos)]
    warm += ["--model", flags.model] if flags.model else READ_NOTHING
    rows = {"warm start": result(f"{run}-warm", warm)}
    ppo = "--stages rl:dense --rl.advantage gae --rl.loss ppo_clip --optim.passes 2"
    ppo += f" --rl.updates {flags.updates} --model {CHECKPOINTS}/{run}-warm/stages-"
    ppo = [*shared, *f"{ppo}{seed}".split()]
    # a weight of 1e-9 is measured and not felt
    rows["PPO without KL"] = result(f"{run}-free", [*ppo, "--rl.kl", "1e-9"])
    held = ["--rl.kl", str(flags.kl), "--rl.kl-target", str(flags.kl_target)]
    rows["PPO with adaptive KL"] = result(f"{run}-held", [*ppo, *held])
    return rows


def result(run: str, flags: list[str]) -> tuple[float, float, float]:
    """(mean reward and success on test tasks, KL to where it started) of a run, which is gone on
    with where it exists."""
    try:
        ladder, lines = go_on(run, flags)
    except SystemExit as stop:
        if stop.code == 130:
            print(f"That is, with the command you gave and --run {run.rsplit('-', 2)[0]}")
        raise
    row = ladder["stages"][0]
    return row["reward"], row["success"], fmean(x.get("policy/kl", 0.0) for x in lines[-10:])


if __name__ == "__main__":
    json_file = take_json_flag()  # before the other flags are read
    main(sys.argv[1:], json_file)
