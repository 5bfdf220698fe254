"""One model in its three roles: it writes, it is read, it learns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from minprm.constants import Config, History, fail, refusal
from minprm.data import Demo
from minprm.model.policy import Policy
from minprm.model.sampler import Completion
from minprm.text.actions import all_tools, parts
from minprm.text.chat import Chat
from minprm.text.instruction import Instruction, instruction_of

SHOWS_ACTION = ("action_first", "both")  # of --act-prm.trained-on: an action before its thought


class Writer(Protocol):
    """Whoever writes: `Sampler`, or an engine."""

    model: PreTrainedModel  # whose weights it writes with

    def begin(self) -> None:
        """Starts a new walk over logs or worlds: nothing depends on what was read before it."""

    def generate(
        self,
        prompts: list[list[int]],
        n: int,
        max_tokens: int,
        stop: list[int],
        temperature: float,
        seed: int | list[int],
    ) -> list[list[Completion]]:
        """n completions for each prompt. seed: of all noise, or one for each prompt."""
        ...

    def sleep(self) -> None:
        """Frees the memory of what was read, for the update that follows."""

    def sync(self) -> None:
        """Takes the learner's weights."""


@dataclass(kw_only=True)
class Prompter:
    """How a model is asked. It turns text into tokens, and has no weights."""

    chat: Chat  # turns text into tokens and back
    instruction: Instruction  # what the model is told, so that it thinks
    history: History  # which earlier turns it sees
    think: bool  # may a turn of its own begin with a thought
    thought_tokens: int  # longest thought
    action_tokens: int  # longest action, its tags included
    context: int  # longest prompt with its answer
    temperature: float  # at which it writes, and at which what it wrote is scored
    reads_instruction: bool = True  # as the stage wants it (run/stage_ids.py)

    def state_ids(
        self, messages: list[dict], tools: list[dict], after: str | None
    ) -> tuple[list[int], list[int]]:
        """`Chat.state_ids` of what it reads: the first messages stand behind the examples, and hold
        the instruction."""
        if after is not None or not self.reads_instruction:
            return self.chat.state_ids(messages, tools, after)
        if not self.instruction.examples:
            return self.chat.state_ids(self.instruction.added_to(messages), tools, None)
        rules = [message for message in messages if message["role"] == "system"]
        question = [message for message in messages if message["role"] != "system"]
        before = self.examples(rules, tools)
        last_step = self.instruction.examples[-1].steps[-1]
        state, hidden = self.chat.state_ids(question, tools, last_step.action)
        return [*before, *state], [*before, *hidden]

    def examples(self, rules: list[dict], tools: list[dict]) -> list[int]:
        """Ids of the instruction and of the examples, before a conversation with these system
        messages and schemas, which come first. Exits where the template cannot write it.

        If the agent may not think, nor do the examples.
        """
        chat = self.chat
        ids: list[int] = []
        after = None
        for demo in self.instruction.examples:
            for step in demo.steps:
                messages = [message for message in step.state if message["role"] != "system"]
                if after is None:
                    messages = self.instruction.added_to([*rules, *messages])
                ids += chat.state(messages, tools, after)
                opening = self.opening(step.thought if self.think else None, step.action)
                ids += chat.closed(opening, chat.action(step.action))
                after = step.action
        return ids

    def opening(self, thought: str | None, action: str | None = None) -> list[int]:
        """Ids before the action of a turn with this thought, or without one. Then, if the agent may
        not think, and its template has thoughts and no other opening of an action, they are an
        empty thought. action: its text, where it is known."""
        chat = self.chat
        if thought is not None:
            return chat.opening(chat.thought(thought))
        if self.think:
            return chat.opening(None, action)
        return chat.skip or chat.act_without_thought


@dataclass(kw_only=True)
class Player(Prompter):
    """A model that writes, and how it is asked. Whoever only plays needs no more."""

    sampler: Writer
    version: int = 0  # of the weights that the sampler writes with


@dataclass(kw_only=True)
class Agent(Player):
    """The model in its three roles, and how it is asked. Whoever scores or trains gets it whole."""

    policy: Policy  # learns, and tells the log-prob of any tokens; the sampler has its weights

    def sync(self) -> None:
        """Tells the sampler of the new weights: what it writes next comes from them."""
        self.sampler.sync()
        self.version = self.policy.version


def make_prompter(
    tokenizer: PreTrainedTokenizerBase,
    cfg: Config,
    tools: list[dict],
    examples: Sequence[Demo] = (),
) -> Prompter:
    """Asks a model with this tokenizer as `cfg` says.

    tools: schemas of all tools that actions may call. examples: the logs of --few-shot.
    """
    chat = Chat(tokenizer, cfg.layout, tools)
    if cfg.act_prm.thoughts_from == "state_action" or cfg.act_prm.trained_on in SHOWS_ACTION:
        chat.before_thought([])  # a layout that cannot is refused now, not in the middle of a run
    prompter = Prompter(
        chat=chat,
        instruction=instruction_of(cfg, chat, examples),
        history=cfg.history,
        think=cfg.think,
        thought_tokens=cfg.thought_tokens,
        action_tokens=cfg.action_tokens,
        context=cfg.context,
        temperature=cfg.temperature,
    )
    calling = [demo for demo in examples if any(parts(step.action)[1] for step in demo.steps)]
    if all_tools(calling) and not tools and not cfg.agent:  # an agent's requests may bring some
        fail(
            "--few-shot: its examples call tools, and the logs or the world that they are shown for"
            " have none; show examples without calls"
        )
    reason = refusal(prompter.examples, [], all_tools([*examples]))
    if reason:
        fail(f"--few-shot: the model's chat template cannot show these logs as turns: {reason}")
    return prompter


def make_player(
    tokenizer: PreTrainedTokenizerBase,
    sampler: Writer,
    cfg: Config,
    tools: list[dict],
    examples: Sequence[Demo] = (),
) -> Player:
    """This sampler's model, asked as `cfg` says; it writes and does not learn."""
    return Player(**vars(make_prompter(tokenizer, cfg, tools, examples)), sampler=sampler)


def make_agent(
    policy: Policy,
    sampler: Writer,
    cfg: Config,
    tools: list[dict],
    examples: Sequence[Demo] = (),
) -> Agent:
    """The agent of this policy's model, asked as `cfg` says. The sampler writes by its weights."""
    prompter = make_prompter(policy.tokenizer, cfg, tools, examples)
    return Agent(**vars(prompter), sampler=sampler, policy=policy)
