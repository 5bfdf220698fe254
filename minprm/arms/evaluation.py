"""How well an agent acts: real rollouts on tasks that no training saw, random play and the expert
on the same tasks; and, where there is no world to play in, held-out logs step by step."""

import random
import time
from collections.abc import Iterable
from dataclasses import replace
from statistics import fmean
from typing import Any, NamedTuple

import torch
from transformers import AutoTokenizer

from minprm.arms.about import asked_of, read_about
from minprm.arms.demos import examples_of
from minprm.constants import Config, History
from minprm.data import Demo, Sample, Step, chain
from minprm.endpoint.agents import play_of
from minprm.endpoint.conversations import AgentEpisode
from minprm.envs import make_world, world_class
from minprm.envs.base import task_seed
from minprm.load.check import check
from minprm.load.names import require_device
from minprm.load.pretrained import load_model, make_sampler, pretrained
from minprm.model.agent import Agent, Player, make_agent
from minprm.model.policy import Policy
from minprm.play import Episode, act, begin, forced_opening, read, turn_limit
from minprm.report.table import by_log
from minprm.stages.act_prm import WITH_ONE_THOUGHT, portions
from minprm.text.actions import copies, exact_match
from minprm.text.chat import Chat, Turn

Row = dict[str, Any]  # of a table: numbers, and the intervals of some of them


def load_agent(path: str, **knobs) -> tuple[Agent, Config]:
    """The model of a checkpoint or a hub id as an agent, and the configuration that asks it as it
    was trained; `knobs` of Config are set over that."""
    about = read_about(path)
    settings = asked_of(about)
    cfg = Config(**{**settings, "history": History(**settings["history"]), "model": path, **knobs})
    require_device(cfg.device, cfg.sampler)
    tools = about.get("tools", [])
    if cfg.world and not cfg.agent:
        tools = make_world(cfg).tools
    return scoring_agent(cfg, tools), cfg


def scoring_agent(cfg: Config, tools: list[dict]) -> Agent:
    """The model of this configuration as an agent that writes turns, and tells how likely an action
    is."""
    model = load_model(cfg.model, device=cfg.device)
    tokenizer = pretrained(AutoTokenizer, cfg.model)
    policy = Policy(model, tokenizer, cfg.micro_tokens)
    agent = make_agent(policy, make_sampler(model, cfg), cfg, tools, examples_of(cfg))
    check(agent)
    return agent


def evaluate(agent: Player, cfg: Config, noise: int, samples: int = 1) -> list[Episode]:
    """Plays `cfg.episodes` tasks of `cfg.split` at the evaluation's temperature.

    The `samples` episodes of one task stand together. The same noise gives the same episodes.
    """
    seeds = []
    for i in range(cfg.episodes):
        seeds += [task_seed(cfg.split, i)] * samples
    agent = replace(agent, temperature=cfg.eval_temperature)
    return play_of(cfg)(agent, seeds, noise)


def summary(episodes: list[Episode]) -> dict[str, float]:
    """What to report of these episodes.

    tasks: different ones; a world with few of them has as many as episodes, which differ by luck.
    success, reward, turns: mean over episodes. thought_rate, copy_rate: share of turns with a
    thought, and with the action named in it. valid, effective: share of turns with a legal action,
    and with one that changed something. unreadable: share in which no action can be read.
    thought_length: tokens. outgrown: share of episodes that
    ended because they no longer fitted the context. failed: share in which a user's own agent or
    server did. What the world itself reports of all actions comes last, and the success in
    each of several worlds.
    """
    steps = []
    infos = []
    for e in episodes:
        steps += e.steps
        infos += e.infos
    few = episodes[0].world.few_tasks
    return {
        "tasks": len(episodes) if few else len({e.world.content for e in episodes}),
        "success": fmean(e.world.success for e in episodes),
        "reward": fmean(sum(step.reward for step in e.steps) for e in episodes),
        "turns": len(steps) / len(episodes),
        "thought_rate": _mean(bool(step.thought) for step in steps),
        "copy_rate": _mean(copies(s.thought or "", s.action, s.observation()) for s in steps),
        "valid": _mean(info["valid"] for info in infos),
        "effective": _mean(info["effective"] for info in infos),
        "unreadable": _mean(bool(step.unreadable) for step in steps),
        "thought_length": _mean(info["thought_tokens"] for info in infos),
        "outgrown": fmean(e.outgrown for e in episodes),
        **_failed(episodes),
        **episodes[0].world.summary([step.action for step in steps]),
        **success_by_world(episodes),
    }


