"""A user's own agent in the place of a world: --agent FILE.py:NAME.

    def play(base_url: str, seed: int) -> float: ...

It is a program that asks a model over OpenAI's chat/completions, as it would ask any other, and
returns what the episode earned; it may be async. Each episode runs in a thread of its own, and has
an address of its own. Requests that wait together are one batch. The thread that plays the batch
draws all turns, and starts and ends the episodes.

An agent that raises, hangs, asks without end or sends what cannot be read costs its own episode.
That counts as lost, and nothing is learned from it or compared with it.
"""

import asyncio
import inspect
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty
from threading import Thread
from typing import Any, NamedTuple, NoReturn

from loguru import logger

from minprm import own
from minprm.constants import Config, fail
from minprm.endpoint.conversations import AgentEpisode, Conversations, asked
from minprm.endpoint.server import NO_ADDRESS, Endpoint, Refusal, Reply, Request
from minprm.envs import make_world
from minprm.envs.base import World
from minprm.model.agent import Player
from minprm.play import Episode, PlayTasks, begin, play, turn_limit

AT_ONCE = 64  # episodes
REQUESTS = 200  # of one episode, at most
QUIET = 0.02  # seconds: where no request has come for so long, those that wait are answered


class AgentTask(World):
    """What is known of a task that a user's agent plays: its seed, and whether it was solved."""

    def __init__(self, seed: int):
        self.seed = seed
        self.content = str(seed)


class Over(NamedTuple):
    """An agent's program is over."""

    episode: str
    reward: Any  # whatever it returned
    error: str = ""  # what it raised


def play_of(cfg: Config) -> PlayTasks:
    """The function that plays the tasks of these seeds: in the world, or by the user's agent."""
    if cfg.agent:
        return partial(play_by_agent, cfg.agent, cfg.agent_seconds)
    return partial(play_in_world, cfg)


def play_in_world(cfg: Config, agent: Player, seeds: list[int], noise: int) -> list[Episode]:
    """One episode for each task seed, so many at once as the world allows."""
    at_once = make_world(cfg).at_once or max(len(seeds), 1)
    episodes = []
    for first in range(0, max(len(seeds), 1), at_once):
        some = seeds[first : first + at_once]
        # an episode adds the number of its turn to the noise
        played = play(agent, partial(make_world, cfg), some, noise + 1000 * first)
        for e in played:
            e.world.close()
        episodes += played
    if not any(e.steps for e in episodes):
        _refuse_context(agent, [len(e.state_ids[0]) for e in episodes])
    _warn_of_failures(f"--world {cfg.world}", episodes)
    return episodes


def require_room(cfg: Config, agent: Player, seeds: list[int]) -> None:
    """Exits where the context holds none of these tasks: its first observation and an answer."""
    sizes = []
    for seed in seeds:
        e = begin(make_world(cfg), seed, noise=0)
        e.world.close()
        sizes.append(len(agent.state_ids(e.state, e.world.tools, None)[0]))
        if sizes[-1] + turn_limit(agent) <= agent.context:
            return
    _refuse_context(agent, sizes)


def _refuse_context(agent: Player, sizes: list[int]) -> NoReturn:
    """Exits. sizes: tokens of first observations."""
    needed = min(sizes, default=0) + turn_limit(agent)
    answers = "--thought-tokens or --action-tokens" if agent.think else "--action-tokens"
    fail(
        f"--context {agent.context} does not hold a first observation and an answer, which "
        f"take {needed} tokens or more: choose a longer one, or fewer {answers}"
    )


def play_by_agent(
    name: str, seconds: float, agent: Player, seeds: list[int], noise: int
) -> list[Episode]:
    """One episode for each task seed, played by the user's program of this name.

    seconds: how long the program may go on without a request.
    """
    agent.sampler.begin()
    episodes = [AgentEpisode(AgentTask(seed), number=i) for i, seed in enumerate(seeds)]
    folder = os.getcwd()
    try:
        Host(own.definition(name), seconds, agent, noise).play(episodes)
    finally:
        os.chdir(folder)  # or the files of the run would be looked for elsewhere
    _warn_of_failures(f"--agent {name}", episodes)
    return [*episodes]


def _warn_of_failures(player: str, episodes: Sequence[Episode]) -> None:
    failures = Counter(e.failure for e in episodes if e.failure)
    if failures:
        reasons = "; ".join(f"{n} x {failure}" for failure, n in failures.most_common(3))
        count = f"{failures.total()} of {len(episodes)} episodes"
        logger.warning(f"{player}: {count} failed, and teach nothing: {reasons}")


