"""One row for a whole tree: the same numbers as a row for each path, from fewer tokens."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._dynamo.testing import CompileCounter
from torch.nn.attention import SDPBackend, flex_attention, sdpa_kernel
from torch.nn.attention.flex_attention import BlockMask, create_block_mask
from transformers import AutoModelForCausalLM, Gemma3TextConfig
from transformers.integrations.flex_attention import WrappedFlexAttention
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from minprm.constants import Config, Optim, Sampled, Training
from minprm.data import Sample
from minprm.load.check import check
from minprm.load.pretrained import checkpoint_activations
from minprm.model import blocks, precision
from minprm.model.packing import filled, micro_batches
from minprm.model.policy import Policy
from minprm.model.sampler import Sampler
from minprm.model.tree import layout, numbered_paths, row
from shared.policies import agent, policy


def grown(shape: str, seed: int = 0, size: int = 1) -> list[Sample]:
    """Samples with a thought (drawn) and an action (not drawn) at the ends of a tree.

    size: how many times as long its trunks are.
    """
    rng = random.Random(seed)
    ids = lambda n: [rng.randrange(2, 16) for _ in range(n)]  # noqa: E731

    def leaf(parent: Sample | None) -> Sample:
        sample = Sample(parent=parent)
        n = rng.randint(1, 6)
        sample.extend(ids(n), rng.uniform(-1, 1), [-rng.random() for _ in range(n)])
        return sample.extend(ids(2), rng.random())

    trunk, samples = Sample().extend(ids(9 * size)), []
    if shape == "chain":  # each continues the one before, all are trained
        samples = [leaf(trunk)]
        for _ in range(3):
            samples.append(leaf(samples[-1]))
    if shape == "star":
        samples = [leaf(trunk) for _ in range(6)]
    if shape == "nested":  # Act-PRM: a trunk that grows a turn a step, with thoughts at each
        for _ in range(4):
            samples += [leaf(trunk) for _ in range(3)]
            trunk = Sample(parent=trunk).extend(ids(7 * size))
        samples.append(leaf(Sample(parent=trunk)))  # below a node that holds nothing
    if shape == "forest":  # SFT: nothing in common
        samples = [leaf(Sample().extend(ids(size * rng.randint(1, 9)))) for _ in range(6)]
    return samples


SHAPES = pytest.mark.parametrize("shape", ["chain", "star", "nested", "forest"])


def updated(p: Policy, samples: list[Sample], cfg: Training, plan) -> torch.Tensor:
    """The gradient of one update whose rows are as planned, as one vector."""
    p.micro_batches = lambda _: plan
    p.optimizer.step = lambda: None
    kept, p.optimizer.zero_grad = p.optimizer.zero_grad, lambda **_: None
    p.update(samples, cfg, 0.0, optim=Optim(max_grad_norm=1e9))
    p.optimizer.zero_grad = kept
    del p.micro_batches  # the class's own again
    grads = [w.grad.flatten().float() for w in p.parameters.values() if w.grad is not None]
    grads = torch.cat(grads)
    p.optimizer.zero_grad(set_to_none=True)
    return grads


@SHAPES
@pytest.mark.parametrize("loss", ["pg", "ppo_clip"])
def test_one_row_gives_the_gradients_of_separate_rows(shape, loss):
    p, samples = policy(), grown(shape)
    cfg = Sampled(loss=loss, kl=0.1)
    one = updated(p, samples, cfg, [[list(range(len(samples)))]])
    many = updated(p, samples, cfg, [[[i] for i in range(len(samples))]])
    assert one.norm() > 0 and (one - many).abs().max() < 1e-5


@SHAPES
def test_one_row_gives_the_logprobs_of_separate_rows(shape):
    p, samples = policy(), grown(shape)
    one = p.read([samples], 0.7).logp
    many = p.read([[s] for s in samples], 0.7).logp
    assert len(one) == sum(sum(s.trained) for s in samples) and (one - many).abs().max() < 1e-5


def twins() -> list[Sample]:
    """Thoughts with the same ids below states with the same ids; all else of them differs."""
    samples = []
    for n in range(3):
        state = Sample().extend([3, 4, 5, 6])
        known = Sample(parent=state).extend([7, 8], 0.5 - n, [-1.0 - n, -2.0])
        samples.append(known.extend([9], 1.0 + n))
    state = samples[0].parent
    samples.append(Sample(parent=state).extend([7]).extend([8, 9], 2.0))  # another part is trained
    samples.append(Sample(parent=samples[2]).extend([3, 3], 1.0, [-1.0, -1.0]))  # below a twin
    samples.append(Sample(parent=samples[1]).extend([3, 3], 3.0))  # a twin below another; not drawn
    return samples


def test_what_begins_alike_is_read_once_whatever_its_samples_are():
    """Two logs under the same rules, and thoughts with the same first words."""
    samples = []
    for question in ([3, 4], [3, 5, 6]):
        state = Sample().extend([1, 2, *question])
        for thought in ([7, 8, 9], [7, 8, 10, 11], [7], [12]):
            samples.append(Sample(parent=state).extend(thought, 1.0))
    samples.append(Sample(parent=samples[-1]).extend([13, 14], 1.0))
    p = policy()
    laid = row(samples)
    thoughts = [7, 8, 9, 10, 11, 12]
    assert sorted(laid.ids) == sorted([1, 2, 3, 4, 5, 6, 13, 14, *thoughts, *thoughts])
    one = p.read([samples], 0.7).logp
    many = p.read([[s] for s in samples], 0.7).logp
    assert len(one) == 2 * 9 + 2 and (one - many).abs().max() < 1e-5
    one = updated(p, samples, Sampled(), [[list(range(len(samples)))]])
    many = updated(p, samples, Sampled(), [[[i] for i in range(len(samples))]])
    assert one.norm() > 0 and (one - many).abs().max() < 1e-5


def test_equal_nodes_are_read_once_and_each_counts():
    p, samples = policy(), twins()
    (whole,) = micro_batches(samples, 10**4, linear=1.0, square=0.0, share=True)
    assert len(whole) == 1 and row(samples).ids == [3, 4, 5, 6, 7, 8, 9, 3, 3]
    one = p.read([samples], 0.7).logp
    many = p.read([[s] for s in samples], 0.7).logp
    assert len(one) == sum(sum(s.trained) for s in samples) and (one - many).abs().max() < 1e-5
    cfg = Sampled(loss="ppo_clip", kl=0.1)
    one = updated(p, samples, cfg, [whole])
    many = updated(p, samples, cfg, [[[i] for i in range(len(samples))]])
    assert one.norm() > 0 and (one - many).abs().max() < 1e-5


@pytest.fixture
def by_blocks(monkeypatch):
    """All rows that hold a tree are read by blocks, also short ones."""
    monkeypatch.setattr(blocks, "OVERHEAD", -(10**6))


@pytest.fixture
def flex(monkeypatch, by_blocks):
    """A GPU's kernel on a CPU: there it trains only unfused, and only if nobody objects."""
    monkeypatch.setattr(blocks, "ON_CPU", "flex_attention")
    monkeypatch.setattr(flex_attention, "_validate_device", lambda *tensors: None)
    with torch.compiler.set_stance("force_eager"):
        yield


