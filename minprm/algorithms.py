"""The maths, nothing else: rewards of a thought, advantages of a group, losses of a token.

Pure functions on tensors, looked up by name in the dicts at the end. `l` is the log-prob under
the policy that learns, `old` the sampler's log-prob of the same token, `a` its advantage, `r` the
rewards of one group. Losses are minimised. What a policy-gradient "loss" does *not* mean: lower is
not better.
"""

import json
import math

import torch
from torch import Tensor

# --- rewards of a thought: how well it predicts the expert's action -------------------------------


def action_prob(l: Tensor) -> float:
    """r(z) = p(a | s, z) = exp(sum_k l_k).  [K] -> scalar   Act-PRM

    The probability itself: the only form for which `posterior` is the E-step.

    >>> round(action_prob(torch.log(torch.tensor([0.5, 0.5]))), 4)
    0.25
    """
    return l.sum().exp().item()


def action_prob_mean(l: Tensor) -> float:
    """r(z) = exp(mean_k l_k), the geometric mean over the action's tokens.  [K] -> scalar   Act-PRM

    For long actions, where the product makes the posterior one-hot. Tokens that are certain anyway
    flatten it: do not put the template's into the span.

    >>> round(action_prob_mean(torch.log(torch.tensor([0.2, 1.0, 1.0, 1.0, 1.0]))), 2)
    0.72
    """
    return l.mean().exp().item()


def exact_match(written: str | None, expert: str) -> float:
    """1 if the model, after its own thought, wrote the expert's action, else 0.

    >>> exact_match('{"y": 1,  "x": 2}', '{"x": 2, "y": 1}'), exact_match("open  c", "open c")
    (1.0, 1.0)
    """
    return float(written is not None and normalise(written) == normalise(expert))


def normalise(action: str) -> str:
    """An action without its accidents: white space, and in JSON the order of keys."""
    try:
        return json.dumps(json.loads(action), sort_keys=True)
    except ValueError:
        return " ".join(action.split())


def copies(thought: str, action: str, state: str) -> bool:
    """Is the action (or are all its argument values) in the thought, and not in the state?

    >>> copies("so I open c .", "open c", "ball under a ."), copies("bare", "open c", "")
    (True, False)
    """
    try:
        values = [str(v) for v in json.loads(action).get("arguments", {}).values()]
    except (ValueError, AttributeError):
        values = []
    thought, state = _padded(thought), _padded(state)
    words = [_padded(v) for v in values or [normalise(action)]]
    return all(w in thought for w in words) and any(w not in state for w in words)


def _padded(text: str) -> str:
    return f" {' '.join(text.split())} "  # so that "open c" is not found in "open cup"


# --- advantages: [G] -> [G], one group ------------------------------------------------------------


def none(r: Tensor) -> Tensor:
    """A_i = r_i.  [G] -> [G]   REINFORCE"""
    return r


def mean(r: Tensor) -> Tensor:
    """A_i = r_i - mean(r).  [G] -> [G]   Dr. GRPO, arXiv:2503.20783"""
    return r - r.mean()


def mean_std(r: Tensor) -> Tensor:
    """A_i = (r_i - mean(r)) / (std(r) + 1e-4), std unbiased.  [G] -> [G]   GRPO, arXiv:2402.03300

    A group of one has no std: its advantage is 0, not NaN.

    >>> mean_std(torch.tensor([1.0, 0.0, 0.0, 0.0]))
    tensor([ 1.4997, -0.4999, -0.4999, -0.4999])
    """
    return (r - r.mean()) / (r.std() + 1e-4) if len(r) > 1 else torch.zeros_like(r)


def rloo(r: Tensor) -> Tensor:
    """A_i = r_i - mean_{j != i} r_j = (r_i - mean(r)) G/(G-1).  [G] -> [G]   arXiv:2402.14740"""
    return (r - r.mean()) * len(r) / (len(r) - 1) if len(r) > 1 else torch.zeros_like(r)


