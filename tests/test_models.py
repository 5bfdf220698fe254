"""Architectures beside the embedded one: what is computed of them is what they compute.

Each is made from a configuration, with random weights and windows of 8 tokens. Nothing is
downloaded. The table of docs/models.md is held to what is found here.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM

from minprm.arms.ladder import start
from minprm.commands.ask import Evaluation
from minprm.commands.playing import play_checkpoint
from minprm.constants import Config, Sampled, Tiny
from minprm.data import Sample
from minprm.envs.cups import Cups
from minprm.load import check as module
from minprm.load.check import check
from minprm.load.pretrained import load_model
from minprm.load.tiny import untrained
from minprm.model import blocks, reading, tree
from minprm.model import sampler as sampling
from minprm.model.agent import make_player
from minprm.model.decode import Together
from minprm.model.policy import Policy
from minprm.model.sampler import Completion, Sampler
from shared.policies import agent
from shared.stages import Lines

DOCS = Path(__file__).parents[1] / "docs/models.md"
CONTEXT = 100
SIZES = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
HEADS = {**SIZES, "head_dim": 8}
WINDOW = {"sliding_window": 8}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
MAMBA = {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}
# the scales and caps are stronger than those of the released models: what skips them shows
MODELS = {
    "Llama": SIZES,
    "Qwen2": SIZES,
    "Qwen3": HEADS,
    "Qwen3Moe": HEADS | EXPERTS,
    "Mistral": HEADS | WINDOW,
    "Phi3": SIZES | WINDOW,
    "Gemma": HEADS,
    "Gemma2": HEADS | WINDOW | {
        "final_logit_softcapping": 0.5, "attn_logit_softcapping": 1.0, "query_pre_attn_scalar": 8,
    },
    "Gemma3Text": HEADS | WINDOW | {"query_pre_attn_scalar": 8},
    "GptOss": HEADS | WINDOW | {"num_local_experts": 4, "num_experts_per_tok": 2},
    "Cohere": SIZES | {"logit_scale": 0.3},
    "Cohere2": HEADS | WINDOW | {"logit_scale": 0.3},
    "Granite": SIZES | {"logits_scaling": 4.0, "embedding_multiplier": 3.0},
    "DeepseekV3": SIZES | {  # its values are smaller than its keys
        "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2,
        "n_group": 1, "topk_group": 1, "moe_intermediate_size": 16, "first_k_dense_replace": 1,
    },
    "GPT2": {"vocab_size": 96, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 128},
    "Qwen3Next": HEADS | EXPERTS | {
        "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 8,
        "linear_value_head_dim": 8, "shared_expert_intermediate_size": 16,
        "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    },
    "Lfm2": SIZES | {"layer_types": ["conv", "full_attention", "conv"]},
    "Mamba": MAMBA | {"time_step_rank": 4},
    "Mamba2": MAMBA | {"head_dim": 16, "num_heads": 4, "n_groups": 1, "chunk_size": 8},
}  # fmt: skip
REFUSED = ("Mamba",)
QUICK = ("Qwen3", "Gemma2", "Mamba")
NAMES = [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in MODELS]


def saved(name: str, folder: Path) -> Path:
    """A checkpoint of this architecture. Weights are large enough for a window to matter."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**MODELS[name])
    model = AutoModelForCausalLM.from_config(config)
    for weight in model.parameters():
        if weight.ndim > 1:
            weight.data.normal_(0, 0.3)
    model.save_pretrained(folder / name)
    untrained(Cups(), Tiny(dim=32), 0)[1].save_pretrained(folder / name)
    return folder / name


def loaded(name: str, folder: Path):
    """The agent of such a checkpoint, not yet checked."""
    p = Policy(load_model(str(saved(name, folder))), None, 10_000)
    p.tokenizer = untrained(Cups(), Tiny(dim=32), 0)[1]
    return agent(p, Config(context=CONTEXT, sampler="transformers"))