@SHAPES
@pytest.mark.filterwarnings("ignore:flex_attention called without")
@pytest.mark.parametrize("kernel", ["by_blocks", pytest.param("flex", marks=pytest.mark.slow)])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_block_masks_give_the_numbers_of_dense_ones(shape, kernel, checkpointing, request):
    p, samples = policy(), grown(shape, size=9)
    if checkpointing:
        checkpoint_activations(p.model)
    cfg = Sampled(kl=0.1)
    half = len(samples) // 2
    splits = [samples], [samples[:half], samples[half:]]  # of two rows each has blocks of its own
    plans = [[[[samples.index(s) for s in part] for part in rows]] for rows in splits]
    p.reads_blocks = False
    dense = [updated(p, samples, cfg, plan) for plan in plans]
    dense += [p.read(rows, 0.7).logp for rows in splits]
    draw = lambda: Sampler(p.model).generate([[1, 2]], 2, 6, [], 1.0, seed=0)[0][1].ids  # noqa: E731
    drawn = draw()
    request.getfixturevalue(kernel)
    p.reads_blocks = True
    found = [updated(p, samples, cfg, plan) for plan in plans]
    found += [p.read(rows, 0.7).logp for rows in splits]
    plain = shape == "chain"  # nothing to skip but the future
    assert p.model.config._attn_implementation == (blocks.GROUPED if plain else blocks.ON_CPU)
    for a, b in zip(dense, found, strict=True):
        assert a.norm() > 0 and (a - b).abs().max() < 1e-5
    assert draw() == drawn and p.model.config._attn_implementation == blocks.GROUPED


