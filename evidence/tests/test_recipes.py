"""What docs/evidence.md says of the recipe: weights, numbers of thoughts, wider models."""

from dataclasses import replace

import pytest

from evidence.experiments import (
    ahead,
    as_long,
    bounds,
    filtered,
    fresh,
    logs,
    paired,
    passes,
    refused,
    rounds,
    runs,
    scales,
    scarce,
    selecting,
)
from minprm.commands.cli import parse
from minprm.constants import Config
from minprm.envs import pairs
from minprm.envs.cups import Cups
from minprm.load.tiny import learning_rate, untrained


def drawn(cfg: Config) -> float:
    """Thoughts a step of a log, in training and to write the best of them down."""
    act = cfg.act_prm
    return cfg.relabel.group + act.updates * act.batch * act.group / cfg.num_demos


@pytest.mark.parametrize("updates", selecting.UPDATES)
def test_each_weight_draws_as_many_thoughts_as_the_best_of_the_base(updates, monkeypatch):
    asked = {}

    def noted(name, flags):
        asked[name] = parse(flags.split())
        return dict.fromkeys(asked[name].arms)

    monkeypatch.setattr(selecting, "successes", noted)
    selecting.measured(0.03, updates)
    added, plain, centred = (cfg.act_prm for cfg in asked.values())
    assert [added.baseline, plain.baseline, centred.baseline] == ["no_thought", "none", "none"]
    assert [added.advantage, plain.advantage, centred.advantage] == ["posterior"] * 2 + ["mean"]
    assert centred.trained_on == "thought"
    for cfg in asked.values():
        assert drawn(cfg) == 4 + updates // 2


def test_the_fresh_seeds_meet_the_centred_weight_of_selecting():
    cfg = parse(fresh.flags(0.03).split())
    assert (cfg.act_prm.advantage, cfg.act_prm.baseline) == ("mean", "none")
    assert cfg.act_prm.trained_on == "thought"
    assert not {*fresh.SEEDS} & {*scarce.SEEDS}


def test_at_three_in_a_hundred_they_meet_the_ladder_itself():
    cfg, ladder = parse(fresh.flags(0.03).split()), Config()
    assert (cfg.act_prm, cfg.sft, cfg.relabel) == (ladder.act_prm, ladder.sft, ladder.relabel)
    assert cfg.num_demos == ladder.num_demos
    usual = {kind: share for kind, share in Cups.thought_mix.items() if share}
    assert pairs(cfg.tiny.mixture, float) == usual


@pytest.mark.parametrize("share", selecting.SHARES)
def test_a_filter_meets_as_many_thoughts_as_the_centred_weight(share, monkeypatch):
    asked = []

    def noted(name, flags, seeds=runs.SEEDS):
        asked.append(parse(flags.split()))
        return {"best_of_base_matched": {}}

    monkeypatch.setattr(filtered, "successes", noted)
    filtered.refusing_logs(share)
    filtered.refusing_steps("x", share, runs.SEEDS)
    logs, steps = asked
    assert (logs.relabel.min_reward, steps.relabel.min_step_reward) == (0.9, 0.9)
    for cfg in asked:
        assert drawn(cfg) == 44
        assert cfg.sft == Config().sft


def test_bounds_are_asked_for_on_validation_tasks_and_seeds_that_no_result_has():
    cfg = parse(bounds.flags(0.01, 0.5).split())
    assert (cfg.split, cfg.relabel.min_step_reward, drawn(cfg)) == ("validation", 0.5, 44)
    assert filtered.LEAST in bounds.BOUNDS
    assert not {*bounds.SEEDS} & {*fresh.SEEDS, *scarce.SEEDS}


@pytest.mark.parametrize("thoughts", [44, *as_long.MORE])
@pytest.mark.parametrize("share", as_long.SHARES)
def test_choosing_has_so_many_thoughts_and_all_else_that_learning_has(share, thoughts):
    cfg, other = parse(as_long.flags(share, thoughts).split()), parse(ahead.flags(share).split())
    assert (drawn(cfg), drawn(other)) == (thoughts, 44)
    assert (cfg.tiny, cfg.sft, cfg.num_demos) == (other.tiny, other.sft, other.num_demos)
    assert cfg.relabel.min_step_reward == 0.9


def test_its_smallest_number_of_thoughts_is_the_run_of_ahead():
    assert parse(as_long.flags(0.03, 44).split()) == parse(filtered.refusing(0.03).split())


