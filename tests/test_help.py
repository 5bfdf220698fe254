"""What the command line says of its knobs: a screen of them, all of them, and docs/knobs.md."""

from types import SimpleNamespace

import pytest
import torch

from evidence.knobs import PAGE, page
from minprm.commands.cli import parse
from minprm.commands.knobs import USED_MOST, flag, knobs
from minprm.constants import Config, refusal
from minprm.load import pretrained
from minprm.load.names import require_device
from minprm.load.pretrained import device_of

KNOBS = {knob.name: knob for knob in knobs(Config())}


def told(capsys, *flags: str) -> str:
    with pytest.raises(SystemExit) as stop:
        parse(list(flags))
    assert not stop.value.code
    return capsys.readouterr().out


@pytest.mark.parametrize("asked", ["-h", "--help"])
def test_the_help_fits_a_screen(capsys, asked):
    lines = told(capsys, asked).splitlines()
    assert len(lines) <= 60 and max(map(len, lines)) <= 100
    shown = [line.split()[0] for line in lines if line.startswith("  --")]
    assert shown == [flag(name) for name in USED_MOST] and len(shown) == 12


def test_the_help_shows_the_defaults_of_the_preset(capsys):
    assert "(cups)" in told(capsys, "--help").split("--world ")[1].splitlines()[0]
    errand = told(capsys, "--preset", "errand", "--help")
    assert "(errand)" in errand.split("--world ")[1].splitlines()[0]


def test_all_knobs_are_listed_on_request(capsys):
    text = told(capsys, "--help-all")
    assert [name for name in KNOBS if flag(name) not in text] == []


def test_every_knob_has_a_meaning():
    assert [name for name, knob in KNOBS.items() if not knob.meaning] == []
    assert KNOBS["act_prm.reward"].meaning.startswith("of a thought: how well")  # the line above
    meaning = "demos in an update; steps, where the history is edited"
    assert KNOBS["sft.batch"].meaning == meaning  # not that of Training
    assert KNOBS["rl.kl"].meaning.startswith("weight of the KL to a reference")  # inherited


def test_the_page_of_knobs_is_what_the_code_says():
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m evidence.knobs writes it anew"


def test_a_knob_that_is_nearly_right_is_suggested(capsys):
    assert "perhaps you meant --seeds" in refusal(parse, ["--seed", "0"])


def test_a_device_that_is_not_here_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for name in ("mps", "cuda"):
        assert refusal(parse, ["--device", name]).startswith(f"--device {name}: this machine")
    assert parse(["--device", "cpu"]).device == "cpu"


def test_vllm_does_not_write_for_a_model_on_another_device(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device_of("auto").type == "cuda"
    assert "add --sampler transformers" in refusal(require_device, "cpu", "vllm")
    assert refusal(require_device, "cpu", "transformers") == ""
    assert refusal(require_device, "cuda", "vllm") == ""


def test_more_processes_than_gpus_are_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    for number, said in [("1", ""), ("2", "started more than 2 processes")]:
        monkeypatch.setenv("LOCAL_RANK", number)
        assert said in refusal(require_device, "auto", "auto")
        assert bool(said) == bool(refusal(require_device, "auto", "auto"))
        assert refusal(require_device, "cpu", "transformers") == ""
    assert "of which it has 1: start 1" in refusal(require_device, "mps", "transformers")


def test_a_model_goes_to_the_device_that_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [device_of(name).type for name in ("auto", "cpu", "mps")] == ["cuda", "cpu", "mps"]


def test_without_vllm_a_gpu_is_told_to_write_slowly(monkeypatch, said):
    monkeypatch.setattr(pretrained, "Sampler", lambda *_: "the plain loop")
    card, cpu = (SimpleNamespace(device=torch.device(name)) for name in ("cuda", "cpu"))
    for model, cfg, told in (
        (card, Config(model="some/model"), True),
        (card, Config(model="some/model", sampler="transformers"), False),
        (card, Config(), False),
        (cpu, Config(model="some/model"), False),
    ):
        said.clear()
        assert pretrained.make_sampler(model, cfg) == "the plain loop"
        assert any("vLLM is not installed" in line for line in said) == told
