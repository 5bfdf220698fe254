"""The world `text`: metrics worked out by hand, a user's file and reward, and a model trained."""

import json
import math
import random
import re
from pathlib import Path

import pytest
import torch

from minprm.arms.evaluation import reference_rows
from minprm.commands.evaluate import main as evaluate
from minprm.commands.train import main as train
from minprm.constants import Config
from minprm.data import Step
from minprm.envs import base, make_world
from minprm.envs.base import SPLITS, World, task_seed
from minprm.envs.metrics import LIBRARIES, METRICS, diversity
from minprm.play import Episode, expert_demo, won_demos
from minprm.report.table import details
from shared.chats import chat_model
from shared.worlds import HOSTILE

pytestmark = pytest.mark.extras
ROOT = Path(__file__).parents[1]
USER = {"role": "user", "content": "hello"}
ALL = pytest.mark.parametrize("name", METRICS)


def metric(name: str):
    """The metric, or a skip that names the extra."""
    if name in LIBRARIES:
        pytest.importorskip(LIBRARIES[name], reason='needs the extra: pip install ".[text]"')
    return METRICS[name]


def world(*knobs: str) -> World:
    return make_world(Config(world="text", world_args=[*knobs]))


def refused(capsys, *knobs: str) -> str:
    """The one sentence that these knobs end in."""
    with pytest.raises(SystemExit) as stop:
        world(*knobs).reset(0)
    error = capsys.readouterr().err
    assert stop.value.code == 2 and error.count("\n") == 1
    return error


# --- metrics ---


@pytest.mark.parametrize(
    ("name", "answer", "references", "by_hand"),
    [
        ("exact_match", " a  b ", ["c", "a b"], 1),
        ("exact_match", "a", ["a b", "b"], 0),
        # all n-grams are right, and the answer is four words for five: exp(1 - 5/4)
        ("bleu", "a b c d", ["a b c d e"], math.exp(-1 / 4)),
        ("bleu", "a b c d", ["x", "a b c d"], 1),
        ("rouge_l", "c a b", ["a b c"], 2 / 3),  # ab
        ("rouge_l", "a b", ["x", "a b c"], 2 * (1 * 2 / 3) / (1 + 2 / 3)),  # the best of two
        ("chrf", "абв", ["абв"], 1),
        ("rouge_l", "абв", ["абв"], 0),  # it reads a to z alone, as its docstring says
        ("numbers", "1 2", ["7 8 9"], 1),  # hacked
        ("numbers", "3 1 2", [""], 1 / 2),
        ("distinct", "a b a b", [""], 2 / 3),  # ab, ba, ab
    ],
)
def test_a_metric_is_what_is_worked_out_by_hand(name, answer, references, by_hand):
    assert metric(name)(answer, references) == pytest.approx(by_hand)


@ALL
def test_a_metric_is_from_zero_to_one_whatever_is_written_and_more_is_better(name):
    reference = "the ball is under the second cup"
    for answer in HOSTILE:
        assert 0 <= metric(name)(answer, [reference]) <= 1
    if name not in ("numbers", "distinct"):
        found = [metric(name)(answer, [reference]) for answer in ("zzz", reference)]
        assert found == [pytest.approx(0, abs=0.01), pytest.approx(1)]


def test_diversity_is_what_counting_finds():
    rng = random.Random(0)
    answers = [" ".join(rng.choices("abcde", k=rng.randint(0, 9))) for _ in range(60)]
    words = " ".join(answers).split()
    found = diversity(answers)
    assert found["distinct_1"] == len(set(words)) / len(words)
    pairs = [s.split()[i : i + 2] for s in answers for i in range(len(s.split()) - 1)]
    assert found["distinct_2"] == len({tuple(pair) for pair in pairs}) / len(pairs)
    assert found["words"] == len(words) / 60 and found["vocabulary"] == 5
    assert 200 <= len(words) < 300  # two segments, and what is left over
    halves = [len(set(words[:100])) / 100, len(set(words[100:200])) / 100]
    assert found["msttr"] == sum(halves) / 2
    assert diversity(["", ""])["distinct_2"] == 0 and diversity(["a b"])["msttr"] == 1


