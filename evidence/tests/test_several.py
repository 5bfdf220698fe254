"""What docs/evidence.md says of one base for several worlds."""

from statistics import fmean

import pytest

from evidence.experiments import mixture, several
from minprm.commands.cli import parse
from minprm.constants import SFT, ActPRM, Config
from minprm.load import tiny
from minprm.play import expert_demos


def test_a_base_of_one_world_reads_what_the_common_one_reads_of_it():
    common = mixture.episodes(mixture.WORLDS, seed=7, update=3)
    alone = [mixture.episodes([name], seed=7, update=3) for name in mixture.WORLDS]
    assert common == [episode for each in alone for episode in each]
    assert [len(each) for each in alone] == list(mixture.EPISODES.values())


def test_no_world_fills_much_more_of_an_update_than_another():
    _, tokenizer = tiny.untrained(mixture.every_word(), mixture.SIZE, seed=0)
    chat = tiny.Chat(tokenizer)
    tokens = []
    for name in mixture.WORLDS:
        read = [e for update in range(5) for e in mixture.episodes([name], 0, update)]
        tokens.append(sum(len(tiny.as_sample(e, chat).ids) for e in read))
    assert max(tokens) < 2 * min(tokens)


@pytest.mark.parametrize("base", ["own", "common"])
@pytest.mark.parametrize("name", mixture.WORLDS)
def test_every_world_has_the_default_recipe_at_a_slower_rate(base, name, monkeypatch):
    asked = []
    monkeypatch.setattr(several, "raised", lambda names, seed: asked.append(names) or "there")
    cfg = parse(several.flags(base, name, 301).split())
    assert asked == [[name] if base == "own" else mixture.WORLDS]
    assert cfg.world == name
    times = mixture.SIZE.dim / 64
    assert cfg.act_prm == ActPRM(lr=pytest.approx(6e-4 / times), batch=mixture.LOGS[name])
    assert cfg.sft == SFT(lr=pytest.approx(1e-3 / times))
    assert cfg.relabel == Config().relabel


def test_an_update_of_act_prm_holds_about_as_many_states_of_each_world():
    states = []
    for name, logs in mixture.LOGS.items():
        cfg = Config(world=name, world_args=mixture.ARGS.get(name, []))
        demos = expert_demos(cfg, "train", seed=0, n=50)
        states.append(logs * fmean(len(demo.steps) for demo in demos))
    assert max(states) < 1.25 * min(states)
