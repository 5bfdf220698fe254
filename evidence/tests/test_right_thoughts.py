"""A thought is right where the world itself would say it; rewards are not asked."""

import json
import sys

import pytest

from evidence.experiments import right_thoughts
from minprm.envs.base import task_seed
from minprm.envs.errand import Errand
from minprm.logs.reader import write_demos
from minprm.play import expert_demo


def test_a_thought_about_another_place_is_not_right_whatever_its_reward(tmp_path, capsys):
    demos = [expert_demo(Errand(), task_seed("train", i)) for i in range(3)]
    thoughts = [step.thought for step in demos[1].steps]
    place = thoughts[-1].split()[1]
    thoughts[-1] = thoughts[-1].replace(place, "x0" if place == "x1" else "x1")
    demos[1] = demos[1].with_thoughts(thoughts, [1.0] * len(thoughts))
    write_demos(demos, tmp_path / "relabelled-relabel-0.jsonl")
    config = {"world": "errand", "world_args": [], "seeds": [0], "arms": ["rl", "best_of_base"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["right_thoughts", str(tmp_path)])
        right_thoughts.main()
    assert capsys.readouterr().out.splitlines()[2:] == ["| `best_of_base` | 3 | 2 | .667 |"]
