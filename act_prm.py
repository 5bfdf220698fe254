"""Act-PRM (action process reward models) in one file: learning to think from logs of actions.

    python act_prm.py [--seed N]      # about 90 seconds on one core, nothing is downloaded

An expert's log says what was seen and what was done, never why. For every logged step:

    1. THINK    draw G thoughts from the state alone             z_1 ... z_G ~ p(z | state)
    2. SCORE    how probable does z make the expert's action?    r = p(action | state, z)
    3. CREDIT   z's share of the group's reward, times G         A = G r / sum(r)
    4. UPDATE   make thoughts with a large share likelier        loss = -A log p(z, action | state)

This is Expectation-Maximisation; the thought is hidden. CREDIT is the E-step: weighed by A / G, the
draws approximate p(z | state, action). UPDATE is part of an M-step: it raises p(action | state).
Afterwards RELABEL writes the best-scored of four new thoughts into every logged step, SFT trains a
fresh base model on that log (step 4 with A = 1), which then ACTS by itself.

This file leaves out what an episode of one turn and 41 tokens does not need. minprm/ has: logs of
several turns (stages/act_prm.py), a KV cache (model/sampler.py) and vLLM (load/vllm.py), thoughts
of one state in one row (model/tree.py), chat templates and tools (text/chat.py), other advantages
and losses (zoo.py), RL (stages/rl.py), logs of your own (logs/reader.py), resume (trainer.py).
"""

import argparse
import copy
import random

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

# ----------------------------------------------------------------- The world
# A ball lies under one of five cups, cups are swapped three times, open the right cup.
# A task is (start, swaps), one of 40,000. The log: 256 of them; what was done is expert_action.
CUPS = "abcde"
TAGS = ["<user>", "<assistant>", "<think>", "</think>", "<act>", "</act>", "<end>"]
WORDS = [*CUPS, "ball", "under", "swap", ".", "open", *TAGS]  # one token a word
ID = {word: i for i, word in enumerate(WORDS)}


def encode(text: str) -> list[int]:
    return [ID[word] for word in text.split()]


def new_task(rng: random.Random) -> tuple:
    return rng.choice(CUPS), [rng.sample(CUPS, 2) for _ in range(3)]


def state(task) -> str:
    """What the agent sees: where the ball lies at first, and the swaps."""
    return f"ball under {task[0]} ." + "".join(f" swap {one} {other} ." for one, other in task[1])


def follow(task, cup: str) -> str:
    """The thought that starts under `cup` and says after every swap where the ball is now."""
    thought = f"ball under {cup} ."
    for one, other in task[1]:
        if cup in (one, other):
            cup = other if cup == one else one
        thought += f" swap {one} {other} {cup}"
    return thought


def expert_action(task) -> str:
    return "open " + follow(task, task[0])[-1]


def prompt(task) -> list[int]:
    return encode(f"<user> {state(task)} <assistant>")


def action_turn(task) -> list[int]:
    return encode(f"<act> {expert_action(task)} </act> <end>")


# ------------------------- The model: draw tokens, read tokens, update weights
def make_model(seed: int) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(Qwen3Config(vocab_size=len(WORDS), num_hidden_layers=2, hidden_size=64,
        intermediate_size=128, num_attention_heads=4, num_key_value_heads=4, head_dim=16,
        initializer_range=0.08, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1000.0}))  # fmt: skip


@torch.no_grad()
def draw(model, prompts, stop: str, greedy=False, limit=24) -> list[list[int]]:
    """Continues prompts of one length, each until it draws the token `stop` or `limit` tokens."""
    drawn = [[] for _ in prompts]
    live = range(len(prompts))
    while live:
        rows = torch.tensor([prompts[i] + drawn[i] for i in live])
        distinct, which = rows.unique(dim=0, return_inverse=True)  # run equal rows only once
        probs = model(distinct).logits[which, -1].softmax(-1)
        tokens = probs.argmax(-1) if greedy else probs.multinomial(1)[:, 0]
        for i, token in zip(live, tokens.tolist(), strict=True):
            drawn[i].append(token)
        live = [i for i in live if drawn[i][-1] != ID[stop] and len(drawn[i]) < limit]
    return drawn


