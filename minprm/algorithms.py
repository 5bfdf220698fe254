"""The maths of the methods and nothing else, in the order of the four steps of act_prm.py.

    THINK     nothing to compute: thoughts are sampled from the model
    SCORE     how well a thought predicts the expert's action    action_prob, action_prob_mean
    CREDIT    what each thought of a group deserves              posterior, mean_std, ...
              the same over several steps                        returns_to_go, systematic_resample
    UPDATE    what a token's loss is                             pg, ppo_clip, kl_k3, token

These are pure functions, which know nothing of models or worlds. The dicts at the end map names in
the configuration to most of them. zoo.py has the objectives that the ladder does not need.

    r, adv      the rewards of one group, and its advantages
    logp        log-probs of tokens under the model that learns
    old_logp    log-probs of the same tokens when they were sampled; ref_logp: under a reference

Losses are minimised. A lower policy-gradient "loss" is *not* a better model: only its gradient
means something.
"""

import torch
from torch import Tensor

# --- SCORE: the reward of a thought ---------------------------------------------------------------


def action_prob(logp: Tensor) -> float:
    """r(z) = p(a | s, z) = exp(sum_k logp_k), over the action's tokens.  [K] -> scalar   Act-PRM

    The probability itself. It is the only reward for which `posterior` is the E-step.

    >>> round(action_prob(torch.log(torch.tensor([0.5, 0.5]))), 4)
    0.25
    """
    return logp.sum().exp().item()


def action_prob_mean(logp: Tensor) -> float:
    """r(z) = exp(mean_k logp_k), the geometric mean over the tokens.  [K] -> scalar   Act-PRM

    For long actions, where the product is near 0 for all thoughts but one. Tokens that are certain
    anyway pull every reward towards 1, so the template's own tokens should not be scored:

    >>> round(action_prob_mean(torch.log(torch.tensor([0.2, 1.0, 1.0, 1.0, 1.0]))), 2)
    0.72
    """
    return logp.mean().exp().item()


# --- CREDIT: from the rewards of one group to advantages, [G] -> [G] ------------------------------


def posterior(r: Tensor, b: float = 0.0) -> Tensor:
    """A_i = r_i / (mean(r) + b); 0 where all is 0.  [G] -> [G]   the E-step of Act-PRM

    Take z_i ~ p(z | s), r_i = p(a | s, z_i) and b = 0. Then the weights A_i / G estimate
    p(z | s, a), and the policy gradient with A climbs log sum_z p(a, z | s). This is
    Expectation-Maximisation, written as reinforcement.

    >>> posterior(torch.tensor([1.0, 0.2, 0.0, 0.0]))
    tensor([3.3333, 0.6667, 0.0000, 0.0000])

    Take b = p(a | s), the action's probability without a thought, and `gain` as r. Then the
    gradient climbs log sum_z p(z | s) max(p(a | s, z), b). Acting without a thought is one more
    explanation of the action, and its share of the weight is b / (mean(r) + b).

    >>> posterior(gain(torch.tensor([1.0, 0.2, 0.0, 0.0]), b=0.2), b=0.2)
    tensor([2., 0., 0., 0.])
    """
    total = r.mean() + b
    return r / total if total > 0 else torch.zeros_like(r)


def gain(r: Tensor, b: float) -> Tensor:
    """max(r_i - b, 0): what a thought adds to b, the reward of the same step without one.
    [G] -> [G]"""
    return (r - b).clamp(min=0)


def max_rl(r: Tensor) -> Tensor:
    """A_i = r_i / mean(r) - 1; 0 where all is 0.  [G] -> [G]   MaxRL, arXiv:2602.02710

    This is `posterior`, centred. Where r is 1 for a success and else 0, it climbs the log of the
    probability of success, as `posterior` climbs that of the expert's action.

    >>> max_rl(torch.tensor([1.0, 0.0, 0.0, 0.0]))
    tensor([ 3., -1., -1., -1.])
    """
    return posterior(r) - posterior(r).mean()


def none(r: Tensor) -> Tensor:
    """A_i = r_i.  [G] -> [G]   REINFORCE, Williams 1992"""
    return r


def mean(r: Tensor) -> Tensor:
    """A_i = r_i - mean(r).  [G] -> [G]   Dr. GRPO, arXiv:2503.20783"""
    return r - r.mean()


def mean_std(r: Tensor) -> Tensor:
    """A_i = (r_i - mean(r)) / (std(r) + 1e-4), std unbiased.  [G] -> [G]   GRPO, arXiv:2402.03300

    Where all earn the same, and so in a group of one, it is 0: the mean is rounded, and what is
    left of a large reward may be more than 1e-4.

    >>> mean_std(torch.tensor([1.0, 0.0, 0.0, 0.0]))
    tensor([ 1.4997, -0.4999, -0.4999, -0.4999])
    """
    return (r - r.mean()) / (r.std() + 1e-4) if r.max() > r.min() else torch.zeros_like(r)


