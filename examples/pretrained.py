"""Act-PRM on a pretrained model in one file: act_prm.py for SmolLM2-135M-Instruct.

    python examples/smollm2.py          # the model as a folder, once; needs gguf
    python examples/refund.py refund    # logs of actions; three examples with a thought; a test
    python examples/pretrained.py refund [--seed N] [--rivals]   # 29 minutes on two fast cores

The steps are those of act_prm.py: lay the two side by side. This base model comes pretrained: it
can do sums, but thinks only if its prompt has examples that do. SCORE reads the whole action,
UPDATE trains the thought alone, and RELABEL leaves out a log whose best thought earns less than .5.
"""

import argparse
import copy
import json
import random
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

MODEL = Path(__file__).parents[1] / "checkpoints/SmolLM2-135M-Instruct"
FLOOR = 0.02  # a group of this mean reward counts half, of a lower one less: chance decides in it
Tokens = list[int]


# ------------------------------------------------------------ Logs, text and tokens
# A task is the messages of one log: the shop's rules, what the customer says, and last the expert's
# turn. A line break ends `<think>`, a thought and `</think>`, so that a turn can be encoded in
# pieces (OPEN, thought, CLOSE, action). These ids, and `tokenizer`, are set at the file's end.
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
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)


def action_turn(task) -> Tokens:
    return [*encode(task[-1]["content"]), END]


# ------------------------------------------------ The model: it writes and reads tokens
def begin(model, prompts) -> tuple[DynamicCache, list[Tokens]]:
    """Reads what all prompts begin with. Returns its keys and values, and what is left to read."""
    shared, shortest = 0, min(map(len, prompts))  # each keeps a last token: it predicts the next
    while shared < shortest - 1 and len({tokens[shared] for tokens in prompts}) == 1:
        shared += 1
    cache = DynamicCache(config=model.config)
    model(torch.tensor([prompts[0][:shared]]), past_key_values=cache, logits_to_keep=1)
    cache.batch_repeat_interleave(len(prompts))
    return cache, [tokens[shared:] for tokens in prompts]


@torch.no_grad()
def draw(model, prompts, stops, greedy=False, limit=40) -> list[Tokens]:
    """Continues each prompt until it draws a token of `stops`, or `limit` tokens."""
    cache, rows = begin(model, prompts)
    lengths = [len(row) for row in rows]
    start, read = 0, min(lengths)  # a longer prompt is still read while other rows draw
    running = list(range(len(rows)))  # the rows that have not stopped
    while running:
        ids = torch.tensor([rows[i][start:read] for i in running])
        probs = model(ids, past_key_values=cache, logits_to_keep=1).logits[:, -1].softmax(-1)
        drawn = probs.argmax(-1) if greedy else probs.multinomial(1)[:, 0]
        unfinished = []
        for k, i in enumerate(running):
            if len(rows[i]) == read:
                rows[i].append(drawn[k].item())
            if rows[i][-1] not in stops and len(rows[i]) < lengths[i] + limit:
                unfinished.append(k)
        if len(unfinished) < len(running):  # this copies all keys and values
            cache.batch_select_indices(torch.tensor(unfinished, dtype=torch.long))
        running = [running[k] for k in unfinished]
        start, read = read, read + 1
    return [row[length:] for row, length in zip(rows, lengths, strict=True)]


def log_probs(model, prompts, targets) -> list[torch.Tensor]:
    """log p of each target's tokens after its prompt: one tensor [len(target)] for each."""
    cache, rests = begin(model, prompts)
    rows = [torch.tensor(rest + target) for rest, target in zip(rests, targets, strict=True)]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)  # on the right, unread
    logits = model(ids[:, :-1], past_key_values=cache).logits
    logp = logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]  # at t: of ids[:, t + 1]
    return [logp[i, len(rest) - 1 :][: len(targets[i])] for i, rest in enumerate(rests)]


# ------------------------------------------------ Act-PRM: the four steps, then the loop
def think(model, tasks, group, examples) -> tuple[list, list]:
    """(prompts, thoughts): `group` of each for a task, in a row. No prompt shows the action."""
    prompts = []
    for task in tasks:
        prompts += [prompt(task, examples) + OPEN] * group
    return prompts, draw(model, prompts, (CLOSE[0], END))  # `</` ends a thought, END the turn


