"""Every knob of Act-PRM, SFT and relabelling changes what comes out, each in its own way."""

from dataclasses import fields, replace
from types import SimpleNamespace

import pytest
import torch

from minprm import own
from minprm.arms.ladder import run_stage, start
from minprm.constants import SFT, ActPRM, Optim, Relabel
from minprm.stages import relabel as relabelling
from minprm.stages.sft import sft
from minprm.trainer import Run
from shared.stages import CFG, Lines, doubles, log_of, weights

BASE = replace(
    CFG, num_demos=12, act_prm=ActPRM(lr=3e-3, updates=2, batch=4, group=4), watch=0,
    sft=SFT(lr=1e-3, batch=4, epochs=2), relabel=Relabel(group=2), optim=Optim(warmup=0),
)  # fmt: skip
OPTIM = {field.name for field in fields(Optim)}
OPTIMIZER = [{"lr": 5e-4}, {"batch": 2}, {"max_grad_norm": 0.01}]
# test_rl.py tells all losses and all advantages apart, which are the same functions. Here are those
# that are given something of their own: gspo a whole sequence, opo lengths, batch all groups.
LOSSES = [{"loss": name, "passes": 6, "lr": 1e-2} for name in ("ppo_clip", "gspo")]
ADVANTAGES = [{"advantage": name} for name in ("posterior", "opo", "batch", "top_k", "none")]
ACT_PRM = [
    *OPTIMIZER, *LOSSES, *ADVANTAGES,
    {"updates": 4, "decay": "linear"}, {"updates": 4, "decay": "cosine"},
    {"beta1": 0.5}, {"beta2": 0.5}, {"weight_decay": 0.5}, {"passes": 2},
    {"minibatches": 2}, {"aggregation": "sequence"}, {"aggregation": "constant"},
    {"kl": 0.5, "passes": 2},
    # a warm-up takes a quarter of the updates at most
    {"updates": 4}, {"updates": 8}, {"updates": 8, "warmup": 2},
    {"group": 3}, {"thoughts_from": "state_action"},
    {"reward": "action_prob_mean"}, {"reward": "exact_match"},
    {"reward": "action_prob_mean", "reward_span": "turn"},
    {"trained_on": "thought_action"}, {"trained_on": "both"},
    {"trained_on": "action_first", "thoughts_from": "state_action"},
    {"continues": "own"}, {"continues": "resample", "advantage": "posterior"},
    {"scored_by": "base"}, {"baseline": "no_thought"},
]  # fmt: skip
SFT_KNOBS = [
    *OPTIMIZER,
    {"warmup": 1},
    {"epochs": 1},
    {"passes": 2},
    {"minibatches": 2},
    {"decay": "cosine"},
    {"beta1": 0.5},
    {"beta2": 0.5},
    {"weight_decay": 0.5},
]


def made(checkpoints, folder, stage: str, **parts) -> Run:
    """A run after this stage."""
    run = start(replace(BASE, run=str(folder), **parts), 0, Lines(), checkpoints)
    log_of(run).folder = folder
    folder.mkdir()
    run_stage(run, stage)
    return run


def tried(checkpoints, folder, stage: str, part: str, settings: list[dict]) -> dict:
    """The weights that each setting of a stage ends with, the default first."""
    return {
        str(knobs): weights(made(checkpoints, folder / str(i), stage, **parts(part, knobs)))
        for i, knobs in enumerate([{}, *settings])
    }


def parts(part: str, knobs: dict) -> dict:
    """The sections of a configuration that these knobs of a stage, or of all, make."""
    optim = {knob: knobs[knob] for knob in OPTIM & knobs.keys()}
    own = {knob: knobs[knob] for knob in knobs.keys() - OPTIM}
    return {part: replace(getattr(BASE, part), **own), "optim": replace(BASE.optim, **optim)}


@pytest.mark.slow
def test_every_knob_of_act_prm_changes_what_is_learned(checkpoints, tmp_path):
    found = tried(checkpoints, tmp_path, "act_prm", "act_prm", ACT_PRM)
    assert not doubles(found), doubles(found)
    names = {k for knobs in ACT_PRM for k in knobs}
    # how often the held-out reward is looked at, and when to stop by it: the test below
    assert {f.name for f in fields(ActPRM)} | OPTIM == names | {"best_by", "patience"}


OWN = """
from minprm.algorithms import action_prob, mean

def same(logp):
    return action_prob(logp)

def brief(logp, thought, state, action):
    return action_prob(logp) / (1 + len(thought.split())) if action not in state else 0.0

def weights(r):
    return mean(r)

def squared(r):
    return mean(r.square())
"""


