"""Act-PRM: from an expert's log of actions alone, the policy learns thoughts that lead to them.

This is the full version of THINK, SCORE and CREDIT in act_prm.py; UPDATE is `learn` in trainer.py.
What a log of several steps adds: the thought of one step is read by the next. `Walk.commit` decides
which thought the next step reads, `outcomes` how much of what follows counts for a thought.

    Walk      one log, walked step by step: its groups so far, and the paths through it
    Group     the G thoughts of one step
    Thought   one of them, drawn from a path
    Path      the log up to a step, with one thought chosen for each step before it

Not here: writing thoughts into logs (relabel.py), the maths (algorithms.py), sampling (model/).
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch

from minprm.algorithms import gain, posterior, returns_to_go, systematic_resample
from minprm.chosen import advantages
from minprm.constants import ActPRM
from minprm.data import Demo, Sample, Step, chain
from minprm.model.agent import Agent
from minprm.model.trunks import Trunks
from minprm.run.events import Grouped
from minprm.run.randomness import noise_seed, pick
from minprm.stages import variants
from minprm.text.chat import Chat, Turn
from minprm.trainer import Batch, Run, loop
from minprm.zoo import HARD_EM

# Logs that are walked side by side: with a group of thoughts a step, and with one thought. All that
# depends on them (thoughts, histories, keys and values) is in memory at once.
SIDE_BY_SIDE, WITH_ONE_THOUGHT = 32, 128


def act_prm(run: Run, stage_id: str, **changes) -> None:
    """The stage. `changes` are knobs of ActPRM that a variant of it sets."""
    cfg = replace(run.cfg.act_prm, **changes)

    def batch(update: int) -> Batch:
        demos = pick(run.train_demos, cfg.batch, run.seed, stage_id, update)
        seed = noise_seed(run.seed, stage_id, update)
        walks, groups = walk_logs(run.agent, demos, cfg, seed)  # THINK and SCORE, step by step
        outcomes(walks, cfg)
        credit(groups, cfg)  # CREDIT
        event = Grouped(stage_id, update, cfg, groups)
        run.tell(event)  # who listens measures them, and ends a run in which nothing is learned
        return to_samples(groups, run.agent.chat, cfg, run.agent.version), event.stats  # for UPDATE

    loop(run, stage_id, cfg, cfg.updates, batch, f"eval/{cfg.best_by}")


# --- a walk through a log -------------------------------------------------------------------------


@dataclass(eq=False)
class Thought:
    """A sampled thought."""

    path: "Path"  # the one that it was drawn from
    ids: list[int]  # without the closing tag
    sampled: list[int]  # with it, where it was drawn
    logprobs: list[float]  # of `sampled`
    closed: bool  # the closing tag was drawn
    cut: bool  # neither it nor the end of the turn was drawn
    usable: bool  # closed, and plain text; others earn 0, and histories leave them out
    reward: float = 0.0
    outcome: float = 0.0  # the number that is compared within the group; see `outcomes`
    advantage: float = 0.0  # of the thought's own tokens
    action_weight: float = 0.0  # the advantage of the expert's action after it


@dataclass(eq=False)
class Path:
    """A log up to the current step, with the thoughts chosen for it."""

    turns: list[Turn] = field(default_factory=list)
    thoughts: list[Thought] = field(default_factory=list)
    history: Sample = field(default_factory=Sample)  # all that the next thought reads

    def longer(self, z: Thought, group: "Group", chat: Chat) -> "Path":
        """This path and one turn more: the thought, and what the expert did."""
        without_thought = chat.closed(chat.opening(None, group.step.action), group.action)
        full = chat.turn(z.ids, group.action) if z.usable else without_thought
        turn = Turn(*group.state_ids, full, without_thought)
        return Path([*self.turns, turn], [*self.thoughts, z], self.history)


@dataclass(eq=False)
class Group:
    """The G thoughts of one logged step."""

    step: Step
    action: list[int]  # the expert's, as ids
    state_ids: tuple[list[int], list[int]]  # ids of the state, and of it without observations
    paths: list[Path]  # that lead to this step: one, or one for each thought
    thoughts: list[Thought] = field(default_factory=list)
    chance: float = 0.0  # the baseline: the step's reward without a thought; 0 where there is none


class Walk:
    """One log, walked from its start to its end.

    continues   paths   the next step reads              what counts for a thought (`outcomes`)
    best        1       the thought of largest reward    its reward
    own         G       each path its own thought        the rewards from its step to the end
    resample    G       paths that survive, by reward    how many of the last paths descend from it
    """

    def __init__(self, demo: Demo, cfg: ActPRM):
        self.demo = demo
        self.groups: list[Group] = []  # one for each step so far
        # the same empty path, as often as there will be paths: they differ from step 1 on
        self.paths = [Path()] * (1 if cfg.continues == "best" else cfg.group)

    def arrive(self, t: int, agent: Agent, shared: dict) -> Group:
        """Opens step t: its state now ends the history of each path.

        shared: what the histories of all walks have in common, so that it is read once.
        """
        step = self.demo.steps[t]
        after = self.demo.action_before(t)
        state_ids = agent.state_ids(step.state, self.demo.tools, after)
        for path in self.paths:
            before = agent.chat.history(path.turns, agent.history)
            path.history = chain([*before, state_ids[0]], shared)
        self.groups.append(Group(step, agent.chat.action(step.action), state_ids, self.paths))
        return self.groups[-1]

    def commit(self, group: Group, chat: Chat, cfg: ActPRM, u: float) -> None:
        """Decides which thoughts the next step will see; u is uniform in [0, 1)."""
        rewards = torch.tensor([z.reward for z in group.thoughts])
        survivors = group.thoughts
        if cfg.continues == "best":  # where all earn the same, one that can be read
            survivors = [max(group.thoughts, key=lambda z: (z.usable, z.reward))]
        if cfg.continues == "resample":  # a particle filter: G paths survive in proportion to r
            survivors = [group.thoughts[i] for i in systematic_resample(rewards, u)]
        longer: dict[int, Path] = {}  # a path that survives twice is one path
        for z in survivors:
            longer.setdefault(id(z), z.path.longer(z, group, chat))
        self.paths = [longer[id(z)] for z in survivors]


def check_rewards(walks: list[Walk], t: int) -> None:
    """Raises FloatingPointError, with the place, where a thought of step t earned no number.

    NaN would be taken for the best, and end in the weights.
    """
    for walk in walks:
        for z in walk.groups[t].thoughts:
            if not math.isfinite(z.reward):
                raise FloatingPointError(
                    f"task {walk.demo.task}, step {t + 1}: a thought earned {z.reward}; look for "
                    "an expert's action without any token, or for weights that are not finite"
                )


def walk_logs(
    agent: Agent, demos: list[Demo], cfg: ActPRM, seed: int
) -> tuple[list[Walk], list[Group]]:
    """Walks all logs side by side, step by step. Returns the walks, and their groups as met."""
    agent.sampler.begin()  # nothing depends on what was read before
    walks = [Walk(demo, cfg) for demo in demos]
    all_groups = []
    shared = {}
    trunks = Trunks(agent.policy, cfg.scored_by == "base")
    rng = random.Random(seed)
    for t in range(max(len(demo.steps) for demo in demos)):
        live = [walk for walk in walks if t < len(walk.demo.steps)]
        groups = [walk.arrive(t, agent, shared) for walk in live]  # every log's state at step t
        think(groups, agent, cfg, seed + t)  # z_1 ... z_G ~ p(z | state)
        score(groups, agent, cfg, noise_seed(seed, "score", t), trunks)  # r = p(action | state, z)
        check_rewards(live, t)
        for walk, group in zip(live, groups, strict=True):
            walk.commit(group, agent.chat, cfg, rng.random())  # what the next step will see
        all_groups += groups
    return walks, all_groups


def portions(demos: list[Demo], size: int = SIDE_BY_SIDE) -> Iterator[tuple[int, list[Demo]]]:
    """So many demos at a time, each time with the number of the first.

    Who walks a portion to its end, and keeps numbers and texts alone of it, needs no more memory
    for 1,000 logs than for one portion.

    >>> [(first, len(demos)) for first, demos in portions([None] * 70)]
    [(0, 32), (32, 32), (64, 6)]
    """
    for first in range(0, len(demos), size):
        yield first, demos[first : first + size]


# --- THINK ----------------------------------------------------------------------------------------


def think(groups: list[Group], agent: Agent, cfg: ActPRM, seed: int) -> None:
    """Samples G thoughts for each group: all from its one path, or one from each of its G paths."""
    chat = agent.chat
    starts = []
    prompts = []
    stops = [*chat.stop, *chat.ends]  # a model may end its turn where it should end its thought
    for group in groups:
        hint = [] if cfg.thoughts_from == "state" else chat.before_thought(group.action)
        for path in group.paths:
            starts.append((group, path))
            prompts.append(path.history.whole() + hint + chat.think)
    thoughts_a_path = cfg.group // len(groups[0].paths)
    completions = agent.sampler.generate(
        prompts, thoughts_a_path, agent.thought_tokens, stops, agent.temperature, seed
    )
    for (group, path), completions_of_path in zip(starts, completions, strict=True):
        for completion in completions_of_path:
            last = completion.ids[-1:]
            closed = last == chat.stop
            cut = not closed and last[0] not in chat.ends
            ids = completion.ids[:-1] if closed else completion.ids
            usable = closed and chat.clean(ids)
            z = Thought(path, ids, completion.ids, completion.logprobs, closed, cut, usable)
            group.thoughts.append(z)


# --- SCORE ----------------------------------------------------------------------------------------


def score(groups: list[Group], agent: Agent, cfg: ActPRM, seed: int, trunks: Trunks) -> None:
    """Writes each thought's reward. A thought that never ended, or is no text, keeps its 0."""
    if cfg.baseline == "no_thought":
        variants.write_chances(groups, agent.chat, cfg, trunks)
    pairs = [(group, z) for group in groups for z in group.thoughts if z.usable]
    if not pairs:
        return
    if cfg.reward == "exact_match":
        rewards = variants.rewards_by_writing(groups, pairs, agent, seed)
    else:
        samples = [_action_after(z, group, agent.chat, cfg) for group, z in pairs]
        logps = trunks.logprobs(samples)  # as policy.logprobs, and no long log is read twice
        pairs, logps = variants.without_other_tags(pairs, logps, agent.chat)
        rewards = variants.rewards_by_reading(pairs, logps, cfg.reward, agent.chat)
    for (_, z), reward in zip(pairs, rewards, strict=True):
        z.reward = reward


