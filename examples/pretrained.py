"""Act-PRM on a pretrained model in one file: act_prm.py for SmolLM2-135M-Instruct.

    python examples/smollm2.py          # the model as a folder, once; needs gguf
    python examples/refund.py refund    # logs of actions; three examples with a thought; a test
    python examples/pretrained.py refund [--seed N] [--rivals]

The steps are those of act_prm.py, and so are the names: lay the two side by side. The base model
need not be raised here. It can reckon, but does not know that it shall think: it reads the three
examples, the only thoughts that anybody wrote, until it is fine-tuned. They are long, so `read`
reads once what all prompts begin with, and the turns of a prompt stand side by side behind it. A
log whose best thought earns less than .5 is left out, because it would teach a wrong sum.
"""

import argparse
import copy
import json
import random
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

MODEL = Path(__file__).parents[1] / "checkpoints/SmolLM2-135M-Instruct"
Tokens = list[int]


# ------------------------------------------------------------ Logs, text and tokens
# A log is the messages of one question, and the last is the expert's. A turn that thinks has a line
# break behind `<think>`, behind the thought and behind `</think>`: then the tokens of the pieces
# are those of the whole turn, whatever the action begins with.
def read_logs(file: Path) -> list[list[dict]]:
    return [json.loads(line)["messages"] for line in open(file, encoding="utf-8")]


def encode(text: str) -> Tokens:
    return tokenizer(text, add_special_tokens=False).input_ids


def prompt(log, examples=()) -> Tokens:
    """The conversation up to the expert's turn. Examples are earlier turns of it."""
    messages = log[:1]  # the shop's rules
    for example in examples:
        thought, action = example[-1]["reasoning_content"], example[-1]["content"]
        turn = f"<think>\n{thought}\n</think>\n{action}"
        messages = [*messages, *example[1:-1], {"role": "assistant", "content": turn}]
    messages = messages + log[1:-1]
    return encode(
        tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    )


def action_turn(log) -> Tokens:
    return encode(log[-1]["content"]) + END


# ------------------------------------------------ The model: it writes and reads tokens
def read(model, prompts) -> tuple[DynamicCache, torch.Tensor]:
    """What the model computes on the prompts, without the last token of each: keys and values, and
    a mask [prompts, L] that is 0 at the padding. What all begin with is read once."""
    shared = 0
    while len({tokens[shared] for tokens in prompts}) == 1 and shared < len(prompts[0]) - 2:
        shared += 1
    cache = DynamicCache(config=model.config)
    model(torch.tensor([prompts[0][:shared]]), past_key_values=cache, logits_to_keep=1)
    cache.batch_repeat_interleave(len(prompts))
    own = [torch.tensor(tokens[shared:-1]) for tokens in prompts]
    ids = pad_sequence(own, batch_first=True, padding_value=-1, padding_side="left")
    mask = F.pad((ids >= 0).long(), (shared, 0), value=1)
    places = (mask.cumsum(1) - 1)[:, shared:].clamp(min=0)
    ids = ids.clamp(min=0)
    model(ids, past_key_values=cache, attention_mask=mask, position_ids=places, logits_to_keep=1)
    return cache, mask


def beside(model, cache, mask, ids, sees, places) -> torch.Tensor:
    """Logits [prompts, N, words] of N tokens behind each prompt. sees [N, M]: which of the M tokens
    that now stand behind it each of the N reads; the prompt is read by all."""
    rows, new = ids.shape
    before = mask.bool()[:, None].expand(rows, new, -1)
    sees = torch.cat([before, sees.expand(rows, -1, -1)], dim=2)[:, None]
    return model(ids, past_key_values=cache, attention_mask=sees, position_ids=places).logits


