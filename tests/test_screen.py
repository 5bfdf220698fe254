"""What a person sees of a run: on a terminal, in a pipe, in log.txt and in TensorBoard."""

import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from minprm.arms import ladder
from minprm.commands import train
from minprm.constants import Config
from minprm.look.log import Log
from minprm.look.picture import CUT, picture

ROOT = Path(__file__).parents[1]
FLAGS = (
    "--preset smoke --no-gate --tiny.updates 5 --tiny.dim 32 --act-prm.updates 6 "
    "--act-prm.batch 2 --act-prm.group 4 --num-demos 8 --held-out 2 --episodes 5 --threads 1 "
    "--thought-tokens 16 --eval-tasks 2 --jobs 1"
).split()
HOSTILE = "\x1b[2J<script>alert(1)</script> | \u202e **b** [x](http://y) {message} <red> `c` &lt;"


def thought(text: str, reward: float, advantage: float, **more) -> dict:
    return {"thought": text, "reward": reward, "advantage": advantage, **more}


def line(group: list[dict], **more) -> dict:
    head = {"seed": 0, "stage": "act_prm", "update": 0, "state": "ball under d ."}
    return {**head, "action": "open c", "group": group, **more}


# --- one group ---


def test_a_group_is_sorted_by_reward_and_what_is_equal_is_counted():
    follows = "ball under d . swap d a a"
    group = [
        *[thought("ball under c .", 0.0002, 0.0004)] * 3,
        *[thought("ball under d .", 0.2, 0.89)] * 4,
        thought(follows, 0.998, 4.44),
    ]
    without = {"text": ["open", " c"], "logp": [0.0, -1.6094], "likely": []}
    told = picture(line(group, task="cups-7", where="held out", without_thought=without))
    assert told.splitlines() == [
        "seed 0  act_prm, after 0 updates: 8 thoughts of one state (cups-7, held out)",
        "    state     ball under d .",
        "    expert    open c",
        "    the expert's action has probability 0.200 without a thought",
        "    advantage  reward  times   thought",
        "         4.44   0.998  1 of 8  ball under d . swap d a a",
        "         0.89   0.200  4 of 8  ball under d .",
        "         0.00   0.000  3 of 8  ball under c .",
    ]


def test_what_the_action_earns_without_a_thought_is_on_the_scale_of_the_rewards():
    without = {"text": ["open", " c"], "logp": [0.0, -1.8326], "likely": []}
    group = [thought("so", 0.398, 0.0)]
    told = picture(line(group, without_thought=without, reward="action_prob_mean"))
    assert "has mean probability of a token 0.400 without a thought" in told
    assert "has probability 0.160" in picture(line(group, without_thought=without))


def test_equal_words_with_another_end_or_number_are_two_rows():
    group = [thought("a", 0.5, 0.0), thought("a", 0.0, 0.0, closed=False), thought("a", 0.5, 1.0)]
    assert [text[21:] for text in picture(line(group)).splitlines()[-3:]] == [
        "  1 of 3  a", "  1 of 3  a", "  1 of 3  (never ended) a",
    ]  # fmt: skip


def test_long_thoughts_and_large_groups_are_cut_with_a_mark():
    group = [thought(f"{i} " + "word " * 500, i / 100, 0.0 if i else -0.1) for i in range(20)]
    told = picture(line(group)).splitlines()
    assert sum(CUT in text for text in told) == 8 and max(map(len, told)) < 120
    assert "… 12 more between these" in told[4 + 6 * 3]
    assert told[-3].split()[:2] == ["-0.10", "0.000"]  # the worst one is among them


def test_a_large_reward_keeps_apart_from_its_advantage():
    told = picture(line([thought("a", 12345.678, 0.75)])).splitlines()[-1]
    assert told.split()[:2] == ["0.75", "12345.678"]