def _mean(numbers: Iterable[float]) -> float:
    """The mean over turns; 0 where there was none, because every agent failed before its first."""
    turns = [*numbers]
    return fmean(turns) if turns else 0.0


def _failed(episodes: list[Episode]) -> dict[str, float]:
    """The share of episodes in which a user's own agent or server failed."""
    failed = fmean(bool(e.failure) for e in episodes)
    return {"failed": failed} if failed or isinstance(episodes[0], AgentEpisode) else {}


def success_by_world(episodes: list[Episode]) -> dict[str, float]:
    """Mean success in each world, where several are played at once; else {}."""
    wins: dict[str, list[bool]] = {}
    for e in episodes:
        if e.world.part:
            wins.setdefault(e.world.part, []).append(e.world.success)
    return {f"success/{name}": fmean(wins[name]) for name in sorted(wins)}


def references(cfg: Config) -> list[str]:
    """Who plays beside the agent: nobody where that is a user's own. An environment of others may
    have no expert, or no list of actions to play at random."""
    if cfg.agent or not cfg.world:
        return []
    world = world_class(cfg.world)
    methods = {"random": "actions", "expert": "expert"}
    return [name for name, method in methods.items() if world.has(method)]


def reference_rows(cfg: Config, seed: int) -> dict[str, dict]:
    """The ladder's rows of random play and of the expert, on the same tasks."""
    rows = {}
    for name in references(cfg):
        began = time.perf_counter()
        episodes = [reference(name, cfg, seed, i) for i in range(cfg.episodes)]
        seconds = round(time.perf_counter() - began, 1)
        row = {"seed": seed, "episodes": cfg.episodes, **summary(episodes)}
        rows[name] = {**row, "seconds": seconds}
    return rows


def reference(name: str, cfg: Config, seed: int, i: int) -> Episode:
    """The i-th task, played by the world's expert or at random."""
    e = begin(make_world(cfg), task_seed(cfg.split, i), noise=seed)
    rng = random.Random(f"{seed} {i}")
    while not e.done:
        action = e.world.expert() if name == "expert" else rng.choice(e.world.actions())
        act(e, None, action)
    return e


class Answer(NamedTuple):
    """What the agent wrote at one step of a held-out log."""

    log: int  # number of the log
    step: Step  # as the expert did it
    ids: list[int]
    thought: str | None
    action: str | None  # None: none could be read
    unreadable: str  # all that it wrote, where none could be read
    likelihood: float  # p(a | s, z) of the expert's action after the agent's thought


def replay(agent: Agent, cfg: Config, demos: list[Demo], noise: int) -> Row:
    """Evaluation where there is no world, in numbers: `answer_logs`, summed up."""
    return replay_summary(demos, answer_logs(agent, cfg, demos, noise))


def answer_logs(agent: Agent, cfg: Config, demos: list[Demo], noise: int) -> list[Answer]:
    """The agent writes a turn at each step of held-out logs.

    It sees its own earlier thoughts, and then the expert's action is what happens.
    """
    answers: list[Answer] = []
    for first, portion in portions(demos, WITH_ONE_THOUGHT):
        # a walk adds the number of its step to the noise
        answers += _answer_portion(agent, cfg, portion, first, noise + 1000 * first)
    return answers