def asym_clip(r: Tensor) -> Tensor:
    """A_i = clip(mean_std_i, -1, 3): failures, which are many, push less.  [G] -> [G]   RAGEN,
    arXiv:2504.20073"""
    return mean_std(r).clamp(-1.0, 3.0)


def opo(r: Tensor, n: Tensor) -> Tensor:
    """A_i = r_i - sum_j r_j L_j / sum_j L_j, L the tokens.  [G], [G] -> [G]   arXiv:2505.23585

    >>> opo(torch.tensor([1.0, 0.0]), torch.tensor([30.0, 10.0]))
    tensor([ 0.2500, -0.7500])
    """
    return r - (r * n).sum() / n.sum().clamp(min=1)


def posterior(r: Tensor) -> Tensor:
    """A_i = G r_i / sum(r); 0 where the sum is 0.  [G] -> [G]   the E-step of Act-PRM

    With z_i ~ p(z | s) and r_i = p(a | s, z_i), A_i / G estimates p(z_i | s, a), so the policy
    gradient with A climbs log sum_z p(a, z | s): Expectation-Maximisation, as reinforcement.

    >>> posterior(torch.tensor([1.0, 0.2, 0.0, 0.0]))
    tensor([3.3333, 0.6667, 0.0000, 0.0000])
    """
    return len(r) * r / r.sum() if r.sum() > 0 else torch.zeros_like(r)


def top_k(r: Tensor, k: int) -> Tensor:
    """A_i = 1 for the k best of the group, else 0; a reward of 0 is never best.  [G] -> [G]"""
    kept = torch.zeros_like(r)
    kept[r.argsort(descending=True, stable=True)[:k]] = 1.0
    return kept * (r > 0)


def best(r: Tensor) -> Tensor:
    """A_i = 1 for the first of the best, else 0.  [G] -> [G]   hard EM"""
    return top_k(r, 1)


# --- losses: per token, [T] -> [T] ----------------------------------------------------------------


def pg(l: Tensor, old: Tensor, a: Tensor) -> Tensor:
    """-A l.  [T] -> [T]   REINFORCE; with A = 1 on an expert's tokens this *is* SFT"""
    return -a * l


def importance(l: Tensor, old: Tensor, a: Tensor) -> Tensor:
    """-A rho, rho = exp(l - old).  [T] -> [T]   importance sampling: unbiased also off policy"""
    return -a * torch.exp(l - old)


def ppo_clip(l: Tensor, old: Tensor, a: Tensor, eps: tuple[float, float] = (0.2, 0.28)) -> Tensor:
    """max(-A rho, -A clip(rho, 1-eps_lo, 1+eps_hi)).  [T] -> [T]   PPO, arXiv:1707.06347 eq. 7

    The ratio is trusted near 1 only: further out the gradient stops, in the direction that would
    move it further out. eps_hi > eps_lo lets unlikely tokens grow (DAPO, arXiv:2503.14476).

    >>> ppo_clip(*torch.tensor([[0.5, -0.5], [0.0, 0.0], [1.0, 1.0]]))  # 1.65 is cut, .61 is not
    tensor([-1.2800, -0.6065])
    """
    rho = torch.exp(l - old)
    return torch.maximum(-a * rho, -a * rho.clamp(1 - eps[0], 1 + eps[1]))


def dual_clip(l: Tensor, old: Tensor, a: Tensor, c: float = 3.0) -> Tensor:
    """min(ppo_clip, -A c) where A < 0, else ppo_clip.  [T] -> [T]   arXiv:1912.09729

    ppo_clip lets -A rho grow without bound where A < 0 and rho is large; c bounds it.
    """
    return torch.where(a < 0, torch.minimum(ppo_clip(l, old, a), -a * c), ppo_clip(l, old, a))


