"""What chapters say, by another road than the pages' own."""

import doctest
import pickle
import re
from pathlib import Path

import pytest
import torch
from torch.distributed.run import get_args_parser
from transformers import Qwen3Config, Qwen3ForCausalLM

from benchmarks.gpu import QWEN_4B
from evidence.drawings import objectives, speed
from minprm.constants import ARMS
from minprm.load.pretrained import linear_layers
from minprm.model.sampler import Completion
from minprm.zoo import LOSSES

DOCS = Path(__file__).parents[1] / "docs"
# What users of Act-PRM's code, MinRL, PRIME-RL, RAGEN and RL4LMs look for, and where nothing is
LEFT_OUT = (
    "pipeline", "verl", "Ray", "Tinker", "sandboxes", "verifiers", "WebShop", "ALFWorld",
    "tau-bench", "BrowseComp+", "Zork", "Lean", "DeepCoder", "seq2seq", "TRPO", "A2C", "NLPO",
    "reward model", "BERTScore", "DPO", "offline RL", "replay", "asynchronous", "distillation",
    "images", "LoRA", "FP8", "sweeps", "OpenRouter", "environment variables",
)  # fmt: skip


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def test_the_ladder_tells_the_question_of_every_arm():
    text = page("ladder")
    section = text.split("## One question an arm")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.M) == list(ARMS)


def test_the_glossary_has_each_word_once_and_in_order():
    text = page("glossary")
    words = [word.lower() for word in re.findall(r"^\| \*\*(.+?)\*\* \|", text, re.M)]
    assert len(words) > 40 and words == sorted(set(words))


def test_the_advantages_of_chapter_4_are_what_the_functions_return():
    failed, tried = doctest.testfile(str(DOCS / "objectives.md"), module_relative=False)
    assert tried >= 4 and failed == 0


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_figure_of_losses_is_in_units_of_the_plain_gradient(sign):
    """pg is 1 at every ratio, and importance sampling is the ratio itself."""
    assert torch.equal(objectives.factors(LOSSES["pg"], sign), torch.ones_like(objectives.RATIOS))
    assert torch.allclose(objectives.factors(LOSSES["is"], sign), objectives.RATIOS, rtol=1e-4)
    assert set(objectives.PANELS) <= set(LOSSES)


def test_chapter_8_counts_the_tokens_that_its_figure_draws():
    """A row of step t reads t states, the thoughts kept between them, and one thought; by hand."""
    state, kept, steps, group = 200, 30, 3, 4
    rows = sum(group * (t * (state + kept)) for t in range(1, steps + 1))
    tree = steps * state + (steps - 1) * kept + steps * group * kept
    for tokens in (rows, tree):
        assert f"{tokens:,} tokens" in " ".join(page("speed").split())
        assert f"{tokens:,} tokens" in (DOCS / "figures" / "speed.svg").read_text(encoding="utf-8")
    assert (state, kept) == (speed.STATE, speed.THOUGHT + speed.ACTION)


@pytest.mark.parametrize("name", LEFT_OUT)
def test_chapter_11_names_what_is_left_out(name):
    table = page("failures").partition("## What is left out")[2].partition("## What of five")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \|", table, re.MULTILINE)
    assert any(name in looked_for for looked_for, _ in rows)


def test_readme_lists_the_chapters_of_the_book():
    """Both have the same pages in the same order."""
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    listed = [
        re.findall(r"^\d+\. \[.*?\]\((?:docs/)?(\w+)\.md\)", text, re.M)
        for text in (readme.partition("## The book")[2], page("index"))
    ]
    assert listed[0] == listed[1] and "parallel" in listed[0]


# --- chapter 9 ------------------------------------------------------------------------------------


def test_chapter_9_counts_the_bytes_that_are_sent():
    """Of a token that was written, and of the gradients of adapters of Qwen3-4B."""
    text = " ".join(page("parallel").split())
    written = Completion(list(range(1_000, 2_000)), [-0.1] * 1_000)
    told = re.search(r"ids and log-probs \| (\d+) a token", text)
    assert round(len(pickle.dumps(written)) / 1_000) == int(told[1])
    with torch.device("meta"):
        model = Qwen3ForCausalLM(Qwen3Config(vocab_size=151_936, **QWEN_4B))
    total = model.num_parameters()
    adapters = sum(32 * sum(layer.weight.shape) for layer in linear_layers(model).values())
    million, megabytes = adapters / 1e6, 4 * adapters / 1e6
    assert f"{million:.0f} million weights of four bytes, are {megabytes:.0f} MB" in text
    assert f"all its weights {4 * total / 1e9:.0f} GB" in text


def test_without_the_dashes_torchrun_takes_a_flag_of_ours_for_one_of_its_own(capsys):
    told = "ambiguous option: --run"
    with pytest.raises(SystemExit):
        get_args_parser().parse_args(["train.py", "--run", "desk"])
    assert told in capsys.readouterr().err and told in page("parallel")
    for ours in (["train.py", "--", "--run", "desk"], ["-m", "minprm", "--", "--run", "desk"]):
        found = get_args_parser().parse_args(ours)
        assert found.training_script_args == ["--run", "desk"]
    late = get_args_parser().parse_args(["-m", "minprm", "train", "--", "--run", "desk"])
    assert late.training_script_args == ["train", "--", "--run", "desk"]
