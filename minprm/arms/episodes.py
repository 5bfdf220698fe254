"""episodes.jsonl: how each arm acts, turn by turn beside the expert, for people to read.

The first KEPT evaluation episodes of an arm are kept. Without a world an episode is a
held-out log, at each step of which the agent wrote a turn of its own.
"""

from pathlib import Path

from minprm.arms.evaluation import Answer
from minprm.constants import Config
from minprm.data import Demo, Step
from minprm.envs import make_world
from minprm.envs.base import World
from minprm.look.log import lines_that, to_json, write_atomically
from minprm.look.notes import state_text
from minprm.play import Episode
from minprm.text.actions import copies, exact_match
from minprm.text.chat import Chat

FILE = "episodes.jsonl"
KEPT = 40  # evaluation episodes of an arm and seed


def keep_episodes(folder: Path, arm: str, seed: int, episodes: list[dict]) -> None:
    """Writes these episodes of an arm into the file, in the place of those it had before."""
    path = folder / FILE
    lines = []
    if path.exists():
        lines = lines_that(lambda line: (line["arm"], line["seed"]) != (arm, seed), path)
    for episode in episodes:
        lines.append(to_json({"arm": arm, "seed": seed, **episode}) + "\n")
    if lines:
        write_atomically(path, "".join(lines))


def of_world(episodes: list[Episode], cfg: Config, chat: Chat, noise: int) -> list[dict]:
    """The first episodes of an evaluation, with what the expert would have done at each turn.

    noise: that of the evaluation.
    """
    world = None if cfg.agent else make_world(cfg)  # of an agent nobody knows what was better
    records = []
    for i, e in enumerate(episodes[:KEPT]):
        experts: list[str | None] = [None] * len(e.steps)
        if world and world.has("expert") and not world.waits:  # or it would be waited for once more
            experts = experts_of(e, world, noise + i)
        turns = []
        for step, info, expert, (sample, _, end) in zip(
            e.steps, e.infos, experts, e.spans, strict=True
        ):
            closed = sample.ids[end - 1] in chat.ends  # it was not cut for its length
            turn = _turn(step, step.thought, step.action, expert, step.unreadable)
            turn |= {"reward": step.reward, "tokens": info["thought_tokens"]}
            turns.append({**turn, "closed": closed, "valid": info["valid"]})
        won = bool(e.world.success)
        records.append({"task": e.world.seed, "won": won, "outgrown": e.outgrown, "turns": turns})
    return records


def experts_of(e: Episode, world: World, noise: int) -> list[str | None]:
    """The expert's action in the state before each turn, from the same task played once more.

    None from where the world does not show what it showed then: not all of it hangs on its seeds.
    """
    observation = world.reset(e.world.seed, noise)
    experts = []
    for step in e.steps:
        if step.state[-1]["content"] != observation:
            break
        experts.append(world.expert())
        observation, *_ = world.step(step.action)
    return experts + [None] * (len(e.steps) - len(experts))


def of_logs(answers: list[Answer], demos: list[Demo], chat: Chat) -> list[dict]:
    """The first held-out logs of a replay. A step is right where its action is the expert's; an
    episode is won where all of its steps are."""
    records = []
    for number, demo in enumerate(demos[:KEPT]):
        turns = []
        for answer in answers:
            if answer.log != number:
                continue
            step = answer.step
            action = answer.action or ""
            turn = _turn(step, answer.thought, action, step.action, answer.unreadable)
            thought_ids, _ = chat.split(answer.ids)
            turn |= {"reward": float(turn["right"]), "tokens": len(thought_ids or [])}
            closed = answer.ids[-1] in chat.ends
            turns.append({**turn, "closed": closed, "valid": answer.action is not None})
        won = all(turn["right"] for turn in turns)
        records.append({"task": demo.task, "won": won, "outgrown": False, "turns": turns})
    return records


def _turn(
    step: Step, thought: str | None, action: str, expert: str | None, unreadable: str
) -> dict:
    """What is told of every turn."""
    right = None if expert is None else bool(exact_match(action, expert))
    return {
        "state": state_text(step),
        "thought": thought,
        "action": action,
        "unreadable": unreadable,
        "expert": expert,
        "right": right,
        "copied": copies(thought or "", step.action, step.observation()),
    }