def test_of_resampled_paths_it_is_said_what_the_advantage_counts():
    assert "descend" not in picture(line([thought("a", 0.5, 1.0)]))
    group = [thought("a", 0.5, 2.0, descendants=2), thought("b", 0.6, 0.0, descendants=0)]
    assert "advantage: how many paths of the last step descend" in picture(line(group))


def test_an_episode_has_a_line_for_each_turn():
    turns = [{"thought": "left " * 40, "action": "go left"}, {"thought": None, "action": "open a"}]
    episode = {"turns": turns, "reward": 1.0, "advantage": 1.3, "won": True}
    lost = {"turns": turns * 9, "reward": 0.0, "advantage": -1.3, "won": False}
    told = picture(line([lost, episode, episode], stage="rl", action=None)).splitlines()
    assert "3 episodes of one task" in told[0] and "expert" not in told[2]
    assert told[3].split() == ["1.30", "1.000", "2", "of", "3", "won", "in", "2", "turns"]
    assert told[4].endswith(f"{CUT} → go left") and told[5].strip() == "- → open a"
    assert told[-1].strip() == "… 10 more turns" and len(told) == 6 + 1 + 8 + 1


def test_a_turn_without_an_action_stands_as_it_was_written_and_is_counted():
    cut = {"thought": None, "action": "", "unreadable": "<think> so\n\x1b[2J" + " left" * 40}
    turns = [{"thought": "so", "action": "go left"}, cut]
    other = {**cut, "unreadable": "<think> no"}
    episodes = [
        {"turns": [turns[0], turn], "reward": 0.0, "advantage": 0.0, "won": False}
        for turn in (cut, other, cut)
    ]
    told = picture(line(episodes, stage="rl", action=None)).splitlines()[-6:]
    assert [text[21:].strip() for text in told[0::3]] == [
        "2 of 3  lost in 2 turns, 1 unreadable", "1 of 3  lost in 2 turns, 1 unreadable",
    ]  # fmt: skip
    assert told[1].strip() == "so → go left" and told[5].strip() == "(unreadable) <think> no"
    marked = told[2].strip()
    assert marked.startswith("(unreadable) <think> so \\x1b[2J left left") and marked.endswith(CUT)


def test_an_episode_without_a_turn_is_shown_too():
    nothing = {"turns": [], "reward": 0.0, "advantage": None, "won": False}
    told = picture(line([nothing], action=None))
    assert "lost in 0 turns" in told and "every advantage is 0" in told
    one = {"turns": [{"thought": "x" * 60, "action": "open a"}], "reward": 1, "advantage": 1}
    told = picture(line([one], action=None))
    assert told.endswith(f"{'x' * 60} → open a") and "lost in 1 turn\n" in told
    assert "every advantage" not in told


# --- where it is seen ---


def looked(folder: Path, *updates: int, text: str = "a") -> str:
    """log.txt of a stage with looks at these updates."""
    with closing(Log(folder)) as log:
        log.open(Config(resume=True))
        log.rewind(0, "act_prm", 0)
        for update in updates:
            rows = [{"watched": n, "state": "s", "action": "b"} for n in range(2)]
            groups = [row | {"group": [thought(text, 0.5, 1.0)]} for row in rows]
            log.samples(0, "act_prm", update, groups)
        log.screen.finish()
    return (folder / "log.txt").read_text()


def test_the_first_and_the_last_group_of_a_stage_are_shown_and_no_other(tmp_path, capsys):
    told = looked(tmp_path, 0, 5, 10, 15)
    for seen in (told, capsys.readouterr().err):
        after = [x.split("after ")[1] for x in seen.splitlines() if "after " in x]
        assert after == [f"{n} updates: 1 thoughts of one state" for n in (0, 15)]


def test_what_a_model_wrote_is_shown_and_not_obeyed(tmp_path, capsys):
    told = looked(tmp_path, 0, text=HOSTILE)
    for seen in (told, capsys.readouterr().err):
        assert "\x1b" not in seen and "\u202e" not in seen
        assert "\\x1b[2J<script>" in seen and "{message} <red>" in seen


