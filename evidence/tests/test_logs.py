"""What docs/evidence.md says of equal terms, for every number of logs."""

import math

import pytest

from evidence.experiments import logs, logs_errand
from minprm.commands.cli import parse


@pytest.mark.parametrize("number", logs.SIZES)
def test_fine_tuning_does_not_shrink_with_the_logs(number):
    cfg = parse(f"{logs.flags(number)} --arms {logs.ARMS}".split())
    updates = math.ceil(cfg.sft.epochs * number / cfg.sft.batch)
    assert cfg.num_demos == number
    assert updates == {512: 96, 1024: 128}.get(number, 80)


@pytest.mark.parametrize("number", logs.SIZES)
def test_as_many_thoughts_are_drawn_in_all(number):
    cfg = parse(f"{logs.flags(number)} --arms {logs.ARMS}".split())
    in_training = cfg.act_prm.updates * cfg.act_prm.batch * cfg.act_prm.group
    assert in_training * 3 == 15_360  # of three steps each
    assert in_training % number == 0  # so that matching does not round up
    a_step = cfg.relabel.group + in_training // number
    assert a_step == {8: 644, 16: 324, 1024: 9}.get(number, a_step)


def test_ten_passes_differ_from_the_others_in_their_number_alone():
    cfg = parse(logs.ten_passes(1024).split())
    assert cfg.sft.epochs * cfg.num_demos / cfg.sft.batch == 640
    assert cfg.tiny == parse(logs.best_look(1024).split()).tiny


def test_the_best_look_never_stops_early():
    cfg = parse(logs.best_look(8).split())
    assert cfg.act_prm.patience * cfg.eval_every > cfg.act_prm.updates


@pytest.mark.parametrize("number", logs_errand.SIZES)
def test_errand_is_asked_on_equal_terms_too(number):
    cfg = parse(f"{logs_errand.flags(number)} --arms {logs_errand.ARMS}".split())
    matched = parse(logs_errand.matched(number).split())
    assert math.ceil(cfg.sft.epochs * number / cfg.sft.batch) == {512: 64}.get(number, 40)
    assert cfg.act_prm.updates * cfg.act_prm.batch * cfg.act_prm.group == logs_errand.DRAWN
    assert cfg.relabel.group == 16
    assert matched.relabel.group == {2: 1936, 8: 496, 32: 136, 128: 46, 512: 24}[number]
    assert matched.sft == cfg.sft