@pytest.mark.parametrize("length", [2, blocks.FEW + 1])
@pytest.mark.parametrize("dim", [8, 6])  # of values: DeepSeek's are smaller than its keys
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_queries_that_share_a_key_attend_as_in_transformers(heads, dim, length):
    """To the bit where each has a key of its own: so the embedded model's numbers stay."""
    torch.manual_seed(0)
    module = torch.nn.Module()
    module.num_key_value_groups = 4 // heads
    query = torch.randn(3, 4, length, 8, requires_grad=True)
    key, value = torch.randn(3, heads, 9, 8, requires_grad=True), torch.randn(3, heads, 9, dim)
    one, many = torch.randn(3, 1, length, 9), torch.randn(3, 4, length, 9)
    for mask in (one < 0.7, one, many, None):
        kinds = []
        for kernel in (sdpa_attention_forward, blocks.grouped):
            output = kernel(module, query, key, value, mask, scaling=0.3)[0]
            kinds.append((output, *torch.autograd.grad(output.square().sum(), (query, key))))
        for ours, theirs in zip(*kinds, strict=True):
            assert torch.allclose(ours, theirs, atol=1e-6)
        if heads == 4:
            assert torch.equal(kinds[0][0].nan_to_num(), kinds[1][0].nan_to_num())


def test_a_model_on_a_cpu_reads_its_cache_without_copies():
    p = policy()
    Sampler(p.model).generate([[1, 2]], 2, 6, [], 1.0, seed=0)
    assert p.model.config._attn_implementation == blocks.GROUPED
    assert Policy(p.model, None, 10_000).reads_blocks  # a second one knows what was loaded


def test_blocks_honour_grouped_keys_and_the_models_own_scale(by_blocks):
    torch.manual_seed(0)
    config = Gemma3TextConfig(
        vocab_size=32, hidden_size=32, intermediate_size=48, num_hidden_layers=2, head_dim=8,
        num_attention_heads=4, num_key_value_heads=2, query_pre_attn_scalar=2, sliding_window=4096,
    )  # fmt: skip
    p, samples = (
        Policy(AutoModelForCausalLM.from_config(config), None, 10_000),
        grown("nested", 0, 9),
    )
    found = p.read([samples], 1.0).logp
    assert p.model.config._attn_implementation == blocks.ON_CPU
    alone = p.read([[s] for s in samples], 1.0).logp
    assert alone.std() > 0.1 and (found - alone).abs().max() < 1e-5


def test_blocks_are_read_where_that_is_cheaper_and_where_sdpa_was_chosen():
    short, long = grown("star"), grown("star", size=40)
    assert torch.is_tensor(layout([short]).attention_mask)
    assert isinstance(layout([long]).attention_mask, BlockMask)
    assert torch.is_tensor(layout([long], blocks=False).attention_mask)
    p = policy()
    assert p.reads_blocks
    p.model.set_attn_implementation("eager")
    assert not Policy(p.model, p.tokenizer, 10_000).reads_blocks
    p = policy()
    checkpoint_activations(p.model)
    assert Policy(p.model, p.tokenizer, 10_000).reads_blocks, "a dense mask is as large, and slower"


