"""What docs/models.md says that a test can hold it to; its table of architectures: test_models."""

import re
from pathlib import Path
from types import ModuleType
from typing import get_args

import torch

from minprm.commands.presets import PRESETS
from minprm.constants import LayoutName

PAGE = (Path(__file__).parents[1] / "docs/models.md").read_text(encoding="utf-8")


def test_its_presets_are_all_that_train_a_pretrained_model():
    rows = dict(re.findall(r"^\| `([\w.-]+)` \| (.*?) \|", PAGE.partition("## Asked")[0], re.M))
    pretrained = {name: cfg for name, cfg in PRESETS.items() if cfg.model != "tiny"}
    assert rows.keys() == pretrained.keys()
    assert pretrained["logs"].model.endswith("Qwen3-4B-Instruct-2507")
    assert pretrained["logs"].lora == 32 and pretrained["qwen3-0.6b"].lora == 0
    small = pretrained.pop("small").act_prm
    assert (small.reward, small.advantage, small.trained_on) == (
        "action_prob", "posterior", "thought",
    )  # fmt: skip
    for name, cfg in pretrained.items():
        assert cfg.act_prm.reward == "action_prob_mean"
        assert (cfg.act_prm.advantage == "mean_std") == (name != "paper")
        assert (cfg.act_prm.trained_on == "thought") == (name != "paper")


def test_its_reward_of_ones_own_pays_a_short_thought_more():
    of_thought, of_episode = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    module = ModuleType("mine")
    exec(of_thought, module.__dict__)
    logp = torch.tensor([-0.1, -0.3])
    short, long = (module.brief(logp, thought, "", "") for thought in ("go", "well then let us go"))
    assert short > long > 0
    exec(of_episode, module.__dict__)
    assert module.brief([{}] * 2, True) > module.brief([{}] * 4, True) > module.brief([{}], False)


def test_its_layouts_are_those_there_are():
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.partition("## Where a thought ends")[2], re.M)
    assert {*rows, "auto"} == {*get_args(LayoutName)}
