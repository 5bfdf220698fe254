"""What is kept between the steps of a walk gives the numbers of reading from the start, from fewer
tokens."""

import random

import pytest
import torch

from minprm.constants import ActPRM, Training
from minprm.data import Sample
from minprm.model import blocks, tree
from minprm.model.kept import Kept
from minprm.model.policy import Policy
from minprm.stages.act_prm import walk_logs
from shared.policies import agent, policy
from shared.stages import CUPS, hardly_trained


def counted(p: Policy) -> list[int]:
    """The tokens of each forward pass from here on."""
    found = []
    for model in (p.model, p.frozen):
        table = model.get_input_embeddings()
        table.register_forward_pre_hook(lambda _, given: found.append(given[0].numel()))
    return found


def walk(seed: int, steps: int = 4, paths: int = 2) -> list[list[Sample]]:
    """What is scored at each step of a log with several paths; some siblings are equal."""
    rng = random.Random(seed)
    ids = lambda n: [rng.randrange(2, 16) for _ in range(n)]  # noqa: E731
    trunks = [Sample().extend(ids(9))] * paths
    found = []
    for _ in range(steps):
        trunks = [Sample(parent=trunk).extend(ids(rng.randint(0, 4))) for trunk in trunks]
        leaves = []
        for trunk in trunks:
            thoughts = [ids(rng.randint(1, 6)) for _ in range(2)]
            for thought in [*thoughts, thoughts[0]]:
                leaves.append(Sample(parent=trunk).extend(thought).extend(ids(2), 0.0))
            leaves.append(Sample(parent=trunk).extend(ids(3), 0.0))  # its first token is scored
        found.append(leaves)
        # a new object with the ids of what was scored, as a history has it
        trunks = [Sample(parent=trunk).extend(rng.choice(leaves).ids) for trunk in trunks]
    return found


@pytest.mark.parametrize("base", [False, True])
@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("continues", ["best", "own", "resample"])
def test_a_walk_scores_as_if_each_step_were_read_from_the_start(continues, lora, base):
    p, _, demos = hardly_trained()
    if lora:
        peft = pytest.importorskip("peft", reason='needs peft: pip install "minprm[lora]"')
        adapters = peft.LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
        p = Policy(peft.get_peft_model(p.model, adapters), p.tokenizer, 10_000)
    else:
        with torch.no_grad():
            p.model.lm_head.weight.mul_(1.1)  # the base is another model
    tokens, logprobs = counted(p), p.logprobs
    read = {True: [], False: []}

    def both_ways(samples, base, keep):
        found = {}
        for way in (True, False):
            tokens.clear()
            found[way] = logprobs(samples, base=base, keep=way and keep)
            read[way].append(sum(tokens))
        for a, b in zip(found[True], found[False], strict=True):
            assert (a - b).abs().max() < 1e-5
        return found[True]

    p.logprobs = both_ways
    cfg = ActPRM(group=16, continues=continues, scored_by="base" if base else "policy")
    walk_logs(agent(p, CUPS), demos, cfg, seed=0)
    assert sum(read[True][1:]) < sum(read[False][1:])


@pytest.mark.parametrize("limit", [0, 40, 10_000])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_finds_room_the_numbers_are_the_same(seed, limit):
    p = policy()
    p.kept[False] = Kept(limit)
    for leaves in walk(seed):
        near = p.logprobs(leaves, keep=True)
        assert sum(map(len, p.kept[False].places.values())) <= limit
        for a, b in zip(near, p.logprobs(leaves), strict=True):
            assert (a - b).abs().max() < 1e-5


def test_each_token_of_a_path_is_read_once():
    p = policy()
    tokens = counted(p)
    leaf = Sample(parent=Sample().extend([1, 2, 3])).extend([4]).extend([5], 0.0)
    for _ in range(4):
        p.logprobs([leaf], keep=True)
        history = Sample(parent=Sample(leaf.ids, [False] * len(leaf.ids), parent=leaf.parent))
        leaf = Sample(parent=history.extend([6])).extend([4]).extend([5], 0.0)
    assert tokens == [5, 3, 3, 3]


