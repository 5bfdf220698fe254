"""What is logged of the groups of an update, and how fast it was. What each number means:
report/glossary.toml."""

from statistics import fmean

import torch

from minprm.algorithms import effective_sample_size
from minprm.arms.evaluation import summary
from minprm.data import Sample
from minprm.model.tree import numbered_paths
from minprm.play import Episode
from minprm.run.events import Event, Grouped, Played, Updated
from minprm.text.actions import copies
from minprm.text.chat import Chat
from minprm.trainer import Run


def metrics(run: Run, event: Event) -> None:
    """The listener: adds the numbers below to what is logged of an update."""
    chat = run.agent.chat
    match event:
        case Grouped():
            event.stats |= group_metrics(event.groups, chat)
        case Played():
            event.stats |= turn_metrics(event.episodes, chat)


def group_metrics(groups: list, chat: Chat) -> dict[str, float]:
    """Means over the groups of an update, and over their thoughts."""
    r = torch.tensor([[z.reward for z in group.thoughts] for group in groups])  # [groups, G]
    best = r.max(1).values
    thoughts = []
    copied = []
    for group in groups:
        thoughts += group.thoughts
        action, seen = group.step.action, group.step.observation()
        copied += [copies(chat.text(z.ids), action, seen) for z in group.thoughts]
    return {
        "reward/mean": r.mean().item(),
        "reward/best": best.mean().item(),
        "reward/std": r.std(1, correction=0).mean().item(),
        "reward/no_variance": (best == r.min(1).values).float().mean().item(),
        "reward/effective_sample_size": sum(map(effective_sample_size, r)) / len(r),
        "policy/thought_length": fmean(len(z.ids) for z in thoughts),
        "policy/unclosed": fmean(not z.closed for z in thoughts),
        "policy/copy_rate": fmean(copied),
        "policy/drawn_tokens": sum(len(z.sampled) for z in thoughts),
    }


def turn_metrics(episodes: list[Episode], chat: Chat) -> dict[str, float]:
    """What an evaluation measures, of the episodes that were played for an update, and what of
    their turns was drawn."""
    measured = summary(episodes)
    unclosed = []
    drawn_tokens = 0
    for e in episodes:
        for sample, begin, end in e.spans:
            drawn_tokens += end - begin
            unclosed.append(sample.ids[end - 1] not in chat.ends)  # cut for its length
    failed = {"play/failed": measured["failed"]} if "failed" in measured else {}
    return {
        "play/turns": measured["turns"],
        "play/thought_rate": measured["thought_rate"],
        "play/valid": measured["valid"],
        "play/effective": measured["effective"],
        "play/outgrown": measured["outgrown"],
        "policy/thought_length": measured["thought_length"],
        "policy/unclosed": fmean(unclosed),
        "policy/copy_rate": measured["copy_rate"],
        "policy/drawn_tokens": drawn_tokens,
        **failed,
    }


def speeds(run: Run, event: Event) -> None:
    """The listener: adds how fast an update was, and what memory of a card it took.

    Each number comes from one clock reading: tokens that the sampler drew over the seconds of
    sampling, and tokens that were learned from over the seconds of the update.
    """
    if not isinstance(event, Updated):
        return
    stats = event.stats
    learned = run.cfg.optim.passes * unique_tokens(event.samples)
    stats["speed/tokens_per_second"] = learned / stats["time/update"]
    ahead = getattr(event.cfg, "max_async_level", 0)  # then the next batch is drawn meanwhile
    if "policy/drawn_tokens" in stats and not ahead:
        stats["speed/drawn_per_second"] = stats["policy/drawn_tokens"] / stats["time/sample"]
    device = run.agent.policy.model.device
    if device.type == "cuda":
        stats["speed/peak_memory_gb"] = torch.cuda.max_memory_allocated(device) / 1e9
        torch.cuda.reset_peak_memory_stats(device)  # the next one is that of the next update


def unique_tokens(samples: list[Sample]) -> int:
    """The tokens of these samples; a prefix that several of them share counts once.

    >>> state = Sample().extend([1, 2])
    >>> unique_tokens([Sample(parent=state).extend([3]), Sample(parent=state).extend([4])])
    4
    """
    sizes = {}
    for path in numbered_paths(samples):
        for number, ids in path:
            sizes[number] = len(ids)
    return sum(sizes.values())