def test_pairs_that_are_computed_grow_with_the_trunk_not_with_the_row(monkeypatch):
    """Counted at the kernel: queries x keys of each of its calls."""
    counted = []
    kernel = blocks.kernel

    def counting(query, key, *rest, **options):
        counted.append(query.shape[2] * key.shape[2])
        return kernel(query, key, *rest, **options)

    monkeypatch.setattr(blocks, "kernel", counting)
    p, trunk = policy(), Sample().extend([1] * 128)
    for group in (7, 14):
        counted.clear()
        samples = [Sample(parent=trunk).extend([2 + n] * 64, 1.0) for n in range(group)]
        p.read([samples], 1.0)
        # the trunk's two blocks see 1 and 2, each branch the trunk and itself
        assert sum(counted) == 2 * (3 + group * 3) * 64**2  # of two layers


def test_blocks_that_nobody_sees_are_skipped(by_blocks, monkeypatch):
    monkeypatch.setitem(blocks.SIZES, "cpu", 128)
    trunk = Sample().extend([1] * 128)
    limbs = [Sample(parent=trunk).extend([2 + n] * 128, 1.0) for n in range(7)]
    # 8 x 8 blocks: each sees itself and the trunk, not the limbs before it
    mask = layout([limbs]).attention_mask
    assert mask.sparsity() == pytest.approx(100 * (1 - (1 + 7 * 2) / 64))


@SHAPES
def test_blocks_are_those_that_torch_finds_by_looking_at_all_pairs(shape, by_blocks):
    samples = [Sample(s.ids * 9, s.trained * 9, parent=s.parent) for s in grown(shape)]
    for rows in ([samples], [samples[:3], samples[3:]]):
        mask = layout(rows).attention_mask
        if mask is None:  # a chain
            continue
        length = mask.seq_lengths[0]
        slow = create_block_mask(
            mask.mask_mod, len(rows), None, length, length, device="cpu", BLOCK_SIZE=mask.BLOCK_SIZE
        )
        assert torch.equal(mask.to_dense(), slow.to_dense())
        assert torch.equal(mask.full_kv_num_blocks, slow.full_kv_num_blocks)


@pytest.mark.slow
def test_varied_batches_compile_nothing_anew_once_two_lengths_were_read(flex, monkeypatch):
    """Compiled as on a GPU, but for torch's own interpreter: what counts is how often.

    The second length makes the shapes variables of the kernel. One row and several are two kernels,
    and so are a pass with gradients and one without.
    """
    counter = CompileCounter()
    compiled = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f, **_: compiled(f, backend=counter))
    monkeypatch.setattr(WrappedFlexAttention, "_is_flex_compiled", False)
    torch._dynamo.reset()
    p = policy()

    def read(rows: int, trunk: int, thoughts: int) -> None:
        samples = [grown("star", seed, trunk)[:thoughts] for seed in range(rows)]
        with torch.no_grad():
            p.read(samples, 1.0)
        p.read(samples, 1.0).logp.sum().backward()

    limits = torch._dynamo.config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True)
    with torch.compiler.set_stance("default"), limits:
        for rows, trunk, thoughts in ((1, 20, 3), (1, 30, 4), (2, 20, 3), (3, 30, 4)):
            read(rows, trunk, thoughts)
        warm = counter.frame_count
        for rows, trunk, thoughts in ((1, 90, 6), (2, 25, 5), (5, 40, 2), (1, 60, 4), (4, 33, 6)):
            read(rows, trunk, thoughts)
    assert 0 < warm == counter.frame_count < blocks.KERNELS / 4


@pytest.mark.parametrize("bf16", [False, True])
def test_joined_keys_are_not_kept_for_the_gradient(bf16, by_blocks, monkeypatch):
    """For each block of queries they are copies: all of them take the square of a row's length."""
    monkeypatch.setattr(precision, "in_bf16", lambda model: bf16)
    trunk = Sample().extend([1] * 64)
    limbs = [Sample(parent=trunk).extend([2 + n] * 64, 1.0) for n in range(5)]
    logp = policy().read([limbs], 1.0).logp
    join = torch.cat
    joined = []
    monkeypatch.setattr(torch, "cat", lambda x, *dim: joined.append(len(x)) or join(x, *dim))
    logp.sum().backward()
    # layers, keys and values, blocks; and the mask of each block
    assert sorted(joined) == 2 * 2 * [1] + 2 * 6 * [1] + 2 * 2 * 5 * [2]


