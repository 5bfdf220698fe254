"""Tokens meet worlds: an agent plays episodes, and the expert plays its own.

All episodes go in lockstep, one batch of turns at a time. Ids that were sampled are kept as they
were drawn: the text that the world reads is decoded from them and never encoded again.
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from minprm.constants import Config, fail
from minprm.data import Demo, Sample, Step, chain
from minprm.envs import make_world
from minprm.envs.base import World, rules_of, task_seed
from minprm.text.actions import joined, parts
from minprm.text.chat import Chat, Turn

if TYPE_CHECKING:
    from minprm.model.agent import Player
    from minprm.model.sampler import Completion


@dataclass
class Episode:
    """One task played to its end, as a world sees it and as a loss will.

    All turns are in one Sample; where the history is edited between turns, each turn is in a Sample
    of its own. `spans` says where the sampled ids of each turn lie.
    """

    world: World
    samples: list[Sample] = field(default_factory=list)
    spans: list[tuple[Sample, int, int]] = field(default_factory=list)  # of a turn: begin, end
    turns: list[Turn] = field(default_factory=list)  # as ids, for the history
    steps: list[Step] = field(default_factory=list)  # as text, for people
    infos: list[dict] = field(default_factory=list)  # what the world and the parser said of a step
    rewards: list[float] = field(default_factory=list)  # of each step, as RL is paid
    state: list[dict] = field(default_factory=list)  # the messages that it has to answer
    state_ids: tuple[list[int], list[int]] = ([], [])  # the same as ids, and with nothing observed
    done: bool = False
    outgrown: bool = False  # it ended unsolved, because it no longer fitted the context
    failure: str = ""  # what went wrong in a user's agent or server: the episode teaches nothing
    in_pieces: bool = False  # such an agent's turns do not all read those before them: no log

    def outcome(self) -> float:
        """What the whole episode earned."""
        return float(self.world.success)

    def tokens(self, turns: list[int]) -> int:
        """How many tokens were sampled in these turns."""
        total = 0
        for turn in turns:
            _, begin, end = self.spans[turn]
            total += end - begin
        return total

    def set_advantage(self, turn: int, advantage: float) -> None:
        """Puts a turn's advantage on its sampled tokens."""
        sample, begin, end = self.spans[turn]
        sample.advantages[begin:end] = [advantage] * (end - begin)


PlayTasks = Callable[["Player", list[int], int], list[Episode]]  # of task seeds, and noise


def play(
    agent: "Player", new_world: Callable[[], World], seeds: list[int], noise: int
) -> list[Episode]:
    """Plays each task to its end: one episode for each task seed, with noise of its own.

    So episodes of one task differ in what the agent draws, and in what the world does by chance.
    The agent decides by itself whether a turn starts with a thought, unless it may not think. A
    turn in which no action can be read is an illegal action.
    """
    agent.sampler.begin()
    episodes = [begin(new_world(), seed, noise + i) for i, seed in enumerate(seeds)]
    opening = forced_opening(agent)
    limit = turn_limit(agent)
    first_states: dict[int, tuple[list[int], list[int]]] = {}  # by task
    shared = {}  # what histories have in common, so that it is read once
    for turn in count():
        # the worlds ask: every episode that goes on gets its next state
        for e in episodes:
            if not e.done:
                ask(e, agent, limit, first_states, shared)
        live = [e for e in episodes if not e.done]
        if not live:
            break
        # the agent writes all turns at once
        prompts = [e.samples[-1].whole() + opening for e in live]
        completions = agent.sampler.generate(
            prompts, 1, limit, agent.chat.ends, agent.temperature, noise + turn
        )
        # what it wrote is kept as ids, and read as text by the worlds
        answers = []
        for e, (completion,) in zip(live, completions, strict=True):
            answers.append(keep(e, e.samples[-1], completion, agent.chat, opening))
        _step_worlds(live, answers)
    return episodes


