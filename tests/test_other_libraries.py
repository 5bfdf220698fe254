"""The two examples whose libraries have an environment of their own; tested there, skipped here."""

import json
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from minprm.commands.train import main as train
from minprm.constants import Config
from minprm.envs import check_tasks, make_world

EXAMPLES = Path(__file__).parents[1] / "examples"


def ball_after(question: str) -> str:
    """Where the ball is in the end, by the words of the question."""
    ball = question.split()[2]
    for one, other in re.findall(r"swap (\w) (\w)", question):
        ball = {one: other, other: one}.get(ball, ball)
    return ball


@pytest.mark.slow
def test_a_taskset_of_verifiers_is_played_and_its_reward_is_what_was_earned(tmp_path, monkeypatch):
    needed = "needs verifiers: examples/verifiers_agent.py says how it is installed"
    pytest.importorskip("verifiers", reason=needed)
    monkeypatch.chdir(tmp_path)
    flags = "--preset smoke --stages rl --rl.updates 1 --eval-every 0 --episodes 8 --threads 1"
    train([*flags.split(), "--run", "v", "--agent", f"{EXAMPLES}/verifiers_agent.py:play"])
    (line,) = [json.loads(x) for x in Path("runs/v/metrics.jsonl").read_text().splitlines()]
    assert line["play/failed"] == 0 and line["policy/gap_max"] < 1e-4
    for text in Path("runs/v/episodes.jsonl").read_text().splitlines():
        (turn,) = json.loads(text)["turns"]
        assert turn["reward"] == (turn["action"] == f"open {ball_after(turn['state'])}")


@pytest.mark.slow
def test_a_server_of_openenv_is_a_world_whose_episodes_are_played_side_by_side():
    needed = "needs openenv-core: examples/openenv_world.py says how it is installed"
    pytest.importorskip("openenv", reason=needed)
    file = EXAMPLES / "openenv_world.py"
    server = subprocess.Popen([sys.executable, str(file)])
    try:
        wait_for(8000)
        cfg = Config(world=f"{file}:OpenEnv")
        check_tasks(cfg)
        worlds = [make_world(cfg) for _ in range(3)]
        questions = [world.reset(2_000_000_000 + i) for i, world in enumerate(worlds)]
        assert questions[0] == worlds[2].reset(2_000_000_000) != questions[1]
        legal = {"valid": True, "effective": True}
        assert worlds[0].step(f"open {ball_after(questions[0])}") == ("", 1.0, True, legal)
        assert worlds[2].step("open") == ("", 0.0, True, legal)
        assert worlds[0].success and not worlds[2].success
        for world in worlds:
            world.close()
    finally:
        server.kill()
        server.wait()


def wait_for(port: int) -> None:
    """Returns once somebody listens there."""
    for _ in range(300):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"nobody listens at {port}")
