"""Act-PRM on a pretrained model in one file: act_prm.py for SmolLM2-135M-Instruct.

    python examples/smollm2.py          # the model as a folder, once; needs gguf
    python examples/refund.py refund    # logs of actions; three examples with a thought; a test
    python examples/pretrained.py refund [--seed N] [--rivals]

The steps are those of act_prm.py, and so are the names: lay the two side by side. Here nobody has
to raise the base model. It can do sums, but does not think unless it is asked. Until it is
fine-tuned, three examples in the prompt show it how, and nobody wrote more thoughts than these.
They are long, so `read` computes once what all prompts begin with, and the turns of a prompt stand
side by side behind it.

Three things are not as in act_prm.py. UPDATE trains the thought alone: before this model has a
right thought, the expert's action is a surprise of seven nats, and its gradient would drown the
thought's. A group in which no thought predicts the action teaches next to nothing (FLOOR): in
shares of a sum near 0, chance would decide. And logs whose best thought earns less than .5 are
left out: it is probably wrong.

With seed 0 it prints .080 for the base with its examples, .013 after SFT on the actions and .393
after Act-PRM. One core is busy for an hour.
"""

import argparse
import copy
import json
import random
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    AutoModelForCausalLM,
    AutoTokenizer,
    DynamicCache,
)
from transformers.masking_utils import sdpa_mask

MODEL = Path(__file__).parents[1] / "checkpoints/SmolLM2-135M-Instruct"
FLOOR = 0.02  # of a group's mean reward: below it, its thoughts are counted for less
Tokens = list[int]


# ------------------------------------------------------------ Logs, text and tokens
# A task is the messages of one log: the shop's rules, what the customer says, and last the expert's
# turn. A turn that thinks has a line break behind `<think>`, behind the thought and behind
# `</think>`: then the tokens of the pieces are those of the whole text, however the action begins.
def read_logs(file: Path) -> list[list[dict]]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["messages"] for line in lines]


def encode(text: str) -> Tokens:
    return tokenizer(text, add_special_tokens=False).input_ids


def prompt(task, examples=()) -> Tokens:
    """The conversation up to the expert's turn. Examples are earlier turns of it."""
    messages = task[:1]
    for example in examples:
        thought, action = example[-1]["reasoning_content"], example[-1]["content"]
        turn = f"<think>\n{thought}\n</think>\n{action}"
        messages = [*messages, *example[1:-1], {"role": "assistant", "content": turn}]
    messages = messages + task[1:-1]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return encode(text)


def action_turn(task) -> Tokens:
    return [*encode(task[-1]["content"]), END]


# ------------------------------------------------ The model: it writes and reads tokens
def attention(module, query, key, value, attention_mask, scaling=None, **_):
    """Three of the model's queries share a key. transformers' own function gives each of them a
    copy of all keys, for every token that is written: on a CPU most of the time goes there."""
    first = attention_mask is None and query.shape[2] > 1  # nothing is in the cache yet
    output = F.scaled_dot_product_attention(
        query, key, value, attention_mask, is_causal=first, scale=scaling, enable_gqa=True
    )
    return output.transpose(1, 2).contiguous(), None


AttentionInterface.register("grouped", attention)
AttentionMaskInterface.register("grouped", sdpa_mask)


def read(model, prompts) -> tuple[DynamicCache, torch.Tensor]:
    """Keys and values of all tokens of each prompt but the last, and a mask [prompts, L], 0 at the
    padding. What all prompts begin with is computed once."""
    shared = 0
    shortest = min(map(len, prompts))
    while shared < shortest - 2 and len({tokens[shared] for tokens in prompts}) == 1:
        shared += 1
    cache = DynamicCache(config=model.config)
    model(torch.tensor([prompts[0][:shared]]), past_key_values=cache, logits_to_keep=1)
    cache.batch_repeat_interleave(len(prompts))
    own = [torch.tensor(tokens[shared:-1]) for tokens in prompts]
    ids = pad_sequence(own, batch_first=True, padding_value=-1, padding_side="left")
    mask = F.pad((ids >= 0).long(), (shared, 0), value=1)
    places = (mask.cumsum(1) - 1)[:, shared:]  # padding does not count
    ids = ids.clamp(min=0)
    model(ids, past_key_values=cache, attention_mask=mask, position_ids=places, logits_to_keep=1)
    return cache, mask


def beside(model, cache, mask, ids, own, places) -> torch.Tensor:
    """Logits [prompts, N, words] of N more tokens of each prompt's turns, which share one row.
    own [N, M]: may each of them read each of the M tokens of the turns? All read the prompt."""
    rows, new = ids.shape
    before = mask.bool()[:, None].expand(rows, new, -1)
    sees = torch.cat([before, own.expand(rows, -1, -1)], dim=2)[:, None]
    return model(ids, past_key_values=cache, attention_mask=sees, position_ids=places).logits


