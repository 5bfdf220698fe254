"""minprm evaluate --atif FOLDER: every episode as a file of ATIF (logs/atif.py), for other viewers.

A turn's thought is its `reasoning_content`. Its `metrics` hold the ids and log-probs as they were
sampled, and what the world said of it. A turn whose action could not be read has an empty message.
"""

from pathlib import Path

from minprm.arms.starts import libraries
from minprm.logs.atif import to_atif
from minprm.logs.reader import with_call_ids
from minprm.look.log import to_json, write_atomically
from minprm.play import Episode, as_message, task_name


def write_trajectories(folder: Path, checkpoint: str, episodes: list[Episode]) -> None:
    """One file an episode, numbered on from those that the folder holds; it is made where it is
    missing."""
    folder.mkdir(exist_ok=True)
    first = sum(1 for _ in folder.iterdir())
    for number, e in enumerate(episodes, start=first):
        session = f"{Path(checkpoint).name}-{number:05}"
        session_log = {"session_id": session, **trajectory(e, checkpoint)}
        write_atomically(folder / f"{session}.json", to_json(session_log, indent=1) + "\n")


def trajectory(e: Episode, checkpoint: str) -> dict:
    """The episode as ATIF has it, with what is known of each turn and of the whole."""
    messages = []
    for step in e.steps:
        messages += [*step.state, as_message(e.world, step.thought, step.action)]
    if any(message["content"] for message in e.state):
        messages += e.state  # the world's last answer
    line = {"task": task_name(e.world), "tools": e.world.tools, "messages": with_call_ids(messages)}
    version = libraries().get("minprm", "unknown")
    agent = {"name": "minprm", "version": version, "model_name": checkpoint}
    atif = to_atif(line, agent)
    turns = [step for step in atif["steps"] if step["source"] == "agent"]
    for i, turn in enumerate(turns):
        turn["metrics"] = _of_turn(e, i)
    reward = sum(step.reward for step in e.steps)
    atif["final_metrics"] = {
        "total_steps": len(atif["steps"]),
        "total_completion_tokens": e.tokens(list(range(len(turns)))),
        "extra": {"success": e.world.success, "reward": reward, "outgrown": e.outgrown},
    }
    return atif


def _of_turn(e: Episode, i: int) -> dict:
    """The sampled tokens of the i-th turn, and what the world said of it."""
    sample, begin, end = e.spans[i]
    return {
        "completion_tokens": end - begin,
        "completion_token_ids": sample.ids[begin:end],
        "logprobs": sample.logprobs[begin:end],
        "extra": {"reward": e.steps[i].reward, **e.infos[i]},
    }