@pytest.mark.slow
def test_a_function_of_a_users_own_is_learned_by_as_one_of_ours(checkpoints, tmp_path):
    """The same function gives the same weights, bit for bit, and another one others."""
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    settings = [{}, {"reward": f"{file}:same"}, {"advantage": f"{file}:weights"},
                {"reward": f"{file}:brief"}, {"advantage": f"{file}:squared"}]  # fmt: skip
    found = []
    for i, knobs in enumerate(settings):
        act = replace(BASE.act_prm, updates=1, **knobs)
        found.append(weights(made(checkpoints, tmp_path / str(i), "act_prm", act_prm=act)))
    default, *same, brief, squared = found
    assert all(torch.equal(each, default) for each in same)
    assert not any(torch.equal(a, b) for a, b in
                   [(default, brief), (default, squared), (brief, squared)])  # fmt: skip


@pytest.mark.slow
def test_a_run_does_not_go_on_with_a_file_that_has_changed(checkpoints, tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    act = replace(BASE.act_prm, updates=1, reward=f"{file}:same")
    cfg = replace(BASE, run="changed", act_prm=act)
    run_stage(start(cfg, 0, Lines(), checkpoints), "sft:actions")
    run_stage(start(cfg, 0, Lines(), checkpoints), "sft:actions")  # done, and taken as it is
    own.loaded.cache_clear()  # as in another process
    file.write_text(OWN + "# another text")
    with pytest.raises(SystemExit):
        run_stage(start(cfg, 0, Lines(), checkpoints), "sft:actions")
    assert f"it differs in {file}" in capsys.readouterr().err


@pytest.mark.slow
def test_patience_stops_at_the_best_held_out_reward(checkpoints, tmp_path):
    act = replace(BASE.act_prm, updates=30, lr=0.03, patience=2)
    patient = made(checkpoints, tmp_path / "patient", "act_prm", act_prm=act, eval_every=1)
    rewards = [x["eval/held_out_reward"] for x in log_of(patient).lines]
    best = rewards.index(max(rewards))
    assert len(rewards) < 30 and len(rewards) == best + 3
    short = replace(act, updates=best + 1, patience=0)
    until = made(checkpoints, tmp_path / "short", "act_prm", act_prm=short, eval_every=1)
    assert torch.equal(weights(until), weights(patient))


@pytest.mark.slow
def test_every_knob_of_sft_changes_what_is_learned(checkpoints, tmp_path):
    found = tried(checkpoints, tmp_path, "sft:expert", "sft", SFT_KNOBS)
    assert not doubles(found), doubles(found)
    # the expert's turns are equally long; what the embedded model is never told:
    # test_instruction.py; patience: test_looks.py
    rest = {"aggregation", "keep_instruction", "patience"}
    assert {f.name for f in fields(SFT)} | OPTIM == {k for knobs in SFT_KNOBS for k in knobs} | rest


@pytest.mark.slow
def test_every_knob_of_relabelling_changes_the_logs(checkpoints, tmp_path):
    logs = [
        [[(s.thought, s.reward, s.learned) for s in d.steps] for d in made(
            checkpoints, tmp_path / str(i), "relabel", relabel=replace(BASE.relabel, **knobs)
        ).demos]
        for i, knobs in enumerate([{}, {"group": 4}, {"min_reward": 0.2},
                                {"min_gain": 0.02}, {"min_step_reward": 0.2}])
    ]  # fmt: skip
    assert all(a != b for i, a in enumerate(logs) for b in logs[:i])
    assert len(logs[2]) < len(logs[0])
    assert all(reward >= 0.2 for demo in logs[2] for _, reward, _ in demo)
    for log in logs[4]:
        assert any(learned for _, _, learned in log)
        assert all(learned == (reward >= 0.2) for _, reward, learned in log)


def test_logs_that_are_relabelled_later_are_walked_by_noise_of_their_own(monkeypatch):
    """A walk takes one seed a step, so the seeds of two walks have to lie further apart."""
    seeds = []

    def walk_logs(agent, demos, cfg, seed):
        seeds.append(seed)
        return [], []

    monkeypatch.setattr(relabelling, "walk_logs", walk_logs)
    agent = SimpleNamespace(chat=None, thought_tokens=1)
    run = SimpleNamespace(cfg=BASE, seed=0, agent=agent, train_demos=[None] * 100)
    run.tell = lambda event: None
    with pytest.raises(SystemExit):  # nothing was written
        relabelling.relabel(run, "relabel")
    gaps = {abs(a - b) for i, a in enumerate(seeds) for b in seeds[:i]}
    assert len(seeds) == 4 and min(gaps) >= 1000


def test_sft_without_any_demo_is_refused(capsys):
    run = SimpleNamespace(cfg=BASE, demos=[])
    with pytest.raises(SystemExit):
        sft(run, "synth+sft:thoughts", learns="thoughts")
    assert "needs demos with a thought" in capsys.readouterr().err
