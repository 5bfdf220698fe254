"""python -m examples.nlpo: if you truncate sampling, truncate the likelihood.

NLPO (RL4LMs, arXiv:2210.01241) draws from the top-p set of a mask policy, an older copy that is
refreshed now and then, and not from the whole vocabulary. What was drawn then has another
probability than the model's own: p(token) / p(set). A loss that forgets this has ratios below 1
before anything was learned. Three runs on counting, from one warm start: no truncation, truncated
sampling with the whole likelihood, both truncated by the same set.
"""

import time
from copy import deepcopy
from random import Random
from statistics import fmean

import torch
from torch import Tensor
from transformers import AutoTokenizer

from evidence.results import save_run, take_json_flag
from examples.text_rewards import READ_NOTHING
from minprm.algorithms import mean_std, ppo_clip
from minprm.commands.train import CHECKPOINTS
from minprm.commands.train import main as train
from minprm.envs.base import task_seed
from minprm.envs.text import Text
from minprm.load.pretrained import load_model, pretrained
from minprm.text.chat import Chat

TASKS, GROUP, LENGTH, UPDATES, REFRESH, LR = 8, 8, 16, 60, 10, 1e-4


def nucleus(l: Tensor, p: float) -> Tensor:
    """The smallest sets that hold probability p, True where a token is in.  [..., V] -> [..., V]

    >>> nucleus(torch.tensor([0.6, 0.1, 0.3]).log(), p=0.8)
    tensor([ True, False,  True])
    """
    large, order = l.exp().sort(-1, descending=True)
    inside = large.cumsum(-1) - large < p
    return torch.zeros_like(inside).scatter(-1, order, inside)


def truncated(logits: Tensor, allowed: Tensor) -> Tensor:
    """Log-probs within the set.  [..., V], [..., V] -> [..., V]"""
    return logits.masked_fill(~allowed, -torch.inf).log_softmax(-1)


@torch.no_grad()
def draw(model, mask, prompts: Tensor, p: float, end: int) -> tuple[Tensor, ...]:
    """(ids, log-probs as drawn, sets, True to the end).  [B, L] -> [B, T] each, sets [B, T, V]"""
    ids, drawn, sets, live = prompts, [], [], [torch.ones_like(prompts[:, 0], dtype=torch.bool)]
    for _ in range(LENGTH):
        allowed = nucleus(mask(ids).logits[:, -1].log_softmax(-1), p)
        l = truncated(model(ids).logits[:, -1], allowed)
        token = torch.multinomial(l.exp(), 1)
        ids = torch.cat([ids, token], 1)
        drawn.append(l.gather(1, token)[:, 0])
        sets.append(allowed)
        live.append(live[-1] & (token[:, 0] != end))
    answer = ids[:, prompts.shape[1] :]
    return answer, torch.stack(drawn, 1), torch.stack(sets, 1), torch.stack(live[:-1], 1)


def likelihood(model, prompts: Tensor, answer: Tensor, allowed: Tensor) -> Tensor:
    """Log-probs of the answer's tokens within the given sets.  [B, T]"""
    logits = model(torch.cat([prompts, answer], 1)).logits[:, prompts.shape[1] - 1 : -1]
    return truncated(logits, allowed).gather(2, answer[..., None])[..., 0]


def learn(model, chat: Chat, p: float, same_set: bool, seed: int) -> tuple[list, list]:
    """(success of each batch, mean |log ratio| of each before its update)."""
    world, mask, won, gaps = Text(), deepcopy(model), [], []
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
    torch.manual_seed(seed)
    for update in range(UPDATES):
        if update % REFRESH == 0:
            refresh(mask, model)
        rng = Random(f"{seed} {update}")
        seeds = [task_seed("train", rng.randrange(10**9)) for _ in range(TASKS)]
        states = [[{"role": "user", "content": world.reset(seed)}] for seed in seeds]
        prompts = [chat.state(s, [], None) + chat.act_without_thought for s in states]
        prompts = torch.tensor(prompts, device=model.device)  # counting prompts are equally long
        prompts = prompts.repeat_interleave(GROUP, 0)
        answer, old, sets, live = draw(model, mask, prompts, p, chat.ends[0])
        r = torch.zeros_like(old[:, 0])
        for i, (ids, n) in enumerate(zip(answer.tolist(), live.sum(1).tolist(), strict=True)):
            world.reset(seeds[i // GROUP])
            world.step(chat.parse(chat.act_without_thought + ids[:n])[1] or "")
            r[i] = float(world.success)
        a = torch.cat([mean_std(group) for group in r.split(GROUP)])[:, None].expand_as(old)
        l = likelihood(model, prompts, answer, sets if same_set else torch.ones_like(sets))
        loss = ppo_clip(l[live], old[live], a[live]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        won.append(r.mean().item())
        gaps.append((l - old)[live].abs().mean().item())
    return won, gaps


@torch.no_grad()
def refresh(mask, model) -> None:
    """The mask policy becomes the policy as it is now."""
    mask.load_state_dict(model.state_dict())


def main() -> None:
    json_file = take_json_flag()
    rows = {}
    run = f"nlpo-{time.strftime('%Y%m%d-%H%M%S')}"
    path = str(CHECKPOINTS / run / "stages-0")
    warm = f"--run {run} --world text --stages sft:actions --num-demos 768"
    train([*warm.split(), "--action-tokens", "24", *READ_NOTHING])
    chat = Chat(pretrained(AutoTokenizer, path))
    print(f"{'':<38}{'|log ratio|, first':>18}  success, updates 1-10  51-60, seeds 0 1 2")
    for name, p, same_set in (
        ("whole vocabulary", 1.0, True),
        ("top-p .9 in sampling alone", 0.9, False),
        ("top-p .9 in sampling and likelihood", 0.9, True),
    ):
        runs = [learn(load_model(path), chat, p, same_set, seed) for seed in (0, 1, 2)]
        gap = runs[0][1][0]
        first = [fmean(won[:10]) for won, _ in runs]
        last = [fmean(won[-10:]) for won, _ in runs]
        rows[name] = {"log_ratio_first": gap, "updates_1_10": first, "updates_51_60": last}
        first, last = ("  ".join(f"{x:.2f}" for x in won) for won in (first, last))
        print(f"{name:<38}{gap:>18.1e}  {first:<22} {last}")
    save_run(json_file, [0, 1, 2], "none: every seed is given", rows)


if __name__ == "__main__":
    main()