class Host:
    """Plays a batch of episodes: starts the agents, answers their requests, ends the episodes."""

    def __init__(self, program: Callable, seconds: float, agent: Player, noise: int):
        self.program = program
        self.seconds = seconds
        self.conversations = Conversations(agent, noise)
        self.endpoint = Endpoint()
        self.live: dict[str, AgentEpisode] = {}  # by their addresses
        self.waiting: list[Request] = []  # of live episodes

    def play(self, episodes: list[AgentEpisode]) -> None:
        """Plays all of them to their ends."""
        todo = episodes[::-1]
        try:
            while todo or self.live:
                while todo and len(self.live) < AT_ONCE:
                    self._start(todo.pop())
                self._gather()
                self._answer()
        finally:
            for name in [*self.live]:
                self._end(name, 0.0, "the run has stopped")
            self.endpoint.close()

    def _start(self, e: AgentEpisode) -> None:
        name = self.endpoint.new_address()
        self.live[name] = e
        e.until = time.monotonic() + self.seconds
        # a daemon: no agent that hangs keeps the run from its end
        Thread(target=self._run, args=(name, e.world.seed), daemon=True).start()

    def _run(self, name: str, seed: int) -> None:
        """The thread of one agent."""
        try:
            reward = self.program(self.endpoint.url(name), seed)
            if inspect.isawaitable(reward):
                reward = asyncio.run(_awaited(reward))
            self.endpoint.events.put(Over(name, reward))
        except BaseException as error:  # a user's program raises whatever it likes
            self.endpoint.events.put(Over(name, 0.0, f"it raised {own.in_a_line(error)}"))

    # --- waiting ---

    def _gather(self) -> None:
        """Waits until all agents have asked, or some have and the others are quiet."""
        while len({request.episode for request in self.waiting}) < len(self.live):
            try:
                event = self.endpoint.events.get(timeout=self._patience())
            except Empty:
                self._give_up()
                if self.waiting:
                    return
                continue
            if isinstance(event, Over):
                self._end(event.episode, event.reward, event.error)
            else:
                self._take(event)

    def _patience(self) -> float:
        """Seconds to wait for the next event."""
        if self.waiting:
            return QUIET
        return max(min(e.until for e in self.live.values()) - time.monotonic(), 0.0)

    def _take(self, request: Request) -> None:
        """Lets a request wait, if its episode is still played."""
        e = self.live.get(request.episode)
        if e is None:
            request.refuse(Refusal(NO_ADDRESS, 404))
            return
        e.requests += 1
        if e.requests <= REQUESTS:
            self.waiting.append(request)
            return
        request.refuse(Refusal(f"an episode has {REQUESTS} requests at most"))
        self._end(request.episode, 0.0, f"it made more than {REQUESTS} requests")

    def _give_up(self) -> None:
        """Ends the episodes whose agents have hung for too long. Their threads are left behind."""
        asking = {request.episode for request in self.waiting}
        for name, e in [*self.live.items()]:
            if name not in asking and time.monotonic() >= e.until:
                self._end(name, 0.0, f"it did not ask or end within {self.seconds:g} seconds")

    # --- answering ---

    def _answer(self) -> None:
        """Draws the turns of all requests that wait, and sends them back."""
        begun = []
        for request in [*self.waiting]:
            e = self.live.get(request.episode)
            if e is None:  # it was ended by another of its requests
                continue
            try:
                begun.append((request, self.conversations.begin(e, asked(request.body))))
            except Refusal as refusal:
                self._reply(request, refusal.reply())
                if not refusal.code:  # what outgrows the context is the model's own doing
                    self._end(request.episode, 0.0, f"a request of it was refused: {refusal}")
        # what has ended meanwhile is in no batch
        begun = [(request, turn) for request, turn in begun if request.episode in self.live]
        replies = self.conversations.answer([turn for _, turn in begun])
        for (request, _), reply in zip(begun, replies, strict=True):
            self._reply(request, reply)

    def _reply(self, request: Request, reply: Reply) -> None:
        """Answers a request that waits; the agent has its time from here on."""
        self.waiting.remove(request)
        self.live[request.episode].until = time.monotonic() + self.seconds
        request.reply.set_result(reply)

    def _end(self, name: str, reward: Any, error: str) -> None:
        """Ends an episode, and says what it earned, or why it failed."""
        if name not in self.live:  # it was given up before
            return
        for request in [*self.waiting]:
            if request.episode == name:
                self._reply(request, Refusal(NO_ADDRESS, 404).reply())
        e = self.live.pop(name)
        self.endpoint.remove(name)
        e.done = True
        error = error or fault_of(e, reward)
        if not error:
            e.reward = float(reward)
            e.world.success = e.reward >= 1
            e.steps[-1].reward = e.reward
        elif not (e.outgrown and e.steps):  # a turn too long is lost as in any world
            e.failure = error[:300]


def fault_of(e: AgentEpisode, reward: Any) -> str:
    """What is wrong with an episode whose agent has ended by itself; "" for nothing."""
    if not e.steps and e.outgrown:
        return "its first request was longer than --context"
    if not e.steps:
        return "it asked the model nothing: does it use the base_url that it is given?"
    if not own.is_number(reward):
        limit = f"a finite number below {own.LARGEST:g}"
        return f"it returned {own.shown(reward)}, and a reward is {limit}"
    return ""


async def _awaited(reward: Any) -> Any:
    return await reward
