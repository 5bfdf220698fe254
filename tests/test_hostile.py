"""Texts of others are shown and not obeyed: by a terminal, a log file, a card. What is published
names no folder of its author. (The page of a run: test_page.py.)"""

import json
import logging
import os
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
from loguru import logger

from minprm.__main__ import main
from minprm.arms.about import published, without_folders
from minprm.commands.card import code
from minprm.constants import Config, fail
from minprm.look.log import Log
from shared.chats import random_qwen3, tokenizer
from shared.commands import checkpoint

HOSTILE = "\x1b[31mred\x1b]0;title\x07 \u202eright to left ![x](http://a.b/c) <script>`|"
ABOUT = ""  # a whole minprm.json


@pytest.fixture(scope="module")
def strange(tmp_path_factory) -> Path:
    """A checkpoint of a stranger."""
    global ABOUT
    folder = tmp_path_factory.mktemp("strange") / "c"
    checkpoint(folder)
    about = json.loads((folder / "minprm.json").read_text())
    about["row"] = {
        "seed": 0, "success": 0.5, "thought_rate": 1.0, "copy_rate": 0, "tasks": 4, "episodes": 4,
    }  # fmt: skip
    ABOUT = json.dumps(about)
    words = tokenizer("qwen3")
    random_qwen3(words, eos_token_id=3).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def harmless(text: str) -> bool:
    return all(letter.isprintable() or letter == "\n" for letter in text)


def test_a_sentence_of_refusal_is_shown(capsys):
    with pytest.raises(SystemExit):
        fail(f"{HOSTILE}: no such file")
    assert harmless(capsys.readouterr().err)


def test_the_log_on_the_terminal_and_in_its_file_is_shown(tmp_path, capsys):
    log = Log(tmp_path / "run", bars=False)
    log.open(Config(run="run"))
    logger.warning(HOSTILE)
    log.close()
    said = capsys.readouterr()
    for text in (said.out + said.err, (tmp_path / "run" / "log.txt").read_text()):
        assert "red" in text and harmless(text)


def test_markup_of_others_is_letters():
    text = code(HOSTILE)
    assert harmless(text)
    assert "`" not in text[1:-1] and "|" not in text


def test_what_is_published_names_files_and_no_folders():
    home = os.path.expanduser("~")
    cfg = Config(
        world=f"{home}/shop.py:Shop", world_args=[f"file={home}/tasks.jsonl"],
        few_shot=f"{home}/shots.jsonl",
    )  # fmt: skip
    cfg.act_prm.reward = f"{home}/mine.py:brief"
    knobs = asdict(cfg)
    cfg.agent = f"{home}/agents.py:play"
    knobs["agent"] = cfg.agent
    asked = ("world", "world_args", "agent", "few_shot")
    about = {"asked": {name: knobs[name] for name in asked}}
    about["knobs"] = without_folders({"act_prm.reward": cfg.act_prm.reward})
    text = json.dumps(published(about))
    assert (
        home not in text
        and "mine.py:brief" in text
        and "shop.py:Shop" in text
        and "agents.py:play" in text
    )


def test_what_a_library_says_of_a_checkpoint_is_shown(capsys, monkeypatch):
    before = logging.getLogRecordFactory()
    monkeypatch.setattr("sys.argv", ["minprm"])
    try:
        main(["--version"])
        logging.warning("unknown key %s", HOSTILE)
    finally:
        logging.setLogRecordFactory(before)
    assert harmless(capsys.readouterr().err)


@pytest.mark.parametrize(
    "changes",
    [
        {"asked.world_args": [HOSTILE]},
        {"asked.world": HOSTILE},
        {"asked.world": f"{HOSTILE}.py:World"},
        {"asked.layout": HOSTILE},
        {"asked.content": HOSTILE},
        {"asked.context": 0},
        {"asked.thought_tokens": -5},
        {"asked.history.first": 10**30},
        {"row.thought_rate": HOSTILE},
        {"row.success": "1"},
        {"logs.learned": 10**400},
        {"tools": [HOSTILE]},
        {"tools": [{"function": {"name": [1]}}]},
        {"version": HOSTILE},
        {"stages": [5, None]},
        {"arm": HOSTILE, "run": HOSTILE, "base": HOSTILE},
        {"libraries": {HOSTILE: [1]}, "knobs": {HOSTILE: {HOSTILE: HOSTILE}}},
    ],
)
@pytest.mark.parametrize("command", ["serve c --dry-run", "export c out", "evaluate c --show 1"])
def test_what_a_strangers_file_says_is_shown_or_refused(
    strange, monkeypatch, capsys, command, changes
):
    monkeypatch.chdir(strange.parent)
    about = json.loads(ABOUT)
    for place, setting in changes.items():
        *sections, name = place.split(".")
        section = about
        for part in sections:
            section = section[part]
        section[name] = setting
    (strange / "minprm.json").write_text(json.dumps(about))
    try:
        main([*command.split(), *(["--episodes", "1"] if "evaluate" in command else [])])
    except SystemExit as stop:
        assert stop.code == 2
    else:
        if "export" in command:
            assert harmless((strange.parent / "out" / "README.md").read_text())
            shutil.rmtree(strange.parent / "out")
    said = capsys.readouterr()
    assert harmless(said.out + said.err)


@pytest.mark.parametrize(
    "command",
    ["logs {}", "evaluate {}", "serve {} --dry-run", "train --demos {} --arms action_sft"],
)
def test_a_path_of_too_many_letters_is_refused(capsys, command):
    with pytest.raises(SystemExit) as stop:
        main(command.replace("{}", "x/" * 2500).split())
    error = capsys.readouterr().err
    assert stop.value.code == 2 and error.count("\n") == 1
    assert "no file can have so long a name" in error and len(error) < 300
