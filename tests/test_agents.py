"""--agent FILE.py:play: a user's program plays in place of a world; what its failures cost."""

import json
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from minprm.arms.evaluation import summary
from minprm.arms.ladder import STAGES, compare_tools, start
from minprm.commands.cli import parse
from minprm.commands.evaluate import main as evaluate
from minprm.commands.train import main as train
from minprm.constants import RL, Config
from minprm.data import Demo
from minprm.endpoint import agents
from minprm.endpoint.agents import play_by_agent
from minprm.envs.base import seeds_split
from minprm.load.pretrained import make_sampler
from minprm.logs.reader import read_demos, write_demos
from minprm.logs.schemas import spelled_otherwise
from minprm.play import won_demos
from minprm.run.events import Played
from minprm.stages.rl import rl_samples
from shared.endpoints import Recorded, answer, cups_agent, hosted, ids_of, sent, user
from shared.policies import agent as agent_of
from shared.processes import Processes
from shared.stages import CFG, CUPS, Lines, log_of
from shared.templates import shipped

FIRST = "ball under a . swap a b ."
FILE = f'''
import asyncio, http.client, json, time
from minprm.envs.cups import Cups
from shared.endpoints import answer, sent, user

seeds = []
FIRST = {FIRST!r}

def play(url, seed):
    """Cups, as shared.stages.CFG has it."""
    seeds.append(seed)
    world = Cups(rounds=2, swaps=1, cups=3)
    messages = [user(world.reset(seed))]
    done = False
    while not done:
        message = answer(url, messages)
        observation, _, done, _ = world.step(message["content"] or "")
        messages += [message, user(observation)]
    return world.right / 2

async def later(url, seed):
    await asyncio.sleep(0)
    return await asyncio.to_thread(play, url, seed)

def sometimes(url, seed):
    """Every other task of a batch fails after its first turn."""
    seeds.append(seed)
    if seed % 2:
        answer(url, [user(FIRST)])
        raise RuntimeError("a bug of mine")
    return play(url, seed)

def raises(url, seed):
    raise KeyError(seed)

number = 3
def one(url): return 1.0
'''


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


@pytest.fixture
def agent(parts):
    policy, _, _ = parts
    return replace(agent_of(policy, CUPS), sampler=Recorded(make_sampler(policy.model, CUPS)))


# --- bad agents -----------------------------------------------------------------------------------


def raises(url: str, seed: int) -> float:
    answer(url, [user(FIRST)])
    raise KeyError("nothing")


def leaves(url: str, seed: int) -> float:
    raise SystemExit(3)


def hangs(url: str, seed: int) -> float:
    answer(url, [user(FIRST)])
    time.sleep(20)
    return 1.0


async def hangs_later(url: str, seed: int) -> float:
    import asyncio

    await asyncio.sleep(20)
    return 1.0


def floods(url: str, seed: int) -> float:
    while True:
        answer(url, [user(FIRST)])


def no_json(url: str, seed: int) -> float:
    sent(url, b"{")
    return 1.0


def image(url: str, seed: int) -> float:
    part = {"type": "image_url", "image_url": {"url": "data:,"}}
    answer(url, [{"role": "user", "content": [part]}])
    return 1.0


def of_another(url: str, seed: int) -> float:
    name = url.split("/")[4]
    answer(url.replace(name, name[::-1]), [user(FIRST)])
    return 1.0


def of_nobody(url: str, seed: int) -> float:
    return 1.0


def no_number(url: str, seed: int) -> float:
    answer(url, [user(FIRST)])
    return float("nan")


def nothing(url: str, seed: int):
    answer(url, [user(FIRST)])


def a_text(url: str, seed: int):
    answer(url, [user(FIRST)])
    return "1.0"