def _action_after(z: Thought, group: Group, chat: Chat, cfg: ActPRM) -> Sample:
    """The expert's action after this thought. An advantage, even 0, marks what is read: what the
    reward asks for and, of a closing tag that is spelled, what follows its first token."""
    tags = 0.0 if cfg.reward_span == "turn" else None
    sample = Sample(parent=z.path.history).extend([*chat.think, *z.ids, *chat.stop])
    sample.extend(chat.think_end[1:], 0.0)
    sample.extend(chat.act, tags).extend(group.action, 0.0)
    return sample.extend([*chat.act_end, *chat.end], tags)


# --- CREDIT ---------------------------------------------------------------------------------------


def outcomes(walks: list[Walk], cfg: ActPRM) -> None:
    """Writes the number that is compared within each group: the last column of the table in Walk.

    With `resample` it counts descendants, so that `posterior` is the E-step over whole sequences of
    thoughts and not over the thoughts of one step. A thought of reward 0 counts none: it lived on
    only where its whole group earned 0. With `own` an unusable thought has no part in what follows,
    because histories leave it out.
    """
    for walk in walks:
        match cfg.continues:
            case "best":
                for group in walk.groups:
                    for z in group.thoughts:
                        z.outcome = z.reward
            case "own":
                for path in walk.paths:
                    rewards = torch.tensor([z.reward for z in path.thoughts])
                    to_go = returns_to_go(rewards, gamma=1.0).tolist()
                    for z, outcome in zip(path.thoughts, to_go, strict=True):
                        z.outcome = outcome if z.usable else 0.0
            case "resample":
                for group in walk.groups:
                    for z in group.thoughts:
                        z.outcome = 0.0
                for path in walk.paths:
                    for z in path.thoughts:
                        z.outcome += z.reward > 0


