"""The examples' own claims, and a benchmark's, small."""

import json
from itertools import pairwise, product
from pathlib import Path

import pytest
import torch
from torch import tensor

from benchmarks import prefetch
from examples import adaptive_temperature, nlpo, text_rewards
from minprm.arms.ladder import STAGES
from minprm.commands.cli import parse
from minprm.commands.train import go_on
from minprm.commands.train import main as train
from minprm.envs import WORLDS, check_tasks
from minprm.zoo import importance
from shared.policies import policy
from shared.worlds import installed


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Runs and checkpoints in a folder of their own; nothing that a run sets is left behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(STAGES, "rl_adaptive", adaptive_temperature.rl_adaptive)
    yield tmp_path
    torch.set_flush_denormal(False)


CONFIGS = sorted((Path(__file__).parents[1] / "examples/configs").glob("*.toml"))


@pytest.mark.extras
@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.stem)
def test_a_configuration_is_one_and_its_world_has_tasks(file):
    cfg = parse(["--config", str(file)])
    assert cfg.world == file.stem
    if file.stem in installed():
        check_tasks(cfg)


def test_the_nucleus_is_the_smallest_set_of_its_probability():
    torch.manual_seed(0)
    l = torch.randn(6).log_softmax(-1)
    sets = [s for s in product([False, True], repeat=6) if l.exp()[tensor(s)].sum() >= 0.7]
    smallest = min(sum(s) for s in sets)
    found = nlpo.nucleus(l, 0.7)
    assert found.sum() == smallest and l.exp()[found].sum() >= 0.7
    assert nlpo.nucleus(l, 1.0).all()


def test_only_the_truncated_likelihood_has_the_gradient_of_what_was_sampled():
    """Five arms, all enumerated: the expected reward of draws from the renormalised set."""
    theta = tensor([0.3, -0.2, 0.9, -1.0, 0.1], dtype=torch.float64, requires_grad=True)
    reward = tensor([1.0, 0.2, -0.5, 2.0, 0.0], dtype=torch.float64)
    allowed = nlpo.nucleus(theta.detach().log_softmax(0), 0.8)
    inside = nlpo.truncated(theta, allowed)
    (true,) = torch.autograd.grad((inside.exp() * reward)[allowed].sum(), theta, retain_graph=True)
    drawn = inside.detach().exp()[allowed]
    gradients = []
    for l in (inside, theta.log_softmax(0)):
        loss = importance(l[allowed], inside.detach()[allowed], reward[allowed])
        (g,) = torch.autograd.grad((drawn * loss).sum(), theta, retain_graph=True)
        gradients.append(-g)
    assert torch.allclose(gradients[0], true)
    assert not torch.allclose(gradients[1], true, atol=0.02)


def test_draws_stay_in_their_sets_and_the_mask_policy_really_is_refreshed():
    model, mask = policy().model, policy().model
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    prompts = tensor([[3, 4, 5], [6, 7, 8]])
    ids, old, sets, _ = nlpo.draw(model, mask, prompts, 0.5, end=2)
    assert sets.gather(2, ids[..., None]).all() and sets.sum(-1).min() >= 1
    assert torch.allclose(nlpo.likelihood(model, prompts, ids, sets), old, atol=1e-5)
    whole = nlpo.likelihood(model, prompts, ids, torch.ones_like(sets))
    assert (whole < old - 0.01).any() and (whole < old + 1e-5).all()
    nlpo.refresh(mask, model)
    for a, b in zip(mask.parameters(), model.parameters(), strict=True):
        assert torch.equal(a, b) and a is not b


@pytest.mark.slow
def test_a_temperature_that_moves_is_still_the_one_that_was_sampled_at(here):
    flags = "--preset smoke --run t --stages rl_adaptive --no-gate --tiny.updates 60"
    flags += " --episodes 4 --threads 1"
    flags += " --rl.updates 4 --rl.batch 4 --temperature 0.5 --eval-every 0"
    flags += " --world-args rounds=1 swaps=1 cups=3"
    train(flags.split())
    lines = [json.loads(x) for x in (here / "runs/t/metrics.jsonl").read_text().splitlines()]
    temperatures = [x["policy/temperature"] for x in lines]
    assert len(set(temperatures)) > 1 and temperatures[0] == 0.5
    assert all(x["policy/gap_mean"] < 1e-4 for x in lines)
    expected = [
        adaptive_temperature.adapted(x["policy/temperature"], x["reward/std"]) for x in lines
    ]
    assert temperatures[1:] == pytest.approx(expected[:-1], rel=1e-5)


def test_what_the_world_cannot_be_made_of_is_refused_before_the_warm_start(here, capsys):
    for flags, said in (
        ("--reward nice", "Names: exact_match, bleu"),
        ("--file mine.jsonl", "--model"),
        ("--file none.jsonl --model x", "none.jsonl: no such file"),
        ("--updates 0", "at least 1"),
    ):
        with pytest.raises(SystemExit) as stop:
            text_rewards.main(flags.split())
        assert stop.value.code == 2 and said in capsys.readouterr().err
    assert not list(here.iterdir())


@pytest.mark.slow
def test_the_kl_holds_ppo_to_its_warm_start(here, capsys, monkeypatch):
    few = "--episodes 20 --eval-every 0".split()
    monkeypatch.setattr(text_rewards, "go_on", lambda run, flags: go_on(run, [*flags, *few]))
    text_rewards.main("--run t --demos 160 --updates 12 --kl 1.0 --kl-target 0.01".split())
    *_, warm, free, held = capsys.readouterr().out.splitlines()
    kl = [float(line.split()[-1]) for line in (free, held)]
    text_rewards.main("--run t --demos 160 --updates 12 --kl 1.0 --kl-target 0.01".split())
    assert capsys.readouterr().out.splitlines()[-3:] == [warm, free, held]  # gone on with, not anew
    assert warm.startswith("warm start") and kl[1] < 0.5 * kl[0]
    lines = (here / "runs/t-0-held/metrics.jsonl").read_text().splitlines()
    weights = [json.loads(x)["policy/kl_weight"] for x in lines]
    assert weights[0] == 1.0 and all(abs(b / a - 1) <= 0.0201 for a, b in pairwise(weights))


@pytest.mark.slow
def test_the_benchmark_of_playing_ahead_measures_both_levels(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(WORLDS, "slow", f"{prefetch.__name__}:Slow")
    tiny = "--tiny.updates 1 --tiny.dim 16 --no-gate --rl.batch 1 --rl.group 2 --eval-every 0 "
    tiny += "--num-demos 8 --thought-tokens 4 --action-tokens 3"
    few = prefetch.FLAGS.replace("--rl.updates 10", "--rl.updates 4")
    monkeypatch.setattr(prefetch, "FLAGS", f"{few} {tiny}")
    monkeypatch.setattr(prefetch, "DELAY", 0.01)
    for level in (0, 1):
        update, waiting, learning = prefetch.seconds(level)
        assert update > 0 and waiting >= 0 and learning > 0
