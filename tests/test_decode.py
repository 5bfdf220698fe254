"""Completions that stand together behind one prompt are what they would be in rows of their own."""

import pytest

from minprm.model import sampler as module
from minprm.model.decode import Apart, Together
from minprm.model.sampler import Sampler, bytes_of_row
from shared.policies import policy

PROMPTS = [[1, 2, 3, 4, 5, 6], [7, 4], [8, 9, 1]]
LONG = [[*prompt, *range(2, 14)] for prompt in PROMPTS]


@pytest.fixture
def steps(monkeypatch) -> list[tuple[type, tuple[int, ...]]]:
    """Each step of writing: of which kind it was, and the shape of the ids that the model read."""
    found = []
    for kind in (Apart, Together):

        def watched(batch, read, token, step=kind.step):
            def noted(ids, *rest):
                found.append((type(batch), tuple(ids.shape)))
                return read(ids, *rest)

            return step(batch, noted, token)

        monkeypatch.setattr(kind, "step", watched)
    return found


@pytest.mark.parametrize("stops", [[], [2, 7, 9]])
@pytest.mark.parametrize("prompts", [PROMPTS, LONG])  # some are outgrown by what follows them
def test_completions_that_stand_together_are_those_of_rows_of_their_own(prompts, stops):
    model = policy().model
    together, apart = Sampler(model), Sampler(model)
    apart.reuses_cache = False
    for n, seed in ((2, 0), (5, 1)):
        pairs = [
            sampler.generate(prompts, n, 14, stops, 1.0, seed) for sampler in (together, apart)
        ]
        for ours, theirs in zip(*([c for group in x for c in group] for x in pairs), strict=True):
            assert ours.ids == theirs.ids
            assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-5)


def test_what_all_prompts_begin_with_is_read_once_and_changes_nothing(monkeypatch):
    model = policy().model
    rules = [1 + i % 12 for i in range(40)]
    prompts = [[*rules, *prompt] for prompt in PROMPTS]
    read = []
    forward = Sampler._forward
    noted = lambda self, ids, *rest: read.append(tuple(ids.shape)) or forward(self, ids, *rest)  # noqa: E731
    monkeypatch.setattr(Sampler, "_forward", noted)
    alike = Sampler(model).generate(prompts, 3, 6, [], 1.0, seed=0)
    assert read[:2] == [(1, 40), (3, 6)]
    monkeypatch.setattr(module, "ALIKE", 41)
    read.clear()
    apart = Sampler(model).generate(prompts, 3, 6, [], 1.0, seed=0)
    assert read[0] == (3, 46)
    for one, other in zip(alike, apart, strict=True):
        for a, b in zip(one, other, strict=True):
            assert a.ids == b.ids
            assert a.logprobs == pytest.approx(b.logprobs, abs=1e-5)


def test_a_prompt_is_in_the_cache_once_for_all_its_completions(steps):
    Sampler(policy().model).generate(LONG, 5, 4, [], 1.0, 0)
    assert steps == [(Together, (3, 5))] * 3
    steps.clear()
    Sampler(policy().model).generate(LONG, 1, 4, [], 1.0, 0)
    assert steps == [(Apart, (3, 1))] * 3


def test_they_part_when_they_are_longer_than_the_prompt_or_half_of_them_has_stopped(steps):
    Sampler(policy().model).generate(PROMPTS, 4, 10, [], 1.0, 0)
    assert steps == [(Together, (3, 4))] * 7 + [(Apart, (12, 1))] * 2
    steps.clear()
    Sampler(policy().model).generate(LONG, 4, 14, [2, 7, 9, 11, 12], 1.0, 0)
    first = [kind for kind, _ in steps].index(Apart)
    assert 0 < first < 13 and steps[first - 1] == (Together, (3, 4))
    assert steps[first][1][0] <= 6


def test_a_model_whose_layers_forget_has_a_row_for_each(steps):
    writer = Sampler(policy().model)
    writer.reuses_cache = False
    writer.generate(LONG, 5, 4, [], 1.0, 0)
    assert steps == [(Apart, (15, 1))] * 3


def test_a_group_that_does_not_fit_is_written_in_parts(steps, monkeypatch):
    model = policy().model
    row = bytes_of_row(model, tokens=18 + 3)  # each with a prompt of its own
    monkeypatch.setattr(module, "free_memory", lambda device: 2 * 4 * row)
    groups = Sampler(model).generate(LONG, 6, 3, [], 1.0, 0)
    assert steps == [(Apart, (4, 1))] * 2 * 4 + [(Apart, (2, 1))] * 2
    assert [len(group) for group in groups] == [6, 6, 6]