@torch.no_grad()
def draw(model, prompts, group, stops, greedy=False, limit=40) -> list[Tokens]:
    """Continues each prompt `group` times, until a token of `stops` or for `limit` tokens."""
    cache, mask = read(model, prompts)
    tokens = torch.tensor([tokens[-1:] * group for tokens in prompts])
    place = mask.sum(1, keepdim=True).expand(-1, group)
    completions = [[] for _ in range(tokens.numel())]
    for i in range(limit):
        own = torch.eye(group, dtype=torch.bool).repeat(1, i + 1)  # what a turn wrote itself
        probs = beside(model, cache, mask, tokens, own, place + i).softmax(-1).flatten(0, 1)
        drawn = probs.argmax(-1) if greedy else probs.multinomial(1)[:, 0]
        for turn, token in zip(completions, drawn.tolist(), strict=True):
            if turn[-1:] not in stops:
                turn.append(token)
        if all(turn[-1:] in stops for turn in completions):
            break
        tokens = drawn.view(tokens.shape)
    return completions


def log_probs(model, prompts, targets) -> list[torch.Tensor]:
    """log p of each target's tokens after its prompt: one tensor [len(target)] for each. The
    targets of a prompt, as many for each, stand in a row."""
    group = len(targets) // len(prompts)
    cache, mask = read(model, prompts)
    rows = [torch.tensor(prompts[i // group][-1:] + row) for i, row in enumerate(targets)]
    ids = pad_sequence(rows, batch_first=True)  # on the right: never attended to
    length = ids.shape[1] - 1
    own = torch.block_diag(*[torch.ones(length, length).tril()] * group).bool()
    places = mask.sum(1, keepdim=True) + torch.arange(length).repeat(group)
    turns = ids[:, :-1].reshape(len(prompts), -1)
    logits = beside(model, cache, mask, turns, own, places).flatten(0, 1)
    logp = -F.cross_entropy(logits, ids[:, 1:].flatten(), reduction="none").view(-1, length)
    return [row[: len(target)] for row, target in zip(logp, targets, strict=True)]


# ------------------------------------------------ Act-PRM: the four steps, then the loop
def think(model, logs, group, examples) -> tuple[list, list]:
    """A prompt and `group` thoughts for every log. No action is shown."""
    prompts = [prompt(log, examples) + OPEN for log in logs]
    return prompts, draw(model, prompts, group, [CLOSE[:1], END])


def turns_of(logs, thoughts, group) -> list[Tokens]:
    """Each thought and, if it ended, the expert's action after it: for SCORE and for UPDATE."""
    turns = []
    for i, thought in enumerate(thoughts):
        action = CLOSE[1:] + action_turn(logs[i // group])
        turns.append(thought + action if thought[-1] == CLOSE[0] else thought)
    return turns


@torch.no_grad()
def score(model, prompts, turns) -> torch.Tensor:
    """r = p(action | state, thought) of each turn, by the model as it is now.  [turns]"""
    rewards = torch.zeros(len(turns))
    for i, logp in enumerate(log_probs(model, prompts, turns)):
        if CLOSE[0] in turns[i]:
            rewards[i] = logp[turns[i].index(CLOSE[0]) + len(CLOSE) :].sum().exp()
    return rewards


def posterior(rewards: torch.Tensor) -> torch.Tensor:
    """A = G r / sum(r) in each group: the E-step.  [logs, G] -> [logs, G]"""
    group = rewards.shape[-1]
    total = rewards.sum(-1, keepdim=True)
    return group * rewards / total.clamp(min=1e-30)  # if all r are 0, so are all A


def update(model, optimizer, prompts, targets, advantages) -> None:
    """One step on -A log p(target | prompt), the mean over all tokens of all targets."""
    loss = torch.tensor(0.0)
    for i, logp in enumerate(log_probs(model, prompts, targets)):
        loss = loss - advantages[i] * logp.sum()
    optimizer.zero_grad()
    (loss / sum(map(len, targets))).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def act_prm(model, logs, examples, updates, batch, group, lr, seed) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr, weight_decay=0.0)
    rng = random.Random(seed)
    for i in range(updates):
        chosen = rng.sample(logs, batch)
        prompts, thoughts = think(model, chosen, group, examples)  # 1. THINK
        turns = turns_of(chosen, thoughts, group)
        rewards = score(model, prompts, turns).view(batch, group)  # 2. SCORE
        advantages = posterior(rewards).flatten()  # 3. CREDIT
        update(model, optimizer, prompts, turns, advantages)  # 4. UPDATE
        best = rewards.max(1).values.mean()
        print(f"update {i:>2}   mean reward {rewards.mean():.3f}   best {best:.3f}", flush=True)


# ------------------------------------- Relabel, SFT, act; and a look at a group
def relabel(model, logs, examples, group=4) -> list[tuple[Tokens, Tokens]]:
    """Rows of (prompt, turn) with the best of `group` thoughts, where it earns .5 or more."""
    rows = []
    for i in range(0, len(logs), 8):
        batch = logs[i : i + 8]
        prompts, thoughts = think(model, batch, group, examples)
        turns = turns_of(batch, thoughts, group)
        rewards = score(model, prompts, turns).view(-1, group)
        for k, best in enumerate(rewards.argmax(-1).tolist()):
            if rewards[k, best] >= 0.5:
                rows.append((prompt(batch[k]), OPEN + turns[k * group + best]))
    return rows


def fine_tune(model, rows, updates, batch, lr, seed) -> None:
    """SFT on rows of (prompt, target): the same update with every A = 1."""
    optimizer = torch.optim.AdamW(model.parameters(), lr, weight_decay=0.0)
    rng = random.Random(seed)
    for i in range(updates):
        optimizer.param_groups[0]["lr"] = lr * min(1, (i + 1) / 5) * (1 - i / updates)
        prompts, targets = zip(*rng.sample(rows, batch), strict=True)
        update(model, optimizer, prompts, targets, advantages=[1.0] * batch)


def success(model, logs, examples=()) -> float:
    """Greedy play: the model decides by itself whether it thinks, and then answers."""
    prompts = [prompt(log, examples) for log in logs]
    turns = draw(model, prompts, 1, [END], greedy=True, limit=60)
    wins = 0
    for log, turn in zip(logs, turns, strict=True):
        right = action_turn(log)
        wins += turn[-len(right) :] == right
    return wins / len(logs)


def show_group(model, log, examples, group=8) -> None:
    """Prints one group, the largest advantage first."""
    prompts, thoughts = think(model, [log], group, examples)
    rewards = score(model, prompts, turns_of([log], thoughts, group))
    advantages = posterior(rewards)
    print(f"\n{log[-2]['content']}   the expert's action: {log[-1]['content']}")
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
    OPEN, CLOSE = encode("<think>\n"), encode("</think>\n")
    END = [tokenizer.eos_token_id]
    logs = read_logs(flags.folder / "refund.jsonl")
    examples = read_logs(flags.folder / "examples.jsonl")
    test = read_logs(flags.folder / "test.jsonl")
    base = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    print(f"base model, with its examples   {success(base, test, examples):.3f}")
    thinker = copy.deepcopy(base)
    show_group(thinker, logs[0], examples)
    act_prm(thinker, logs, examples, updates=20, batch=8, group=8, lr=1e-5, seed=flags.seed)
    show_group(thinker, logs[0], examples)
    ladder = {"SFT on actions alone": [(prompt(log), action_turn(log)) for log in logs]}
    if flags.rivals:
        ladder["best of 12"] = relabel(base, logs, examples, 12)  # as many thoughts as Act-PRM's
    ladder["Act-PRM"] = relabel(thinker, logs, examples)
    for name, rows in ladder.items():
        model = copy.deepcopy(base)  # one base and one recipe: only the rows differ
        fine_tune(model, rows, updates=40, batch=16, lr=5e-5, seed=flags.seed)
        print(f"{name:<22}{success(model, test):.3f}   from {len(rows)} logs", flush=True)
