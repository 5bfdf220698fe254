"""A knob is refused where nothing reads it, and only there.

Small ladders are run in each situation that the code tells apart, and what they read is recorded.
"""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, replace
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from evidence.tables import metrics
from minprm import constants
from minprm.commands import train
from minprm.commands.effects import idle
from minprm.constants import ARMS, Config, flat
from minprm.logs.reader import write_demos
from minprm.model.agent import Agent, Prompter
from minprm.play import expert_demos
from minprm.report.glossary import ABOUT_ARMS, METRICS

ROOT = Path(__file__).parents[1]
SECTIONS = {
    Config: "", Agent: "", constants.Tiny: "tiny.", constants.Optim: "optim.",
    constants.SFT: "sft.",
    constants.ActPRM: "act_prm.", constants.Relabel: "relabel.", constants.RL: "rl.",
    constants.History: "history.", constants.Engine: "engine.",
}  # fmt: skip
KNOBS = dict(flat(asdict(Config())))
SMALL = {
    "run": "small", "gate": False, "world_args": ["rounds=2", "swaps=1", "cups=2"],
    "tiny.dim": 32, "tiny.updates": 150,
    "thought_tokens": 9, "num_demos": 4, "held_out": 2, "episodes": 4, "save_every": 2,
    "sft.epochs": 1, "sft.batch": 4, "act_prm.updates": 2, "act_prm.batch": 2, "act_prm.group": 2,
    "relabel.group": 2, "rl.updates": 2, "rl.batch": 2, "rl.group": 2,
}  # fmt: skip
# Not seen by the recorder: read before there is a configuration, or at a turn without an action.
UNSEEN = {"preset", "config", "rl.format_penalty"}
# Where these are refused they do something, but not what they say: a KL and a correction are about
# tokens that the sampler drew, and without a world nothing opens a turn with its action. How logs
# are read is said of keys that they have.
ASTRAY = {
    "think", "drop", "map", "task_key", "keep", "format", "thought", "act_prm.kl", "rl.kl_target",
}  # fmt: skip
LOGS = {"demos": "demos.jsonl", "arms": ["base", "action_sft"]}
REPLAY = {"world": "", "world_args": [], "demos": "demos.jsonl", "model": "model"}
SITUATIONS = {
    "nothing is trained": {"arms": ["base"]},
    "actions": {"arms": ["action_sft"]},
    "thoughts are chosen": {"arms": ["best_of_base"]},
    "thoughts are chosen among many": {"arms": ["best_of_base_matched"]},
    "thoughts are copied": {"arms": ["copied_actions"]},
    "thoughts are sampled": {"arms": ["base_thoughts"]},
    "thoughts are learned": {"arms": ["act_prm"]},
    "paths are resampled": {"arms": ["act_prm_resampled"]},
    "by writing": {"arms": ["act_prm"], "act_prm.reward": "exact_match"},
    "hinted": {"arms": ["act_prm"], "act_prm.thoughts_from": "state_action"},
    "hinted, both orders": {
        "arms": ["act_prm"], "act_prm.thoughts_from": "state_action", "act_prm.trained_on": "both",
        "act_prm.kl": 0.1, "act_prm.advantage": "top_k",
    },
    "a world's rewards": {"arms": ["rl"]},
    "a world's rewards, turn by turn": {"arms": ["rl_dense"], "rl.advantage": "top_k"},
    "a critic": {"arms": ["rl"], "rl.advantage": "gae", "rl.kl": 0.1, "rl.groups": "top_p"},
    "after SFT": {"stages": ["sft:actions", "rl:finetune"], "rl.kl": 0.1, "rl.kl_target": 0.1},
    "played ahead": {"arms": ["rl"], "rl.max_async_level": 1},
    "saved at every update": {"arms": ["rl"], "save_every": 1},
    "no thoughts": {"arms": ["base", "action_sft", "rl"], "think": False},
    "short histories": {"arms": ["act_prm", "rl"], "history.last": 1},
    "logs of a user": LOGS,
    "logs of a user, and thoughts": {"demos": "demos.jsonl", "arms": ["act_prm"]},
    "logs that the model wins": {"stages": ["synth"], "num_demos": 60},
    "the expert's logs alone": {"stages": ["demos"]},
    "a language model": {"model": "model", "arms": ["base", "act_prm", "rl"]},
    "a language model as it is": {"model": "model", "arms": ["base"]},
    "replay": REPLAY | {"arms": ["base", "act_prm"]},
    "replay of what is": REPLAY | {"arms": ["base"]},
}  # fmt: skip


def configured(knobs: dict) -> Config:
    config = deepcopy(Config())
    config.optim.warmup = 0  # so that runs of one update outlive it
    for knob, value in (SMALL | knobs).items():
        *section, name = knob.split(".")
        setattr(getattr(config, section[0]) if section else config, name, value)
    return config


@contextmanager
def recording(monkeypatch) -> Iterator[set[str]]:
    """The knobs that are read meanwhile. To be copied is not to be read."""
    read = set()

    def watch(owner: type, prefix: str) -> None:
        def get(self, name):
            reader = sys._getframe(1)
            copied = reader.f_globals["__name__"] == "dataclasses"
            # of what an agent has too, the agent's counts
            handed_on = reader.f_code.co_name == "make_prompter"
            handed_on = handed_on and name in Prompter.__annotations__
            if prefix + name in KNOBS and not copied and not handed_on:
                read.add(prefix + name)
            return object.__getattribute__(self, name)

        monkeypatch.setattr(owner, "__getattribute__", get, raising=False)

    with monkeypatch.context() as monkeypatch:
        for owner, prefix in SECTIONS.items():
            watch(owner, prefix)
        yield read