def gspo(l: Tensor, old: Tensor, a: Tensor) -> Tensor:
    """ppo_clip of s_t = sg(s) exp(l - sg(l)), s = exp(mean(l - old)), one ratio a sequence.
    [T] -> [T]   eps 3e-4, 4e-4: a mean over tokens moves little   arXiv:2507.18071 eq. 5, 7, 13"""
    s = l - l.detach() + (l - old).detach().mean()  # log s_t
    return ppo_clip(s, torch.zeros_like(s), a, (3e-4, 4e-4))


def cispo(l: Tensor, old: Tensor, a: Tensor, c: float = 5.0) -> Tensor:
    """-sg(min(rho, c)) A l: a clipped token still has a gradient.  [T] -> [T]   arXiv:2506.13585"""
    return -torch.exp(l - old).clamp(max=c).detach() * a * l


def masked_is(l: Tensor, old: Tensor, a: Tensor, c: float = 8.0) -> Tensor:
    """-A rho where 1/c <= rho <= c, else 0.  [T] -> [T]   IcePop; prime-rl

    What two programs disagree about this much is no evidence of either.
    """
    return importance(l, old, a) * ((l - old).detach().abs() <= math.log(c))


def ipo(l: Tensor, old: Tensor, a: Tensor, eps: float = 0.3) -> Tensor:
    """-A rho where |exp(l) - exp(old)| <= eps, else 0: a trust region in probabilities, in which
    rare tokens may change their ratio freely.  [T] -> [T]   prime-rl's default in 2026"""
    return importance(l, old, a) * ((l.exp() - old.exp()).detach().abs() <= eps)


def sapo(l: Tensor, old: Tensor, a: Tensor) -> Tensor:
    """-A 4/tau sigmoid(tau (rho - 1)), tau 1 where A > 0, else 1.05.  [T] -> [T]   TRL; soft clip

    Its slope at rho = 1 is A, as every loss here has it, and falls off smoothly to both sides.
    """
    tau = torch.where(a > 0, 1.0, 1.05)
    return -a * 4 / tau * torch.sigmoid(tau * (torch.exp(l - old) - 1))


def value_clip(v: Tensor, old: Tensor, target: Tensor, eps: float = 0.2) -> Tensor:
    """max((v - R)^2, (clip(v, old-eps, old+eps) - R)^2) / 2.  [T] -> [T]   arXiv:2005.12729

    The critic's loss in PPO: a value stops where it moved eps towards the return.

    >>> value_clip(*torch.tensor([[0.5], [0.0], [1.0]]))  # as if it had moved to .2 only
    tensor([0.3200])
    """
    near = old + (v - old).clamp(-eps, eps)
    return torch.maximum((v - target).square(), (near - target).square()) / 2


def kl_k3(l: Tensor, ref: Tensor) -> Tensor:
    """exp(ref - l) - (ref - l) - 1 >= 0, of which the mean is KL(policy || ref).  [T] -> [T]

    Schulman's k3 (joschu.net/blog/kl-approx.html). With the sign of ref - l flipped it is no KL,
    and both agree at zero: test it away from zero.
    """
    return torch.exp(ref - l) - (ref - l) - 1


def adaptive_kl(beta: float, kl: float, target: float) -> float:
    """beta (1 + .1 e), e = clip((kl - target) / target, -.2, .2)   arXiv:1909.08593 eq. 3

    >>> round(adaptive_kl(0.1, kl=2.0, target=1.0), 4), round(adaptive_kl(0.1, 0.9, 1.0), 4)
    (0.102, 0.099)
    """
    return beta * (1 + 0.1 * min(max((kl - target) / target, -0.2), 0.2))


# --- sampler correction: sampler and trainer are two programs, [T] -> [T] -------------------------


def truncate(own: Tensor, m: Tensor, c: float = 2.0) -> Tensor:
    """min(exp(own - m), c), own the trainer's log-prob before the update, m the sampler's.
    [T] -> [T]   truncated importance sampling, fengyao.notion.site/off-policy-rl"""
    return torch.exp(own - m).clamp(max=c)


def mask(own: Tensor, m: Tensor, c: float = 3.0) -> Tensor:
    """The whole sequence's exp(sum(own - m)), or 0 where that is above c.  [T] -> [T]   TRL"""
    s = (own - m).sum().exp()
    return torch.full_like(own, float(s) if s <= c else 0.0)