def _answer_portion(
    agent: Agent, cfg: Config, demos: list[Demo], first: int, noise: int
) -> list[Answer]:
    """Those of one portion of the logs. first: the number of its first log."""
    agent.sampler.begin()
    opening = forced_opening(agent)
    turns: list[list[Turn]] = [[] for _ in demos]
    starts = {}
    scored: dict[int, Sample] = {}  # the number of an answer, and what is scored of it
    answers: list[Answer] = []
    for t in range(max(len(demo.steps) for demo in demos)):
        live = [i for i, demo in enumerate(demos) if t < len(demo.steps)]
        states = []
        nodes = []
        for i in live:
            demo = demos[i]
            after = demo.action_before(t)
            states.append(agent.state_ids(demo.steps[t].state, demo.tools, after))
            before = agent.chat.history(turns[i], agent.history)
            nodes.append(chain([*before, states[-1][0]], starts))
        completions = agent.sampler.generate(
            [node.whole() + opening for node in nodes], 1, turn_limit(agent), agent.chat.ends,
            cfg.eval_temperature, noise + t,
        )  # fmt: skip
        for i, state, node, (completion,) in zip(live, states, nodes, completions, strict=True):
            step = demos[i].steps[t]
            ids = opening + completion.ids
            turn, sample = _replayed(agent.chat, step, ids, state, node)
            turns[i].append(turn)
            answer = Answer(first + i, step, ids, *read(ids, opening, agent.chat), 0.0)
            if _can_be_scored(agent.chat, answer):
                scored[len(answers)] = sample
            answers.append(answer)
    agent.sampler.sleep()  # scoring needs its memory
    logps = agent.policy.logprobs([*scored.values()])
    for i, logp in zip(scored, logps, strict=True):
        answers[i] = answers[i]._replace(likelihood=logp.sum().exp().item())
    return answers


def _can_be_scored(chat: Chat, answer: Answer) -> bool:
    """Is there a thought, or plainly none, after which the expert's action has a likelihood? Not
    where a thought was begun and never ended, and not where one holds a control token. In training
    both earn 0, so the likelihood is 0 here."""
    thought, _ = chat.split(answer.ids)
    if thought is not None:
        return chat.clean(thought)
    if answer.action is not None:
        return True  # it acted without a thought
    return not chat.opens_a_thought(chat.text(answer.ids))


def replay_summary(demos: list[Demo], answers: list[Answer]) -> Row:
    """What to report of these answers.

    success: share of steps whose action is the expert's. likelihood: mean p(a | s, z) of the
    expert's action after the thought that the agent wrote. The intervals of both are over logs,
    because the steps of one log depend on each other. This is weaker evidence than rollouts,
    because the agent is never shown where its own mistakes lead. unreadable: share of answers in
    which no action can be read.
    """
    matches = [exact_match(a.action, a.step.action) for a in answers]
    copied = [copies(a.thought or "", a.step.action, a.step.observation()) for a in answers]
    probs = torch.tensor([answer.likelihood for answer in answers])
    return {
        "logs": len(demos),
        "steps": len(answers),
        "unreadable": fmean(answer.action is None for answer in answers),
        "success": fmean(matches),
        "interval": _over_logs(answers, matches),
        "likelihood": probs.mean().item(),
        "likelihood_interval": _over_logs(answers, probs.tolist()),
        "thought_rate": fmean(bool(answer.thought) for answer in answers),
        "copy_rate": fmean(copied),
    }


def _over_logs(answers: list[Answer], numbers: list[float]) -> tuple[float, float]:
    """The interval of the mean of these numbers, one an answer, over logs."""
    logs: dict[int, list[float]] = {}
    for answer, number in zip(answers, numbers, strict=True):
        logs.setdefault(answer.log, []).append(number)
    return by_log(list(logs.values()))


def _replayed(
    chat: Chat, step: Step, ids: list[int], state: tuple[list[int], list[int]], node: Sample
) -> tuple[Turn, Sample]:
    """The agent's thought with the expert's action: as a turn of the history, and to be scored."""
    action = chat.action(step.action)
    thought, _ = chat.split(ids)
    opening = chat.opening_of(ids)
    if thought is not None and not chat.clean(thought):
        opening = chat.opening(None)  # a control token inside: it cannot stand in a history
    without_thought = chat.closed(chat.opening(None, step.action), action)
    turn = Turn(*state, chat.closed(opening, action), without_thought)
    return turn, Sample(parent=node).extend(opening).extend(action, 0.0)