def run(config: Config, folder: Path, monkeypatch) -> set[str]:
    """What the command reads in this configuration."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(train, "parse", lambda argv: replace(config, jobs=1))
    monkeypatch.setattr("minprm.load.tiny.gate", lambda *_: {"acts": 1.0, "?": 0.0})  # in no time
    with recording(monkeypatch) as read:
        train.main([])
    return read


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with a raised base model, also as `model`, and with logs."""
    folder = tmp_path_factory.mktemp("effects")
    with pytest.MonkeyPatch.context() as monkeypatch:
        config = configured({"arms": ["base"], "run": "first"})
        read = run(config, folder, monkeypatch)
        assert {knob for knob in KNOBS if knob.startswith("tiny.")} <= read
    (base,) = (folder / "checkpoints").glob("tiny-*")
    (folder / "model").symlink_to(base)
    write_demos(expert_demos(config, "train", seed=0, n=8), folder / "demos.jsonl")
    write_demos(expert_demos(config, "train", seed=1, n=8), folder / "logs.jsonl")
    return folder


def numbers(folder: Path, run: str) -> dict[str, str]:
    """Whatever a run has measured or written, without what a clock says and the base model took."""
    found = {}
    for file in (folder / "runs" / run).glob("*.json*"):
        if file.name in ("config.json", "starts.jsonl"):
            continue
        text = re.sub(
            r'(, )?"((?:time|speed)/\w+|seconds|made_by)": ["\w.-]+', "", file.read_text()
        )
        found[file.name] = text
    return found


def other(config: Config, knob: str) -> object:
    """Another value of the knob than it has."""
    *section, name = knob.split(".")
    owner = getattr(config, section[0]) if section else config
    value = getattr(owner, name)
    kind = get_type_hints(type(owner))[name]
    choices = [x for each in get_args(kind) for x in get_args(each) or [each] if x is not str]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1 if isinstance(value, int) else value / 2 + 0.1
    if isinstance(value, list):
        return {"arms": ["rl"], "tiny.mixture": ["bare=1"]}.get(knob, ["rounds=1"])
    if knob == "model":
        return "model"  # the folder of one
    return next((choice for choice in choices if choice != value), "logs.jsonl")


@pytest.mark.slow
@pytest.mark.parametrize("name", SITUATIONS)
def test_what_nothing_reads_is_refused_and_what_is_refused_changes_nothing(
    name, folder, monkeypatch
):
    tag = re.sub(r"\W+", "-", name)
    config = configured(SITUATIONS[name] | {"run": tag})
    read = run(config, folder, monkeypatch) | (UNSEEN - idle(config).keys())
    if config.model == "tiny":
        read |= {knob for knob in KNOBS if knob.startswith("tiny.")}  # the base is raised already
    refused = idle(config)
    assert KNOBS.keys() - read <= refused.keys(), "ignored in silence"
    without = {knob: other(config, knob) for knob in refused if knob not in ASTRAY}
    assert without
    run(configured(SITUATIONS[name] | without | {"run": f"{tag}-again"}), folder, monkeypatch)
    assert numbers(folder, tag) == numbers(folder, f"{tag}-again") != {}


# --- the glossary ---


def logged(folder: Path, tag: str) -> dict[str, set[str]]:
    """The metrics of each kind of stage in a run."""
    found = {}
    for line in (folder / "runs" / tag / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        kind = row["stage"].split("+")[-1].split(":")[0]
        found.setdefault(kind, set()).update(key for key in row if "/" in key)
    return found


@pytest.mark.slow
def test_the_glossary_names_what_is_logged_and_nothing_else(folder, monkeypatch):
    found = {}
    everything = {
        "arms": ["act_prm", "rl"], "rl.kl": 0.1, "rl.kl_target": 0.1, "rl.correction": "mask",
    }  # fmt: skip
    for tag, knobs in (("group", everything | {"rl.advantage": "ema"}),
                       ("critic", {"arms": ["rl"], "rl.advantage": "gae"}),
                       ("logs", REPLAY | {"arms": ["act_prm"], "held_out": 4})):  # fmt: skip
        run(configured(knobs | {"run": tag}), folder, monkeypatch)
        for kind, names in logged(folder, tag).items():
            found.setdefault(kind, set()).update(names)
    # of a card, which may not be here: test_speed.py; of a user's agent: test_agents.py; of the
    # world text: test_text.py
    elsewhere = {"speed/peak_memory_gb", "play/failed", "eval/text/distinct_2"}
    assert set.union(*found.values()) | elsewhere == METRICS.keys()
    # what is said of thoughts and tokens holds wherever something is sampled
    of_samples = {"reward/mean", "reward/std", "reward/no_variance", "policy/thought_length",
                  "policy/unclosed", "policy/copy_rate", "policy/gap_mean"}  # fmt: skip
    assert of_samples <= found["act_prm"] & found["rl"]
    everywhere = {"loss/total", "policy/entropy", "policy/grad_norm", "policy/lr",
                  "policy/skipped", "policy/moved", "time/sample", "time/update", "time/look",
                  "speed/tokens_per_second", "eval/success"}  # fmt: skip
    assert everywhere <= found["act_prm"] & found["rl"] & found["sft"]


def test_each_arm_has_its_sentence():
    assert ABOUT_ARMS.keys() == {"random", *ARMS, "expert"}


def test_the_glossary_of_the_docs_is_that_of_the_page():
    assert metrics() in (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert all(metric.meaning for metric in METRICS.values())