# --- aggregation: one token's weight in each sequence, from the lengths of the whole update -------


def token(lengths: list[int]) -> list[float]:
    """1 / N: every token of the update counts the same   DAPO, arXiv:2503.14476

    >>> token([1, 3])
    [0.25, 0.25]
    """
    return [1 / max(sum(lengths), 1)] * len(lengths)


def sequence(lengths: list[int]) -> list[float]:
    """1 / (B L_i): every sequence counts the same   GRPO as published, arXiv:2402.03300

    >>> sequence([1, 4])
    [0.5, 0.125]
    """
    return [1 / (len(lengths) * max(n, 1)) for n in lengths]


def constant(lengths: list[int]) -> list[float]:
    """1 / (B L), L the longest of the update: no sequence gains by its length   Dr. GRPO

    >>> constant([1, 4])
    [0.125, 0.125]
    """
    return [1 / (len(lengths) * max(*lengths, 1))] * len(lengths)


# --- all groups of an update ----------------------------------------------------------------------


def ema(groups: list[Tensor], b: float) -> tuple[list[Tensor], float]:
    """(A_i = r_i - b, the next b = .95 b + .05 mean(r)): a baseline that remembers the updates
    before, so that a group of one will do.  [G], … -> [G], …   Williams 1992

    >>> ema([torch.tensor([1.0])], b=0.2)
    ([tensor([0.8000])], 0.24)
    """
    return [r - b for r in groups], 0.95 * b + 0.05 * torch.cat(groups).mean().item()


def top_p(std: Tensor, p: float) -> Tensor:
    """1 for the groups of largest reward std that hold the share p of it all, else 0.  [N] -> [N]

    StarPO-S, arXiv:2504.20073: learn where the outcome is uncertain. p = 1 drops no group but
    those without variance; without any, all stay.

    >>> top_p(torch.tensor([0.1, 0.5, 0.0, 0.4]), 0.9)
    tensor([0., 1., 0., 1.])
    """
    large, order = std.sort(descending=True, stable=True)
    kept = torch.zeros_like(std)
    kept[order] = ((large.cumsum(0) - large < p * std.sum() - 1e-6) & (large > 0)).float()
    return kept if kept.any() else torch.ones_like(std)


def soft(std: Tensor, p: float) -> Tensor:
    """std / mean(std): the same preference without a threshold.  [N] -> [N]"""
    return std / std.mean() if std.any() else torch.ones_like(std)


def advantages(groups: list[Tensor], name: str, k: int, lengths: list[Tensor]) -> list[Tensor]:
    """The advantages of that name for all groups of an update; k is top_k's.  [G], … -> [G], …

    `batch` subtracts the mean over all groups (GPG, arXiv:2504.02546): a group of one will do.
    """
    if name == "batch":
        baseline = torch.cat(groups).mean()
        return [r - baseline for r in groups]
    if name == "opo":
        return [opo(r, n) for r, n in zip(groups, lengths, strict=True)]
    return [top_k(r, k) if name == "top_k" else ADVANTAGES[name](r) for r in groups]


REWARDS = {"action_prob": action_prob, "action_prob_mean": action_prob_mean}
ADVANTAGES = {
    "posterior": posterior, "mean": mean, "mean_std": mean_std, "asym_clip": asym_clip,
    "rloo": rloo, "best": best, "none": none,
}  # fmt: skip
LOSSES = {
    "pg": pg, "is": importance, "ppo_clip": ppo_clip, "dual_clip": dual_clip, "gspo": gspo,
    "cispo": cispo, "masked_is": masked_is, "ipo": ipo, "sapo": sapo,
}  # fmt: skip
CORRECTIONS = {"truncate": truncate, "mask": mask}
GROUPS = {"top_p": top_p, "soft": soft}
AGGREGATIONS = {"token": token, "sequence": sequence, "constant": constant}