def test_a_sample_that_has_grown_since_the_last_step_is_another_node():
    p, leaf = policy(), Sample(parent=Sample().extend([1, 2, 3])).extend([4], 0.0)
    p.logprobs([leaf], keep=True)
    state = Sample(parent=leaf.extend([5])).extend([6])
    next_leaf = Sample(parent=state).extend([7], 0.0)
    (near,), (far,) = p.logprobs([next_leaf], keep=True), p.logprobs([next_leaf])
    assert (near - far).abs().max() < 1e-5


def test_new_weights_read_anew():
    p, (first, second, *_) = policy(), walk(0)
    p.logprobs(first, keep=True)
    with torch.no_grad():
        p.model.get_input_embeddings().weight.mul_(0.5)
    for a, b in zip(p.logprobs(second, keep=True), p.logprobs(second), strict=True):
        assert (a - b).abs().max() < 1e-5


@pytest.mark.parametrize("ended_by", ["a new walk", "an update"])
def test_nothing_is_kept_beyond_a_walk(ended_by):
    p, (first, *_) = policy(), walk(0)
    p.logprobs(first, keep=True)
    assert p.kept[False].places and p.kept[False].layers
    if ended_by == "a new walk":
        agent(p, CUPS).begin()
    else:
        p.update(first, Training(), lr=0.0)
    assert not p.kept


def test_what_a_walk_has_left_behind_is_forgotten():
    p, steps = policy(), walk(0, steps=6)
    sizes = []
    for leaves in steps:
        p.logprobs(leaves, keep=True)
        sizes.append(sum(map(len, p.kept[False].places.values())))
    assert sizes[-1] == len(tree.row(steps[-1]).ids)


def test_a_model_without_trees_keeps_nothing():
    p, (first, *_) = policy(), walk(0)
    p.shares_prefixes = False
    p.logprobs(first, keep=True)
    assert not p.kept


def test_a_batch_copies_no_more_than_its_limit():
    p, (first, second, *_) = policy(), walk(0, paths=6)
    p.logprobs(first, keep=True)
    store = p.kept[False]
    store.turn_to(second, store.stamp)
    store.limit = 100
    for batch in store.plan(second, p.micro_batches):
        sizes = [store._size([second[i] for i in members]) for members in batch]
        assert len(batch) * sum(map(max, zip(*sizes, strict=True))) <= 100 or len(batch) == 1


def test_many_thoughts_behind_what_is_kept_are_cut_into_rows():
    """There the mask is dense: a row would pay for the square of its thoughts."""
    p, trunk = policy(), Sample().extend([1] * 100)
    p.size = 10**6  # a token is dear beside a pair of them
    thoughts = [Sample(parent=trunk).extend([2 + n % 14] * 20 + [2 + n // 14], 0.0)
                for n in range(128)]  # fmt: skip
    (whole,) = p.micro_batches(thoughts)
    assert len(whole) == 1  # by blocks
    p.logprobs(thoughts[:1], keep=True)
    store = p.kept[False]
    store.turn_to(thoughts, store.stamp)
    rows = [row for batch in store.plan(thoughts, p.micro_batches) for row in batch]
    read = [store._size([thoughts[i] for i in members])[0] for members in rows]
    assert sum(read) <= 128 * 21 and max(read) < 128 * 21 / 4


def test_what_was_read_in_blocks_is_kept_too(monkeypatch):
    p, (first, second, *_) = policy(), walk(0)
    with monkeypatch.context() as patch:
        patch.setattr(blocks, "OVERHEAD", -1000)  # blocks are always cheaper
        p.logprobs(first, keep=True)
    assert p.model.config._attn_implementation == blocks.ON_CPU
    tokens = counted(p)
    near = p.logprobs(second, keep=True)
    assert p.model.config._attn_implementation == "sdpa" and p.kept[False].places
    assert sum(tokens) < len(tree.row(second).ids)
    for a, b in zip(near, p.logprobs(second), strict=True):
        assert (a - b).abs().max() < 1e-5