def log_probs(model, prompts, targets) -> list[torch.Tensor]:
    """log p of each target's tokens after its prompt: one tensor [len(target)] a row."""
    rows = [torch.tensor(before + z) for before, z in zip(prompts, targets, strict=True)]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)  # on the right: never attended to
    logp = model(ids[:, :-1]).logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
    return [row[len(p) - 1 :][: len(z)] for row, p, z in zip(logp, prompts, targets, strict=True)]


def update(model, optimizer, prompts, targets, advantages) -> None:
    """One step on -A log p. With every A = 1 and an expert's words as targets this is SFT."""
    logps = log_probs(model, prompts, targets)
    terms = [advantage * logp.sum() for advantage, logp in zip(advantages, logps, strict=True)]
    loss = -sum(terms, torch.tensor(0.0)) / sum(map(len, targets))  # mean over all trained tokens
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def fine_tune(model, rows, updates: int, batch: int, lr: float, seed: int) -> None:
    """SFT on (prompt, target) rows. The rate decays so that the last batches do not dominate."""
    optimizer = torch.optim.AdamW(model.parameters(), lr, weight_decay=0.0)
    rng = random.Random(seed)
    for i in range(updates):
        optimizer.param_groups[0]["lr"] = lr * min(1, (i + 1) / 20) * (1 - i / updates)
        prompts, targets = zip(*rng.sample(rows, batch), strict=True)
        update(model, optimizer, prompts, targets, [1.0] * batch)


# ------------------------------------------------------------ The base model
# It stands in for a pretrained one. Random play with a narrator teaches it to follow a ball from
# any cup and to open the cup that its thought ends with, but not to follow it from the true start.
def narrated(rng: random.Random) -> tuple[list[int], list[int]]:
    """One episode of random play, as (prompt, turn). One thought in ten is of use."""
    task = new_task(rng)
    wrong = rng.choice(CUPS.replace(task[0], ""))
    thoughts = follow(task, task[0]), follow(task, wrong), state(task), f"ball under {task[0]} ."
    thought = rng.choices(thoughts, [0.10, 0.45, 0.35, 0.10])[0]
    cup = rng.choice(CUPS) if thought.endswith(".") else thought[-1]  # no final cup: a guess
    turn = f"<act> open {cup} </act> <end>"
    silent = rng.random() < 0.2
    return prompt(task), encode(turn if silent else f"<think> {thought} </think> {turn}")


# --------------------------- Act-PRM: the four steps, then the loop, then relabel
def think(model, tasks, group: int) -> tuple[list, list]:
    """`group` thoughts for each task, as (prompts, thoughts). The action is not shown."""
    prompts = [prompt(task) + encode("<think>") for task in tasks for _ in range(group)]
    return prompts, draw(model, prompts, stop="</think>")


@torch.no_grad()
def score(model, tasks, prompts, thoughts) -> torch.Tensor:
    """r = p(action | state, thought) under the model as it is now.  [tasks, group]"""
    # Near 1 after a thought that ends at the right cup, near 0 if it ends at a wrong one, .2 if it
    # leaves the model guessing. A thought that never ended earns 0: in play it reaches no action.
    group = len(thoughts) // len(tasks)
    turns = turns_of(tasks, thoughts, group)
    rewards = torch.zeros(len(turns))
    for i, logp in enumerate(log_probs(model, prompts, turns)):
        if thoughts[i][-1] == ID["</think>"]:
            rewards[i] = logp[-4:-2].sum().exp()  # only `open X` of <act> open X </act> <end>
    return rewards.view(len(tasks), group)


def posterior(rewards: torch.Tensor) -> torch.Tensor:
    """A = G r / sum(r) in each group: CREDIT, the E-step.  [tasks, group]"""
    # Bayes: p(z | state, action) is proportional to p(z | state) r. Since z was drawn from
    # p(z | state), only r / sum(r) is left as its weight. For GRPO, weigh thought tokens by
    # (r - mean) / std, below 0 for worse ones; action tokens, always right, keep this A.
    total = rewards.sum(-1, keepdim=True)
    return rewards.shape[-1] * rewards / total.clamp(min=1e-30)  # if all r are 0, so are all A