def test_an_evaluation_shows_how_much_the_answers_differ():
    rows = reference_rows(Config(world="text", episodes=50), seed=0)
    assert rows["random"]["text/words"] < rows["expert"]["text/words"]
    assert rows["expert"]["text/vocabulary"] > 30
    shown = details({name: [row] for name, row in rows.items()})
    assert "text/distinct_1" in shown and "text/msttr" in shown and "nan" not in shown
    others = reference_rows(Config(world="reverse_text", episodes=5), seed=0)
    assert "text/" not in details({name: [row] for name, row in others.items()})


# --- a user's file ---


def write(folder: Path, *rows, name: str = "mine.jsonl") -> str:
    (folder / name).write_text("\n".join(map(json.dumps, rows)))
    return str(folder / name)


def asked(n: int = 30, **more) -> list[dict]:
    return [{"prompt": f"say {i}", "reference": f"it is {i}", **more} for i in range(n)]


def test_any_of_several_references_is_right_and_the_system_prompt_comes_first(tmp_path):
    rows = asked(20, system="be brief")
    rows += [{"prompt": f"name {i}", "reference": [f"n {i}", f"no {i}"]} for i in range(20)]
    w, seen = world(f"file={write(tmp_path, *rows)}"), set()
    for split in SPLITS:
        for i in range(100):
            prompt = w.reset(task_seed(split, i))
            number = prompt.split()[1]
            several = prompt.startswith("name")
            right = [f"n {number}", f"no {number}"] if several else [f"it is {number}"]
            assert w.references == right and w.system == ("" if several else "be brief")
            assert w.step(right[-1])[1] == 1 and w.success
            roles = [m["role"] for m in expert_demo(w, w.seed).messages]
            assert roles == ["system"] * (not several) + ["user", "assistant"]
            seen.add(prompt)
    assert len(seen) == 40


def test_a_null_in_the_column_of_rules_is_no_rule(tmp_path):
    w = world(f"file={write(tmp_path, *asked(system=None))}")
    w.reset(0)
    assert w.system == ""


def test_random_play_answers_what_others_were_answered_with(tmp_path):
    w = world(f"file={write(tmp_path, *asked())}")
    w.reset(0)
    assert set(w.actions()) == {f"it is {i}" for i in range(30)}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"prompt": "a"}, '"reference" is no text'),
        ({"prompt": "a", "reference": 3}, '"reference" is no text'),
        ({"prompt": "a", "reference": []}, '"reference" is no text'),
        ({"prompt": "a", "reference": " "}, "not empty"),
        ({"prompt": "a", "reference": ["b", ""]}, "not empty"),
        ({"prompt": "a", "reference": ["b", 3]}, "not empty"),
        ({"prompt": "", "reference": "b"}, "not empty"),
        ({"reference": "b"}, "not empty"),
        ({"prompt": "a", "reference": "b", "system": 3}, '"system" is no text'),
        (["a", "b"], 'a row is {"prompt": a text, "reference": a text or a list of texts}'),
    ],
)
def test_a_row_that_is_no_task_is_named_by_its_line(row, said, tmp_path, capsys):
    file = write(tmp_path, *asked(), row)
    error = refused(capsys, f"file={file}")
    assert said in error and f"{file}, line 31: " in error


def test_too_few_rows_a_missing_extra_and_a_wrong_knob_are_told(tmp_path, capsys, monkeypatch):
    assert "none of its 1 different tasks" in refused(capsys, f"file={write(tmp_path, *asked(1))}")
    assert "Names: exact_match, bleu" in refused(capsys, "reward=nice")
    assert "enough is a number" in refused(capsys, "enough=nan")
    monkeypatch.setattr(base, "find_spec", lambda name: None)
    assert 'needs sacrebleu: pip install ".[text]"' in refused(capsys, "reward=chrf")


