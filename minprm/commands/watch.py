"""minprm evaluate CHECKPOINT --watch: one task after another on the terminal, thinking aloud.

Before each turn it waits for a line. The model writes the turn; or a person does; or a person
writes the thought alone, and the model acts on it. Whoever wrote a turn, it is kept and answered by
the functions of play.py, and the model goes on from it.

Below an action stands how likely it was, with the thought and without one. For the expert's action
the first of the two is the reward that Act-PRM gives to the thought.
"""

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from minprm.constants import Config, refusal
from minprm.data import Sample
from minprm.envs import make_world
from minprm.envs.__main__ import typed_action
from minprm.envs.base import World, parameters_of, task_seed
from minprm.model.agent import Agent
from minprm.model.sampler import Completion
from minprm.play import Episode, act, ask, begin, forced_opening, keep, turn_limit
from minprm.printable import GREEN, GREY, PLAIN, YELLOW, in_colours, printable
from minprm.run.randomness import noise_seed

HELP = """
Enter  the model writes the next turn     t  you act: type the action of this turn
a      all turns of this task             z  you think: type the thought, and the model acts on it
s      skip this task                     h  this help
q      quit                               ?  in place of an action or a thought: the expert's

p is how likely the model was to act so. After a thought, p of the expert's action is the thought's
reward in Act-PRM."""
ORDERS = ("", "a", "t", "z")  # that lead to a turn
NAMED = 20  # actions that are listed


class Enough(Exception):
    """The person has quit, or the input has ended."""


class Skipped(Exception):
    """The person has seen enough of this task."""


def watch(agent: Agent, cfg: Config, seed: int) -> None:
    """Plays the tasks of an evaluation one by one, until a person has seen enough."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # what is no UTF-8 ends nothing
    audience = Audience(replace(agent, temperature=cfg.eval_temperature), cfg, seed)
    print(HELP)
    try:
        for i in range(cfg.episodes):
            audience.task(i)
    except Enough:
        pass
    finally:  # after Ctrl-C too
        print(f"\n{audience.score()}")


@dataclass
class Audience:
    """One agent before a person, and how the tasks have ended that were played."""

    agent: Agent
    cfg: Config
    seed: int
    rules: dict | None = None  # the first message that was shown last
    played: int = 0
    won: int = 0

    def task(self, i: int) -> None:
        """Plays the i-th task. It is not counted where the person skips it."""
        noise = noise_seed(self.seed, "evaluate", 0) + i  # the luck of `evaluate`, without samples
        e = begin(make_world(self.cfg), task_seed(self.cfg.split, i), noise)
        self.agent.sampler.begin()
        print(f"\n--- task {i + 1} of {self.cfg.episodes} ---\n")
        messages = self.agent.instruction.added_to(e.state)
        show_messages([message for message in messages if message != self.rules])
        self.rules = messages[0]  # a world may have other ones for each task
        try:
            self.turns(e, noise_seed(self.seed, "watch", i))
        except Skipped:
            print("skipped")
            return
        self.played += 1
        self.won += e.world.success
        print(f"\n{ending(e, self.cfg)}\n{self.score()}")

    def turns(self, e: Episode, noise: int) -> None:
        """Plays the episode to its end."""
        waits = True
        while not e.done:
            ask(e, self.agent, turn_limit(self.agent), {})
            if e.done:
                break
            order, turn = "", None
            while turn is None:
                order = self.order() if waits else ""
                turn = self.write(e, order, noise + len(e.steps))
            waits = waits and order != "a"
            self.play_turn(e, *turn)

    def order(self) -> str:
        """What the person wants next, one of ORDERS. Raises Skipped or Enough."""
        while True:
            order = line("[Enter a t z s q h] ")
            if order in ORDERS:
                return order
            if order == "s":
                raise Skipped
            if order == "q":
                raise Enough
            if order != "h":
                print(f"{printable(order)}: no such key; h tells which there are")
            else:
                print(HELP)

    # --- one turn ---

    def write(self, e: Episode, order: str, noise: int) -> tuple[list[int], Completion] | None:
        """A turn: the ids that it is given to begin with, and what was written after them.

        None: the person typed nothing that can stand there.
        """
        if order == "t":
            show_actions(e.world)
            text = typed("action", e.world.expert)
            ids = self.readable(e, text, partial(self.acting, e.world), room=0)
            return None if ids is None else ([], Completion(ids, []))
        if order == "z":
            text = typed("thought", e.world.thought)
            room = turn_limit(replace(self.agent, think=False))  # for an action
            opening = self.readable(e, text, self.thinking, room)
            return None if opening is None else (opening, self.complete(e, opening, room, noise))
        opening = forced_opening(self.agent)
        return opening, self.complete(e, opening, turn_limit(self.agent), noise)

    def complete(self, e: Episode, opening: list[int], limit: int, noise: int) -> Completion:
        """What the model writes after this opening of its turn."""
        agent = self.agent
        prompt = e.samples[-1].whole() + opening
        ((completion,),) = agent.sampler.generate(
            [prompt], 1, limit, agent.chat.ends, agent.temperature, noise
        )
        return completion

    def acting(self, world: World, text: str) -> list[int]:
        """Ids of a turn that is this action alone. Exits where the model cannot read it."""
        return self.agent.chat.turn(None, self.agent.chat.action(typed_action(world, text)))

    def thinking(self, text: str) -> list[int]:
        """Ids of a turn with this thought, up to its action. Exits as `acting` does."""
        return self.agent.chat.opening(self.agent.chat.thought(text))

    def readable(
        self, e: Episode, text: str, ids_of: Callable[[str], list[int]], room: int
    ) -> list[int] | None:
        """Ids of what a person typed. None, after a sentence, where the model cannot read it.

        room: tokens that have to fit behind it.
        """
        if not text:
            return None
        sentence = refusal(ids_of, text)  # a word that the vocabulary lacks, say
        ids = [] if sentence else ids_of(text)
        if len(e.samples[-1].whole()) + len(ids) + room > self.agent.context:
            sentence = f"--context {self.agent.context} does not hold so long a turn"
        if not sentence:
            return ids
        print(printable(sentence))
        show("", GREY, " ".join(e.world.words))  # all that the embedded model knows
        return None

    def play_turn(self, e: Episode, opening: list[int], completion: Completion) -> None:
        """Keeps the turn, shows it beside the expert's, and lets the world answer it."""
        state = e.samples[-1].whole()
        thought, action, tokens, unreadable = keep(e, completion, self.agent.chat, opening)
        expert = e.world.expert()
        turn_ids = e.turns[-1].full
        if thought is not None:
            show("thought", GREEN, thought)
        if action is None:
            show("unread", YELLOW, unreadable)
        else:
            show("action", YELLOW, action)
        thought_ids, _ = self.agent.chat.split(turn_ids)
        if action is not None and action != expert:
            show("", GREY, self.likelihood(state, thought_ids, action))
        show("expert", PLAIN, "the same" if action == expert else expert)
        show("", GREY, self.likelihood(state, thought_ids, expert))
        act(e, thought, action, tokens, unreadable)
        show_messages(e.state)

    def likelihood(self, state: list[int], thought: list[int] | None, action: str) -> str:
        """p(action | state, thought), and p(action | state) of a turn without a thought, in words.

        Empty where the action is, or where the chat template cannot write it.
        """
        chat = self.agent.chat
        ids = [] if refusal(chat.action, action) else chat.action(action)
        if not ids:
            return ""
        openings = [chat.opening(None)]
        if thought is not None:
            openings.append(chat.opening(thought))
        samples = [Sample().extend(state + opening).extend(ids, 0.0) for opening in openings]
        bare, *after = [logp.sum().exp().item() for logp in self.agent.policy.logprobs(samples)]
        if not after:
            return f"p {bare:.3f}"
        return f"p {after[0]:.3f} after this thought, {bare:.3f} without one"

    def score(self) -> str:
        """How the tasks that were played have ended."""
        if not self.played:
            return "no task was played to its end"
        return f"won {self.won} of {self.played}"