def turns_of(tasks, thoughts, group: int) -> list[list[int]]:
    """The target of each thought: itself and, if it ended, the expert's action after it."""
    # A weighs the action too. Weight 1 trains it to be right whatever was thought: mean reward
    # after 15 updates is .20, not .71 (seed 10), and .32, not .96 (seed 11).
    actions = [action_turn(task) for task in tasks for _ in range(group)]
    return [z + actions[i] if z[-1] == ID["</think>"] else z for i, z in enumerate(thoughts)]


def act_prm(model, log, updates: int, batch: int, group: int, lr: float, seed: int) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr, weight_decay=0.0)
    rng = random.Random(seed)
    for i in range(updates):
        tasks = rng.sample(log, batch)
        prompts, thoughts = think(model, tasks, group)  # 1. THINK
        rewards = score(model, tasks, prompts, thoughts)  # 2. SCORE
        advantages = posterior(rewards).flatten().tolist()  # 3. CREDIT
        update(model, optimizer, prompts, turns_of(tasks, thoughts, group), advantages)  # 4. UPDATE
        if i % 6 == 0:
            print(f"update {i:>2}   mean reward {rewards.mean():.3f}", flush=True)


def relabel(model, log, group=4) -> list[tuple]:
    """The log as rows of (prompt, turn), with the best of `group` thoughts in every step."""
    prompts, thoughts = think(model, log, group)
    best = score(model, log, prompts, thoughts).argmax(-1).tolist()
    turns = turns_of(log, [thoughts[i * group + k] for i, k in enumerate(best)], group=1)
    return [(prompt(task), encode("<think>") + turn) for task, turn in zip(log, turns, strict=True)]


# ------------------------------ What came of it: thoughts, and success in play
def show_group(model, task, group: int) -> None:
    """Prints one group, the largest advantage first; equal thoughts are counted together."""
    kinds = {follow(task, cup): "follows from a wrong start" for cup in CUPS}
    kinds |= {follow(task, task[0]): "follows the ball", state(task): "restates the question"}
    kinds[f"ball under {task[0]} ."] = "says where it starts"
    prompts, thoughts = think(model, [task], group)
    rewards = score(model, [task], prompts, thoughts)[0]
    advantages = posterior(rewards)
    lines = {}
    for i, thought in enumerate(thoughts):
        text = " ".join(WORDS[token] for token in thought).removesuffix(" </think>")
        numbers = f"{advantages[i]:9.2f}{rewards[i]:8.3f}{thoughts.count(thought):7}"
        lines[text] = f"{numbers}  {text:<48} {kinds.get(text, 'something else')}"
    print(f"\nstate: {state(task)}   the expert's action: {expert_action(task)}")
    print("advantage  reward  times  thought", *sorted(lines.values(), reverse=True), "", sep="\n")


def success(model, tasks) -> float:
    """Greedy play: the model decides by itself whether it thinks, and then opens a cup."""
    turns = draw(model, [prompt(task) for task in tasks], stop="<end>", greedy=True, limit=32)
    return sum(turns[i][-5:] == action_turn(task) for i, task in enumerate(tasks)) / len(tasks)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # a CPU is slow on the tiniest of numbers
    rng = random.Random(seed)
    log = [new_task(rng) for _ in range(256)]  # no task of `test` is in it
    test = [task for task in (new_task(rng) for _ in range(500)) if task not in log][:400]
    base = make_model(seed)
    fine_tune(base, [narrated(rng) for _ in range(12_800)], 400, batch=32, lr=4e-3, seed=seed)
    thinker = copy.deepcopy(base)
    show_group(thinker, log[0], group=16)
    act_prm(thinker, log, updates=31, batch=16, group=16, lr=5e-4, seed=seed)
    show_group(thinker, log[0], group=16)
    print(f"success on 400 new tasks, chance .2\nbase model            {success(base, test):.3f}")
    ladder = {
        "SFT on actions alone": [(prompt(task), action_turn(task)) for task in log],
        "best of 35": relabel(base, log, 35),  # selection alone, of as many thoughts as Act-PRM's
        "Act-PRM": relabel(thinker, log),
    }
    for name, rows in ladder.items():
        model = copy.deepcopy(base)  # one base and one recipe: only the rows differ
        fine_tune(model, rows, updates=40, batch=32, lr=1e-3, seed=seed)
        print(f"{name:<22}{success(model, test):.3f}")
