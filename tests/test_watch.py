"""A person before the terminal: what is shown, what is typed, and the turns that come of it."""

import io
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from minprm.arms.episodes import of_world
from minprm.arms.evaluation import evaluate as played
from minprm.arms.evaluation import summary
from minprm.commands import evaluate, playing, watch
from minprm.constants import SFT, Config, History
from minprm.envs.base import call, task_seed
from minprm.envs.cups import Cups
from minprm.model.agent import Agent, make_agent
from minprm.model.policy import Policy
from minprm.model.sampler import Sampler
from minprm.play import Episode, begin, expert_demo
from minprm.run.randomness import noise_seed
from minprm.stages.sft import to_samples
from shared.chats import random_qwen3, tokenizer
from shared.commands import checkpoint, refusal
from shared.policies import agent, policy
from shared.worlds import Doors

ROOT = Path(__file__).parents[1]
CUPS = Config(
    world_args=["rounds=2", "swaps=1"], episodes=3, thought_tokens=8, action_tokens=4,
    eval_temperature=0.0,
)  # fmt: skip
WRONG = "open a"  # in the first task


@pytest.fixture(scope="module")
def acting() -> Policy:
    """It has learned the form of a turn, and no more."""
    p = policy()
    demos = [expert_demo(Cups(rounds=2, swaps=1), task_seed("train", i)) for i in range(4)]
    samples = [sample for demo in demos for sample in to_samples(demo, agent(p, CUPS))]
    for _ in range(30):
        p.update(samples, SFT(), lr=1e-2)
    return p


@dataclass
class Watched:
    """What came of a session."""

    shown: str
    episodes: list[Episode]
    prompts: list[list[int]]  # what the model wrote after
    who: Agent


@pytest.fixture
def watched(acting, monkeypatch, capsys):
    """A function that watches, while a person types these lines."""

    def run(typed: str | bytes, cfg: Config = CUPS, who: Agent | None = None) -> Watched:
        who = who or agent(acting, cfg)
        episodes: list[Episode] = []
        prompts: list[list[int]] = []
        generate = Sampler.generate

        def begun(*args):
            episodes.append(begin(*args))
            return episodes[-1]

        def noted(self, asked, *args):
            prompts.extend(asked)
            return generate(self, asked, *args)

        monkeypatch.setattr(watch, "begin", begun)
        monkeypatch.setattr(Sampler, "generate", noted)
        raw = typed if isinstance(typed, bytes) else typed.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))
        watch.watch(who, cfg, seed=0)
        return Watched(capsys.readouterr().out, episodes, prompts, who)

    return run


def steps(e: Episode) -> list[tuple]:
    return [(s.observation(), s.thought, s.action, s.reward) for s in e.steps]


# --- who writes a turn ---------------------------------------------------------------------------


@pytest.mark.parametrize("history", [History(), History(thoughts=False, last=1)])
@pytest.mark.parametrize("think", [True, False])
def test_what_is_watched_is_what_evaluate_plays(history, think, acting, watched):
    cfg = replace(CUPS, history=history, think=think)
    found = watched("\n" * 6, cfg)
    expected = played(agent(acting, cfg), cfg, noise_seed(0, "evaluate", 0))
    assert [steps(e) for e in found.episodes] == [steps(e) for e in expected]
    for e, other in zip(found.episodes, expected, strict=True):
        assert e.turns == other.turns and len(e.turns) == 2
        assert e.world.noise.random() == other.world.noise.random()  # the same luck
        assert [sample.whole() for sample in e.samples] == [s.whole() for s in other.samples]
    ends = re.findall("^(won|lost), reward", found.shown, re.MULTILINE)
    assert ends == ["won" if e.world.success else "lost" for e in expected]


def test_the_model_goes_on_from_a_persons_action(watched):
    found = watched("t\nopen c\n\nq\n")
    e, chat = found.episodes[0], found.who.chat
    acted = chat.turn(None, chat.action("open c"))
    assert (e.steps[0].thought, e.steps[0].action) == (None, "open c")
    state = chat.state(e.steps[0].state, [], None)
    answer = chat.state(e.steps[1].state, [], "open c")
    assert found.prompts == [state + acted + answer] and e.turns[0].full == acted
    assert (e.done and "\nwon, reward" in found.shown) or not e.world.success


def test_the_model_acts_on_a_persons_thought(watched):
    found = watched("z\nball under b .\nq\n")
    e, chat = found.episodes[0], found.who.chat
    given = chat.opening(chat.thought("ball under b ."))
    (prompt,) = found.prompts
    assert prompt == chat.state(e.steps[0].state, [], None) + given
    sample, begin_, end = e.spans[0]
    assert sample.whole()[: len(prompt)] == prompt and e.steps[0].thought == "ball under b ."
    assert end - begin_ == len(e.turns[0].full) - len(given) and e.infos[0]["thought_tokens"] == 4
    assert e.infos[0]["formatted"] and f"action    {e.steps[0].action}\n" in found.shown