@pytest.mark.parametrize(("bad", "says"), [
    (raises, "KeyError"), (leaves, "SystemExit"), (hangs, "within 0.5 seconds"),
    (hangs_later, "within 0.5 seconds"), (floods, "more than 12 requests"), (no_json, "no JSON"),
    (image, "an image"), (of_another, "404"), (of_nobody, "asked the model nothing"),
    (no_number, "finite number"), (nothing, "finite number"), (a_text, "finite number"),
])  # fmt: skip
def test_a_bad_agent_costs_its_own_episode_and_changes_no_other(agent, monkeypatch, bad, says):
    monkeypatch.setattr(agents, "REQUESTS", 12)
    tasks = [0, 1, 0, 2]
    alone = ids_of(hosted(agent, cups_agent, tasks))
    program = lambda url, seed: bad(url, seed) if seed == 1 else cups_agent(url, seed)  # noqa: E731
    began = time.perf_counter()
    episodes = hosted(agent, program, tasks, seconds=0.5 if "within" in says else 20.0)
    assert time.perf_counter() - began < 15
    assert says in episodes[1].failure and episodes[1].done
    assert episodes[1].outcome() == 0.0 and not episodes[1].world.success
    for i in (0, 2, 3):
        assert not episodes[i].failure and ids_of(episodes)[i] == alone[i]


def test_a_request_of_an_episode_that_was_removed_enters_no_batch(agent):
    late = []
    waits = threading.Event()

    def program(url: str, seed: int) -> float:
        if seed == 1:
            waits.wait(20)
            try:
                late.append(sent(url, json.dumps({"messages": [user("ball")]}).encode())[0])
            except ConnectionError:  # the batch is over
                late.append(404)
            return 1.0
        total = 0.0
        for _ in range(4):
            total = cups_agent(url, seed)
            time.sleep(0.3)
            waits.set() if total >= 0 and time.perf_counter() > until else None
        return total

    until = time.perf_counter() + 0.8
    _, hung = hosted(agent, program, [0, 1], seconds=0.5)
    waits.set()
    deadline = time.perf_counter() + 20
    while not late and time.perf_counter() < deadline:
        time.sleep(0.01)
    assert late == [404] and hung.failure and not hung.steps
    asked_for = [tuple(prompt) for prompts, _, _ in agent.sampler.calls for prompt in prompts]
    only = agent.chat.state([user("ball")], [], None)
    assert tuple(only) not in asked_for


def test_a_failed_episode_is_in_no_group_and_its_group_is_compared_without_it(agent, parts):
    from minprm.stages.rl import gathered, random

    policy, _, _ = parts
    number = iter(range(8))

    def program(url: str, seed: int) -> float:
        mine = next(number)
        answer(url, [user(FIRST)])
        if mine in (1, 4, 5, 6, 7):
            raise ValueError("no")
        return float(mine == 0)

    cfg = RL(batch=2, group=4, advantage="mean")
    groups, episodes = gathered(
        lambda seeds, _: hosted(agent, program, seeds), cfg, False, random.Random(0)
    )
    failed = [bool(e.failure) for e in episodes]
    assert len(episodes) == 8 and sum(failed) == 5
    # which thread came when is not ours to say: what failed is left out, and an empty group too
    sizes = [sum(not e.failure for e in episodes[i : i + 4]) for i in (0, 4)]
    assert [len(group) for group in groups] == [size for size in sizes if size]
    rl_samples(groups, cfg, False, policy)
    for group in groups:
        mean = sum(e.reward for e in group) / len(group)
        for e in group:
            sample, begin, _ = e.spans[0]
            assert sample.advantages[begin] == pytest.approx(e.reward - mean)


def test_what_failed_is_counted_and_said(agent, file, said):
    seeds = [0, 1, 2, 3]
    episodes = play_by_agent(f"{file}:sometimes", 20.0, agent, seeds, 3)
    assert [bool(e.failure) for e in episodes] == [False, True, False, True]
    (line,) = [line for line in said if "failed" in line]
    assert "2 of 4 episodes failed" in line and "a bug of mine" in line and "2 x" in line
    assert "mine.py, line" in line


def test_where_all_have_failed_an_evaluation_says_so(agent):
    row = summary(hosted(agent, leaves, [0, 1]))
    assert row["failed"] == 1.0 and row["success"] == row["turns"] == row["valid"] == 0.0
    assert summary(hosted(agent, cups_agent, [0, 1]))["failed"] == 0.0


# --- runs -----------------------------------------------------------------------------------------