@pytest.mark.parametrize(("logs", "epochs"), [(128, 10), (43, 30), (1, 1280)])
def test_few_logs_are_passed_over_until_there_are_as_many_updates(
    logs, epochs, monkeypatch, tmp_path
):
    folder = tmp_path / "evidence-ahead-steps-0.01"
    folder.mkdir()
    (folder / "relabelled-relabel-matched-311.jsonl").write_text("{}\n" * logs)
    monkeypatch.setattr(passes, "RUNS", tmp_path)
    asked = []

    def noted(name, flags):
        asked.append(parse(flags))
        return {"best_of_base_matched": [{"success": 0.5}]}, []

    monkeypatch.setattr(passes, "go_on", noted)
    assert passes.as_many_updates(0.01, 311) == (0.5, logs)
    (cfg,) = asked
    ten = parse(f"{filtered.refusing(0.01)} --sft.epochs {epochs} --seeds 311".split())
    assert cfg == ten
    assert (cfg.sft.epochs, cfg.seeds) == (epochs, [311])
    assert cfg.sft.epochs * logs >= Config().sft.epochs * Config().num_demos


@pytest.mark.parametrize("share", rounds.SHARES)
def test_rounds_have_as_many_thoughts_and_all_else_that_learning_has(share):
    cfg, other = parse(rounds.flags(share).split()), parse(ahead.flags(share).split())
    assert cfg.stages == ["relabel", "sft:thoughts"] * 4
    assert cfg.relabel.group * cfg.stages.count("relabel") == drawn(other) == 44
    assert (cfg.tiny, cfg.sft, cfg.num_demos) == (other.tiny, other.sft, other.num_demos)
    assert cfg.relabel.min_step_reward == 0.9


def test_seed_by_seed_a_lead_may_show_where_intervals_overlap(monkeypatch):
    rows = {
        "8 | theirs": {"values": [0.1, 0.4, 0.8]},
        "8 | ours": {"values": [0.2, 0.5, 0.9]},
        "8 | other": {"values": [0.0, 0.0, 0.0]},
    }
    monkeypatch.setattr(paired, "load", lambda name: {"rows": rows, "seeds": [1, 2, 3]})
    found = paired.differences("x", "ours", "theirs")
    assert list(found) == ["x | 8 | ours"]
    row = found["x | 8 | ours"]
    assert row["seeds"] == [1, 2, 3]
    assert [row["low"], row["mean"], row["high"]] == pytest.approx([0.1, 0.1, 0.1])


@pytest.mark.parametrize("number", refused.SIZES)
def test_where_choosing_may_refuse_learning_may_too(number):
    cfg = parse(refused.flags(number).split())
    other = parse(logs.flags(number, **runs.CENTRED).split())
    assert cfg.arms == ["best_of_base_matched", "act_prm"]  # one run, one base, the same knobs
    assert cfg.relabel == replace(other.relabel, min_step_reward=filtered.LEAST)
    assert (cfg.sft, cfg.tiny) == (other.sft, other.tiny)
    assert cfg.act_prm == Config().act_prm


@pytest.mark.parametrize("width", scales.WIDTHS)
def test_a_wider_model_has_the_same_shape_and_learns_more_slowly(width):
    cfg = parse(scales.flags(width).split())
    times = width / 64
    network = untrained(Cups(), cfg.tiny, seed=0)[0].config
    assert (network.num_attention_heads, network.head_dim) == (width // 16, 32)
    assert (network.intermediate_size, network.num_hidden_layers) == (3 * width, 2)
    assert network.initializer_range * times**0.5 == pytest.approx(0.08, rel=1e-3)
    assert learning_rate(cfg.tiny) * times == pytest.approx(3e-3, rel=1e-3)
    assert cfg.act_prm.lr * times == pytest.approx(6e-4)
    assert cfg.sft.lr * times == pytest.approx(1e-3)
    refusing = parse(scales.refusing(width).split())
    assert (refusing.tiny, refusing.sft) == (cfg.tiny, cfg.sft)
    assert (cfg.relabel.min_step_reward, refusing.relabel.min_step_reward) == (0, 0.9)
    assert drawn(cfg) == drawn(refusing) == 44
    assert replace(refusing.act_prm, lr=6e-4) == Config().act_prm
    assert refusing.act_prm.lr == cfg.act_prm.lr


def test_the_smallest_width_is_the_model_of_the_other_experiments():
    smallest = parse(scales.flags(scales.WIDTHS[0]).split())
    usual = parse(scarce.FLAGS.split())
    assert smallest.tiny == usual.tiny
    assert (smallest.act_prm, smallest.sft) == (usual.act_prm, usual.sft)


def test_a_run_that_was_gone_on_with_counts_each_base_once(tmp_path, monkeypatch):
    folder = tmp_path / "evidence-x"
    folder.mkdir()
    first = "base model: acts 1  good 0.02  scarcest 0.005\n"
    second = "base model: acts 1  good 0.01  scarcest 0.004\n"
    (folder / "log.txt").write_text(first + second + second)
    monkeypatch.setattr(runs, "RUNS", tmp_path)
    assert runs.good_shares("x") == {"good": [0.02, 0.01], "scarcest": [0.005, 0.004]}