@torch.no_grad()
def draw(model, prompts, group, stops, greedy=False, limit=40) -> list[Tokens]:
    """Continues each prompt `group` times, until a token of `stops` or for `limit` tokens."""
    cache, mask = read(model, prompts)
    last = torch.tensor([tokens[-1:] * group for tokens in prompts])  # [prompts, group]
    place = mask.sum(1, keepdim=True).expand(-1, group)
    completions = [[] for _ in range(last.numel())]
    for i in range(limit):
        own = torch.eye(group, dtype=torch.bool).repeat(1, i + 1)  # a turn reads its own tokens
        probs = beside(model, cache, mask, last, own, place + i).softmax(-1).flatten(0, 1)
        drawn = probs.argmax(-1) if greedy else probs.multinomial(1)[:, 0]
        for turn, token in zip(completions, drawn.tolist(), strict=True):
            if not turn or turn[-1] not in stops:
                turn.append(token)
        if all(turn[-1] in stops for turn in completions):
            break
        last = drawn.view(last.shape)
    return completions


def log_probs(model, prompts, targets) -> list[torch.Tensor]:
    """log p of each target's tokens after its prompt: one tensor [len(target)] for each. All
    prompts have as many targets, and those of a prompt stand next to each other."""
    group = len(targets) // len(prompts)
    cache, mask = read(model, prompts)
    turns = []
    for i, target in enumerate(targets):
        turns.append(torch.tensor(prompts[i // group][-1:] + target))
    ids = pad_sequence(turns, batch_first=True)  # on the right, where no token sees it
    length = ids.shape[1] - 1
    own = torch.block_diag(*[torch.ones(length, length).tril()] * group).bool()
    places = mask.sum(1, keepdim=True) + torch.arange(length).repeat(group)
    side_by_side = ids[:, :-1].reshape(len(prompts), -1)
    logits = beside(model, cache, mask, side_by_side, own, places).flatten(0, 1)
    logp = -F.cross_entropy(logits, ids[:, 1:].flatten(), reduction="none").view(-1, length)
    unpadded = []
    for i, row in enumerate(logp):
        unpadded.append(row[: len(targets[i])])
    return unpadded


# ------------------------------------------------ Act-PRM: the four steps, then the loop
def think(model, tasks, group, examples) -> tuple[list, list]:
    """(prompts, thoughts): a prompt and `group` thoughts for every task. No action is shown."""
    prompts = [prompt(task, examples) + OPEN for task in tasks]
    return prompts, draw(model, prompts, group, stops=(CLOSE[0], END))  # `</`, and the turn's end


def turns_of(tasks, thoughts, group) -> list[Tokens]:
    """Each thought and, if it ended, the expert's action after it."""
    turns = []
    for i, thought in enumerate(thoughts):
        ended = thought[-1] == CLOSE[0]
        action = CLOSE[1:] + action_turn(tasks[i // group])
        turns.append(thought + action if ended else thought)
    return turns


def action_start(turn) -> int:
    """Where the action begins in a turn; 0 where no thought has ended in it."""
    return turn.index(CLOSE[0]) + len(CLOSE) if CLOSE[0] in turn else 0


@torch.no_grad()
def score(model, prompts, turns) -> torch.Tensor:
    """r = p(action | state, thought) of each turn, by the model as it is now.  [turns]"""
    rewards = torch.zeros(len(turns))
    for i, logp in enumerate(log_probs(model, prompts, turns)):
        start = action_start(turns[i])
        if start:  # the action with its end, or `refund 2` would do for `refund 22`
            rewards[i] = logp[start:].sum().exp()
    return rewards


def posterior(rewards: torch.Tensor) -> torch.Tensor:
    """A = r / (mean(r) + FLOOR) in each group: the E-step.  [tasks, G] -> [tasks, G]"""
    return rewards / (rewards.mean(-1, keepdim=True) + FLOOR)


def update(model, optimizer, prompts, targets, advantages) -> None:
    """One step on -A log p(target | prompt), the mean over all tokens of all targets."""
    loss = torch.tensor(0.0)
    for i, logp in enumerate(log_probs(model, prompts, targets)):
        loss = loss - advantages[i] * logp.sum()
    optimizer.zero_grad()
    (loss / sum(map(len, targets))).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def act_prm(model, log, examples, updates, batch, group, lr, seed) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr, weight_decay=0.0)
    rng = random.Random(seed)
    for i in range(updates):
        tasks = rng.sample(log, batch)
        prompts, thoughts = think(model, tasks, group, examples)  # 1. THINK
        turns = turns_of(tasks, thoughts, group)
        rewards = score(model, prompts, turns)  # 2. SCORE
        advantages = posterior(rewards.view(batch, group)).flatten()  # 3. CREDIT
        update(model, optimizer, prompts, thoughts, advantages)  # 4. UPDATE
        print(f"update {i:>2}   mean reward {rewards.mean():.3f}", flush=True)


# ------------------------------------- Relabel, SFT, act; and a look at a group
def relabel(model, log, examples, group=4) -> list[tuple[Tokens, Tokens]]:
    """Rows of (prompt, turn) with the best of `group` thoughts, where it earns .5 or more."""
    rows = []
    for i in range(0, len(log), 8):
        tasks = log[i : i + 8]
        prompts, thoughts = think(model, tasks, group, examples)
        turns = turns_of(tasks, thoughts, group)
        rewards = score(model, prompts, turns).view(-1, group)
        for k, best in enumerate(rewards.argmax(-1).tolist()):
            if rewards[k, best] >= 0.5:  # the prompt without examples: it shall think unasked
                rows.append((prompt(tasks[k]), OPEN + turns[k * group + best]))
    return rows


def fine_tune(model, rows, updates, batch, lr, seed) -> None:
    """SFT on rows of (prompt, target): the same update with every A = 1."""
    optimizer = torch.optim.AdamW(model.parameters(), lr, weight_decay=0.0)
    rng = random.Random(seed)
    for i in range(updates):
        warmup = min(1, (i + 1) / 5)
        decay = 1 - i / updates
        optimizer.param_groups[0]["lr"] = lr * warmup * decay
        chosen = rng.sample(rows, min(batch, len(rows)))
        prompts, targets = zip(*chosen, strict=True)
        update(model, optimizer, prompts, targets, advantages=[1.0] * len(targets))


def success(model, tasks, examples=()) -> float:
    """Greedy play: the model decides by itself whether it thinks, and then answers."""
    prompts = [prompt(task, examples) for task in tasks]
    turns = draw(model, prompts, 1, stops=(END,), greedy=True, limit=60)
    wins = 0
    for task, turn in zip(tasks, turns, strict=True):
        wins += turn[action_start(turn) :] == action_turn(task)
    return wins / len(tasks)


def show_group(model, task, group, examples) -> None:
    """Prints one group, the largest advantage first."""
    prompts, thoughts = think(model, [task], group, examples)
    rewards = score(model, prompts, turns_of([task], thoughts, group))
    advantages = posterior(rewards)
    print(f"\n{task[-2]['content']}   the expert's action: {task[-1]['content']}")
    print("advantage  reward  thought")
    for i in rewards.argsort(descending=True).tolist():
        text = tokenizer.decode(thoughts[i]).removesuffix("</").strip()
        print(f"{advantages[i]:9.2f}{rewards[i]:8.3f}  {text!r}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Act-PRM on a pretrained model in one file")
    parser.add_argument("folder", type=Path, help="what examples/refund.py wrote")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rivals", action="store_true", help="best of as many thoughts, too")
    flags = parser.parse_args()
    for file in (MODEL / "config.json", flags.folder / "test.jsonl"):
        if not file.exists():
            parser.error(f"{file} is missing: the first lines of this program say what writes it")
    torch.manual_seed(flags.seed)
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    OPEN, CLOSE, END = encode("<think>\n"), encode("</think>\n"), tokenizer.eos_token_id
    log = read_logs(flags.folder / "refund.jsonl")
    examples = read_logs(flags.folder / "examples.jsonl")
    test = read_logs(flags.folder / "test.jsonl")
    base = AutoModelForCausalLM.from_pretrained(
        MODEL, dtype=torch.float32, attn_implementation="grouped"
    )
    print(f"base model, with its examples   {success(base, test, examples):.3f}", flush=True)
    thinker = copy.deepcopy(base)
    show_group(thinker, log[0], 8, examples)
    act_prm(thinker, log, examples, updates=20, batch=8, group=8, lr=1e-5, seed=flags.seed)
    show_group(thinker, log[0], 8, examples)
    ladder = {
        "SFT on actions alone": [(prompt(task), action_turn(task)) for task in log],
        "Act-PRM": relabel(thinker, log, examples),
    }
    if flags.rivals:
        ladder["best of 12"] = relabel(base, log, examples, 12)  # as many thoughts as Act-PRM's
    for name, rows in ladder.items():
        if not rows:
            print(f"{name:<22}no log has a thought that earns .5")
            continue
        model = copy.deepcopy(base)  # one base and one recipe: only the rows differ
        fine_tune(model, rows, updates=40, batch=16, lr=5e-5, seed=flags.seed)
        print(f"{name:<22}{success(model, test):.3f}   from {len(rows)} logs", flush=True)
