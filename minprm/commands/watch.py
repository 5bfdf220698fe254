"""minprm evaluate CHECKPOINT --watch: one task after another on the terminal, thinking aloud.

Before each turn it waits for a line. The model writes the turn; or a person does; or a person
writes the thought alone, and the model acts on it. Whoever wrote a turn, it is kept and answered by
the functions of play.py, and the model goes on from it.
"""

import io
import sys
from collections.abc import Callable
from dataclasses import replace

from minprm.constants import Config, refusal
from minprm.data import Sample
from minprm.envs import make_world
from minprm.envs.__main__ import typed_action
from minprm.envs.base import parameters_of, task_seed
from minprm.model.agent import Agent
from minprm.model.sampler import Completion
from minprm.play import Episode, act, ask, begin, forced_opening, keep, turn_limit
from minprm.printable import printable
from minprm.run.randomness import noise_seed

HELP = """
Enter  the model writes the next turn
t      you act: type the action of this turn
z      you think: type the thought, and the model acts on it
?      in place of an action or a thought: the expert's
q      quit

p is how likely the model is to act as the expert does. After a thought, it is the thought's reward
in Act-PRM."""
Turn = tuple[list[int], Completion]  # ids that a turn is given to begin with, and what follows them


def watch(agent: Agent, cfg: Config, seed: int) -> None:
    """Plays the tasks of an evaluation one by one, until a person quits or the input ends."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # what is no UTF-8 ends nothing
    agent = replace(agent, temperature=cfg.eval_temperature)
    print(HELP)
    try:
        for i in range(cfg.episodes):
            print(f"\n--- task {i + 1} of {cfg.episodes} ---\n")
            noise = noise_seed(seed, "evaluate", 0) + i  # the luck of `evaluate`, without samples
            e = begin(make_world(cfg), task_seed(cfg.split, i), noise)
            play_task(e, agent, noise_seed(seed, "watch", i))
    except EOFError:
        print()


def play_task(e: Episode, agent: Agent, noise: int) -> None:
    """Plays the episode to its end."""
    agent.sampler.begin()
    show_messages(agent.instruction.added_to(e.state))
    while not e.done:
        ask(e, agent, turn_limit(agent), {})
        if e.done:
            break
        turn = None
        while turn is None:
            turn = next_turn(e, agent, noise + len(e.steps))
        play_turn(e, agent, turn)
    if e.outgrown:
        print(f"it outgrew --context {agent.context}")
    reward = sum(step.reward for step in e.steps)
    print(f"\n{'won' if e.world.success else 'lost'}, reward {reward:.2f}")


def next_turn(e: Episode, agent: Agent, noise: int) -> Turn | None:
    """The next turn. None: the person typed what cannot stand there. Raises EOFError at the end."""
    chat = agent.chat
    order = line("[Enter t z q] ")
    if order == "q":
        raise EOFError
    if order == "":
        return completed(e, agent, forced_opening(agent), turn_limit(agent), noise)
    if order == "t":
        for name, parameters in parameters_of(e.world.tools).items():
            show("", f"{name} {', '.join(parameters)}")
        ids_of = lambda text: chat.turn(None, chat.action(typed_action(e.world, text)))  # noqa: E731
        ids = typed(e, "action", e.world.expert, ids_of)
        return ([], Completion(ids, [])) if ids else None
    if order == "z":
        ids_of = lambda text: chat.opening(chat.thought(text))  # noqa: E731
        opening = typed(e, "thought", e.world.thought, ids_of)
        limit = turn_limit(replace(agent, think=False))  # of an action
        return completed(e, agent, opening, limit, noise) if opening else None
    print(f"{printable(order)}: no such key{HELP}")
    return None


def completed(e: Episode, agent: Agent, opening: list[int], limit: int, noise: int) -> Turn:
    """A turn that begins so, and is written by the model."""
    prompt = e.samples[-1].whole() + opening
    ends = agent.chat.ends
    ((completion,),) = agent.sampler.generate([prompt], 1, limit, ends, agent.temperature, noise)
    return opening, completion


def typed(
    e: Episode, kind: str, experts: Callable[[], str | None], ids_of: Callable[[str], list[int]]
) -> list[int]:
    """Ids of what a person types; for `?` the expert's. [], after a sentence: it has none."""
    text = line(f"{kind}> ")
    if text == "?":
        text = experts() or ""
    if not text:
        print(f"no {kind}: none was typed, or the expert tells none")
        return []
    sentence = refusal(ids_of, text)  # a word that the vocabulary lacks, say
    if sentence:
        print(printable(sentence))
        show("", " ".join(e.world.words))  # all that the embedded model knows
        return []
    return ids_of(text)


def play_turn(e: Episode, agent: Agent, turn: Turn) -> None:
    """Keeps the turn, shows it beside the expert's, and lets the world answer it."""
    state = e.samples[-1].whole()
    opening, completion = turn
    thought, action, tokens, unreadable = keep(e, completion, agent.chat, opening)
    expert = e.world.expert()
    show("thought", thought or "")
    show("action", action or "")
    show("unread", unreadable)
    show("expert", "the same" if action == expert else expert)
    thought_ids, _ = agent.chat.split(e.turns[-1].full)
    show("", likelihood(agent, state, thought_ids, expert))
    act(e, thought, action, tokens, unreadable)
    show_messages(e.state)


def likelihood(agent: Agent, state: list[int], thought: list[int] | None, action: str) -> str:
    """p(action | state, thought), and p(action | state) of a turn without a thought, in words.

    Empty where the chat template cannot write the action.
    """
    chat = agent.chat
    if refusal(chat.action, action):
        return ""
    openings = [chat.opening(None)]
    if thought is not None:
        openings.append(chat.opening(thought))
    samples = []
    for opening in openings:
        samples.append(Sample().extend(state + opening).extend(chat.action(action), 0.0))
    chances = [logp.sum().exp().item() for logp in agent.policy.logprobs(samples)]
    if thought is None:
        return f"p {chances[0]:.3f}"
    return f"p {chances[1]:.3f} after this thought, {chances[0]:.3f} without one"


# --- the terminal ---


def line(prompt: str) -> str:
    """A line from the person. Raises EOFError where the input ends."""
    text = input(prompt)
    if not sys.stdin.isatty():
        print(printable(text))  # where a person would have typed it
    return text.strip()


def show_messages(messages: list[dict]) -> None:
    """What the model is told: the rules, what it sees, and what its tools answer."""
    for message in messages:
        name = "rules" if message["role"] == "system" else "world"
        show(name, str(message.get("content") or ""))


def show(name: str, text: str) -> None:
    """A text with its name in front; nothing where the text is empty."""
    if text.strip():
        lines = printable(text.strip("\n")).replace("\n", f"\n{'':10}")
        print(f"{name:<10}{lines}")