def ending(e: Episode, cfg: Config) -> str:
    """How the episode ended."""
    reward = f"reward {sum(step.reward for step in e.steps):.2f}"
    if e.outgrown:
        return painted(YELLOW, f"lost: it outgrew --context {cfg.context}; {reward}")
    if e.world.success:
        return painted(GREEN, f"won, {reward}")
    return painted(YELLOW, f"lost, {reward}")


# --- the terminal ---


def line(prompt: str) -> str:
    """A line from the person. Raises Enough where the input ends."""
    try:
        text = input(prompt)
    except EOFError:
        raise Enough from None
    if not sys.stdin.isatty():
        print(printable(text))  # where a person would have typed it
    return text.strip()


def typed(kind: str, experts: Callable[[], str | None]) -> str:
    """The action or the thought that a person types; for `?` the expert's."""
    text = line(f"{kind}> ")
    if text != "?":
        return text
    text = experts() or ""
    if not text:
        print(f"the expert tells no {kind} in this world")
    return text


def show_messages(messages: list[dict]) -> None:
    """What the model is told: the rules, what it sees, and what its tools answer."""
    for message in messages:
        name = "rules" if message["role"] == "system" else "world"
        show(name, GREY, str(message.get("content") or ""))


def show_actions(world: World) -> None:
    """What a person can do: tools with their arguments, and some of random play's actions."""
    for name, parameters in parameters_of(world.tools).items():
        show("", GREY, f"{name} {', '.join(parameters)}")
    actions = list(dict.fromkeys(world.actions()))
    for action in actions[:NAMED]:
        show("", GREY, action)
    if len(actions) > NAMED:
        show("", GREY, f"... and {len(actions) - NAMED:,} more")


def show(name: str, colour: str, text: str) -> None:
    """A text with its name in front; nothing where the text is empty."""
    if text.strip():
        lines = printable(text.strip("\n")).replace("\n", f"\n{'':10}")
        print(f"{name:<10}{painted(colour, lines)}")


def painted(colour: str, text: str) -> str:
    """The text in this colour, where colours are shown."""
    return colour + text + PLAIN if in_colours(sys.stdout) else text
