"""What Act-PRM can also do: thoughts that have seen the action, and rewards of other kinds.

The story in stages/act_prm.py does without. Thoughts that see the action (--act-prm.thoughts-from
state_action) are easier to find, and pay for naming it (docs/ladder.md#ablations). A reward of the
user's own may read texts beside log-probs (own.py). A reward by writing (--act-prm.reward
exact_match) needs no log-probs, and costs sampling. `without_thought` is the baseline
(--act-prm.baseline no_thought). `group` and `z` are a Group of stages/act_prm.py and one of its
Thoughts.
"""

import math

from torch import Tensor

from minprm import chosen, own
from minprm.constants import ActPRM
from minprm.data import Sample
from minprm.model.agent import Agent
from minprm.model.trunks import Trunks
from minprm.text.actions import exact_match
from minprm.text.chat import Chat


def action_first(z, group, chat: Chat, cfg: ActPRM) -> Sample:
    """state | action | thought: the order in which a thought that saw the action was drawn."""
    logprobs = z.logprobs if cfg.thoughts_from == "state_action" else None
    weight = z.action_weight if z.closed else None
    sample = Sample(parent=z.path.history).extend(chat.before_thought(group.action), weight)
    sample.extend(chat.think)
    sample.extend(z.sampled, z.advantage, logprobs)
    if z.closed:
        sample.extend([*chat.think_end[1:], *chat.end], weight)
    return sample


def without_other_tags(
    pairs: list[tuple], logps: list[Tensor], chat: Chat
) -> tuple[list[tuple], list[Tensor]]:
    """The pairs (group, z) whose thought the model would end, and the log-probs of their actions.

    logps: of what is spelled behind the token at which sampling stopped, such as the `think>` of
    `</think>`, and then of the action; [K] each. If the model would rather write another tag there,
    the thought goes on: where the model acts, nobody would end it for the model.
    """
    spelled = len(chat.think_end) - 1
    ended = []
    of_actions = []
    for (group, z), logp in zip(pairs, logps, strict=True):
        if spelled and logp[0] < math.log(0.5):
            z.ids = z.sampled
            z.cut = True
            z.closed = z.usable = False
        else:
            ended.append((group, z))
            of_actions.append(logp[spelled:])
    return ended, of_actions


def rewards_by_reading(
    pairs: list[tuple], logps: list[Tensor], name: str, chat: Chat
) -> list[float]:
    """The reward of this name for each (group, z) in pairs. logps: [K], of each one's action."""
    if not own.reads_texts(name):
        return chosen.rewards(name, logps)
    texts = []
    for group, z in pairs:
        texts.append((chat.text(z.ids), group.step.observation(), group.step.action))
    return chosen.rewards(name, logps, texts)


def write_chances(groups: list, chat: Chat, cfg: ActPRM, trunks: Trunks) -> None:
    """Writes the baseline of each group: its reward without a thought."""
    steps = [(group, group.paths[0]) for group in groups]
    for group, chance in zip(groups, without_thought(steps, chat, cfg, trunks), strict=True):
        group.chance = chance


def without_thought(steps: list[tuple], chat: Chat, cfg: ActPRM, trunks: Trunks) -> list[float]:
    """The reward of each step's action if the turn had no thought. steps: (group, path), where the
    path is a Path that leads to the group. That the turn opens its action at once is given, as it
    is given behind a thought that the turn thinks first."""
    tags = 0.0 if cfg.reward_span == "turn" else None
    samples = []
    for group, path in steps:
        sample = Sample(parent=path.history).extend(chat.opening(None, group.step.action))
        sample.extend(group.action, 0.0).extend([*chat.act_end, *chat.end], tags)
        samples.append(sample)
    return chosen.rewards(cfg.reward, trunks.logprobs(samples))


def rewards_by_writing(groups: list, pairs: list[tuple], agent: Agent, seed: int) -> list[float]:
    """1 where the model, after its own thought, writes the expert's action, else 0.

    One for each (group, z) in pairs.
    """
    chat = agent.chat
    openings = []
    prompts = []
    for _, z in pairs:
        openings.append(chat.opening(z.ids))
        prompts.append(z.path.history.whole() + openings[-1])
    limit = max(len(group.action) for group in groups) + len(chat.act_end + chat.end)
    completions = agent.sampler.generate(prompts, 1, limit, chat.ends, 1.0, seed)
    rewards = []
    for (group, _), opening, (completion,) in zip(pairs, openings, completions, strict=True):
        _, action = chat.parse(opening + completion.ids)
        rewards.append(exact_match(action, group.step.action))
    return rewards