def test_a_question_mark_stands_for_the_experts_action_and_thought(watched):
    found = watched("t\n?\nz\n?\n")
    e = found.episodes[0]
    world = Cups(rounds=2, swaps=1)
    world.reset(task_seed("test", 0))
    first = world.expert()
    world.step(first)
    assert e.steps[0].action == first and e.steps[1].thought == world.thought()


def test_an_illegal_action_of_a_person_is_answered_by_the_world(watched):
    found = watched("t\nball open\nq\n")
    e = found.episodes[0]
    assert e.steps[0].action == "ball open" and e.infos[0]["valid"] is False
    assert f"world     illegal . ball under {e.world.start} ." in found.shown


@pytest.mark.parametrize(("typed", "said"), [
    ("t\nopen the door\n", "a word that the model's vocabulary lacks"),
    ("z\nI wonder\n", "'I wonder'\n          a b c d e ball under swap . open illegal\n"),
    (b"t\nopen \xff\xfe\n", "a word that the model's vocabulary lacks"),
    ("t\n\n", "no action: none was typed"),
    ("z\n\n", "no thought: none was typed"),
    ("x\n", f"x: no such key{watch.HELP}"),
])  # fmt: skip
def test_what_cannot_stand_in_a_turn_is_asked_for_again(typed, said, watched):
    typed = typed if isinstance(typed, bytes) else typed.encode()
    found = watched(typed + b"t\nopen a\nq\n", replace(CUPS, context=200))
    e = found.episodes[0]
    assert said in found.shown and [s.action for s in e.steps] == ["open a"]
    assert not found.prompts  # the model was not asked


# --- what is shown -------------------------------------------------------------------------------


def product(p: Policy, before: list[int], action: list[int]) -> float:
    """The probability of these tokens behind those, token by token."""
    likely = 1.0
    for i, token in enumerate(action):
        logits = p.model(torch.tensor([before + action[:i]])).logits[0, -1]
        likely *= logits.softmax(-1)[token].item()
    return likely


def test_the_reward_of_a_thought_is_shown_and_p_without_one(acting, watched):
    thought = "ball under c ."
    found = watched(f"t\n{WRONG}\nz\n{thought}\n")
    e, chat = found.episodes[0], found.who.chat
    state = chat.state(e.steps[0].state, [], None)
    world = Cups(rounds=2, swaps=1)
    world.reset(e.world.seed)
    likely = lambda before, text: product(acting, before, chat.action(text))  # noqa: E731
    first = likely(state + chat.opening(None), world.expert())
    assert (
        f"action    {WRONG}\nexpert    {world.expert()}\n          p {first:.3f}\n" in found.shown
    )
    world.step(WRONG)
    state += e.turns[0].full + chat.state(e.steps[1].state, [], WRONG)
    after = likely(state + chat.opening(chat.thought(thought)), world.expert())
    bare = likely(state + chat.opening(None), world.expert())
    second = found.shown.split("expert    ")[2]
    assert f"p {after:.3f} after this thought, {bare:.3f} without one\n" in second


def test_a_turn_without_an_action_is_shown_as_it_was_written(watched):
    raw = policy()  # untrained: it writes anything
    found = watched("\nq\n", who=agent(raw, CUPS))
    e = found.episodes[0]
    written = found.who.chat.text(e.turns[0].full)
    assert not e.infos[0]["formatted"]
    unreadable = e.steps[0].unreadable
    assert unreadable and written.startswith(unreadable)  # one that was cut is ended behind it
    assert f"unread    {unreadable}" in found.shown
    assert playing.transcript("c", e)["steps"][0]["unreadable"] == unreadable
    kept = of_world([e], CUPS, found.who.chat, 0)
    assert kept[0]["turns"][0]["unreadable"] == unreadable
    assert summary([e])["unreadable"] == 1.0


def test_each_task_says_how_it_ended(watched):
    found = watched("t\n?\nt\n?\n" + "t\n?\nt\nball\n")
    assert "\nwon, reward 1.00\n" in found.shown and "\nlost, reward 0.50\n" in found.shown


def test_a_turn_that_outgrows_the_context_ends_its_task(watched):
    found = watched("t\n" + "ball " * 200 + "\nq\n", replace(CUPS, context=200))
    assert found.episodes[0].outgrown and "it outgrew --context 200\n\nlost" in found.shown
    assert not found.prompts  # the model was not asked