def begin(world: World, seed: int, noise: int) -> Episode:
    """The episode of this task before its first turn: the rules, and what is seen first."""
    state = [{"role": "user", "content": world.reset(seed, noise)}]
    rules = rules_of(world)
    if rules:
        state.insert(0, {"role": "system", "content": rules})
    return Episode(world, state=state)


def turn_limit(agent: "Player") -> int:
    """Tokens of the longest turn: a thought with its tags, an action, the end."""
    chat = agent.chat
    limit = agent.action_tokens + len(chat.end)
    if agent.think:
        limit += agent.thought_tokens + len(chat.think + chat.think_end)
    return limit


def forced_opening(agent: "Player") -> list[int]:
    """Ids that every turn has to begin with: none, but for an agent that may not think. Then they
    are those before an action from which SFT learns a step that has no thought."""
    return [] if agent.think else agent.opening(None)


def ask(
    e: Episode,
    agent: "Player",
    limit: int,
    first_states: dict[int, tuple[list[int], list[int]]],
    shared: dict,
) -> None:
    """Puts the state before the agent, or ends the episode where that outgrows the context.

    limit: tokens of the longest turn. Episodes of one task have one first state, the same lists, so
    that all their histories begin with one Sample.
    """
    chat = agent.chat
    history = agent.history
    after = e.steps[-1].action if e.steps else None
    e.state_ids = agent.state_ids(e.state, e.world.tools, after)
    if not e.steps:
        e.state_ids = first_states.setdefault(e.world.seed, e.state_ids)
    state = e.state_ids[0]
    if not e.steps or history.edits():  # where it edits, what went before is not what was read
        before = chain([*chat.history(e.turns, history), state], shared)
        e.samples.append(Sample(parent=before, version=agent.version))
    else:
        e.samples[-1].extend(state)
    if len(e.samples[-1].whole()) + limit > agent.context:
        e.outgrown = True
        e.done = True
        if not any(e.samples[-1].trained):
            e.samples.pop()  # a question that nobody answered


def keep(
    e: Episode, sample: Sample, completion: "Completion", chat: Chat, opening: list[int]
) -> tuple[str | None, str | None, int, str]:
    """Keeps a turn as it was drawn, in this Sample. Returns its thought, its action, the number of
    tokens in the thought, and the whole text where no action can be read.

    opening: ids that the turn was given to begin with.
    """
    sample.extend(opening)
    start = len(sample.ids)
    sample.extend(completion.ids, 0.0, completion.logprobs)  # the advantage comes at the end
    e.spans.append((sample, start, len(sample.ids)))
    # a turn that was cut for its length is ended, as the template ends a reply
    end = [] if completion.ids[-1] in chat.ends else chat.close
    sample.extend(end)
    turn = opening + completion.ids
    ended = turn + end
    thought, action, unreadable = read(turn, opening, chat)
    e.turns.append(Turn(*e.state_ids, ended, chat.without_thought(ended, action)))
    thought_ids, _ = chat.split(turn)
    return thought, action, 0 if opening else len(thought_ids or []), unreadable


def read(turn: list[int], opening: list[int], chat: Chat) -> tuple[str | None, str | None, str]:
    """(thought, action, the whole text where no action can be read) of a turn that was given this
    opening. A thought that was given, an empty one, is not the agent's."""
    thought, action = chat.parse(turn)
    unreadable = chat.text(turn) if action is None else ""
    return None if opening else thought, action, unreadable


def _step_worlds(live: list[Episode], answers: list[tuple]) -> None:
    """Every world answers; worlds that wait for something do so at the same time."""
    if not live[0].world.waits:
        for e, answer in zip(live, answers, strict=True):
            act(e, *answer)
        return
    with ThreadPoolExecutor(len(live)) as pool:
        list(pool.map(act, live, *zip(*answers, strict=True)))


def act(
    e: Episode, thought: str | None, action: str | None, tokens: int = 0, unreadable: str = ""
) -> None:
    """The world answers an action, or a turn in which none could be read."""
    observation, reward, e.done, info = e.world.step(action or "")
    e.steps.append(Step(e.state, thought, action or "", reward, unreadable=unreadable))
    e.failure = info.get("failure", "")
    e.infos.append({**info, "thought_tokens": tokens, "formatted": action is not None})
    e.state = [_answer(e.world, observation, action or "")]


