"""What a pretrained model is told, so that it thinks: --instruction and --few-shot.

The embedded model is raised on thoughts. Any other has to be asked for them: where a thought
stands, how long it may be, and what it is for. The instruction ends the first system message of
whatever is sampled. It is content like any other text, so no tag in it becomes a control token.

The logs of --few-shot stand before the conversation as turns of the same chat: the user's message,
then the assistant's thought and action in the very tags that the model is to write (agent.py). As
text a model would imitate the text.

Who is told, and who is not (`reads_instruction` in run/stage_ids.py):

    until SFT                Act-PRM, relabelling, sampling, RL and evaluation read the instruction
    from SFT on              neither SFT's logs nor what comes after, evaluation included
    --sft.keep-instruction   all of them

Act-PRM has one prompt from a thought's first token to the update. With the instruction i it draws
z ~ p(z | i, s), rewards z by p(a | i, s, z), and reinforces log p(z | i, s). Log-probs belong to
the prompt that was sampled with: the ratio then begins at 1, and the posterior is that of one
model. SFT has another task. It learns p(z, a | s) from the relabelled logs, which is what the agent
will be when nobody asks it; what had to be asked for becomes habit (prompt distillation,
arXiv:2112.00861). And a model is evaluated by the prompts that it was trained with.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loguru import logger

from minprm.constants import Config, fail
from minprm.data import Demo
from minprm.printable import printable
from minprm.text.chat import Chat
from minprm.text.render import MARK, QUESTION, Renderer

NOTHING = ("", "none")
FILES = (".txt", ".md")  # an --instruction that ends so is the path of a file
GUIDE = (
    "in at most about {words} words: what matters in what you have seen, what is still missing, and"
    " what to do next."
)
IN_TAGS = f"Begin each turn with your reasoning between {{think}} and {{stop}}, {GUIDE}"
# by layout: where a thought stands, and how the action follows
AUTO = {
    "think": f"{IN_TAGS} Then act.",
    "tags": f"{IN_TAGS} Then write your action between {{act}} and {{act_end}}, and nothing else.",
}
# with --act-prm.thoughts-from state_action; it holds also where the action is not shown
EXPLAIN = (
    "Where your turn already shows an action, that action is right: explain what leads to it, and"
    " do not name it."
)


@dataclass(frozen=True)
class Instruction:
    """A text for the model, and where its template lets it stand."""

    text: str  # "": nothing is told
    in_system: bool = True  # False: the template knows no system message
    examples: tuple[Demo, ...] = ()  # logs that are shown as turns, each with its thoughts

    def added_to(self, messages: list[dict]) -> list[dict]:
        """The messages that begin a conversation, with the instruction in the first system message.

        There is one then, if the template knows any; otherwise the text comes before the first
        user message.
        """
        if not self.text:
            return messages
        first, *others = messages
        if first["role"] == "system":
            return [{**first, "content": f"{first['content']}\n\n{self.text}"}, *others]
        if self.in_system:
            return [{"role": "system", "content": self.text}, *messages]
        roles = [message["role"] for message in messages]
        at = roles.index("user") if "user" in roles else 0  # behind a greeting of the assistant's
        first_user = {**messages[at], "content": f"{self.text}\n\n{messages[at]['content']}"}
        return [*messages[:at], first_user, *messages[at + 1 :]]


def instruction_of(cfg: Config, chat: Chat, examples: Sequence[Demo] = ()) -> Instruction:
    """What this configuration tells a model. Exits where its vocabulary lacks a word of it.

    examples: the logs of --few-shot.
    """
    if cfg.model == "tiny":  # its words are those of a world
        return Instruction("")
    text = text_of(cfg.instruction)
    if cfg.instruction == "auto":
        text = _default(cfg, chat)
    in_system = _knows_system(chat)
    instruction = Instruction(text, in_system, tuple(examples))
    thoughts = [step.thought or "" for demo in examples for step in demo.steps]
    longest = max((len(chat.thought(text)) + 1 for text in thoughts), default=0)  # and its end
    if cfg.think and longest > cfg.thought_tokens:
        logger.warning(
            f"--few-shot shows thoughts of up to {longest} tokens, and the model's are cut at "
            f"--thought-tokens {cfg.thought_tokens}: allow longer ones, or show shorter ones"
        )
    chat.content(instruction.text)
    return instruction


def text_of(knob: str) -> str:
    """The text that --instruction names: itself, or that of a file. Exits where there is none."""
    if knob in NOTHING:
        return ""
    if not knob.endswith(FILES):
        return knob
    try:
        text = Path(knob).read_text(encoding="utf-8-sig").strip()
    except OSError as error:
        fail(f"--instruction {knob}: {error.strerror}")
    except UnicodeDecodeError:
        fail(f"--instruction {knob}: not in UTF-8; save the file as UTF-8")
    if not text:
        fail(f"--instruction {knob}: the file is empty; --instruction none tells nothing")
    return text


def _default(cfg: Config, chat: Chat) -> str:
    """The text of `auto`: none for an agent that may not think, or that has no words for it."""
    if not cfg.think:
        return ""
    tags = {name: tag.strip() for name, tag in chat.layout._asdict().items()}
    text = AUTO[chat.layout.name].format(words=max(cfg.thought_tokens // 2, 1), **tags)
    if cfg.act_prm.thoughts_from == "state_action":
        text = f"{text} {EXPLAIN}"
    try:
        chat.tokenizer.encode(text)
    except Exception:  # tokenizers raises nothing narrower
        return ""
    return text


def _knows_system(chat: Chat) -> bool:
    """Does the template write system messages?"""
    messages = [{"role": "system", "content": MARK}, QUESTION]
    try:
        return MARK in Renderer(chat.tokenizer, chat.tools)(messages, [], prompt=False)
    except ValueError:
        return False


def plan(instruction: Instruction, also_from_sft: bool) -> list[str]:
    """Lines for --dry-run: the instruction in full, and who reads it; [] where there is none.

    also_from_sft: SFT and what comes after read it too.
    """
    readers = "whatever is sampled or learned" if also_from_sft else "what is sampled before SFT"
    lines = []
    if instruction.text:
        place = "in the first user message"
        if instruction.in_system:
            place = "at the end of the system message"
        lines += ["", f"--instruction, {place} of {readers}:", printable(instruction.text)]
    if instruction.examples:
        count = len(instruction.examples)
        lines += ["", f"--few-shot: {count} conversations, as turns before {readers}"]
    return lines
