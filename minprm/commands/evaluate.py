"""minprm evaluate CHECKPOINT [CHECKPOINT ...]: success by real rollouts, or by held-out logs.

A checkpoint may think or not: each turn it decides for itself. Beside it, on the same tasks, random
play and the expert. With several samples a task, pass@k in closed form. Where there is no world to
play in, --demos replays logs that no training saw. With --transcripts every episode, or every step
of those logs, is a line of JSONL. The flags: ask.py. The play: playing.py.
"""

from minprm.arms.demos import require_logs
from minprm.commands import cli
from minprm.commands.ask import PROGRAM, Evaluation, as_trained, check
from minprm.commands.cli import given_knobs, read_flags
from minprm.envs import WORLDS, world_class
from minprm.load.names import require_model, require_place

GONE = {  # flags of earlier versions, and what to do without them
    "atif": "--transcripts FILE writes every episode as JSONL",
    "show": "--transcripts FILE writes every episode as JSONL",
    "watch": "--transcripts FILE writes every turn; python -m minprm.envs NAME plays by hand",
    "chart": "the table has its numbers, and minprm report RUN draws those of a run",
    "history.first": cli.GONE["history.first"],
}


def main(argv: list[str]) -> None:
    """The command."""
    chosen_knobs = given_knobs(argv, GONE)
    flags = read_flags(Evaluation, argv, PROGRAM)
    check(flags, chosen_knobs)
    if flags.worlds:
        for name in WORLDS:
            print(f"{name:<15}{world_class(name).teaches}")
        return
    for path in flags.checkpoints:
        require_place(path)
    evaluations = as_trained(flags, argv, chosen_knobs)
    if flags.demos:
        require_logs(flags.demos)
    for path in flags.checkpoints:
        require_model(path)
    # torch and all that needs it: what is refused above did not wait for them
    from minprm.commands import playing

    try:
        if flags.demos:
            playing.replay_all(evaluations, flags)
        else:
            playing.play_all(evaluations, flags)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
