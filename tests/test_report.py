"""From the files of runs to their page, to lists and tables; and what a start leaves."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path

import pytest
from filelock import FileLock

from minprm.arms import starts
from minprm.commands import report, train
from minprm.constants import Config
from minprm.look.log import Log, locked
from minprm.report import page as pages
from minprm.report.files import read_lines
from minprm.report.gather import gather
from minprm.report.looks import settings
from minprm.report.page import SIZE, page, write_page
from minprm.report.table import interval
from minprm.report.thin import LIMITS, thin, within
from shared.pages import HOSTILE, action, hostile_run, make_run, played, row, thought

# --- runs made by hand ----------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """A working directory of its own, with the run `one`."""
    monkeypatch.chdir(tmp_path)
    return make_run(tmp_path / "runs" / "one")


# --- the data of the page -------------------------------------------------------------------------


def test_a_watched_state_has_a_frame_for_each_look(here):
    first, rl, resampled = gather([here])["looks"]
    assert [look["stage"] for look in (first, rl, resampled)] == [
        "act_prm",
        "rl",
        "act_prm:resample",
    ]
    assert [state["where"] for state in first["states"]] == ["training log", "held out"]
    for state in first["states"]:
        assert [frame["update"] for frame in state["frames"]] == [0, 5, 10, 15]
        assert len(state["frames"][0]["group"]) == 4
    assert first["method"] == "act_prm" and rl["method"] == "rl"
    assert first["settings"]["advantage"] == "mean"
    assert resampled["settings"]["continues"] == "resample"


def test_in_rl_each_frame_names_the_task_of_its_own_batch(here):
    (state,) = gather([here])["looks"][1]["states"]
    assert [frame["text"] for frame in state["frames"]] == ["in update 0", "in update 10"]
    assert [frame["task"] for frame in state["frames"]] == ["Cups-900", "Cups-910"]


def test_a_log_recorded_step_by_step_is_a_tree_and_its_first_step_a_look(here):
    data = gather([here])
    (tree,) = data["trees"]
    assert len(tree["steps"]) == 2 and tree["steps"][1]["thoughts"][3]["up"] == 1
    (state,) = data["looks"][2]["states"]
    assert len(state["frames"]) == 1 and state["step"] == 0


def test_the_ladder_stands_between_random_play_and_the_expert_with_its_intervals(here):
    data = gather([here])
    assert [x["arm"] for x in data["ladder"]] == ["random", "base", "act_prm", "expert"]
    for x in data["ladder"]:
        assert (x["mean"], x["low"], x["high"]) == interval([row(0, x["mean"])])
    assert data["note"].startswith("95 % intervals over 200 tasks (Wilson's). One seed")
    assert data["what"] == "success"
    two = {"base": [row(0, 0.5)], "rl": [row(0, 0.5), row(1, 0.6)]}
    (here / "ladder.json").write_text(json.dumps(two))
    said = gather([here])["note"]
    assert "over 200 tasks (Wilson's) or over 2 seeds (Student's t)" in said


def test_the_page_has_the_glossary_of_the_metrics_that_it_draws(here):
    glossary = gather([here])["glossary"]
    assert glossary["reward/mean"]["broken"].startswith("Flat: see reward/no_variance.")
    arms = ["act_prm", "base", "expert", "random"]  # in one order: the page is the same each time
    assert [*glossary][-4:] == arms


def test_the_note_says_how_each_interval_was_made(here):
    ladder = {"base": [row(0, 0.2), row(1, 0.4)], "act_prm": [row(0, 0.9)]}
    (here / "ladder.json").write_text(json.dumps(ladder))
    note = gather([here])["note"]
    assert "over 2 seeds (Student's t)" in note and "over 200 tasks (Wilson's)" in note
    assert "One seed says nothing of others" in note
    (here / "ladder.json").write_text(json.dumps({"base": ladder["base"]}))
    assert "One seed" not in gather([here])["note"]


def test_a_run_without_a_world_counts_matched_steps(here):
    matched = {"success": 0.4, "interval": [0.3, 0.5], "logs": 7, "likelihood": 0.2}
    rows = {"base": [{"seed": 0, "thought_rate": 1, "copy_rate": 0, "seconds": 1, **matched}]}
    (here / "ladder.json").write_text(json.dumps(rows))
    data = gather([here])
    assert data["what"] == "share of steps matched" and "7 logs" in data["note"]
    assert (data["ladder"][0]["low"], data["ladder"][0]["high"]) == (0.3, 0.5)


def test_curves_have_null_where_nothing_was_measured_or_no_number_came_out(here):
    text = (here / "metrics.jsonl").read_text()
    (here / "metrics.jsonl").write_text(text.replace('mean": 0.05}', 'mean": null}'))
    curve, _ = gather([here])["curves"]
    assert curve["updates"] == [*range(15)]
    assert curve["metrics"]["reward/mean"][:4] == [0.0, None, 0.1, 0.15]
    assert curve["metrics"]["eval/success"][3:6] == [None, 4 / 15, None]


def test_a_number_that_no_run_writes_ends_in_a_sentence(here, capsys):
    text = (here / "metrics.jsonl").read_text()
    (here / "metrics.jsonl").write_text(text.replace('mean": 0.05}', 'mean": 1e999}'))
    with pytest.raises(SystemExit):
        report.main(["one"])
    assert "a file is not what this version of minprm writes" in capsys.readouterr().err


@pytest.mark.parametrize("file", ["samples.jsonl", "ladder.json"])
def test_what_a_stranger_wrote_into_a_run_ends_in_a_sentence(file, here, capsys):
    deep: object = "z"
    for _ in range(600):  # json reads it, and a function that calls itself does not get so far
        deep = [deep]
    if file == "ladder.json":
        rows = [{**row(0, 0.5), "tasks": 0}]  # an interval over nothing
        (here / file).write_text(json.dumps({"base": rows}))
    else:
        line = json.loads((here / file).read_text().split("\n")[0])
        line["group"][0]["thought"] = deep
        (here / file).write_text(json.dumps(line) + "\n")
    with pytest.raises(SystemExit):
        report.main(["one"])
    assert "a file is not what this version of minprm writes" in capsys.readouterr().err


def test_each_metric_that_is_drawn_has_its_meaning(here):
    glossary = gather([here])["glossary"]
    assert set(glossary) == {"reward/mean", "eval/success", "base", "act_prm", "random", "expert"}
    assert all(entry["what"] for entry in glossary.values())


def test_what_was_run_is_told(here):
    (run,) = gather([here])["runs"]
    assert run["name"] == "one" and run["world"] == "cups" and "ball lies under" in run["about"]
    assert run["command"] == "minprm train --preset smoke"
    assert run["knobs"] == {"seeds": [0], "arms": ["base", "act_prm"], "world_args": ["rounds=1"]}
    assert "torch" in run["libraries"] and run["unfinished"] == ""


def test_several_runs_make_one_page_written_into_the_folder_of_the_first(here, capsys):
    make_run(here.parent / "two", success=0.5)
    report.main(["one", str(here.parent / "two")])
    assert capsys.readouterr().out == "runs/one/report.html\n"
    data = gather([here, here.parent / "two"])
    assert [run["name"] for run in data["runs"]] == ["one", "two"]
    assert {x["run"] for x in data["ladder"]} == {x["run"] for x in data["looks"]} == {0, 1}


@pytest.mark.parametrize("name", [
    "metrics.jsonl", "samples.jsonl", "ladder.json", "episodes.jsonl", "starts.jsonl",
])  # fmt: skip
def test_a_file_may_be_missing(name, here):
    (here / name).unlink()
    assert write_page([here]).exists()


def test_a_run_that_has_only_begun_has_a_page(here):
    for file in here.iterdir():
        if file.name != "config.json":
            file.unlink()
    data = gather([here])
    assert data["looks"] == data["ladder"] == data["curves"] == [] and data["note"] == ""
    assert data["runs"][0]["unfinished"] == "0/2 arms done"
    assert write_page([here]).exists()


def test_the_line_that_is_being_written_is_left_out(here):
    before = gather([here])
    for name in ("metrics.jsonl", "samples.jsonl", "episodes.jsonl", "starts.jsonl"):
        with open(here / name, "a") as file:
            file.write('{"seed": 0, "stage": "act_prm", "upd')
    assert gather([here]) | {"made": ""} == before | {"made": ""}


@pytest.mark.parametrize(("name", "text", "said"), [
    ("metrics.jsonl", "{}\n", "KeyError('seed')"),
    ("metrics.jsonl", '{"seed": 0\n', "metrics.jsonl, line 1 is broken"),
    ("samples.jsonl", "[]\n", "line 1 is broken: it holds no object"),
    ("samples.jsonl", '{"seed": 0, "stage": 1, "update": 2, "state": "", "group": 3}\n', "watched"),
    ("ladder.json", "[" * 99999, "ladder.json is broken"),
    ("ladder.json", '{"base": [{"success": 2}]}', "KeyError('seed')"),
    ("episodes.jsonl", '{"arm": "base"}\n', "KeyError('seed')"),
    ("config.json", "{", "config.json is broken"),
])  # fmt: skip
def test_a_broken_file_ends_in_a_sentence_and_no_page(name, text, said, here, capsys):
    (here / name).write_text(text)
    with pytest.raises(SystemExit) as stop:
        report.main(["one"])
    error = capsys.readouterr().err
    assert stop.value.code == 2 and said in error and error.count("\n") == 1, error
    assert not (here / "report.html").exists()


# --- what is left out -----------------------------------------------------------------------------


def ladder_of_size(stages: int, looks: int, length: int, seeds: int = 1) -> dict:
    """Data as large as that of a run with so many stages, looks, and tokens of a thought."""
    words = " ".join(["swap", "ball", "under"][i % 3] for i in range(length))
    data = {name: [] for name in ("looks", "trees", "curves", "episodes", "ladder")}
    for seed in range(seeds):
        for stage in range(stages):
            states = []
            for _ in range(3):
                frames = []
                for update in range(looks):
                    group = [thought(words, 0.1234567 * i) for i in range(8)]
                    frames.append(
                        {"update": update, "group": group, "without_thought": action(0.2)}
                    )
                states.append({"text": words, "where": "held out", "frames": frames})
            data["looks"].append({"run": 0, "seed": seed, "stage": f"{stage}", "states": states})
            values = {f"metric/{i}": [0.123456789 * i] * 40 for i in range(25)}
            curve = {"run": 0, "seed": seed, "stage": f"{stage}", "updates": [*range(40)]}
            data["curves"].append({**curve, "metrics": values})
        for arm in range(14):
            kept = [played(task, True, words) for task in range(24)]
            data["episodes"].append({"run": 0, "arm": f"{arm}", "seed": seed, "episodes": kept})
    return data


@pytest.mark.slow
@pytest.mark.parametrize(("stages", "looks", "length", "seeds"), [
    (5, 9, 24, 1),  # the default ladder
    (2, 100, 60, 1),
    (1, 40, 200, 2),
])  # fmt: skip
def test_the_page_stays_small_and_says_what_was_left_out(stages, looks, length, seeds):
    data = ladder_of_size(stages, looks, length, seeds)
    room = SIZE - len(page({}))
    small = thin(data, room)
    assert len(page(small)) <= SIZE
    assert small["dropped"].startswith("Left out to keep this file small: ")
    for look in small["looks"]:
        kept = [[frame["update"] for frame in state["frames"]] for state in look["states"]]
        assert kept[0] == kept[1] == kept[2]
        assert kept[0][0] == 0 and kept[0][-1] == looks - 1
    assert thin(data, room) == small


@pytest.mark.slow
def test_each_limit_leaves_less_than_the_one_before():
    data = ladder_of_size(2, 30, 10, seeds=2)
    sizes = [len(json.dumps(within(data, limits))) for limits in LIMITS]
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == len(sizes)


def test_by_the_last_limits_the_page_may_be_larger_than_it_should():
    data = ladder_of_size(1, 2, 5, seeds=4)
    last = within(data, LIMITS[-1])
    assert thin(data, len(json.dumps(last)) // 2) == last
    for name in ("looks", "episodes", "curves"):
        assert {part["seed"] for part in last[name]} == {0, 1, 2, 3}
    assert "thoughts' tokens" in last["dropped"]


def test_a_small_run_is_shown_whole(here):
    data = gather([here])
    small = thin(data, SIZE)
    assert small["dropped"] == ""
    before, after = (x["looks"][0]["states"][1]["frames"][2]["group"] for x in (data, small))
    for z, kept in zip(before, after, strict=True):
        assert kept["tokens"]["text"] == z["tokens"]["text"]
        assert kept["tokens"]["before"][1:] == pytest.approx(z["tokens"]["before"][1:], abs=1e-4)
        assert kept["action"]["likely"][1][0][1] == pytest.approx(z["action"]["likely"][1][0][1])


def test_rewards_keep_their_order_however_small_they_are():
    data = ladder_of_size(1, 1, 3)
    for i, z in enumerate(data["looks"][0]["states"][0]["frames"][0]["group"]):
        z["reward"] = 1e-9 * (i + 1)
    for limits in LIMITS:
        group = within(data, limits)["looks"][0]["states"][0]["frames"][0]["group"]
        assert [z["reward"] for z in group] == pytest.approx([1e-9 * (i + 1) for i in range(8)])


def test_equal_thoughts_stay_equally_likely_whichever_of_them_keep_their_tokens():
    data = ladder_of_size(1, 1, 200)
    group = data["looks"][0]["states"][0]["frames"][0]["group"]
    logps = [-0.0004 - 1e-7 * i for i in range(len(group[0]["tokens"]["text"]))]
    for z in group:
        z["tokens"] = {**z["tokens"], "sampler": logps, "before": logps, "after": logps}
    for limits in LIMITS:
        (frame,) = within(data, limits)["looks"][0]["states"][0]["frames"]
        sums = [z["written"]["before"] for z in frame["group"]]
        assert sums == [pytest.approx(sum(logps), abs=1e-3)] * 8


def test_a_long_curve_keeps_its_ends_and_what_was_measured_now_and_then():
    known = [i if i % 1000 == 999 else None for i in range(10_000)]
    curve = {
        "updates": [*range(10_000)],
        "metrics": {"eval/success": known, "nan": [None] * 10_000},
    }
    data = {name: [] for name in ("looks", "trees", "episodes", "ladder")} | {"curves": [curve]}
    (small,) = thin(data, SIZE)["curves"]
    assert "400 points of a curve" in thin(data, SIZE)["dropped"]
    assert 200 <= len(small["updates"]) <= 400
    assert small["updates"][0] == 0 and small["updates"][-1] == 9_999
    found = [x for x in small["metrics"]["eval/success"] if x is not None]
    assert found == [*range(999, 10_000, 1000)]
    assert set(small["metrics"]["nan"]) == {None}


def test_long_curves_of_seeds_share_their_points_and_the_page_says_what_is_not_seen():
    data = {name: [] for name in ("looks", "trees", "episodes", "ladder", "curves")}
    for count in (1, 700, 901, 5000):
        data["curves"].append({"updates": [*range(count)], "metrics": {"a": [*range(count)]}})
    small = within(data, LIMITS[0])
    one, first, second, third = (curve["updates"] for curve in small["curves"])
    assert one == [0]
    assert {u for u in range(700) if u % 4 == 0} <= set(first) & set(second)
    assert len(set(second) & set(third)) > 50 and third[-1] == 4999
    for curve in small["curves"]:
        assert curve["metrics"]["a"] == curve["updates"] and len(curve["updates"]) <= 400
    assert "between which nothing is seen" in small["dropped"]
    assert "between" not in within(ladder_of_size(1, 30, 10), LIMITS[2])["dropped"]


# --- text that means harm -------------------------------------------------------------------------


class Elements(HTMLParser):
    """The tags of a page, and the text of its data block."""

    def __init__(self):
        super().__init__()
        self.tags: list[str] = []
        self.data = ""

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.inside = ("id", "data") in attributes

    def handle_data(self, text):
        if self.tags and self.tags[-1] == "script" and self.inside:
            self.data += text

    def handle_endtag(self, tag):
        self.inside = False


def test_hostile_text_stays_text(tmp_path):
    folder = hostile_run(tmp_path / "evil")
    found = Elements()
    found.feed(write_page([folder]).read_text(encoding="utf-8"))
    plain = Elements()
    plain.feed(write_page([make_run(tmp_path / "good")]).read_text(encoding="utf-8"))
    assert found.tags == plain.tags
    data = json.loads(found.data)
    group = data["looks"][0]["states"][0]["frames"][0]["group"]
    assert [z["thought"] for z in group] == HOSTILE
    assert [x["arm"] for x in data["ladder"]] == HOSTILE


def test_hostile_text_is_shown_on_a_terminal_and_not_obeyed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    hostile_run(tmp_path / "runs" / "evil")
    make_run(tmp_path / "runs" / "good")
    report.main([])
    said = capsys.readouterr().out
    assert len(said.splitlines()) == 3
    assert not set(said) & {"\x1b", "\x00", "\x7f", "\u202e", "\ud800"}


# --- on a terminal --------------------------------------------------------------------------------


def listed(capsys) -> dict[str, str]:
    """The lines of the list, by the name of their run."""
    report.main([])
    return {line.split()[0]: line for line in capsys.readouterr().out.splitlines()[1:]}


def test_the_list_says_how_each_run_stands_and_how_it_goes_on(here, capsys):
    huge = make_run(here.parent / "huge")
    (huge / "ladder.json").write_text(json.dumps({"base": [row(0, 10**400)]}))
    stopped = make_run(here.parent / "half")
    (stopped / "ladder.json").write_text(json.dumps({"base": [row(0, 0.2)]}))
    broken = make_run(here.parent / "torn")
    (broken / "ladder.json").write_text("{")
    running = make_run(here.parent / "now")
    (running / "ladder.json").unlink()
    lock = locked(running / "lock")
    found = listed(capsys)
    lock.release()
    assert "2/2" in found["one"] and "done" in found["one"] and "0.900 act_prm" in found["one"]
    assert "matched" not in found["one"]
    logs = {"base": [row(0, 0.5) | {"likelihood": 0.1}]}
    assert report.best_arm(logs) == "0.500 base (steps matched)"
    assert "1/2" in found["half"] and "minprm train --run half --resume" in found["half"]
    assert "0/2" in found["now"] and "running" in found["now"]
    assert "broken" in found["torn"] and "broken" in found["huge"]
    assert "stopped" in listed(capsys)["now"]


def test_a_run_that_may_only_be_read_is_listed_too(here, capsys, monkeypatch):
    locked(here / "lock").release()

    def refused(lock) -> None:
        raise PermissionError("its file is opened for writing")

    monkeypatch.setattr(FileLock, "acquire", refused)
    monkeypatch.setattr(os, "access", lambda path, how: how != os.W_OK)  # root may write anywhere
    assert "done" in listed(capsys)["one"]


def test_without_any_run_the_list_says_how_to_begin(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    report.main([])
    assert "minprm train --preset smoke" in capsys.readouterr().out


def test_a_run_of_which_a_file_cannot_be_opened_does_not_hide_the_others(here, capsys):
    other = make_run(here.parent / "two")
    for name in ("lock", "ladder.json"):
        (other / name).unlink(missing_ok=True)
        (other / name).mkdir()
        report.main([])
        first, second = capsys.readouterr().out.splitlines()[1:]
        assert {first.split()[0], second.split()[0]} == {"one", "two"}
        assert "broken" in (first if first.startswith("two") else second)


def test_the_page_is_told_of_knobs_that_are_not_the_usual_ones():
    config = asdict(Config())
    assert not {"scored_by", "patience"} & settings("act_prm", config).keys()
    config["act_prm"] |= {"scored_by": "base", "patience": 3}
    found = settings("act_prm:resample", config)
    assert (found["scored_by"], found["patience"], found["continues"]) == ("base", 3, "resample")
    assert settings("rl", {**config, "rl": {**config["rl"], "groups": "soft"}})["groups"] == "soft"
    own = {**config, "rl": {**config["rl"], "reward": "mine.py:judge"}}
    assert settings("rl", own)["reward"] == "mine.py:judge"
    assert settings("rl:dense", config)["reward"] == "each turn's, from the world"


@pytest.mark.parametrize(("flags", "said"), [
    ("nowhere", "nowhere: there is no such run in runs/; minprm report lists them"),
    ("one one", "one is named twice"),
    ("one runs/one/", "runs/one is named twice"),
    ("one --wurst 1", "--wurst"),
    ("--compare one empty", "minprm report A B makes one page of both runs"),
    ("one --worst 1", "--worst is gone: minprm report A B makes one page of both"),
])  # fmt: skip
def test_what_cannot_be_meant_ends_in_a_sentence(flags, said, here, capsys):
    with pytest.raises(SystemExit) as stop:
        report.main(flags.split())
    error = capsys.readouterr().err
    assert stop.value.code == 2 and said in error and error.count("\n") == 1, error


# --- at the start and at the end of a run ---------------------------------------------------------


def test_each_start_and_each_resume_leaves_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/opt/bin/minprm", "train", "--run", "mine"])
    for resume in (False, True):
        log = Log(tmp_path / "mine")
        log.open(Config(run="mine", resume=resume))
        log.close()
    with monkeypatch.context() as killed:  # while it writes its line
        killed.setattr("os.replace", lambda *_: sys.exit(9))
        log = Log(tmp_path / "mine")
        with pytest.raises(SystemExit):
            log.open(Config(run="mine", resume=True))
        log.close()
    found = read_lines(tmp_path / "mine" / starts.FILE)
    assert [line["command"] for line in found] == [["minprm", "train", "--run", "mine"]] * 2
    assert {"started", "python", "platform", "commit", "libraries"} < set(found[0])


def test_the_commit_is_that_of_the_checkout_and_null_without_one(tmp_path, monkeypatch):
    assert starts.commit(tmp_path) is None
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-qm", "first", "--allow-empty"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    found = starts.commit(tmp_path)
    assert found and head.startswith(found)
    (tmp_path / "installed").mkdir()  # inside a checkout of something else
    assert starts.commit(tmp_path / "installed") is None
    monkeypatch.setenv("PATH", "")
    assert starts.commit(tmp_path) is None


def test_a_page_that_fails_does_not_lose_the_run(here, monkeypatch, capsys):
    def full(folders):
        raise OSError("No space left on device")

    monkeypatch.setattr(train, "write_page", full)
    rows = json.loads((here / "ladder.json").read_text())
    log = Log(here)
    train.show_ladder(Config(run="one", arms=["base", "act_prm"]), rows, here)
    log.close()
    said = capsys.readouterr()
    assert "ladder.json" in said.out and "report.html" not in said.out
    assert "No space left on device" in said.err and "minprm report one" in said.err


def test_a_page_is_whole_or_not_there(here, monkeypatch):
    write_page([here])
    before = (here / "report.html").read_bytes()
    monkeypatch.setattr(pages, "page", lambda data: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_page([here])
    assert (here / "report.html").read_bytes() == before
    assert not list(here.glob(".*.tmp"))


def test_a_run_without_a_world_or_with_stages_is_listed(here, capsys):
    config = json.loads((here / "config.json").read_text())
    config |= {"world": "", "demos": "/data/calls.jsonl", "stages": ["act_prm", "sft:thoughts"]}
    (here / "config.json").write_text(json.dumps(config))
    (here / "ladder.json").write_text(json.dumps({"stages": [row(0, 0.3)]}))
    line = listed(capsys)["one"]
    assert "logs: calls.jsonl" in line and "1/1" in line and "0.300 stages" in line


def test_a_watched_state_says_which_thought_was_written_into_its_log(here):
    state = gather([here])["looks"][0]["states"][0]
    assert state["relabelled"] is None
    messages = [{"role": "user", "content": "go"}]
    for i in range(3):
        messages.append({"role": "assistant", "content": "open a", "reasoning_content": f"z{i}"})
    messages.insert(1, {"role": "assistant", "content": "hello", "weight": 0})
    log = {"task": state["task"], "messages": messages, "rewards": [0.1, 0.2, 0.3]}
    file = here / f"relabelled-act_prm+relabel-{gather([here])['looks'][0]['seed']}.jsonl"
    file.write_text(json.dumps(log) + "\n")
    inside, held_out = gather([here])["looks"][0]["states"]
    step = state["step"]
    assert inside["relabelled"] == {"thought": f"z{step}", "reward": [0.1, 0.2, 0.3][step]}
    assert held_out["relabelled"] is None
    file.write_text(f"{json.dumps(log)}\n{json.dumps(log)}\n")  # whose of two logs of one task?
    assert gather([here])["looks"][0]["states"][0]["relabelled"] is None


def test_a_huge_text_is_cut_in_every_page():
    data = ladder_of_size(1, 1, 3)
    data["looks"][0]["states"][0]["text"] = "x" * 6_000_000
    for limits in LIMITS:
        (state, *_) = within(data, limits)["looks"][0]["states"]
        assert len(state["text"]) < 21_000 and state["text"].endswith("x …")