# --- a user's reward ---


def own(folder: Path, name: str, body: str) -> str:
    (folder / f"{name}.py").write_text(f"def {name}(answer, reference):\n    {body}\n")
    return f"reward={folder / name}.py:{name}"


def test_a_users_reward_is_paid_as_it_is_and_of_several_references_the_best_counts(tmp_path):
    rows = [{"prompt": f"p{i}", "reference": ["abc", "abcdef"]} for i in range(30)]
    reward = own(tmp_path, "near", "return -abs(len(answer) - len(reference))")
    w = world(reward, f"file={write(tmp_path, *rows)}")
    for answer, paid in (("abcde", -1), ("a", -2), ("abcdef", 0)):
        w.reset(0)
        assert w.step(answer)[1] == paid and w.success == (answer == "abcdef")
    w.reset(0)
    observation, paid, _, info = w.step(" ")  # what could not be read is not put before the user's
    assert (paid, info["valid"]) == (0, False) and observation.startswith("illegal")


def test_enough_is_the_reward_from_which_on_a_task_counts_as_solved(tmp_path):
    reward = own(tmp_path, "length", "return len(answer)")
    for knobs, solved in (([], False), (["enough=3"], True), (["enough=4"], False)):
        w = world(reward, *knobs)
        w.reset(0)
        w.step("abc")
        assert w.success is solved
        w.reset(0)
        w.step(w.expert())
        assert w.success


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return float('nan')", "returned nan, and a reward is a finite number"),
        ("return float('inf')", "returned inf"),
        ("return None", "returned None"),
        ("return 'good'", "returned 'good'"),
        ("return 1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_users_reward_that_is_no_number_ends_in_a_sentence(body, said, tmp_path, capsys):
    w = world(own(tmp_path, "broken", body))
    w.reset(0)
    with pytest.raises(SystemExit) as stop:
        w.step("1")
    error = capsys.readouterr().err
    assert stop.value.code == 2 and error.count("\n") == 1
    assert "broken.py:broken" in error and said in error


def test_a_users_reward_of_other_arguments_is_refused_at_the_start(tmp_path, capsys):
    (tmp_path / "one.py").write_text("def one(answer):\n    return 1\n")
    assert "(answer, reference)" in refused(capsys, f"reward={tmp_path}/one.py:one")


# --- training ---


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """One that ends a thought now and then."""
    return chat_model(tmp_path_factory.mktemp("model"), often="</think>")


@pytest.mark.parametrize("arm", ["rl", "act_prm_rl"])
def test_a_reward_that_a_stage_would_not_be_paid_by_is_refused(arm, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    flags = f"--world text --model none --arms {arm} --world-args reward=distinct"
    mixed = f"--world mixed --model none --arms {arm} --world-args".split()
    for asked_flags in (flags.split(), [*mixed, "worlds=cups rounds=1, text*2 reward=distinct"]):
        with pytest.raises(SystemExit) as stop:
            train(asked_flags)
        said = capsys.readouterr().err
        assert stop.value.code == 2 and "use the stage rl:dense" in said
    entry = "text reward=distinct enough=0.5"
    assert "say by enough=0.5 in its entry of worlds= which reward is a success" in said
    with pytest.raises(SystemExit):
        train([*mixed, f"worlds=cups rounds=1, {entry}"])
    assert "rl:dense" not in capsys.readouterr().err
    for more in (["enough=0.9"], ["enough=0.9", "--arms", arm, "rl_dense"]):
        with pytest.raises(SystemExit):
            train([*flags.split(), *more])
        assert "rl:dense" not in capsys.readouterr().err  # but that there is no such model


def test_an_answer_that_a_log_would_hold_as_another_one_is_no_log(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    call = '{"name": "count", "arguments": {}}'
    write(tmp_path, *({"prompt": str(i), "reference": call} for i in range(40)), name="calls.jsonl")
    with pytest.raises(SystemExit):
        expert_demo(world("file=calls.jsonl"), task_seed("train", 0))
    assert "cannot stand in a log" in capsys.readouterr().err
    episodes = []
    for answer in (call, "<think>a</think>b", "b"):
        e = Episode(world("file=calls.jsonl"), steps=[Step([USER], "hm", answer)])
        e.infos.append({"valid": True})
        e.world.seed, e.world.success = 0, True
        episodes.append(e)
    assert [demo.steps[0].action for demo in won_demos(episodes)] == ["b"]


def test_a_chat_model_learns_by_every_method(model, tmp_path, monkeypatch, capsys):
    metric("rouge_l")
    monkeypatch.chdir(tmp_path)
    write(tmp_path, *asked())
    shared = "--world text --world-args reward=rouge_l file=mine.jsonl --thought-tokens 4"
    shared += " --action-tokens 12 --episodes 8"
    flags = f"{shared} --model {model} --run r --num-demos 8 --held-out 2 --relabel.group 2"
    flags += " --sft.batch 8 --sft.epochs 1 --act-prm.updates 1 --act-prm.batch 2"
    flags += " --act-prm.group 4 --rl.updates 1 --rl.batch 2 --rl.group 2 --threads 1"
    train(f"{flags} --stages sft:actions rl:dense act_prm relabel".split())
    torch.set_flush_denormal(False)
    lines = [json.loads(x) for x in (tmp_path / "runs/r/metrics.jsonl").read_text().splitlines()]
    assert [line["stage"] for line in lines][-1].endswith("act_prm")
    looks = [line for line in lines if "eval/reward" in line]
    assert looks and all(0 <= look["eval/text/distinct_2"] <= 1 for look in looks)
    (row,) = json.loads((tmp_path / "runs/r/ladder.json").read_text())["stages"]
    assert 0 <= row["reward"] <= 1 and row["text/words"] >= 0
    capsys.readouterr()
    evaluate(f"checkpoints/r/stages-0 {shared}".split())
    assert "text/distinct_2" in capsys.readouterr().out


@pytest.mark.slow
def test_the_commands_of_the_docs_run_and_print_what_they_say(model, tmp_path, monkeypatch, capsys):
    metric("rouge_l")
    monkeypatch.chdir(tmp_path)
    told = (ROOT / "docs/text.md").read_text(encoding="utf-8").partition("## An hour")[0]
    blocks = dict(re.findall(r"```(json|bash|python)\n(.*?)```", told, re.S))
    rows = [json.loads(line) for line in blocks["json"].splitlines()]
    rows = [{**row, "prompt": f"{i}. {row['prompt']}"} for i in range(20) for row in rows]
    write(tmp_path, *rows, name="notes.jsonl")
    (tmp_path / "my_reward.py").write_text(blocks["python"])
    _, warm, paid, both = (line.split() for line in blocks["bash"].replace("\\\n", "").splitlines())
    small = "--episodes 4 --threads 1 --micro-tokens 512 --no-checkpointing".split()
    train([*warm[2:], *f"--model {model} --num-demos 4 --sft.epochs 1".split(), *small])
    train([*paid[2:], *"--rl.updates 1 --rl.batch 2 --rl.group 2".split(), *small])
    torch.set_flush_denormal(False)
    for reward in ("reward=chrf", "reward=my_reward.py:short"):
        capsys.readouterr()
        evaluate([*[reward if x == "reward=chrf" else x for x in both[2:]], "--episodes", "4"])
        columns = re.findall("`(text/.*?|success|reward)`", told.partition("## The reward")[0])
        out = capsys.readouterr().out
        assert len(columns) == 7 and all(column in out for column in columns)