def test_blocks_are_learned_from_with_whatever_kernel_torch_takes(by_blocks):
    """Keys and values of different sizes, as DeepSeek's models have them, fit no fused kernel."""
    p, samples = policy(), grown("nested", size=9)
    cfg = Sampled()
    plan = [[list(range(len(samples)))]]
    with sdpa_kernel(SDPBackend.MATH):
        found = updated(p, samples, cfg, plan)
    assert p.model.config._attn_implementation == blocks.ON_CPU
    p.reads_blocks = False
    dense = updated(p, samples, cfg, plan)
    assert dense.norm() > 0 and (found - dense).abs().max() < 1e-5


@pytest.mark.extras
def test_also_with_checkpointing_and_adapters():
    peft = pytest.importorskip("peft", reason='needs peft: pip install ".[lora]"')
    base, samples = policy(), grown("nested")
    model = base.model
    checkpoint_activations(model)
    adapters = peft.LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
    p = Policy(peft.get_peft_model(model, adapters), base.tokenizer, 10_000)
    cfg = Sampled()
    one = updated(p, samples, cfg, [[list(range(len(samples)))]])
    many = updated(p, samples, cfg, [[[i] for i in range(len(samples))]])
    assert one.norm() > 0 and (one - many).abs().max() < 1e-5


def test_in_bf16_to_what_bf16_can_tell():
    p, samples = policy(), grown("nested")
    exact = p.read([[s] for s in samples], 1.0).logp
    p.model.to(torch.bfloat16)
    one = p.read([samples], 1.0).logp
    many = p.read([[s] for s in samples], 1.0).logp
    rounding = (many - exact).abs().max()
    assert (one - many).abs().max() < 2 * rounding + 1e-2
    check(agent(p, Config(sampler="transformers")))
    assert p.shares_prefixes


def test_without_shared_prefixes_each_sample_has_its_own_row():
    p, samples = policy(), grown("nested")
    p.shares_prefixes = False
    assert all(len(r) == 1 for batch in p.micro_batches(samples) for r in batch)


def test_the_kernel_that_a_model_was_loaded_with_comes_back(by_blocks):
    p, samples = policy(), grown("nested")
    p.model.set_attn_implementation("eager")
    plan = [[list(range(len(samples)))]]
    updated(p, samples, Sampled(kl=0.1), plan)
    assert p.model.config._attn_implementation == blocks.ON_CPU
    p.read([[s] for s in samples], 1.0)
    assert p.model.config._attn_implementation == "eager"
    updated(p, samples, Sampled(kl=0.1), plan)
    Sampler(p.model).generate([[1, 2]], 1, 2, [], 1.0, seed=0)
    assert p.model.config._attn_implementation == "eager"


def test_a_trained_first_token_without_a_parent_is_refused():
    """Nothing predicts it. A place before its row would be the end of a neighbour's."""
    p = policy()
    first = Sample().extend([3, 1], 1.0)
    for samples in ([first], [Sample().extend([1, 2, 3]), first]):
        with pytest.raises(ValueError, match="first token is trained"):
            p.logprobs(samples)
    empty = Sample(parent=Sample())  # a parent without tokens predicts nothing either
    with pytest.raises(ValueError, match="first token is trained"):
        p.update([empty.extend([3], 1.0)], Sampled(), lr=0.0)


