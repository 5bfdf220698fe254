"""Figure of chapter 4: what a loss lets through of a token's gradient."""

import math
from collections.abc import Callable

import matplotlib.pyplot as plt
import torch

from evidence.drawings.style import ACCENT, AGAINST, GREY, INCHES, INK, LINE, SOFT
from minprm.zoo import LOSSES

# in float64: processors round float32 differently, and a figure is the same file on each
RATIOS = torch.logspace(math.log10(0.08), math.log10(12.5), 151, dtype=torch.float64)
PANELS = {  # loss: what the panel shows of it
    "ppo_clip": "stops what moved its way",
    "dual_clip": "and what grew and is bad",
    "cispo": "always learns, by 5 at most",
    "masked_is": "drops beyond 1/8 and 8",
    "ipo": "drops a move of p above .3",
    "sapo": "fades to both sides",
}
TOKEN = 0.1  # probability of the token when it was sampled; only ipo asks for it


def factors(loss: Callable, sign: float) -> torch.Tensor:
    """The gradient at each ratio as a multiple of that of `pg`, which is -A.  [ratios]"""
    old_logp = torch.full_like(RATIOS, math.log(TOKEN))
    logp = (old_logp + RATIOS.log()).requires_grad_()
    adv = torch.full_like(RATIOS, sign)
    (gradient,) = torch.autograd.grad(loss(logp, old_logp, adv).sum(), logp)
    return -gradient / sign


def panel(axis, name: str, says: str) -> None:
    """One loss, beside `pg` and `is`. Where its curve ends, the token teaches nothing."""
    axis.axhline(1, color=GREY, linewidth=1)
    axis.plot([0.08, 12.5], [0.08, 12.5], color=GREY, linewidth=1)
    for sign, colour, width in ((1.0, ACCENT, 4), (-1.0, AGAINST, 1.5)):
        found = factors(LOSSES[name], sign)
        found[found == 0] = math.nan
        axis.plot(RATIOS, found, color=colour, linewidth=width, solid_capstyle="butt")
        drawn = found.isfinite().nonzero()[:, 0]
        for end in (int(drawn[0]), int(drawn[-1])):
            if 0 < end < len(RATIOS) - 1:
                axis.plot(RATIOS[end], found[end], "o", color=colour, markersize=width + 2)
    axis.set(xscale="log", yscale="log", xlim=(0.08, 12.5), ylim=(0.08, 12.5))
    ticks = [0.125, 0.5, 1, 2, 8]
    axis.set_xticks(ticks, ["1/8", "1/2", "1", "2", "8"])
    axis.set_yticks(ticks, ["1/8", "1/2", "1", "2", "8"])
    axis.minorticks_off()
    axis.grid(color=LINE, linewidth=0.8)
    axis.tick_params(labelsize=7)
    axis.set_title(name, color=INK, loc="left", fontweight="bold", pad=15)
    axis.text(0, 1.04, says, color=SOFT, fontsize=7.5, transform=axis.transAxes)


def objectives():
    """Six losses, each as the factor by which it multiplies the plain policy gradient of a token
    while the token's ratio goes from one eighth to eight. ppo_clip ends where a good token has
    become 1.28 times as likely, or a bad one .8 times; dual_clip also ends at 3 for bad ones;
    cispo stays at 5 from there on; masked_is ends at 1/8 and 8; ipo ends where the probability
    has moved by .3; sapo falls off smoothly to both sides."""
    figure, axes = plt.subplots(2, 3, figsize=(INCHES, 4.6), sharex=True, sharey=True)
    for axis, (name, says) in zip(axes.flat, PANELS.items(), strict=True):
        panel(axis, name, says)
    first = axes[0, 0]
    first.text(0.09, 1.15, "pg", color=SOFT, fontsize=7.5)
    first.text(3.2, 6.5, "is", color=SOFT, fontsize=7.5)
    first.text(0.09, 0.48, "A > 0", color=ACCENT, fontsize=8)
    first.text(3.2, 1.5, "A < 0", color=AGAINST, fontsize=8)
    figure.supxlabel("ratio ρ: how much likelier than when it was sampled", color=SOFT, fontsize=9)
    figure.supylabel("gradient, as a multiple of pg's", color=SOFT, fontsize=9)
    return figure


FIGURES = {"objectives": objectives}
