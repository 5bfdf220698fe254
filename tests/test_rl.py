"""RL as a stage: every knob changes what is learned, playing ahead changes only how old it is."""

import threading
from ctypes import CDLL
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch

from minprm.arms.ladder import run_stage, start
from minprm.constants import RL, Optim
from minprm.model.sampler import Sampler
from minprm.run.prefetch import Prefetch
from shared.policies import policy
from shared.stages import CFG, Lines, doubles, log_of, weights

OPENMP = list(Path(torch.__file__).parent.glob("lib/libgomp*"))


def learned(
    checkpoints, folder, stage="rl:dense", knobs=None, on_save=lambda: None, **rl
) -> tuple[torch.Tensor, list]:
    """(weights after RL with these knobs, what was logged)."""
    optim = {knob: rl.pop(knob) for knob in OPTIM & rl.keys()}
    cfg = replace(CFG, run=str(folder), rl=replace(CFG.rl, **rl), **(knobs or {}))
    cfg.optim = replace(CFG.optim, **optim)
    run = start(cfg, 0, Lines(), checkpoints, on_save)
    run_stage(run, stage)
    return weights(run), log_of(run).lines


@pytest.fixture(scope="module")
def default(checkpoints, tmp_path_factory):
    return learned(checkpoints, tmp_path_factory.mktemp("default"))


OPTIM = {field.name for field in fields(Optim)}
OFF_POLICY = {"passes": 3, "loss": "ppo_clip"}
KNOBS = [
    {"advantage": name}
    for name in ("posterior", "max_rl", "mean", "asym_clip", "rloo", "opo", "batch", "best",
                 "top_k", "none", "ema", "gae", "turn_gae")
] + [
    {"loss": name, "passes": 6, "lr": 1e-2}  # ratios beyond dual_clip's 3
    for name in ("pg", "is", "ppo_clip", "dual_clip", "gspo", "cispo", "masked_is", "ipo", "dppo",
                 "sapo")
] + [
    {"batch": 2}, {"group": 2}, {"updates": 8}, {"lr": 1e-3}, {"correction": "truncate"},
    {"aggregation": "sequence"}, {"aggregation": "constant"}, {"kl": 0.5, **OFF_POLICY},
    {"kl": 0.5, "kl_to": "sampler", **OFF_POLICY}, {"kl": 0.5, "kl_target": 0.01},
    {"entropy": 0.1}, {"groups": "top_p", "top_p": 0.7}, {"groups": "soft"},
    {"format_penalty": 1.0}, {"gamma": 0.5}, {"max_async_level": 1, "loss": "is"},
    {"max_async_level": 1},
    {"advantage": "gae", "lam": 0.5},
    {"advantage": "gae", "gamma": 0.9}, {"advantage": "turn_gae", "gamma": 0.9},
    {"warmup": 2, "updates": 8},
    # what shows in the third update
    {"updates": 3}, {"decay": "linear", "updates": 3}, {"decay": "cosine", "updates": 3},
    {"backfill": True, "updates": 3},
    {"beta1": 0.5}, {"beta2": 0.5}, {"weight_decay": 0.5}, {"minibatches": 2},
    {"max_grad_norm": 0.01},
]  # fmt: skip


@pytest.mark.slow
def test_every_knob_of_rl_changes_what_is_learned(checkpoints, tmp_path):
    """Also each from the other: a value that is read nowhere would be somebody's double."""
    elsewhere = {"finetune_lr", "patience", "reward"}  # below, test_looks.py, test_rl_reward.py
    assert {f.name for f in fields(RL)} | OPTIM == elsewhere | {k for knobs in KNOBS for k in knobs}
    seen = {}
    for i, knobs in enumerate([{}, *KNOBS]):
        few = {"updates": 2} | knobs  # moments and moving numbers show from the second one on
        found, lines = learned(checkpoints, tmp_path / str(i), **few)
        assert torch.isfinite(found).all() and len(lines) == few["updates"]
        seen[str(knobs)] = found
    assert not doubles(seen), doubles(seen)