def test_samples_without_tokens_and_no_samples_end():
    p, asked = policy(), grown("star")
    silent = [Sample(), Sample(parent=Sample()), Sample().extend([1, 2])]
    assert micro_batches([], 100, 1.0, 1.0, True) == []
    assert micro_batches(silent[:2], 100, 1.0, 1.0, True) == [[[0], [1]]]
    assert p.logprobs([]) == [] and [len(l) for l in p.logprobs(silent)] == [0, 0, 0]
    mixed = p.logprobs([silent[0], *asked[:2], silent[2], *asked[2:]])
    assert [len(mixed[i]) for i in (0, 3)] == [0, 0]
    for a, b in zip(mixed[1:3] + mixed[4:], p.logprobs(asked), strict=True):
        assert torch.equal(a, b)
    with pytest.raises(ValueError, match="an update of no tokens"):
        p.update(silent, Sampled(), lr=0.0)


def test_tokens_grow_with_the_length_of_a_trajectory_not_with_its_square():
    def tokens(steps: int, share: bool, most: int = 10**6) -> list[int]:
        """Of each row."""
        trunk, samples = Sample().extend([1] * 20), []
        for _ in range(steps):
            samples += [Sample(parent=trunk).extend([2 + n] * 5, 1.0) for n in range(8)]
            trunk = Sample(parent=trunk).extend([1] * 20)
        plan = micro_batches(samples, most, 1.0, 0.0, share)
        return [len(row([samples[i] for i in r]).ids) for batch in plan for r in batch]

    assert tokens(8, True) == [8 * (20 + 8 * 5)]
    assert tokens(16, True) == [16 * (20 + 8 * 5)]
    assert sum(tokens(16, False)) > 3.5 * sum(tokens(8, False))
    # a log that is longer than a micro-batch is read a few times, not once for each thought
    for most in (10, 16 * 20 + 8):
        rows = tokens(16, True, most)
        assert sum(rows) < 3 * 16 * (20 + 8 * 5) and max(rows) <= (16 * 20 + 5) * 1.5


def test_a_tree_is_cut_depth_first():
    """Two branches of a root, met by turns: each part keeps to one branch."""
    root = Sample().extend([1] * 10)
    limbs = [Sample(parent=root).extend([2 + n] * 10) for n in range(2)]
    samples = [Sample(parent=limbs[n % 2]).extend([4 + n], 1.0) for n in range(6)]
    paths = [[(number, len(ids)) for number, ids in path] for path in numbered_paths(samples)]
    assert [part.members for part in filled(paths, 23)] == [[0, 2, 4], [1, 3, 5]]


@given(st.integers(0, 10**6), st.sampled_from([0, 15, 30, 10**6]))
@settings(max_examples=50)
def test_every_sample_is_in_one_row_and_no_row_is_longer_than_its_limit(seed, limit):
    samples = grown("nested", seed) + grown("star", seed + 1) + grown("forest", seed + 2)
    paths = [[(number, len(ids)) for number, ids in path] for path in numbered_paths(samples)]
    rows = filled(paths, limit)
    assert sorted(i for part in rows for i in part.members) == list(range(len(samples)))
    for part in rows:
        laid = row([samples[i] for i in part.members])
        assert part.tokens >= len(laid.ids) and part.visible >= sum(laid.positions) + len(laid.ids)
        assert part.tokens <= max(limit, max(sum(n for _, n in path) for path in paths))
    sizes = [part.tokens for part in rows]
    assert sizes == sorted(sizes, reverse=True)


def test_a_row_that_attention_makes_dear_is_cut_and_a_cheap_one_is_not():
    samples = grown("star")
    (whole,) = micro_batches(samples, 10**4, linear=1.0, square=0.0, share=True)
    assert len(whole) == 1
    cut = micro_batches(samples, 10**4, linear=1e-9, square=1.0, share=True)
    assert sum(map(len, cut)) > 1


def test_a_plain_row_needs_no_mask_and_a_tree_does():
    samples = grown("star")
    assert layout([[s] for s in samples]).attention_mask is None
    mask = layout([samples[:2]]).attention_mask[0, 0]
    first, second = (len(samples[0].parent.ids) + n for n in (0, len(samples[0].ids)))
    assert not mask[second, first] and mask[second, 0] and not mask[0, 1]
