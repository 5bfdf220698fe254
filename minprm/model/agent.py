"""One model in its three roles: it writes, it is read, it learns."""

from dataclasses import dataclass

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from minprm.constants import Config, History
from minprm.model.load import make_sampler
from minprm.model.policy import Policy
from minprm.model.sampler import Sampler
from minprm.text.chat import Chat
from minprm.text.instruction import Instruction, instruction_of

SHOWS_ACTION = ("action_first", "both")  # of --act-prm.trained-on: an action before its thought


@dataclass
class Agent:
    """The model in its three roles, and how it is asked. Whoever plays, scores or trains gets it
    whole."""

    policy: Policy | None  # learns, and tells the log-prob of any tokens; None: it only acts
    sampler: Sampler | None  # writes with the policy's weights; or a VLLM, of the same methods
    chat: Chat  # turns text into tokens and back
    instruction: Instruction  # what it is told, so that it thinks
    history: History  # which earlier turns it sees
    think: bool  # may a turn of its own begin with a thought
    thought_tokens: int  # longest thought
    action_tokens: int  # longest action, its tags included
    context: int  # longest prompt with its answer
    temperature: float  # at which it writes, and at which what it wrote is scored
    version: int = 0  # of the weights that the sampler writes with
    reads_instruction: bool = True  # as the stage wants it (ladder.py)

    def state_ids(
        self, messages: list[dict], tools: list[dict], after: str | None
    ) -> tuple[list[int], list[int]]:
        """`Chat.state_ids` of what it reads: the instruction too, where a conversation begins."""
        if after is None and self.reads_instruction:
            messages = self.instruction.told(messages)
        return self.chat.state_ids(messages, tools, after)

    def sync(self) -> None:
        """Tells the sampler of the new weights: what it writes next comes from them."""
        self.sampler.sync()
        self.version = self.policy.version


def make_agent(
    model: PreTrainedModel | None,
    tokenizer: PreTrainedTokenizerBase,
    cfg: Config,
    tools: list[dict],
    policy: Policy | None = None,
    own_weights: bool = False,
) -> Agent:
    """The agent of this model, asked as `cfg` says; without a policy it only acts, and without a
    model it only turns text into tokens.

    tools: schemas of all tools that its actions may call. own_weights: its sampler keeps a copy of
    the weights, as old as the last sync, so that it can write while the policy learns.
    """
    chat = Chat(tokenizer, cfg.layout, tools)
    if cfg.act_prm.thoughts_from == "state_action" or cfg.act_prm.trained_on in SHOWS_ACTION:
        chat.before_thought([])  # a layout that cannot is refused now, not in the middle of a run
    sampler = None
    if model is not None:
        sampler = make_sampler(model, cfg.sampler, cfg.engine, cfg.context, own_weights)
    return Agent(
        policy=policy,
        sampler=sampler,
        chat=chat,
        instruction=instruction_of(cfg, chat),
        history=cfg.history,
        think=cfg.think,
        thought_tokens=cfg.thought_tokens,
        action_tokens=cfg.action_tokens,
        context=cfg.context,
        temperature=cfg.temperature,
    )
