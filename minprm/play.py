"""Tokens meet worlds: play episodes, for RL and for evaluation, and the lines beside every score.

All episodes go in lockstep, one batch a turn. Ids that were sampled are kept as they were drawn.
"""

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from statistics import fmean

import torch

from minprm.algorithms import copies, exact_match
from minprm.constants import Config, History, fail
from minprm.data import Demo, Sample, Step, chain, from_chat
from minprm.envs import make_world
from minprm.envs.base import World, task_seed
from minprm.model.policy import Policy
from minprm.model.sampler import Completion, Sampler
from minprm.text.chat import Chat, Turn


@dataclass
class Episode:
    """One task played to its end: one Sample for all turns, or, where its history is edited, one a
    turn; and where each turn lies."""

    world: World
    samples: list[Sample] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    spans: list[tuple[Sample, int, int]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    infos: list[dict] = field(
        default_factory=list
    )  # of each step, thought_tokens and formatted added
    rewards: list[float] = field(default_factory=list)  # of each step, as RL is paid
    state: list[dict] = field(default_factory=list)  # the messages that it has to answer
    asked: tuple[list[int], list[int]] = ([], [])  # the same as ids, shown and hidden
    known: dict = field(default_factory=dict)  # of edited histories, what they have in common
    done: bool = False
    outgrown: bool = False  # ended, unsolved, because it no longer fitted the context

    def tokens(self, turns: list[int]) -> int:
        """Sampled tokens of these turns."""
        return sum(self.spans[t][2] - self.spans[t][1] for t in turns)

    def credit(self, turn: int, advantage: float) -> None:
        """Puts a turn's advantage on its tokens."""
        sample, begin, end = self.spans[turn]
        sample.advantages[begin:end] = [advantage] * (end - begin)


def play(
    cfg: Config, seeds: list[int], chat: Chat, sampler: Sampler, temperature: float, noise: int
) -> list[Episode]:
    """Plays each task seed to its end, all episodes in lockstep.

    The model itself decides whether it thinks first, but for --no-think. A malformed turn is an
    illegal action.
    """
    sampler.begin()
    episodes = [Episode(make_world(cfg)) for _ in seeds]
    for e, seed in zip(episodes, seeds, strict=True):
        e.state = _opening(e.world, seed)
    limit, roots = _turn_limit(cfg, chat), {}
    opening = [] if cfg.think else chat.bare or chat.opening([])
    while live := [e for e in episodes if not e.done]:
        for e in live:
            _ask(e, chat, cfg.history, roots)
            e.outgrown = e.done = len(e.samples[-1].whole()) + limit > cfg.context
            if e.outgrown and not any(e.samples[-1].mask):
                e.samples.pop()  # a question that nobody answered
        live = [e for e in live if not e.done]
        if not live:
            break
        prompts, t = [e.samples[-1].whole() + opening for e in live], len(live[0].steps)
        drawn = sampler.generate(prompts, 1, limit, chat.end[-1:], temperature, noise + t)
        said = [_written(e, c, chat, opening) for e, (c,) in zip(live, drawn, strict=True)]
        if live[0].world.waits:
            with ThreadPoolExecutor(len(live)) as pool:
                list(pool.map(_act, live, *zip(*said, strict=True)))
        else:
            for e, turn in zip(live, said, strict=True):
                _act(e, *turn)
    if not any(e.steps for e in episodes):
        fail(f"--context {cfg.context} does not hold a first observation and an answer")
    return episodes


def _written(
    e: Episode, completion: Completion, chat: Chat, opening: list[int]
) -> tuple[str | None, str | None, int]:
    """Keeps a sampled turn as it was drawn. Its thought, action, and tokens of the thought."""
    sample = e.samples[-1].extend(opening)
    begin = len(sample.ids)
    sample.extend(completion.ids, 0.0, completion.logprobs)  # credited at the end
    e.spans.append((sample, begin, len(sample.ids)))
    # cut for length: the template goes on as after any turn
    end = [] if completion.ids[-1] == chat.end[-1] else chat.end
    sample.extend(end)
    said = opening + completion.ids
    e.turns.append(Turn(*e.asked, said + end, chat.silent(said + end)))
    return *chat.parse(said), len(chat.split(said)[0] or [])


def _ask(e: Episode, chat: Chat, shown: History, roots: dict[int, Sample]) -> None:
    """Puts the state before the model: after all turns so far, or, where those are edited, in a
    sample of its own. Episodes of one task share their first state."""
    e.asked = chat.asked(e.state, e.world.tools, not e.steps)
    if not e.steps:
        root = roots.setdefault(e.world.seed, Sample().extend(e.asked[0]))
        e.samples.append(Sample(parent=root))
    elif shown.edits():
        e.samples.append(Sample(parent=chain([*chat.history(e.turns, shown), e.asked[0]], e.known)))
    else:
        e.samples[-1].extend(e.asked[0])


def _act(e: Episode, thought: str | None, action: str | None, tokens: int) -> None:
    """The world answers; also a turn in which no action could be read."""
    observation, reward, e.done, info = e.world.step(action or "")
    e.steps.append(Step(e.state, thought, action or "", reward))
    e.infos.append({**info, "thought_tokens": tokens, "formatted": action is not None})
    e.state = [_answer(e.world, observation)]


def _turn_limit(cfg: Config, chat: Chat) -> int:
    """Longest turn: thought, action, and the thought's tags."""
    thought = cfg.thought_tokens + len(chat.think + chat.think_end) if cfg.think else 0
    return thought + cfg.action_tokens + len(chat.end)


def _opening(world: World, seed: int) -> list[dict]:
    rules = [{"role": "system", "content": world.system}] if world.system else []
    return [*rules, {"role": "user", "content": world.reset(seed)}]


def expert_demos(cfg: Config, seed: int, n: int) -> list[Demo]:
    """The expert's logs of n training tasks."""
    return [expert_demo(make_world(cfg), task) for task in training_tasks(seed, n)]


def training_tasks(seed: int, n: int) -> list[int]:
    """Seeds of n training tasks; each seed of a ladder has its own."""
    return [task_seed("train", seed * 100_000 + i) for i in range(n)]


def expert_demo(world: World, seed: int) -> Demo:
    """The expert plays one task; the world explains each action where it can."""
    messages, done = _opening(world, seed), False
    while not done:
        thought, action = world.thought(), world.expert()
        messages.append(_said(world, thought, action))
        observation, _, done, _ = world.step(action)
        messages.append(_answer(world, observation))
    task = f"{type(world).__name__}-{seed}"
    return from_chat({"task": task, "messages": messages[:-1], "tools": world.tools})


def won_demos(episodes: list[Episode]) -> list[Demo]:
    """Episodes that were won by legal actions, each after a thought, as logs that hold both."""
    demos = []
    for e in episodes:
        thought = all(s.thought for s in e.steps)
        if e.world.success and thought and all(info["valid"] for info in e.infos):
            messages = [m for s in e.steps for m in (*s.state, _said(e.world, s.thought, s.action))]
            task = f"{type(e.world).__name__}-{e.world.seed}"
            demos.append(from_chat({"task": task, "messages": messages, "tools": e.world.tools}))
    return demos


def _said(world: World, thought: str | None, action: str) -> dict:
    """An action as a chat message, in the form that `from_chat` reads."""
    if not world.tools:
        return {"role": "assistant", "content": action, "reasoning_content": thought}
    call = {"type": "function", "function": json.loads(action)}
    return {"role": "assistant", "content": thought, "tool_calls": [call]}


def _answer(world: World, observation: str) -> dict:
    return {"role": "tool" if world.tools else "user", "content": observation}


def summary(episodes: list[Episode]) -> dict[str, float]:
    """Success, reward and turns of an episode; of turns, the share with a thought, with the action
    in it, with a legal action, with one that changed something; tokens of a thought."""
    steps = [step for e in episodes for step in e.steps]
    infos = [info for e in episodes for info in e.infos]
    copied = [copies(s.thought or "", s.action, s.observation()) for s in steps]
    return {
        "success": fmean(e.world.success for e in episodes),
        "reward": fmean(sum(s.reward for s in e.steps) for e in episodes),
        "turns": len(steps) / len(episodes),
        "thought_rate": fmean(bool(s.thought) for s in steps),
        "copy_rate": fmean(copied),
        "valid": fmean(info["valid"] for info in infos),
        "effective": fmean(info["effective"] for info in infos),
        "thought_length": fmean(info["thought_tokens"] for info in infos),
        "outgrown": fmean(e.outgrown for e in episodes),
    }


def evaluation(
    cfg: Config, chat: Chat, sampler: Sampler, temperature: float, noise: int, samples: int = 1
) -> list[Episode]:
    """Real rollouts on `cfg.episodes` tasks of `cfg.split`, `samples` of each task in a row."""
    seeds = [task_seed(cfg.split, i) for i in range(cfg.episodes) for _ in range(samples)]
    return play(cfg, seeds, chat, sampler, temperature, noise)


def replay(
    cfg: Config, demos: list[Demo], chat: Chat, sampler: Sampler, policy: Policy, noise: int
) -> dict[str, float]:
    """Evaluation where there is no world: at each step of held-out logs the model writes a turn
    from what it has seen; then the expert's action is what happens.

    success: share of steps whose action is the expert's. likelihood: mean p(a | s, z) of the
    expert's action after the thought that the model wrote, likelihood_se its standard error.
    Weaker than rollouts: the model is never shown where its own mistakes lead.
    """
    sampler.begin()
    histories, known, steps, scored = [[] for _ in demos], {}, [], []
    for t in range(max(len(demo.steps) for demo in demos)):
        live = [pair for pair in zip(demos, histories, strict=True) if t < len(pair[0].steps)]
        asked = [chat.asked(demo.steps[t].state, demo.tools, t == 0) for demo, _ in live]
        pairs = zip(live, asked, strict=True)
        nodes = [chain([*chat.history(h, cfg.history), a[0]], known) for (_, h), a in pairs]
        prompts = [node.whole() for node in nodes]
        drawn = sampler.generate(prompts, 1, _turn_limit(cfg, chat), chat.end[-1:],
                                 cfg.eval_temperature, noise + t)  # fmt: skip
        rows = zip(live, asked, nodes, drawn, strict=True)
        for (demo, h), question, node, (completion,) in rows:
            logged = demo.steps[t]
            expert, (z, _) = chat.action(logged.action), chat.split(completion.ids)
            z = z if z is None or chat.clean(z) else None
            scored.append(Sample(parent=node).extend(chat.opening(z)).extend(expert, 0.0))
            steps.append((logged, *chat.parse(completion.ids)))
            h.append(Turn(*question, chat.turn(z, expert), chat.turn(None, expert)))
    p = torch.stack([l.sum().exp() for l in policy.logprobs(scored)])
    copied = [copies(z or "", s.action, s.observation()) for s, z, _ in steps]
    return {
        "episodes": len(steps),
        "success": sum(exact_match(a, s.action) for s, _, a in steps) / len(steps),
        "likelihood": p.mean().item(),
        "likelihood_se": (p.std(correction=0) / len(p) ** 0.5).item(),
        "thought_rate": sum(bool(z) for _, z, _ in steps) / len(steps),
        "copy_rate": sum(copied) / len(copied),
    }


def reference_rows(cfg: Config, seed: int) -> dict[str, dict]:
    """The random and the expert line, on the same tasks."""
    rows = {}
    for name in ("random", "expert"):
        began, episodes = time.perf_counter(), []
        for i in range(cfg.episodes):
            e, rng = Episode(make_world(cfg)), random.Random(f"{seed} {i}")
            e.state = _opening(e.world, task_seed(cfg.split, i))
            while not e.done:
                expert = name == "expert"
                _act(e, None, e.world.expert() if expert else rng.choice(e.world.actions()), 0)
            episodes.append(e)
        rows[name] = {"seed": seed, "episodes": cfg.episodes, **summary(episodes),
                      "seconds": round(time.perf_counter() - began, 1)}  # fmt: skip
    return rows