def test_the_rules_of_each_task_are_shown(watched, monkeypatch):
    class Numbered(Cups):
        def begin(self) -> str:
            self.system = f"rules {self.seed % 1000 // 2}"
            return super().begin()

    monkeypatch.setattr(watch, "make_world", lambda cfg: Numbered(rounds=1))
    shown = watched("t\nopen a\n" * 6, replace(CUPS, world_args=["rounds=1"])).shown
    assert re.findall("rules (\\d)", shown) == ["0", "0", "1"]


@pytest.mark.parametrize("typed", ["", "q\n", "t\n", "t\nopen a\n", "z\n", "t\nopen a"])
def test_the_input_may_end_anywhere(typed, watched):
    shown = watched(typed).shown
    assert shown.endswith("\n") and "\nwon" not in shown and "\nlost" not in shown


class Hostile(Cups):
    """Its texts would turn the terminal's colours and the direction of writing."""

    system = "rules \x1b]0;title\x07"

    def begin(self) -> str:
        return f"{super().begin()}\n\x1b[2J \u202edlrow \x9b31m"

    def expert(self) -> str:
        return f"{super().expert()}\x1b[0m"


def test_terminal_escape_sequences_are_shown_and_not_obeyed(watched, monkeypatch):
    words = tokenizer("qwen3_instruct_2507")
    model = random_qwen3(words)
    cfg = replace(CUPS, instruction="none", model="x", context=1000, layout="think")
    who = make_agent(Policy(model, words, 10_000), Sampler(model), cfg, [])
    monkeypatch.setattr(watch, "make_world", lambda cfg: Hostile(rounds=2, swaps=1))
    found = watched("t\nopen \x1b[31m\u202e\nz\nso \x1b[5m\n\x1b[2J\n", cfg, who)
    shown = (
        "[2J",
        "u202edlrow",
        "x9b31m",
        "]0;title",
        "x07",
        "open \\x1b[31m\\u202e",
        "so \\x1b[5m",
    )
    for text in shown:
        assert text in found.shown
    assert not set("\x1b\x07\x9b\u202e") & set(found.shown)


# --- tools ---------------------------------------------------------------------------------------


class KnownDoors(Doors):
    """Those doors, with random play and an expert, and without rules."""

    system = ""
    turns = 2

    def expert(self) -> str:
        return call("open", door="b")


def test_a_person_calls_tools_in_short_or_in_json(watched, monkeypatch):
    words = tokenizer("qwen3_instruct_2507")
    model = random_qwen3(words)
    cfg = replace(CUPS, instruction="none", model="x", episodes=1, action_tokens=40)
    who = make_agent(Policy(model, words, 10_000), Sampler(model), cfg, KnownDoors.tools)
    monkeypatch.setattr(watch, "make_world", lambda cfg: KnownDoors())
    found = watched('t\nopen a\nz\n?\nt\n{"name": "open", "arguments": {"door": "b"}}\n', cfg, who)
    e = found.episodes[0]
    assert [step.action for step in e.steps] == [call("open", door="a"), call("open", door="b")]
    assert [message["role"] for message in e.steps[1].state] == ["tool"]
    assert "          open door\n" in found.shown
    assert "no thought: none was typed, or the expert tells none\n" in found.shown
    assert "\nwon, reward" in found.shown and e.world.success


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(acting, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("watched") / "model"
    acting.save(path)
    return path


FLAGS = "--watch --world-args rounds=2 swaps=1 --episodes 2 --thought-tokens 8".split()


def test_the_command_watches_a_checkpoint_and_ends_with_its_input(saved, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n\n")))
    evaluate.main([str(saved), *FLAGS])
    shown = capsys.readouterr().out
    assert "--- task 2 of 2 ---" in shown and re.search("\n(won|lost), reward", shown)


def test_ctrl_c_ends_without_a_traceback(saved, monkeypatch):
    def pressed(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", pressed)
    with pytest.raises(SystemExit) as stopped:
        evaluate.main([str(saved), *FLAGS])
    assert stopped.value.code == 130


@pytest.mark.parametrize(("flags", "said"), [
    ("c d --watch", "--watch shows one checkpoint"),
    ("c --watch --samples 2 --temperature 1", "--samples has no effect"),
    ("c --watch --transcripts all.jsonl", "--transcripts has no effect"),
    ("c --watch --demos logs.jsonl", "--watch has no effect"),
])  # fmt: skip
def test_what_is_no_use_while_watching_is_refused(flags, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert said in refusal(evaluate.main, flags.split(), capsys)


def test_a_checkpoint_of_logs_alone_needs_a_world_to_be_watched(tmp_path, capsys):
    path = checkpoint(tmp_path / "a", Config(world="", run="a"))
    error = refusal(evaluate.main, [path, "--watch"], capsys)
    assert "without a world: give a --world" in error and "--demos" not in error
