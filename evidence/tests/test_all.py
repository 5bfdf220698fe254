"""python -m evidence: one experiment after the other, until one ends badly or Ctrl-C."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evidence import __main__ as evidence

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "evidence/experiments"
# of other chapters, or a run for each arm and seed
OF_OTHER_CHAPTERS = {
    "ablations", "cafes", "choosing", "choosing_first", "contact", "few_shot", "ground",
    "hanoi", "harder", "idea", "objectives", "pretrained", "recipes", "restarts", "right_thoughts",
    "transfer", "wider", "wrong_ways",
}  # fmt: skip
SAVES = """
import time
try:
    print("runs", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.5)
    print("saved", flush=True)
    raise SystemExit(130)
"""


def test_each_runs_until_one_ends_badly(monkeypatch):
    asked = []
    monkeypatch.setattr(evidence, "EXPERIMENTS", ("one", "two", "three"))
    monkeypatch.setattr(evidence, "ended", lambda module: asked.append(module) or len(asked) // 2)
    with pytest.raises(SystemExit) as stopped:
        evidence.main()
    assert stopped.value.code == 1
    assert [module[0].rpartition(".")[2] for module in asked] == ["one", "two"]
    assert asked[0][1:] == ["--json", "evidence/results/one.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent in another way there")
def test_ctrl_c_lets_the_experiment_save(tmp_path):
    (tmp_path / "saves.py").write_text(SAVES, encoding="utf-8")
    told = "from evidence.__main__ import ended; raise SystemExit(ended(['saves']))"
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    process = subprocess.Popen(
        [sys.executable, "-c", told],
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout.readline() == "runs\n"
    os.killpg(process.pid, signal.SIGINT)
    assert process.stdout.read() == "saved\n"
    assert process.wait() == 130


def test_an_experiment_is_read_on_one_screen_and_runs_with_the_others():
    texts = {file.stem: file.read_text() for file in EXPERIMENTS.glob("*.py")}
    programs = {name for name, text in texts.items() if 'if __name__ == "__main__"' in text}
    assert programs == {*evidence.EXPERIMENTS, *OF_OTHER_CHAPTERS}
    for name in texts.keys() - OF_OTHER_CHAPTERS:
        assert texts[name].count("\n") <= 80, name