def credit(groups: list[Group], cfg: ActPRM) -> None:
    """Writes two weights for each thought, from the outcomes of its group.

    The thought's tokens were sampled, so a baseline may be subtracted: any advantage will do. The
    expert's action was not: it is weighed by the posterior, or in hard EM by the thought's 0 or 1.
    """
    gains = []
    lengths = []
    posteriors = []
    for group in groups:
        outcomes = torch.tensor([z.outcome for z in group.thoughts])
        gains.append(gain(outcomes, group.chance))
        lengths.append(torch.tensor([float(len(z.sampled)) for z in group.thoughts]))
        posteriors.append(posterior(gains[-1], group.chance))
    advs = posteriors
    if cfg.advantage != "posterior":
        advs = advantages(gains, cfg.advantage, lengths)
    weights = advs if cfg.advantage in HARD_EM else posteriors
    for group, adv, weight in zip(groups, advs, weights, strict=True):
        for i, z in enumerate(group.thoughts):
            z.advantage = adv[i].item()
            z.action_weight = weight[i].item()


# --- what UPDATE trains on ------------------------------------------------------------------------


def to_samples(groups: list[Group], chat: Chat, cfg: ActPRM, version: int) -> list[Sample]:
    """Every thought as a Sample, or as two where both orders of thought and action are trained."""
    samples = []
    for group in groups:
        for z in group.thoughts:
            if cfg.trained_on != "action_first":
                samples.append(_thought_first(z, group, chat, cfg))
            if cfg.trained_on in ("action_first", "both"):
                samples.append(variants.action_first(z, group, chat, cfg))
    for sample in samples:
        sample.version = version
    return samples


def _thought_first(z: Thought, group: Group, chat: Chat, cfg: ActPRM) -> Sample:
    """state | thought | action: the order in which the agent will act."""
    # a thought that saw the action was drawn after another prompt: here its log-probs are not true
    logprobs = z.logprobs if cfg.thoughts_from == "state" else None
    sample = Sample(parent=z.path.history)
    sample.extend(chat.think)  # the opening tag was forced, so nothing is learned of it
    sample.extend(z.sampled, z.advantage, logprobs)
    if z.closed and cfg.trained_on != "thought":
        tag = chat.think_end[1:]  # sampling stops at the first token of a closing tag
        turn = [*tag, *chat.act, *group.action, *chat.act_end, *chat.end]
        sample.extend(turn, z.action_weight)
    return sample
