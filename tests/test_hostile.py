"""Texts of others are shown and not obeyed: by a terminal, a log file, a card. What is published
names no folder of its author. (The page of a run: test_page.py.)"""

import json
import os
from dataclasses import asdict

import pytest
from loguru import logger

from minprm.arms.about import published, without_folders
from minprm.commands.card import code
from minprm.constants import Config, fail
from minprm.look.log import Log
from minprm.look.markdown import escaped

HOSTILE = "\x1b[31mred\x1b]0;title\x07 \u202eright to left ![x](http://a.b/c) <script>`|"


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


@pytest.mark.parametrize("shown", [code, escaped])
def test_markup_of_others_is_letters(shown):
    text = shown(HOSTILE)
    assert harmless(text)
    inside = text[1:-1] if shown is code else text
    assert "`" not in inside and "|" not in inside
    assert shown is code or "<" not in text


def test_what_is_published_names_files_and_no_folders():
    home = os.path.expanduser("~")
    cfg = Config(
        world=f"{home}/shop.py:Shop", world_args=[f"file={home}/tasks.jsonl"],
        few_shot=f"{home}/shots.jsonl",
    )  # fmt: skip
    cfg.act_prm.reward = f"{home}/mine.py:brief"
    knobs = asdict(cfg)
    about = {"asked": {name: knobs[name] for name in ("world", "world_args", "few_shot")}}
    about["knobs"] = without_folders({"act_prm.reward": cfg.act_prm.reward})
    text = json.dumps(published(about))
    assert home not in text and "mine.py:brief" in text and "shop.py:Shop" in text