# --- episodes as logs ---


def tasks_of(split: str, seed: int, n: int) -> list[int]:
    """Seeds of n tasks of this split; each seed of a ladder has its own."""
    return [task_seed(split, seed * 100_000 + i) for i in range(n)]


def expert_demos(cfg: Config, split: str, seed: int, n: int) -> list[Demo]:
    """The expert's logs of n tasks of this split."""
    return [expert_demo(make_world(cfg), task) for task in tasks_of(split, seed, n)]


def expert_demo(world: World, seed: int) -> Demo:
    """The expert's log of one task. The thoughts in it are the world's own explanations."""
    e = begin(world, seed, noise=0)
    while not e.done:
        act(e, world.thought(), world.expert())
    try:
        return _demo(e)
    except ValueError as error:  # of a user's own texts
        fail(f"the expert's answer in task {world.seed} cannot stand in a log: {error}")


def won_demos(episodes: list[Episode]) -> list[Demo]:
    """Logs of the episodes that were won by legal actions, each after a thought."""
    demos = []
    for e in episodes:
        thought = all(step.thought for step in e.steps)
        legal = all(info["valid"] for info in e.infos)
        if e.in_pieces or not (e.world.success and thought and legal):
            continue
        try:
            demos.append(_demo(e))
        except ValueError:  # an answer that spells a thought or a call would be read as one
            continue
    return demos


def _demo(e: Episode) -> Demo:
    """The episode as a log, up to its last action. Raises ValueError where an action could not be
    read back from it."""
    steps = []
    for step in e.steps:
        reply, calls = said_and_called(e.world, step.action)
        if not reply.strip() and not calls:
            raise ValueError("it is empty")
        if _is_markup(reply):
            raise ValueError("it spells a thought or a call, and would be read as one")
        steps.append(Step(step.state, step.thought or None, joined(reply, calls)))
    return Demo(task_name(e.world), messages_of(e), [*e.world.tools], steps)


def messages_of(e: Episode) -> list[dict]:
    """The conversation up to its last action. A turn that could not be read stands as it is."""
    messages = []
    for step in e.steps:
        messages += step.state
        if step.unreadable:  # also where it spells a call: none was made
            messages.append({"role": "assistant", "content": step.unreadable})
        else:
            messages.append(as_message(e.world, step.thought, step.action))
    return messages


def _is_markup(reply: str) -> bool:
    """Does the text begin with a thought, or end in calls, as models spell them?

    >>> _is_markup("<think>a</think>b"), _is_markup("a <think>"), _is_markup("open a")
    (True, False, False)
    """
    if reply.lstrip().startswith("<think>") and "</think>" in reply:
        return True
    _, *bodies = reply.split("<tool_call>")
    return bodies != [] and all(body.rstrip().endswith("</tool_call>") for body in bodies)


def task_name(world: World) -> str:
    """What a log calls the task that the world plays."""
    return f"{type(world).__name__}-{world.seed}"


def said_and_called(world: World, action: str) -> tuple[str, list[dict]]:
    """(reply, calls) of an action; in a world without tools nothing in it is a call."""
    return parts(action) if world.tools else (action, [])


def as_message(world: World, thought: str | None, action: str) -> dict:
    """An action as a chat message, in the one form that logs have (logs/normalise.py)."""
    reply, calls = said_and_called(world, action)
    message: dict = {"role": "assistant", "content": reply if reply.strip() else None}
    if thought:
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = [_as_function(call) for call in calls]
    return message


def _as_function(call: dict) -> dict:
    arguments = json.dumps(call["arguments"], ensure_ascii=False)
    return {"type": "function", "function": {"name": call["name"], "arguments": arguments}}


def _answer(world: World, observation: str, action: str) -> dict:
    """What a world shows after an action: a tool's answer where a tool was called."""
    _, calls = said_and_called(world, action)
    return {"role": "tool" if calls else "user", "content": observation}
