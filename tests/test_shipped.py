"""The base models that come with minprm: those of the presets, with the skills that they need."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
import torch
from safetensors.torch import load_file

from evidence import bases
from evidence.results import load
from minprm.commands.presets import PRESETS
from minprm.constants import Config, Tiny
from minprm.envs import make_world
from minprm.envs.base import task_seed
from minprm.envs.cups import Cups
from minprm.load import shipped, tiny
from minprm.load.narration import narrated
from minprm.model.policy import Policy
from minprm.model.precision import FP32Head, own_logprobs
from minprm.text.chat import Chat

KNOWN = json.loads(shipped.FILE.read_text(encoding="utf-8"))
SMOKE = PRESETS["smoke"]


def file_of(name: str) -> Path:
    return shipped.FILE.with_name(f"{name}.safetensors")


def found(cfg: Config, seed: int) -> Path | None:
    return shipped.shipped(make_world(cfg), cfg.tiny, seed)


def base(cfg: Config, seed: int, folder: Path) -> Policy:
    return tiny.raised(make_world(cfg), cfg.tiny, seed, cfg.micro_tokens, folder)


def test_the_presets_have_theirs_for_their_own_seed_and_for_those_of_the_book():
    for name, cfg in PRESETS.items():
        if cfg.model == "tiny":
            for seed in {*cfg.seeds, *load(name)["seeds"]}:
                assert found(cfg, seed) == file_of(f"{name}-{seed}")


def test_each_is_the_file_that_was_measured_small_and_good_enough():
    files = {file.stem: file.read_bytes() for file in shipped.FILE.parent.glob("*.safetensors")}
    assert files.keys() == KNOWN.keys()
    for name, told in KNOWN.items():
        assert len(files[name]) < 1_000_000
        assert hashlib.sha256(files[name]).hexdigest() == told["sha256"]
        tiny.check_gate(told["skills"], stop=True)
    assert sum(map(len, files.values())) < 5_000_000


def test_its_skills_are_those_that_are_noted(tmp_path):
    skills = tiny.gate(base(SMOKE, 0, tmp_path), make_world(SMOKE), SMOKE.thought_tokens)
    assert skills == pytest.approx(KNOWN["smoke-0"]["skills"], abs=0.02)  # one thought of fifty


def test_the_gate_tells_how_often_a_good_thought_is_drawn(tmp_path):
    """Of all states, and of the tenth where it is rarest. Here each of 50 episodes has one."""
    policy, world = base(SMOKE, 0, tmp_path), make_world(SMOKE)
    chat = Chat(policy.tokenizer)
    chances = []
    for i in range(50):
        state = [{"role": "user", "content": world.reset(task_seed("validation", i))}]
        thought = [*chat.content(world.thought()), *chat.stop]
        ids = [*chat.state(state, [], after=None), *chat.think, *thought]
        chances.append(own_logprobs(policy.model, ids, len(thought)).sum().exp().item())
    skills = tiny.gate(policy, world, SMOKE.thought_tokens)
    assert skills["good"] == pytest.approx(fmean(chances), rel=1e-3)
    assert skills["scarcest"] == pytest.approx(fmean(sorted(chances)[:5]), rel=1e-3)
    assert skills["scarcest"] < 0.5 * skills["good"]


@pytest.mark.parametrize("other", [
    replace(SMOKE, tiny=replace(SMOKE.tiny, updates=401)),
    replace(SMOKE, tiny=replace(SMOKE.tiny, mixture=["faithful=1"])),
    replace(SMOKE, world_args=["rounds=1", "swaps=4"]),
    replace(SMOKE, world="rooms", world_args=[]),
])  # fmt: skip
def test_with_other_knobs_none_is_taken(other):
    assert found(SMOKE, 0) and not found(other, 0) and not found(SMOKE, 7)


def test_of_a_world_that_was_edited_none_is_taken():
    mix = {"thought_mix": Cups.thought_mix | {"faithful": 0.2}}
    words = {"words": property(lambda self: [*self.known, "more"],
                               lambda self, words: setattr(self, "known", words))}  # fmt: skip
    assert shipped.shipped(type("Cups", (Cups,), {})(), Tiny(), 0)
    for edit in (mix, words):
        edited = type("Cups", (Cups,), edit)()
        assert shipped.shipped(edited, Tiny(), 0) is None


def test_it_is_taken_before_one_in_the_cache_and_nothing_is_trained_or_written(
    tmp_path, monkeypatch
):
    other = replace(SMOKE, tiny=Tiny(updates=1))
    here = lambda cfg: tiny.is_here(make_world(cfg), cfg.tiny, 0, cfg.micro_tokens, tmp_path)  # noqa: E731
    assert not here(other) and here(SMOKE)
    base(other, 0, tmp_path)
    assert here(other)
    (folder,) = tmp_path.iterdir()
    folder.rename(tiny.path_of(make_world(SMOKE), SMOKE.tiny, 0, SMOKE.micro_tokens, tmp_path))
    before = {*tmp_path.rglob("*")}
    monkeypatch.delattr(tiny, "_pretrain")
    ours = base(SMOKE, 0, tmp_path).weights()
    shipped_ones = load_file(file_of("smoke-0"))
    assert ours.keys() == {*shipped_ones, "critic"}
    assert all(torch.equal(ours[name], weight) for name, weight in shipped_ones.items())
    assert {*tmp_path.rglob("*")} == before


def test_one_command_makes_them(tmp_path, monkeypatch, capsys):
    (tmp_path / "bases.json").write_text(json.dumps({"cups-0": KNOWN["cups-0"]}))
    monkeypatch.setattr(shipped, "FILE", tmp_path / "bases.json")
    monkeypatch.setattr("torch.set_num_threads", lambda _: None)  # the other tests keep theirs
    small = replace(SMOKE, tiny=Tiny(updates=1, dim=16))
    monkeypatch.setitem(PRESETS, "smoke", small)
    monkeypatch.setattr("sys.argv", "bases smoke 0 5".split())
    bases.main()
    names = ["cups-0", "smoke-0", "smoke-5"]
    assert [*json.loads((tmp_path / "bases.json").read_text())] == names
    assert found(small, 5) == tmp_path / "smoke-5.safetensors"
    base(small, 5, tmp_path)
    monkeypatch.setattr("sys.argv", "bases paper 0".split())
    with pytest.raises(SystemExit):
        bases.main()
    assert "no preset of the embedded model" in capsys.readouterr().err


def test_it_is_as_a_model_that_was_loaded(tmp_path):
    """On a GPU another head would compute in bf16."""
    other = replace(SMOKE, tiny=Tiny(updates=1))
    for cfg in (SMOKE, other):
        model = base(cfg, 0, tmp_path).model
        assert type(model.get_output_embeddings()) is FP32Head and not model.training


@pytest.mark.slow
def test_raised_again_it_is_the_same_model_but_for_rounding(tmp_path):
    world = make_world(SMOKE)
    again = tiny.raise_one(world, SMOKE.tiny, 0, SMOKE.micro_tokens)
    tiny.check_gate(tiny.gate(again, world, SMOKE.thought_tokens), stop=True)
    # seed 3's is 3e-3 nats off
    assert nats(again) == pytest.approx(nats(base(SMOKE, 0, tmp_path)), abs=1e-3)


def nats(policy: Policy) -> float:
    """Mean log-prob of a token of the narrated play that would have been the next to be read."""
    chat = Chat(policy.tokenizer)
    world = make_world(SMOKE)
    episodes = narrated(world, SMOKE.tiny, 0, SMOKE.tiny.updates)
    return torch.cat(policy.logprobs([tiny.as_sample(e, chat) for e in episodes])).mean().item()