def verdict(name: str, folder: Path, capsys) -> str:
    """The row of docs/models.md."""
    who = loaded(name, folder)
    cause = module.cause(who.policy.model)
    try:
        check(who)
    except SystemExit:
        assert "nats from those of the model's own forward" in capsys.readouterr().err
        return f"| {name} | refused | refused | {cause} |"
    trees = "one row for a tree" if who.policy.shares_prefixes else "a row for each sample"
    cache = "continues from its cache" if who.sampler.reuses_cache else "reads every prompt anew"
    agrees = who.policy.shares_prefixes and who.sampler.reuses_cache
    return f"| {name} | {trees} | {cache} | {'' if agrees else cause} |"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_found_of_an_architecture_is_what_the_page_says(name, tmp_path, capsys):
    assert verdict(name, tmp_path, capsys) in DOCS.read_text().splitlines()


def test_the_page_names_no_architecture_that_is_not_tested():
    _, table = DOCS.read_text().split("| architecture |")
    rows = [line for line in table.splitlines()[2:] if line.startswith("| ")]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(MODELS)


def forward(model, sample: Sample) -> torch.Tensor:
    """Log-probs of the sample's trained tokens, by the model alone."""
    ids = torch.tensor([sample.whole()])
    all_logp = model(ids, use_cache=False).logits[0].log_softmax(-1)
    start = ids.shape[1] - len(sample.ids)
    places = [start + i for i, trained in enumerate(sample.trained) if trained]
    return torch.stack([all_logp[place - 1, ids[0, place]] for place in places])


@pytest.mark.parametrize("name", [name for name in NAMES if name.values[0] not in REFUSED])
def test_trainer_and_sampler_have_the_log_probs_of_the_model_and_updates_run(name, tmp_path):
    who = loaded(name, tmp_path)
    check(who)
    rng = torch.Generator().manual_seed(1)
    prompts = [torch.randint(96, (n,), generator=rng).tolist() for n in (30, 23)]
    samples = module.walk(who.sampler, prompts)  # longer than the windows, and then continued
    for sample in samples:
        sample.advantages = [1.0] * len(sample.ids)
    for sample, logp in zip(samples, who.policy.logprobs(samples), strict=True):
        own = forward(who.policy.model, sample)
        assert torch.allclose(logp, own, atol=1e-3)
        assert torch.allclose(torch.tensor(sample.logprobs), own, atol=1e-3)
    stats = who.policy.update(samples, Sampled(kl=0.1), lr=1e-3)
    assert stats["policy/gap_max"] < 1e-3 and stats["policy/moved"] > 0
    assert stats["policy/kl"] == pytest.approx(0.0, abs=1e-5)  # the frozen model has no dropout


# --- each guard, on a model that is made wrong ---


@pytest.mark.slow
def test_a_trainer_that_skips_what_follows_the_head_is_refused(tmp_path, monkeypatch, capsys):
    bare = lambda model, output, hidden: model.get_output_embeddings()(hidden)  # noqa: E731
    monkeypatch.setattr(reading, "_logits", bare)
    for name in ("Cohere", "Gemma2", "Granite"):
        with pytest.raises(SystemExit) as stopped:
            check(loaded(name, tmp_path))
        assert stopped.value.code == 2
        assert "the trainer's log-probs are up to" in capsys.readouterr().err


def test_a_dropout_that_was_left_on_is_refused(tmp_path, capsys):
    p = Policy(AutoModelForCausalLM.from_pretrained(saved("GPT2", tmp_path)), None, 10_000)
    who = replace(loaded("GPT2", tmp_path), policy=p)
    with pytest.raises(SystemExit):
        check(who)
    assert "the trainer's log-probs are up to" in capsys.readouterr().err


def test_a_sampler_that_draws_from_another_distribution_is_refused(tmp_path, monkeypatch, capsys):
    draw = sampling.draw
    monkeypatch.setattr(sampling, "draw", lambda logits, u, t: draw(logits, u, 2 * t))
    with pytest.raises(SystemExit):
        check(loaded("Llama", tmp_path))
    assert "the sampler's log-probs are up to" in capsys.readouterr().err


