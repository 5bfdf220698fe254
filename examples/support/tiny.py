"""A tiny chat model for the support desk, which stands in for a pretrained one on a CPU.

`raised(folder)` writes it to disk as a hub's model would be: weights, tokenizer, template. It has
two layers, and it has read new conversations of the same shop. In these a narrator thinks before
each turn: the thought names something that the agent may do, and the turn does it. Three thoughts
in four are drawn blindly. So the model learns to do what its thought says, and not which thought is
of use.

All this was made for the lesson. A pretrained model has read better thoughts than these.
"""

import random
import re
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from examples.support import make
from minprm.constants import Optim, Training
from minprm.data import Demo, Sample, Step, chain
from minprm.logs.reader import from_chat
from minprm.model.policy import Policy, schedule
from minprm.text.actions import parts
from minprm.text.chat import Chat

FIRST = 1000  # the number of the first conversation that it reads: the sixty logs come before it
RIGHT = 0.25  # of the narrator's thoughts name what the agent did; the others are drawn blindly
SILENT = 0.1  # of the turns have no thought, and do anything
# What a turn of the agent begins with, and the thought that names it.
THOUGHTS = {
    "find_order": "I look the order up.",
    "track_parcel": "I track the parcel.",
    "refund": "I pay the money back.",
    "replace": "I send a new one.",
    "escalate": "A colleague decides.",
    "Gladly.": "I ask for the number.",
    "It came": "It is too late.",
    "It has been": "The parcel is on its way.",
    "Yes,": "We are open then.",
    "No,": "We are closed then.",
    "": "It is done, and I say so.",
}
NUMBERS = [r"\b[A-E]-\d{3}\b", r"\bP\d{5}\b"]  # of an order, of a parcel
END = "<|im_end|>"  # of a message
CONTROLS = ["<|im_start|>", END, "<think>", "</think>", "<tool_call>", "</tool_call>"]
TEMPLATE = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.reasoning_content %}
{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}
{%- endif %}
{{- message.content or '' }}
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>\\n{"name": ' + call.function.name | tojson + ', "arguments": ' }}
{{- call.function.arguments | tojson + '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
"""


def raised(folder: str | Path, updates: int = 400, batch: int = 8) -> None:
    """Writes the model, the same one every time."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    words = tokenizer()
    policy = Policy(untrained(words), words, micro_tokens=16384)
    chat = Chat(words, tools=make.TOOLS)
    rng = random.Random("narrator")
    logs = [from_chat(make.log(FIRST + i)) for i in range(1000)]
    turns: dict[str, list[Step]] = {}
    for log in logs:
        for step in log.steps:
            turns.setdefault(thought_of(step), []).append(step)
    optim = Optim(warmup=20, decay="linear")
    rate = schedule(4e-3, updates, optim)
    for update in range(updates):
        samples = []
        for log in rng.sample(logs, batch):
            samples += narrated(log, turns, chat, rng)
        policy.update(samples, Training(), rate(update), optim=optim)
    policy.model.save_pretrained(folder)
    words.save_pretrained(folder)


def narrated(
    log: Demo, turns: dict[str, list[Step]], chat: Chat, rng: random.Random
) -> list[Sample]:
    """For each turn of the agent what the narrator thinks there, and a turn that does it."""
    read = ""
    segments: list[list[int]] = []
    samples = []
    known: dict = {}
    for i, step in enumerate(log.steps):
        read += step.observation()
        segments.append(chat.state(step.state, log.tools, log.action_before(i)))
        thought = thought_of(step) if rng.random() < RIGHT else rng.choice(list(turns))
        done = step if thought == thought_of(step) else rng.choice(turns[thought])
        said = None if rng.random() < SILENT else chat.thought(thought)
        turn = chat.turn(said, chat.action(with_numbers(done.action, read)))
        samples.append(Sample(parent=chain(segments, known)).extend(turn, 1.0))
        segments.append(chat.turn(chat.thought(thought_of(step)), chat.action(step.action)))
    return samples


def with_numbers(action: str, read: str) -> str:
    """The action with the numbers of the order and the parcel that this conversation has named.

    >>> with_numbers("escalate A-111", "Where is order C-155?")
    'escalate C-155'
    """
    for kind in NUMBERS:
        for number in re.findall(kind, read)[:1]:
            action = re.sub(kind, number, action)
    return action


def untrained(words: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    return Qwen3ForCausalLM(Qwen3Config(
        vocab_size=len(words), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, head_dim=32, initializer_range=0.08,
        rope_parameters={"rope_type": "default", "rope_theta": 1000.0}, tie_word_embeddings=True,
        max_position_embeddings=4096, bos_token_id=None,
        eos_token_id=words.convert_tokens_to_ids(END),
    ))  # fmt: skip


def tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE, learned from the sixty logs; each digit is a token."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    ])  # fmt: skip
    bpe.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=letters, show_progress=False)
    texts = [make.FILE.read_text(encoding="utf-8"), *THOUGHTS.values()]
    bpe.train_from_iterator(texts, trainer)
    words = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=END)
    words.add_tokens(CONTROLS, special_tokens=True)
    words.chat_template = TEMPLATE
    return words


def thought_of(step: Step) -> str:
    """The thought that names what is done in this step."""
    reply, calls = parts(step.action)
    begins = calls[0]["name"] if calls else reply
    return next(thought for start, thought in THOUGHTS.items() if begins.startswith(start))
