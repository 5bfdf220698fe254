"""Act-PRM on a pretrained model in one file: act_prm.py for SmolLM2-135M-Instruct.

    python examples/smollm2.py          # the model as a folder, once; needs gguf
    python examples/refund.py refund    # logs of actions; three examples with a thought; a test
    python examples/pretrained.py refund [--seed N] [--rivals]   # 14 minutes on two fast cores

The steps are those of act_prm.py, and so are the names: lay the two side by side. Here nobody has
to raise the base model. It can do sums, but does not think unless it is asked. Until it is
fine-tuned, three examples in the prompt show it how, and nobody wrote more thoughts than these.

Four things differ. All sequences of a batch lie in one TREE, because their prompts are long and
begin alike. UPDATE trains the thought alone: before this model has a right thought, the expert's
action is a surprise of seven nats, and its gradient would drown the thought's. A group in which no
thought predicts the action teaches next to nothing (FLOOR): in shares of a sum near 0, chance would
decide. And logs whose best thought earns less than .5 are left out: it is probably wrong.
"""

import argparse
import copy
import json
import random
from pathlib import Path

import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

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
class Tree:
    """Sequences of tokens in one row. What several begin with is there, and computed, once."""

    def __init__(self, model):
        self.model = model
        self.cache = DynamicCache(config=model.config)
        self.tokens, self.parents = [], []  # of each node
        self.nodes = {}  # the node of (parent, token)

    def add(self, tokens, parent=None) -> list[int]:
        """The nodes of a sequence that goes on from `parent`, or begins here."""
        path = []
        for token in tokens:
            if (parent, token) not in self.nodes:
                self.nodes[parent, token] = len(self.tokens)
                self.tokens.append(token)
                self.parents.append(parent)
            parent = self.nodes[parent, token]
            path.append(parent)
        return path

    def logits(self, nodes) -> torch.Tensor:
        """Of the token after each of these nodes, none of them read before.  [nodes, words]"""
        sees = torch.eye(len(self.tokens), dtype=torch.bool)  # a node reads itself
        for node, parent in enumerate(self.parents):
            if parent is not None:
                sees[node] |= sees[parent]  # and what is before it in its own sequences
        start = self.cache.get_seq_length()
        return self.model(
            torch.tensor([self.tokens[start:]]), past_key_values=self.cache,
            attention_mask=sees[None, None, start:], position_ids=sees.sum(1)[None, start:] - 1,
            logits_to_keep=torch.tensor(nodes) - start,
        ).logits[0]  # fmt: skip


@torch.no_grad()
def draw(model, prompts, stops, greedy=False, limit=40) -> list[Tokens]:
    """Continues each prompt until it draws a token of `stops`, or `limit` tokens."""
    tree = Tree(model)
    last = [tree.add(tokens)[-1] for tokens in prompts]  # the last node of each sequence
    completions = [[] for _ in prompts]
    running = list(range(len(prompts)))  # the prompts that have not stopped
    while running and limit:
        probs = tree.logits([last[i] for i in running]).softmax(-1)
        drawn = probs.argmax(-1) if greedy else probs.multinomial(1)[:, 0]
        for i, token in zip(running, drawn.tolist(), strict=True):
            completions[i].append(token)
            last[i] = tree.add([token], last[i])[-1]
        running = [i for i in running if completions[i][-1] not in stops]
        limit -= 1
    return completions


def log_probs(model, prompts, targets) -> list[torch.Tensor]:
    """log p of each target's tokens after its prompt: one tensor [len(target)] for each."""
    tree = Tree(model)
    before, tokens = [], []
    for start, target in zip(prompts, targets, strict=True):
        path = tree.add(start + target)
        before += path[len(start) - 1 : -1]
        tokens += target
    logp = -F.cross_entropy(tree.logits(before), torch.tensor(tokens), reduction="none")
    return [*logp.split([len(target) for target in targets])]


# ------------------------------------------------ Act-PRM: the four steps, then the loop
def think(model, tasks, group, examples) -> tuple[list, list]:
    """(prompts, thoughts): `group` of each for a task, in a row. No prompt shows the action."""
    prompts = []
    for task in tasks:
        prompts += [prompt(task, examples) + OPEN] * group
    return prompts, draw(model, prompts, stops=(CLOSE[0], END))  # `</`, and the turn's end


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
    wins = 0
    for i in range(0, len(tasks), 25):
        prompts = [prompt(task, examples) for task in tasks[i : i + 25]]
        turns = draw(model, prompts, stops=(END,), greedy=True, limit=60)
        for task, turn in zip(tasks[i : i + 25], turns, strict=True):
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
    base = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
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
        model = copy.deepcopy(base)  # one base and one recipe: only the rows differ
        fine_tune(model, rows, updates=40, batch=8, lr=5e-5, seed=flags.seed)
        print(f"{name:<22}{success(model, test):.3f}   from {len(rows)} logs", flush=True)