def test_a_tree_in_which_siblings_see_each_other_is_switched_off(tmp_path, monkeypatch, said):
    everything = lambda rows: torch.ones(len(rows), 64, 64, dtype=torch.bool)  # noqa: E731
    monkeypatch.setattr(tree, "ancestors_of", everything)
    who = loaded("Llama", tmp_path)
    check(who)
    assert not who.policy.shares_prefixes and who.sampler.reuses_cache
    assert any("each sample gets its own row" in line for line in said)


@pytest.mark.parametrize("long", [0, 600])  # on a GPU shorter rows have no blocks
def test_attention_by_blocks_that_says_something_else_is_switched_off(
    long, tmp_path, monkeypatch, said
):
    monkeypatch.setitem(blocks.LONG, "cpu", long)
    who = loaded("Llama", tmp_path)
    check(who)
    assert who.policy.reads_blocks
    kernel = blocks.attention
    halved = lambda module, q, k, *rest, **how: kernel(module, q, k / 2, *rest, **how)  # noqa: E731
    monkeypatch.setitem(transformers.AttentionInterface._global_mapping, blocks.ON_CPU, halved)
    check(who)
    assert who.policy.shares_prefixes and not who.policy.reads_blocks
    assert any("read with a dense mask" in line for line in said)


def test_a_cache_that_is_not_what_was_read_is_switched_off(tmp_path, monkeypatch, said):
    resume = Sampler._resume

    def wrong(*args):
        known, mask, cache = resume(*args)
        if any(known):
            cache.layers[0].values = cache.layers[0].values * 2
        return known, mask, cache

    monkeypatch.setattr(Sampler, "_resume", wrong)
    who = loaded("Llama", tmp_path)
    check(who)
    assert who.policy.shares_prefixes and not who.sampler.reuses_cache
    assert any("reads every prompt anew" in line for line in said)


@pytest.mark.parametrize("how", ["wrong", "an error"])
def test_completions_that_a_model_cannot_read_in_one_row_get_their_own(
    tmp_path, monkeypatch, said, how
):
    step = Together.step

    def broken(self, *args):
        if how == "an error":
            raise ValueError("too many dimensions")
        return step(self, *args) * 1.5

    monkeypatch.setattr(Together, "step", broken)
    who = loaded("Llama", tmp_path)
    check(who)
    assert who.policy.shares_prefixes and who.sampler.reuses_cache and not who.sampler.branches
    assert any("written in one row" in line for line in said)
    who.sampler.generate([[1, 2]], 4, 2, [], 1.0, seed=0)


def test_a_sampler_that_shares_its_work_is_not_asked(tmp_path, monkeypatch):
    """Of several processes one that had no prompt would not see that another one failed."""

    class Sharing(Sampler):
        def write(self, *what):
            raise AssertionError("others wait for what is written")

    monkeypatch.setattr(Together, "step", None)
    who = loaded("Llama", tmp_path)
    who.sampler = Sharing(who.policy.model)
    check(who)
    assert who.sampler.reuses_cache and not who.sampler.branches


def test_a_model_with_attention_of_its_own_goes_on_from_its_cache(tmp_path):
    """It adds a mask to its scores, so a mask of true and false is none to it."""
    policy = loaded("Llama", tmp_path).policy
    policy.model.set_attn_implementation("eager")
    player = make_player(policy.tokenizer, Sampler(policy.model), Config(context=CONTEXT), [])
    check(player)
    assert player.sampler.reuses_cache and not player.sampler.branches


def test_a_sampler_of_a_model_with_windows_reads_anew_also_where_nobody_checked(tmp_path):
    who = loaded("Mistral", tmp_path)
    samples = module.walk(who.sampler, [list(range(30)), list(range(50, 73))])
    for sample in samples:
        own = forward(who.policy.model, sample)
        assert torch.allclose(torch.tensor(sample.logprobs), own, atol=1e-3)


