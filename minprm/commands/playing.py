"""What minprm evaluate does with its checkpoints: it plays them, or replays logs with them."""

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from transformers import AutoTokenizer

from minprm.arms.demos import examples_of, fitting_demos, measured
from minprm.arms.evaluation import (
    Answer,
    answer_logs,
    evaluate,
    reference_rows,
    replay_summary,
    scoring_agent,
    summary,
)
from minprm.commands.ask import Evaluation, configured
from minprm.constants import Config
from minprm.data import Demo
from minprm.envs import check_tasks, tools_of_world
from minprm.load.check import check as check_model
from minprm.load.pretrained import load_model, make_sampler, pretrained
from minprm.load.threads import set_threads
from minprm.logs.books import reading_of
from minprm.logs.reader import read_demos
from minprm.model.agent import Player, make_player
from minprm.play import Episode, messages_of
from minprm.printable import printable, say
from minprm.report.table import details, pass_at_k, table
from minprm.run.randomness import noise_seed
from minprm.text.actions import all_tools, exact_match


def play_all(evaluations: dict[str, Evaluation], flags: Evaluation) -> None:
    """Plays every checkpoint, and prints the table with random play and the expert."""
    first = flags.checkpoints[0]
    cfg = configured(first, evaluations[first])  # the world is the same for all
    if not cfg.agent:
        check_tasks(cfg)
    rows = {}
    for path, name in names(flags.checkpoints).items():
        began = time.perf_counter()
        episodes = play_checkpoint(configured(path, evaluations[path]), flags)
        row = {"seed": flags.seed, "episodes": cfg.episodes, **summary(episodes)}
        row |= passes(episodes, flags.samples)
        row["seconds"] = time.perf_counter() - began
        rows[name] = [row]
        write_transcripts(flags.transcripts, (transcript(path, e) for e in episodes))
    lines = {name: [row] for name, row in reference_rows(cfg, flags.seed).items()}
    expert = {"expert": lines.pop("expert")} if "expert" in lines else {}
    ladder = {**lines, **rows, **expert}
    print(printable(f"{table(ladder)}\n\n{details(ladder)}"))


def replay_all(evaluations: dict[str, Evaluation], flags: Evaluation) -> None:
    """Replays the logs with every checkpoint, and prints how many actions each one matched."""
    rows = {}
    demos: dict[str, list[Demo]] = {}  # by what text beside a call is taken for
    how = reading_of(flags)
    for path, name in names(flags.checkpoints).items():
        content = evaluations[path].content
        if content not in demos:
            demos[content], report = read_demos(
                flags.demos, how._replace(content=content), flags.skip_bad
            )
            if report.in_a_line():
                say(f"{flags.demos}: {report.in_a_line()}")
        began = time.perf_counter()
        fit, answers = answer_checkpoint(demos[content], configured(path, evaluations[path]), flags)
        row = {"seed": flags.seed, **replay_summary(fit, answers)}
        rows[name] = [{**row, "seconds": time.perf_counter() - began}]
        write_transcripts(flags.transcripts, answer_lines(path, fit, answers))
    print(printable(table(rows)))


def names(paths: list[str]) -> dict[str, str]:
    """What the table calls each checkpoint: its folder's name, or its path where two are alike.

    One that --keep-every kept lies in a folder named by its update: the stage stands before it.
    """
    last = []
    for path in map(Path, paths):
        last.append(f"{path.parent.name}/{path.name}" if path.name.isdigit() else path.name)
    labels = {}
    for path, name in zip(paths, last, strict=True):
        labels[path] = name if last.count(name) == 1 else path
    return labels


def play_checkpoint(cfg: Config, flags: Evaluation) -> list[Episode]:
    """All episodes of one checkpoint; the samples of a task stand together."""
    player = player_of(cfg, tools_of_world(cfg))
    # the noise of a ladder with this seed
    return evaluate(player, cfg, noise_seed(flags.seed, "evaluate", 0), flags.samples)


def player_of(cfg: Config, tools: list[dict]) -> Player:
    """The model of this configuration, checked, as somebody who plays with these tools."""
    set_threads(cfg.model)
    model = load_model(cfg.model, device=cfg.device)
    tokenizer = pretrained(AutoTokenizer, cfg.model)
    player = make_player(tokenizer, make_sampler(model, cfg), cfg, tools, examples_of(cfg))
    check_model(player)
    return player


def answer_checkpoint(
    demos: list[Demo], cfg: Config, flags: Evaluation
) -> tuple[list[Demo], list[Answer]]:
    """The logs that fit, and what one checkpoint writes at each of their steps."""
    set_threads(cfg.model)
    agent = scoring_agent(cfg, all_tools(demos))
    tasks = {demo.task for demo in agent.instruction.examples}
    answered = sum(demo.task in tasks for demo in demos)
    if answered:
        say(
            f"{cfg.model} is shown the answers to {answered} of these {len(demos)} logs, which are "
            "also examples of --few-shot: take them out of one of the two"
        )
    fit = fitting_demos(measured(demos, agent.chat), agent, cfg)
    return fit, answer_logs(agent, cfg, fit, noise_seed(flags.seed, "evaluate", 0))


def passes(episodes: list[Episode], samples: int) -> dict[str, float]:
    """Mean pass@k over tasks, k = 2, 4, 8 ... up to the samples of a task; pass@1 is success."""
    tasks = [episodes[i : i + samples] for i in range(0, len(episodes), samples)]
    won = [sum(e.world.success for e in task) for task in tasks]
    rates = {}
    k = 2
    while k <= samples:
        rates[f"pass@{k}"] = sum(pass_at_k(samples, c, k) for c in won) / len(won)
        k *= 2
    return rates


def transcript(path: str, e: Episode) -> dict:
    """One episode as a line of JSONL."""
    steps = []
    for s in e.steps:
        step = {"state": s.state, "thought": s.thought, "action": s.action, "reward": s.reward}
        if s.unreadable:
            step["unreadable"] = s.unreadable
        steps.append(step)
    success = bool(e.world.success)
    facts = {"checkpoint": path, "task": e.world.seed, "success": success, "reward": e.outcome()}
    return {**facts, "steps": steps, "messages": messages_of(e)}


def answer_lines(path: str, demos: list[Demo], answers: list[Answer]) -> Iterator[dict]:
    """What was written at each step, as lines of JSONL, log by log."""
    for answer in sorted(answers, key=lambda answer: answer.log):
        step = answer.step
        facts = {"checkpoint": path, "task": demos[answer.log].task, "log": answer.log}
        line = {"state": step.state, "expert": step.action, "thought": answer.thought}
        line["action"] = answer.action or ""
        if answer.unreadable:
            line["unreadable"] = answer.unreadable
        matched = bool(exact_match(answer.action, step.action))
        yield {**facts, **line, "matched": matched, "likelihood": answer.likelihood}


def write_transcripts(file: str, lines: Iterable[dict]) -> None:
    """Adds these lines to the file of --transcripts, where there is one."""
    if file:
        with open(file, "a", encoding="utf-8") as transcripts:
            transcripts.writelines(json.dumps(line) + "\n" for line in lines)