@torch.no_grad()
def score(model, tasks, prompts, thoughts) -> torch.Tensor:
    """r = p(action | state, thought) of each thought, by the model as it is now.  [tasks, G]"""
    group = len(thoughts) // len(tasks)
    befores, actions = [], []
    for i, thought in enumerate(thoughts):
        befores.append(prompts[i] + thought + CLOSE[1:])  # what follows `</` is given
        actions.append(action_turn(tasks[i // group]))  # with its end, or `2` would do for `22`
    rewards = torch.stack([logp.sum().exp() for logp in log_probs(model, befores, actions)])
    ended = torch.tensor([thought[-1] == CLOSE[0] for thought in thoughts])
    return (rewards * ended).view(len(tasks), group)  # a thought that never ended earns 0


def update(model, optimizer, prompts, targets, advantages) -> None:
    """One step on -A log p(target | prompt), the mean over all tokens of all targets."""
    optimizer.zero_grad()
    for i in range(0, len(targets), 8):  # eight at a time: all together would need 16 GB
        part = slice(i, i + 8)
        logps = log_probs(model, prompts[part], targets[part])
        loss = torch.tensor(0.0)
        for advantage, logp in zip(advantages[part], logps, strict=True):
            loss = loss - advantage * logp.sum()
        (loss / sum(map(len, targets))).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def act_prm(model, log, examples, updates, batch, group, lr, seed) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr, weight_decay=0.0)
    rng = random.Random(seed)
    for i in range(updates):
        tasks = rng.sample(log, batch)
        prompts, thoughts = think(model, tasks, group, examples)  # 1. THINK
        rewards = score(model, tasks, prompts, thoughts)  # 2. SCORE
        advantages = rewards / (rewards.mean(-1, keepdim=True) + FLOOR)  # 3. CREDIT: the E-step
        update(model, optimizer, prompts, thoughts, advantages.flatten())  # 4. UPDATE
        print(f"update {i:>2}   mean reward {rewards.mean():.3f}", flush=True)


# ------------------------------------- Relabel, SFT, act; and a look at a group
def relabel(model, log, examples, group=4) -> list[tuple[Tokens, Tokens]]:
    """Rows of (prompt, turn) with the best of `group` thoughts, where it earns .5 or more."""
    rows = []
    for i in range(0, len(log), 8):
        tasks = log[i : i + 8]
        prompts, thoughts = think(model, tasks, group, examples)
        rewards, best = score(model, tasks, prompts, thoughts).max(-1)
        for k, task in enumerate(tasks):
            if rewards[k] >= 0.5:
                turn = OPEN + thoughts[k * group + best[k]] + CLOSE[1:] + action_turn(task)
                rows.append((prompt(task), turn))  # no examples: it learns to think by itself
    return rows


def fine_tune(model, rows, updates, batch, lr, seed) -> None:
    """SFT on rows of (prompt, target): the same update with every A = 1."""
    optimizer = torch.optim.AdamW(model.parameters(), lr, weight_decay=0.0)
    rng = random.Random(seed)
    for i in range(updates if rows else 0):  # without rows the base model stays as it is
        optimizer.param_groups[0]["lr"] = lr * (1 - i / updates)
        prompts, targets = zip(*rng.sample(rows, min(batch, len(rows))), strict=True)
        update(model, optimizer, prompts, targets, advantages=[1.0] * len(targets))


def success(model, tasks, examples=()) -> float:
    """Greedy play: the model decides by itself whether it thinks, and then answers."""
    turns = draw(model, [prompt(task, examples) for task in tasks], (END,), greedy=True, limit=60)
    wins = 0
    for task, turn in zip(tasks, turns, strict=True):
        right = action_turn(task)
        wins += turn == right or turn[-len(CLOSE + right) :] == CLOSE + right
    return wins / len(tasks)


def show_group(model, task, group, examples) -> None:
    """Prints one group, the largest reward first."""
    prompts, thoughts = think(model, [task], group, examples)
    rewards = score(model, [task], prompts, thoughts)[0]
    print(f"\n{task[-2]['content']}   the expert's action: {task[-1]['content']}\nreward  thought")
    for i in rewards.argsort(descending=True).tolist():
        print(f"{rewards[i]:6.3f}  {tokenizer.decode(thoughts[i])!r}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Act-PRM on a pretrained model in one file")
    parser.add_argument("folder", type=Path, help="what examples/refund.py wrote")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rivals", action="store_true", help="choose among base thoughts, too")
    flags = parser.parse_args()
    files = [flags.folder / f"{name}.jsonl" for name in ("refund", "examples", "test")]
    for file in (MODEL / "config.json", *files):
        if not file.exists():
            parser.error(f"{file} is missing: the first lines of this program say what writes it")
    torch.manual_seed(flags.seed)
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    OPEN, CLOSE, END = encode("<think>\n"), encode("</think>\n"), tokenizer.eos_token_id
    logs = []
    for file in files:
        logs.append([json.loads(line)["messages"] for line in file.read_text("utf-8").splitlines()])
    log, examples, test = logs
    base = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    print("base model, with its examples, answers the test:", end=" ", flush=True)
    print(f"{success(base, test, examples):.3f}", flush=True)
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
        model = copy.deepcopy(base)  # one base and one recipe: only the rows differ
        fine_tune(model, rows, updates=40, batch=8, lr=5e-5, seed=flags.seed)
        print(f"{name:<22}{success(model, test):.3f}   from {len(rows)} logs", flush=True)