@pytest.mark.extras
@pytest.mark.parametrize("name", ["Llama", "Mistral", "Gemma2"])
def test_adapters_on_a_base_in_bf16_are_checked_as_well(name, tmp_path):
    pytest.importorskip("peft", reason='needs peft: pip install ".[lora]"')
    p = Policy(load_model(str(saved(name, tmp_path)), lora=4, checkpointing=True), None, 10_000)
    who = replace(loaded(name, tmp_path), policy=p, sampler=Sampler(p.model, own_weights=True))
    check(who)
    assert p.shares_prefixes is who.sampler.reuses_cache is (name == "Llama")


@pytest.mark.extras
@pytest.mark.parametrize("name", ["Mistral", "Gemma2"])
def test_a_window_is_seen_where_it_looks_like_rounding(name, tmp_path, said):
    """In bf16, with the small weights of a model that was just made, trees are off by little."""
    pytest.importorskip("peft", reason='needs peft: pip install ".[lora]"')
    path = saved(name, tmp_path)
    model = load_model(str(path), lora=4)
    for weight in model.parameters():
        weight.data.mul_(0.1)
    p = Policy(model, untrained(Cups(), Tiny(dim=32), 0)[1], 10_000)
    check(agent(p, Config(context=CONTEXT, sampler="transformers")))
    assert not p.shares_prefixes and any("in one row (a sliding window)" in line for line in said)


def test_windows_that_the_context_cannot_fill_cost_nothing(tmp_path):
    model = loaded("Mistral", tmp_path).policy.model
    assert len(module.some_prompts(model, CONTEXT)[0]) > 8
    model.config.sliding_window = 50
    assert len(module.some_prompts(model, CONTEXT)[0]) > 50
    model.config.sliding_window = CONTEXT
    assert len(module.some_prompts(model, CONTEXT)[0]) < 50


def test_evaluation_and_training_check_what_they_load(tmp_path, capsys):
    path = str(saved("Mamba", tmp_path))
    cfg = Config(model=path, sampler="transformers", num_demos=2, held_out=0, run="x")
    evaluation = lambda: play_checkpoint(cfg, Evaluation([path]))  # noqa: E731
    training = lambda: start(cfg, 0, Lines(), tmp_path)  # noqa: E731
    for load in (evaluation, training):
        with pytest.raises(SystemExit) as stopped:
            load()
        assert stopped.value.code == 2 and "cannot be used" in capsys.readouterr().err


def test_code_of_a_checkpoint_is_not_run_whoever_says_yes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    (tmp_path / "config.json").write_text(
        '{"model_type": "mine", "auto_map": {"AutoConfig": "mine.Mine"}}'
    )
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(SystemExit) as stopped:
        load_model(str(tmp_path))
    assert stopped.value.code == 2 and "custom code" in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()


def test_nothing_is_loaded_past_the_one_door():
    root = DOCS.parents[1]
    files = [*(root / "minprm").rglob("*.py"), *(root / "examples").glob("*.py")]
    callers = []
    for file in files:
        if ".from_pretrained(" in file.read_text():
            callers.append(file.relative_to(root).as_posix())
    # the examples name the folder that one of them has written
    examples = ["examples/pretrained.py", "examples/smollm2.py"]
    assert sorted(callers) == [*examples, "minprm/load/pretrained.py"]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_log_prob_that_is_not_finite_is_loud(tmp_path, temperature):
    model = loaded("Llama", tmp_path).policy.model
    model.get_input_embeddings().weight.data[7] = torch.nan
    with pytest.raises(FloatingPointError, match="not finite"):
        Sampler(model).generate([[1, 2], [3, 7]], 1, 3, [], temperature, seed=0)
    with pytest.raises(FloatingPointError, match="not finite"):
        Completion([1, 2], [-0.5, float("-inf")])