def config(file, name: str = "play", **knobs) -> Config:
    rl = replace(CFG.rl, updates=2, **knobs.pop("rl", {}))
    return replace(CFG, agent=f"{file}:{name}", stages=["rl"], episodes=6, rl=rl, **knobs)


def heard(cfg: Config, checkpoints) -> tuple:
    """(the run after its stage, the events Played)"""
    run = start(cfg, 0, Lines(), checkpoints)
    events = []
    run.listeners.insert(0, lambda _, event: events.append(event))
    STAGES["rl"](run, "rl")
    return run, [event for event in events if isinstance(event, Played)]


OBJECTIVES = [
    {"advantage": advantage} for advantage in (
        "mean", "rloo", "opo", "batch", "best", "top_k", "none", "posterior", "ema", "gae",
        "turn_gae")
] + [{"loss": loss} for loss in ("ppo_clip", "gspo", "cispo", "sapo")] + [
    {"groups": "top_p"}, {"backfill": True}, {"kl": 0.1}, {"format_penalty": 0.1},
    {"max_async_level": 1},
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("rl", OBJECTIVES, ids=str)
def test_every_objective_learns_from_what_an_agent_played(file, checkpoints, rl):
    run, played = heard(config(file, rl={"batch": 2, "group": 3} | rl), checkpoints)
    lines = log_of(run).lines
    assert len(lines) == 2 == len(played)
    for line in lines:
        older = line["policy/staleness"] > 0  # it was played ahead, by the weights before
        assert line["policy/gap_max"] < 1e-4 or older
        assert line["play/failed"] == 0.0
        assert line["play/turns"] == 2.0
    for sample in (sample for event in played for e in event.episodes for sample in e.samples):
        assert torch.tensor(sample.advantages).isfinite().all()


@pytest.mark.slow
def test_a_seed_repeats_a_run_whose_threads_interleave_otherwise(file, checkpoints, monkeypatch):
    cfg = config(file, "later", watch=1)
    first, _ = heard(cfg, checkpoints)
    monkeypatch.setattr(agents, "QUIET", 0.0005)
    second, _ = heard(cfg, checkpoints)
    for one, other in zip(log_of(first).lines, log_of(second).lines, strict=True):
        assert one["reward/paid"] == other["reward/paid"]
        assert one["policy/drawn_tokens"] == other["policy/drawn_tokens"]
        assert one["policy/grad_norm"] == pytest.approx(other["policy/grad_norm"], rel=1e-3)


@pytest.mark.slow
def test_failures_are_a_metric_and_the_update_is_made_of_the_others(file, checkpoints):
    run, played = heard(config(file, "sometimes", rl={"batch": 4, "group": 2}), checkpoints)
    for line, event in zip(log_of(run).lines, played, strict=True):
        failed = [e for e in event.episodes if e.failure]
        assert line["play/failed"] == len(failed) / 8
        assert not any(e.failure for group in event.groups for e in group)
        assert all(len(group) == 2 for group in event.groups)


@pytest.mark.slow
def test_an_update_of_which_nothing_is_left_ends_in_a_sentence(file, checkpoints, capsys):
    with pytest.raises(SystemExit):
        heard(config(file, "raises"), checkpoints)
    assert "no episode of update 0 came to its end" in capsys.readouterr().err


@pytest.mark.slow
def test_tasks_come_from_their_splits(file, checkpoints):
    from minprm import own

    module, _ = own.loaded(file.resolve())
    run = start(config(file, eval_tasks=3, eval_every=1), 0, Lines(), checkpoints)
    STAGES["rl"](run, "rl")
    splits = [seeds_split(seed) for seed in module.seeds]
    assert splits.count("train") == 2 * 12 and splits.count("validation") == 2 * 3
    assert "eval/success" in log_of(run).lines[0]


@pytest.mark.slow
def test_what_an_agent_won_becomes_logs(file, checkpoints, monkeypatch, tmp_path):
    """Its tools as they were sent, its thoughts; and they are read back as they were written."""
    cfg = replace(config(file), stages=["synth"], num_demos=24)
    run = start(cfg, 0, Lines(), checkpoints)
    run.listeners = []
    STAGES["synth"](run, "synth")
    assert run.demos and all(len(demo.steps) == 2 for demo in run.demos)
    for demo in run.demos:
        assert all(step.thought and step.action.startswith("open") for step in demo.steps)
        assert demo.task.startswith("AgentTask-")
    write_demos(run.demos, tmp_path / "won.jsonl")
    back, report = read_demos(str(tmp_path / "won.jsonl"))
    assert not report.problems
    assert [demo.steps[1].action for demo in back] == [demo.steps[1].action for demo in run.demos]


def tooled(url: str, seed: int) -> float:
    """An agent with tools: one of them in an order of keys, and with fields, of its own."""
    answer(url, [user(FIRST)], tools=OWN_TOOLS)
    return 1.0


OWN_TOOLS = [
    {"function": {"strict": True, "name": "look", "parameters": {"type": "object", "properties": {
        "place": {"title": "Place", "type": "string"}}}}, "type": "function"},
    {"type": "function", "function": {"name": "wait", "description": "Waits.", "parameters": {
        "type": "object", "properties": {}}}},
]  # fmt: skip


@pytest.fixture
def chatting():
    """A chat model's agent whose writer thinks, and answers."""
    from minprm.model.agent import make_player
    from minprm.text.chat import Chat
    from shared.chats import tokenizer
    from shared.endpoints import Scripted

    words = tokenizer("qwen3")
    chat = Chat(words, "think", OWN_TOOLS)
    script = chat.turn(chat.thought("so"), chat.action("Done."))
    cfg = Config(model="x", instruction="none", thought_tokens=300, action_tokens=300)
    return make_player(words, Scripted([script]), cfg, [])


def test_logs_of_what_was_won_hold_the_tools_as_they_were_sent(chatting, tmp_path):
    won = won_demos(hosted(chatting, tooled, [3, 4]))
    write_demos(won, tmp_path / "won.jsonl")
    demos, report = read_demos(tmp_path / "won.jsonl")
    assert len(demos) == 2 and not report.problems
    for demo in demos:
        assert json.dumps(demo.tools) == json.dumps(OWN_TOOLS)
        (step,) = demo.steps
        assert (step.thought.strip(), step.action) == ("so", "Done.")


def warned(agent, learned: list[dict], said: list[str]) -> str:
    """What is said of an agent beside logs with these tools."""
    demo = Demo("1", [], learned, [])

    def play(agent, seeds, noise):
        return hosted(agent, tooled, seeds)

    run = SimpleNamespace(
        cfg=Config(agent="mine.py:play"), seed=0, agent=agent, play=play, train_demos=[demo],
        sync=lambda: None,
    )  # fmt: skip
    compare_tools(run)
    return " ".join(said)


def test_tools_of_the_agent_that_are_not_those_of_the_logs_are_told_before_training(chatting, said):
    look, wait = json.loads(json.dumps(OWN_TOOLS))
    assert not warned(chatting, [wait, look], said)
    look["function"]["description"] = "Looks."
    look["function"]["parameters"]["properties"]["place"].pop("title")
    ask = {"type": "function", "function": {"name": "ask"}}
    sentence = warned(chatting, [look, ask], said)
    places = "function.parameters.properties.place.title, function.description"
    assert f"look that it sends is spelled otherwise than in training ({places})" in sentence
    assert "wait that it sends is none of those in training" in sentence
    assert "the tool ask of the logs is not sent" in sentence
    assert len(said) == 1


def test_the_order_of_keys_is_a_spelling_too():
    (look, _), sent = OWN_TOOLS, {"type": "function", "function": OWN_TOOLS[0]["function"]}
    how = spelled_otherwise([look], [sent])["look"]
    assert how.endswith("(the order of the keys of the tool)")
    assert not spelled_otherwise([look, sent], [look, sent])


def test_null_against_absent_is_told_because_templates_that_write_json_write_it():
    look, sent = json.loads(json.dumps([OWN_TOOLS[0]] * 2))
    del look["function"]["strict"]
    sent["function"]["strict"] = None
    for learned, other in ((look, sent), (sent, look)):
        how = spelled_otherwise([learned], [other])["look"]
        assert how.endswith("than in training (function.strict: null against absent)")
    for name, differs in (("qwen3", True), ("llama3_1", True), ("gemma4", False)):
        tokenizer = shipped(name)
        prompts = set()
        for tool in (look, sent):
            prompts.add(tokenizer.apply_chat_template([user("hi")], [tool], tokenize=False))
        assert (len(prompts) == 2) is differs, name


@pytest.mark.slow
def test_won_logs_are_demos_and_the_agent_plays_for_the_success_of_each_arm(
    file, tmp_path, monkeypatch
):
    """Two rounds, as docs/agents.md has them; the agent is compared with the logs once."""
    monkeypatch.chdir(tmp_path)
    flags = "--no-gate --tiny.updates 60 --episodes 6 --threads 1 --jobs 1 --world-args rounds=2"
    flags += " swaps=1 cups=3 --thought-tokens 12"
    common = [*flags.split(), "--agent", "mine.py:play"]
    train(["--run", "won", "--stages", "synth", "--num-demos", "40", *common])
    logs = "runs/won/synth-synth-0.jsonl"
    assert logs in (tmp_path / "runs/won/log.txt").read_text()
    short = "--sft.epochs 1 --act-prm.updates 1 --act-prm.group 2 --eval-every 0 --held-out 1"
    arms = ["--arms", "action_sft", "act_prm", "--demos", logs]
    train(["--run", "taught", *short.split(), *arms, *common])
    rows = json.loads((tmp_path / "runs/taught/ladder.json").read_text())
    assert [*rows] == ["action_sft", "act_prm"]
    assert all(row["episodes"] == 6 and row["failed"] == 0.0 for (row,) in rows.values())


@pytest.mark.slow
def test_torchrun_is_refused_in_a_sentence_that_says_what_to_do(tmp_path):
    (tmp_path / "mine.py").write_text("def play(base_url, seed):\n    return 1.0\n")
    flags = ["--agent", "mine.py:play", "--stages", "rl"]
    processes = Processes(tmp_path, 2, lambda: train(flags))
    assert any(processes.ended())
    said = processes.said()
    assert said.count("agents would play in each process: start one process") == 1
    assert "Traceback" not in said and not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_the_ladder_the_page_and_evaluate_know_of_an_agent(
    file, checkpoints, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    flags = "--run t --stages rl --no-gate --tiny.updates 60 --episodes 8 --threads 1 --rl.updates"
    flags += " 2 --rl.batch 2 --rl.group 2 --world-args rounds=2 swaps=1 cups=3 --eval-tasks 2"
    train([*flags.split(), "--agent", "mine.py:sometimes"])
    rows = json.loads((tmp_path / "runs/t/ladder.json").read_text())
    assert [*rows] == ["stages"] and rows["stages"][0]["failed"] == 0.5
    episodes = (tmp_path / "runs/t/episodes.jsonl").read_text().splitlines()
    assert len(episodes) == 8 and "open" in (tmp_path / "runs/t/report.html").read_text()
    assert "play/failed" in (tmp_path / "runs/t/metrics.jsonl").read_text()
    capsys.readouterr()
    evaluate("checkpoints/t/stages-0 --episodes 4 --transcripts all.jsonl".split())
    shown = capsys.readouterr().out
    assert "failed" in shown and "random" not in shown
    assert len((tmp_path / "all.jsonl").read_text().splitlines()) == 4
    evaluate("checkpoints/t/stages-0 --episodes 4 --world cups".split())
    assert "random" in capsys.readouterr().out


@pytest.mark.parametrize(("flags", "says"), [
    ("--agent nowhere.py:play", "nowhere.py"),
    ("--agent play", "FILE.py:NAME"),
    ("--agent mine.py:number", "no function"),
    ("--agent mine.py:one", "base_url and seed"),
    ("--agent mine.py:play --history.last 2", "leave out --history"),
    ("--agent mine.py:play --model x --world cups", "in the place of a --world"),
    ("--agent mine.py:play --model x --stages act_prm", "learns from logs"),
    ("--agent mine.py:play --world= ", "has been raised on"),
    ("--agent-seconds 3", "it needs --agent"),
    ("--agent mine.py:play --agent-seconds 0", "at least"),
])  # fmt: skip
def test_what_cannot_be_meant_is_refused(file, monkeypatch, capsys, flags, says):
    monkeypatch.chdir(file.parent)
    stages = [] if "--stages" in flags else ["--stages", "rl"]
    with pytest.raises(SystemExit) as stop:
        parse([*flags.split(), *stages])
    error = capsys.readouterr().err
    assert stop.value.code == 2 and says in error and error.count("\n") == 1


def test_several_processes_are_refused_in_a_sentence_that_says_what_to_do(
    file, monkeypatch, capsys
):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SystemExit):
        parse(["--agent", f"{file}:play", "--stages", "rl"])
    assert "agents would play in each process: start one process" in capsys.readouterr().err


def test_a_model_that_is_not_embedded_needs_no_world(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    flags = ["--agent", "mine.py:play", "--model", "x/y", "--stages", "rl"]
    assert parse(flags).world == ""
    assert parse([*flags, "--preset", "qwen3-0.6b"]).world == ""


def test_a_model_that_is_not_embedded_starts_without_a_world(file, model, monkeypatch):
    monkeypatch.chdir(file.parent)
    flags = ["--agent", "mine.py:play", "--model", str(model), "--stages", "rl", "--run", "big"]
    run = start(parse(flags), 0, Lines(), file.parent)
    assert run.agent.chat.tools is False and not run.train_demos


# --- frameworks -----------------------------------------------------------------------------------

TURN = [
    '{"name": "find_order", "arguments": {"number": "17"}}', "The order is in Oslo.",
]  # fmt: skip


@pytest.fixture
def desk():
    """A chat model's agent whose writer calls the one tool, and then answers."""
    from minprm.model.agent import make_player
    from minprm.text.chat import Chat
    from shared.chats import TOOLS, tokenizer
    from shared.endpoints import Scripted

    words = tokenizer("qwen3")
    chat = Chat(words, "think", TOOLS)
    scripts = [chat.turn(chat.thought("so"), chat.action(action)) for action in TURN]
    cfg = Config(model="x", instruction="none", thought_tokens=300, action_tokens=300)
    return make_player(words, Scripted(scripts), cfg, [])


def langgraph_agent(url: str, seed: int) -> float:
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.prebuilt import create_react_agent

    @tool
    def find_order(number: str) -> str:
        """Where an order is."""
        return f"{number} Oslo"

    model = ChatOpenAI(model="policy", base_url=url, api_key="none", max_retries=0)
    graph = create_react_agent(model, [find_order], prompt="You are a desk.")
    end = graph.invoke({"messages": [("user", "where is order 17?")]}, {"recursion_limit": 8})
    return float(end["messages"][-1].content == TURN[1])


async def openai_agent(url: str, seed: int) -> float:
    import agents as sdk
    from openai import AsyncOpenAI

    sdk.set_tracing_disabled(True)

    @sdk.function_tool
    def find_order(number: str) -> str:
        """Where an order is."""
        return f"{number} Oslo"

    client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
    model = sdk.OpenAIChatCompletionsModel(model="policy", openai_client=client)
    desk = sdk.Agent(name="desk", instructions="be brief", tools=[find_order], model=model)
    end = await sdk.Runner.run(desk, "where is order 17?", max_turns=4)
    return float(end.final_output == TURN[1])


@pytest.mark.slow
@pytest.mark.extras
@pytest.mark.parametrize(("package", "program"), [
    ("langgraph", langgraph_agent), ("agents", openai_agent),
])  # fmt: skip
def test_an_agent_of_a_framework_keeps_its_ids(desk, package, program):
    """Both drop the thoughts on the way back, and tell the call again in their own way."""
    pytest.importorskip("langchain_openai" if package == "langgraph" else package,
                        reason='needs the extra: pip install ".[agents]"')  # fmt: skip
    (e,) = hosted(desk, program, [5], seconds=60)
    assert not e.failure and e.world.success, e.failure
    first, second = desk.sampler.prompts
    assert second[: len(first) + len(desk.sampler.scripts[0])] == first + desk.sampler.scripts[0]
    assert len(e.samples) == 1 and [step.action for step in e.steps] == TURN