@pytest.mark.slow
def test_an_advantage_of_a_users_own_is_learned_by_as_one_of_ours(checkpoints, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def same(r): return r - r.mean()\ndef other(r): return 2 * r - r.max()\n")
    ours, same, other = (
        learned(checkpoints, tmp_path / str(i), "rl", updates=2, advantage=name)[0]
        for i, name in enumerate(["mean", f"{file}:same", f"{file}:other"])
    )
    assert torch.equal(ours, same) and not torch.equal(ours, other)


@pytest.mark.slow
def test_what_starts_from_a_fine_tuned_model_has_its_own_rate(checkpoints, tmp_path):
    slow, fast = (
        learned(checkpoints, tmp_path / str(lr), "rl:finetune", finetune_lr=lr)[1]
        for lr in (1e-4, 3e-3)
    )
    assert slow[-1]["policy/lr"] == 1e-4 and fast[-1]["policy/lr"] == 3e-3


@pytest.mark.slow
def test_sparse_rewards_and_sums_are_other_tasks_than_dense_ones(checkpoints, default, tmp_path):
    sparse, of_sparse = learned(checkpoints, tmp_path / "sparse", "rl")
    summed, of_summed = learned(checkpoints, tmp_path / "sum", "rl:sum")
    assert not torch.equal(sparse, default[0]) and not torch.equal(summed, default[0])
    assert not torch.equal(sparse, summed)
    # an episode earns what its turns earn together, and has one advantage
    assert of_summed[0]["reward/paid"] == default[1][0]["reward/paid"]
    assert of_summed[0]["reward/paid"] > of_sparse[0]["reward/paid"]


@pytest.mark.slow
def test_a_correction_matters_where_older_weights_wrote(checkpoints, tmp_path):
    stale = {"max_async_level": 1, "loss": "is", "advantage": "none", "passes": 4}
    runs = {
        name: learned(checkpoints, tmp_path / name, correction=name, **stale)
        for name in ("none", "truncate", "mask")
    }
    for name in ("truncate", "mask"):
        assert not torch.equal(runs["none"][0], runs[name][0])
    fresh, *older = [x["policy/dropped"] for x in runs["mask"][1]]
    assert fresh == 0.0 < max(older) <= 1.0  # what has moved too far is dropped, and counted
    assert [x["policy/gap_mean"] > 1e-4 for x in runs["mask"][1]] == [False] + [True] * 4


@pytest.mark.slow
def test_thinking_can_be_switched_off(checkpoints, default, tmp_path):
    off = learned(checkpoints, tmp_path, knobs={"think": False})
    assert not torch.equal(off[0], default[0])


@pytest.mark.slow
def test_staleness_is_logged_and_bounded_and_nothing_is_in_the_air_at_a_save(
    checkpoints, default, tmp_path
):
    ages = {"never": [x["policy/staleness"] for x in default[1]]}
    for every in (2, 100):
        knobs = {"save_every": every}
        folder = tmp_path / str(every)
        _, lines = learned(checkpoints, folder, knobs=knobs, max_async_level=1, loss="is")
        ages[every] = [x["policy/staleness"] for x in lines]
        assert lines[1]["policy/gap_mean"] > 1e-4
    # snapshots after updates 1 and 3 (save_every 2): the batch after one is fresh
    assert ages == {"never": [0] * 5, 2: [0, 1, 0, 1, 0], 100: [0, 1, 1, 1, 1]}
    assert max(x["policy/gap_mean"] for x in default[1]) < 1e-4


@pytest.mark.slow
def test_a_rerun_repeats_itself_also_where_batches_are_played_ahead(checkpoints, default, tmp_path):
    again = learned(checkpoints, tmp_path / "again", max_async_level=0)
    assert torch.equal(again[0], default[0]) and again[1] == default[1]
    one, two = (
        learned(checkpoints, tmp_path / f"{i}", max_async_level=1, loss="is")[0] for i in (1, 2)
    )
    assert torch.equal(one, two)  # weights change only when nobody writes


@pytest.mark.slow
@pytest.mark.parametrize("rl", [
    {"advantage": "ema"}, {"advantage": "gae", "kl": 0.5, "kl_target": 0.01},
    {"max_async_level": 1, "loss": "is"},
])  # fmt: skip
def test_a_killed_run_goes_on_with_its_moving_numbers(checkpoints, tmp_path, rl):
    """The moving baseline, the KL's weight, the critic and its optimizer are in the snapshot."""
    knobs = {"save_every": 2}
    whole, lines = learned(checkpoints, tmp_path / "whole", knobs=knobs, **rl)

    class Killed(Exception):
        pass

    def kill():
        raise Killed

    with pytest.raises(Killed):
        learned(checkpoints, tmp_path / "half", knobs=knobs, on_save=kill, **rl)
    resumed, rest = learned(checkpoints, tmp_path / "half", knobs=knobs, **rl)
    assert torch.equal(resumed, whole) and rest == lines[2:]


def test_the_next_batch_is_made_while_this_one_is_used():
    """The second batch waits for a sign that is given only after the first was handed over."""
    handed_over = threading.Event()
    made = []

    def make(number):
        if number:
            assert handed_over.wait(timeout=60)
        made.append((number, threading.current_thread() is threading.main_thread()))
        return number

    prefetch = Prefetch(1)
    assert prefetch.take(make, 0, until=3) == 0
    handed_over.set()
    prefetch.settle()
    assert made == [(0, False), (1, False)]
    assert [prefetch.take(make, 1, 3), prefetch.take(make, 2, 3)] == [1, 2]
    assert [n for n, _ in made] == [0, 1, 2] and not prefetch.pending  # none from `until` on
    assert Prefetch(0).take(make, 7, 9) == 7 and made[-1] == (7, True)


def test_a_stage_that_ends_early_leaves_no_batch_to_the_next_one():
    prefetch = Prefetch(1)
    assert prefetch.take(lambda number: ("first", number), 0, until=3) == ("first", 0)
    prefetch.drop()
    assert prefetch.take(lambda number: ("second", number), 0, until=3) == ("second", 0)


def test_a_batch_that_fails_ahead_of_time_fails_when_it_is_asked_for():
    def make(number):
        if number:
            raise RuntimeError("a world fell over")

    prefetch = Prefetch(1)
    prefetch.take(make, 0, until=2)
    prefetch.settle()
    with pytest.raises(RuntimeError, match="fell over"):
        prefetch.take(make, 1, until=2)


def test_nothing_is_begun_behind_a_batch_that_fails():
    """A program that ends waits for its threads, and a failed engine may never answer."""
    made = []

    def make(number):
        made.append(number)
        raise RuntimeError("an engine fell over")

    prefetch = Prefetch(1)
    with pytest.raises(RuntimeError, match="fell over"):
        prefetch.take(make, 0, until=2)
    prefetch.pool.shutdown()
    assert made == [0]


@pytest.mark.skipif(not OPENMP, reason="this torch does not bring an OpenMP of its own")
def test_the_thread_that_plays_computes_with_as_many_threads_as_its_maker(monkeypatch):
    """OpenMP's number is a thread's own. vLLM asks for it, and lets nobody set it with torch."""
    set_threads, before = torch.set_num_threads, torch.get_num_threads()
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    set_threads(7)
    try:
        asked = CDLL(str(OPENMP[0])).omp_get_max_threads
        assert Prefetch(1).take(lambda _: asked(), 0, until=1) == 7
    finally:
        set_threads(before)


def test_a_sampler_apart_writes_by_the_weights_of_the_last_sync():
    p = policy()
    apart = Sampler(p.model, own_weights=True)
    draw = lambda s: s.generate([[1, 2]], 2, 6, [], 1.0, seed=0)[0][0].ids  # noqa: E731
    old = draw(apart)
    with torch.no_grad():
        for weight in p.model.parameters():
            weight.mul_(-2.0)
    assert draw(apart) == old != draw(Sampler(p.model))
    apart.sync()
    assert draw(apart) == draw(Sampler(p.model))