# --- a run, on a terminal ---


@pytest.fixture(scope="module")
def seen(ungated, tmp_path_factory) -> tuple[Path, str]:
    """(the folder of a small run of two seeds and three arms, what a terminal showed of it)."""
    folder = tmp_path_factory.mktemp("seen")
    outside, inside = pty.openpty()
    fcntl.ioctl(outside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    shown = []

    def read() -> None:
        while chunk := os.read(outside, 4096).decode(errors="replace"):
            if "\x04" in chunk:
                return
            shown.append(chunk)

    reader = threading.Thread(target=read)
    reader.start()
    with pytest.MonkeyPatch.context() as patch, open(inside, "w", encoding="utf-8") as terminal:
        patch.chdir(folder)
        patch.setattr(sys, "stderr", terminal)
        arms = "--arms base act_prm shuffled_thoughts --seeds 0 1".split()
        train.main(["--run", "r", *FLAGS, *arms])
        terminal.write("\x04")
        terminal.flush()
        reader.join()
    os.close(outside)
    return folder / "runs" / "r", "".join(shown)


@pytest.mark.slow
def test_a_terminal_shows_a_bar_with_the_reward_and_the_time_left(seen):
    folder, shown = seen
    bars = [text for text in shown.split("\r") if text.startswith("seed 0  act_prm ")]
    assert any("reward 0." in text and "00:0" in text and " left" in text for text in bars), bars
    assert "0/6, ? left |" in bars[0] and all(len(text) <= 80 for text in bars)
    told = (folder / "log.txt").read_text()
    assert "\r" not in told and "\x1b" not in told and "0/6" not in told
    assert "after 0 updates" in told and "act_prm, after 6 updates" in told


class Terminal(io.StringIO):
    """What is written to a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def curves(folder: Path) -> EventAccumulator:
    found = EventAccumulator(str(folder))
    found.Reload()
    return found


@pytest.mark.slow
def test_arms_and_seeds_have_the_same_tags_and_the_ladder_is_there(seen):
    folder, _ = seen
    board = folder / "tensorboard"
    stages = sorted(str(x.relative_to(board)) for x in board.glob("*-0/*/"))
    assert stages == [
        "act_prm-0/1-act_prm", "act_prm-0/3-sft-thoughts", "shuffled_thoughts-0/4-sft-thoughts",
    ]  # fmt: skip  # relabelling and shuffling make no updates
    places = ("act_prm-{}/3-sft-thoughts", "shuffled_thoughts-{}/4-sft-thoughts")
    tags = [curves(board / place.format(seed)).Tags() for place in places for seed in (0, 1)]
    assert tags[0]["scalars"] and all(each == tags[0] for each in tags)
    rows = json.loads((folder / "ladder.json").read_text())
    assert rows.keys() == {"base", "act_prm", "shuffled_thoughts", "random", "expert"}
    for arm, many in rows.items():
        for row in many:
            (point,) = curves(board / f"{arm}-{row['seed']}").Scalars("ladder/success")
            assert point.value == pytest.approx(row["success"])


@pytest.mark.slow
def test_a_pipe_and_a_file_get_no_bar(tmp_path):
    command = [sys.executable, "-m", "minprm", "train", *FLAGS, "--arms", "act_prm"]
    with open(tmp_path / "err", "wb") as errors:
        done = subprocess.run(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=errors,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    told = (tmp_path / "err").read_bytes()
    assert done.returncode == 0 and b"after 0 updates: 4 thoughts" in told
    for text in (done.stdout, told):
        assert b"\r" not in text and b"\x1b" not in text and b"0/6" not in text


def test_what_is_shown_or_kept_is_in_no_snapshots_fingerprint():
    shown = {"watch": 0, "keep_every": 7}
    known = []
    for cfg in (Config(), replace(Config(), **shown)):
        known.append({k: v for k, v in vars(cfg).items() if k not in ladder.WHAT_TO_RUN})
    assert known[0] == known[1]
