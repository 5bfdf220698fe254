"""What vs_trl.py and vs_verl.py have in common: the model, the prompts, a printed line.

Both sides train copies of one model of random weights on the same ids, update by update in turns.
Seconds are those of the processor, on one thread (cost.py).
"""

import os
import random
from math import log
from statistics import median
from typing import NamedTuple

import torch
import transformers
from transformers import PreTrainedTokenizerBase, Qwen3Config, Qwen3ForCausalLM

from examples.refund import EXAMPLES, conversations
from minprm.data import Sample
from minprm.load.threads import set_threads
from minprm.load.tiny import make_tokenizer

WORDS, PROMPTS, GROUP = 1000, 4, 8
CHECKED, TIMED = 3, 6  # updates
CHECKED_LR = 1e-4
TIMED_LR = 1e-7  # while it is timed a model hardly moves: completions stay as long
INTERVAL = f"CPU seconds, median of {TIMED}, smallest and largest"


class Regime(NamedTuple):
    shortest_prompt: int
    longest_prompt: int
    longest: int  # tokens of a completion, at most
    average: int  # tokens of a completion, about, if none were cut


REGIMES = {
    "prompts of 208-256, completions to 64": Regime(208, 256, 64, 28),
    "prompts of 32, completions to 512": Regime(32, 32, 512, 200),
}


def prepare() -> None:
    """One thread, and no words that are not ours."""
    if os.environ.get("OMP_NUM_THREADS") != "1":
        raise SystemExit("CPU seconds are compared on one thread: set OMP_NUM_THREADS=1")
    set_threads("tiny")
    transformers.utils.logging.set_verbosity_error()


def words() -> transformers.PreTrainedTokenizerBase:
    """A tokenizer in which each of a thousand words is a token."""
    tokenizer = make_tokenizer([f"w{i}" for i in range(WORDS)])
    tokenizer.padding_side = "left"
    return tokenizer


def prompts_of(regime: Regime) -> list[str]:
    """Texts of random words."""
    rng = random.Random(0)
    texts = []
    for _ in range(PROMPTS):
        length = rng.randint(regime.shortest_prompt, regime.longest_prompt)
        texts.append(" ".join(f"w{rng.randrange(WORDS)}" for _ in range(length)))
    return texts


def refund_desk(tokenizer: PreTrainedTokenizerBase, number: int) -> tuple[list[str], list[str]]:
    """(prompts for a pretrained model, the expert's actions): rules, three examples that think, and
    a question. The model is to think next."""
    logs = [log["messages"] for log in conversations(seed=0)[: EXAMPLES + number]]
    examples = logs[0][:1]  # the rules
    for _, question, answer in logs[:EXAMPLES]:
        turn = f"<think>\n{answer['reasoning_content']}\n</think>\n{answer['content']}"
        examples += [question, {"role": "assistant", "content": turn}]
    prompts, actions = [], []
    for _, question, answer in logs[EXAMPLES:]:
        messages = [*examples, question]
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        prompts.append(f"{text}<think>\n")
        actions.append(answer["content"])
    return prompts, actions


def model_of(tokenizer, average: int) -> Qwen3ForCausalLM:
    """4 layers of width 256 whose completions end after `average` tokens."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=256, intermediate_size=768, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=4, head_dim=64, tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, bos_token_id=None,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config)
    model.lm_head = torch.nn.Linear(256, len(tokenizer))
    torch.nn.init.normal_(model.lm_head.weight, std=0.02)
    torch.nn.init.zeros_(model.lm_head.bias)
    with torch.no_grad():
        model.lm_head.bias[tokenizer.eos_token_id] = log(len(tokenizer) / average)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    return model


def grouped(prompts: list[list[int]], groups: list) -> list[Sample]:
    """Samples of drawn completions. GRPO's advantages, of a reward that depends on all ids."""
    samples = []
    for prompt, group in zip(prompts, groups, strict=True):
        root = Sample().extend(prompt)
        rewards = torch.tensor([reward(drawn.ids) for drawn in group])
        advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
        for drawn, advantage in zip(group, advantages.tolist(), strict=True):
            samples.append(Sample(parent=root).extend(drawn.ids, advantage, drawn.logprobs))
    return samples


def reward(ids: list[int]) -> float:
    return float(sum(ids) % 7)


def require_same(ours: list[float], theirs: list[float], what: str) -> None:
    """Ends the program unless all gradient norms agree to 1e-3."""
    for i, (norm, peer) in enumerate(zip(ours, theirs, strict=True)):
        if abs(norm / peer - 1) > 1e-3:
            raise SystemExit(f"{what}, update {i}: gradient norm {norm}, the peer's {peer}")
    print(f"  {what}: the same gradient norms over {len(ours)} updates", flush=True)


def update_rows(
    peer: str, theirs: list[float], ours: list[float], read: dict[str, float]
) -> dict[str, dict]:
    """The two rows of an update: seconds, and the tokens that each side read in one."""
    rows = {
        f"update, {peer}": row(f"update, {peer}", theirs),
        "update, minprm": row("update, minprm", ours, theirs),
    }
    for side, tokens in read.items():
        rows[f"update, {side}"]["read"] = tokens
        print(f"  {side} read {tokens:,.0f} tokens an update")
    return rows


def row(name: str, seconds: list[float], peer: list[float] | None = None) -> dict[str, float]:
    """Prints one line, and returns its numbers. The ratio: a peer's seconds, in ours."""
    found = {"median": median(seconds), "low": min(seconds), "high": max(seconds)}
    line = f"  {name:<28}{found['median']:>7.2f} s [{found['low']:.2f}, {found['high']:.2f}]"
    if peer:
        found["ratio"] = median(peer) / median(seconds)
        line += f"   {found['ratio']:.2f}x"
    print(line, flush=True)
    return found