# --- CREDIT over several steps --------------------------------------------------------------------


def returns_to_go(r: Tensor, gamma: float) -> Tensor:
    """R_t = r_t + gamma R_{t+1}, over the steps of one episode.  [T] -> [T]

    >>> returns_to_go(torch.tensor([1.0, 0.0, 1.0]), gamma=0.5)
    tensor([1.2500, 0.5000, 1.0000])
    """
    returns = torch.zeros_like(r)
    for t in reversed(range(len(r))):
        returns[t] = r[t] + (gamma * returns[t + 1] if t + 1 < len(r) else 0.0)
    return returns


def systematic_resample(w: Tensor, u: float) -> list[int]:
    """Which of G particles live on, in proportion to their weights w.  [G] -> G indices

    A particle is one of G paths that are followed side by side. One uniform number u in [0, 1) is
    enough: particle i is kept floor or ceil of G w_i / sum(w) times (Douc et al.,
    arXiv:cs/0507025, compare such schemes). If all weights are 0, every particle is kept once.

    >>> systematic_resample(torch.tensor([0.1, 0.8, 0.1, 0.0]), u=0.9)
    [1, 1, 1, 2]
    """
    if w.sum() <= 0:
        return list(range(len(w)))
    edges = (w.double() / w.double().sum()).cumsum(0)
    points = (torch.arange(len(w), dtype=torch.float64) + u) / len(w)
    last = int(w.nonzero().max())  # rounding must not resurrect a particle of weight 0
    return torch.searchsorted(edges, points, right=True).clamp(max=last).tolist()


def effective_sample_size(w: Tensor) -> float:
    """(sum w)^2 / sum w^2: how many particles carry the weight; 0 if none.  [G] -> scalar"""
    w = w.double()  # the square of a probability of many tokens is 0 in fp32
    return (w.sum() ** 2 / w.square().sum()).item() if w.sum() > 0 else 0.0


# --- UPDATE: the loss of a token, [T] -> [T] ------------------------------------------------------


def pg(logp: Tensor, old_logp: Tensor, adv: Tensor) -> Tensor:
    """-A logp, whoever drew it.  [T] -> [T]   REINFORCE; A = 1 on an expert's tokens *is* SFT"""
    return -adv * logp


def ppo_clip(
    logp: Tensor, old_logp: Tensor, adv: Tensor, eps: tuple[float, float] = (0.2, 0.28)
) -> Tensor:
    """max(-A rho, -A clip(rho, 1-eps_lo, 1+eps_hi)), rho = exp(logp - old_logp).  [T] -> [T]
    PPO, arXiv:1707.06347 eq. 7

    The ratio is trusted near 1 only: outside the range no gradient moves it further away from 1.
    eps_hi > eps_lo leaves room for unlikely tokens to grow (DAPO, arXiv:2503.14476).

    >>> ppo_clip(*torch.tensor([[0.5, -0.5], [0.0, 0.0], [1.0, 1.0]]))  # A > 0: only 1.65 is cut
    tensor([-1.2800, -0.6065])
    """
    rho = torch.exp(logp - old_logp)
    return torch.maximum(-adv * rho, -adv * rho.clamp(1 - eps[0], 1 + eps[1]))


def kl_k3(logp: Tensor, ref_logp: Tensor) -> Tensor:
    """exp(ref - logp) - (ref - logp) - 1 >= 0.  [T] -> [T]   Schulman's k3

    Its mean over tokens drawn from the policy is KL(policy || reference). Its gradient is that of
    another KL: as a loss take `kl_loss` of zoo.py (joschu.net/blog/kl-approx.html). With the sign
    of ref - logp flipped it is wrong, but still 0 where ref = logp: test it elsewhere.
    """
    return torch.exp(ref_logp - logp) - (ref_logp - logp) - 1


def token(lengths: list[int]) -> list[float]:
    """1 / N for each sequence: every token of the update weighs the same.   DAPO

    N counts the tokens of the whole update. If it counted those of one micro-batch, the loss would
    depend on how memory was split.

    >>> token([1, 3])
    [0.25, 0.25]
    """
    return [1 / max(sum(lengths), 1)] * len(lengths)


REWARDS = {"action_prob": action_prob, "action_prob_mean": action_prob_mean}
ADVANTAGES = {
    "posterior": posterior,
    "max_rl": max_rl,
    "none": none,
    "mean": mean,
    "mean_std": mean_std,
}
LOSSES = {"pg": pg, "ppo_clip": ppo_clip}
AGGREGATIONS = {"token": token}
