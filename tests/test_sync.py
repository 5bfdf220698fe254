"""How weights reach the engine: when somebody writes, all of them, and compared afterwards.

A stand-in takes vLLM's place, so this runs everywhere; test_vllm.py asks the real one.
"""

import sys
import threading
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from minprm.arms import ladder
from minprm.arms.ladder import run_stage, start
from minprm.constants import Engine, Tiny
from minprm.envs.cups import Cups
from minprm.load import vllm
from minprm.load.tiny import untrained
from minprm.load.vllm import VLLM, architecture
from minprm.model.sampler import Sampler
from shared.policies import policy
from shared.stages import CFG, Lines, log_of

PROMPTS = [[3, 4, 5], [7, 8]]


class StandIn:
    """Stands for vLLM's LLM: it has weights of its own, writes with them, and notes its calls."""

    def __init__(self, model):
        self.model = deepcopy(model)
        with torch.no_grad():
            for weight in self.model.parameters():
                weight.zero_()  # as with load_format="dummy", they mean nothing
        self.sampler = Sampler(self.model)
        self.asleep, self.calls, self.threads, self.llm_engine = set(), [], set(), self
        self.deaf_to = "nothing"

    def sleep(self, level):
        self.asleep = {"weights", "kv_cache"}

    def wake_up(self, tags):
        self.asleep -= set(tags)
        self.calls.append(f"wake {tags[0]}")

    def is_sleeping(self):
        return bool(self.asleep)

    @torch.no_grad()
    def collective_rpc(self, method, kwargs):
        assert "weights" not in self.asleep
        own = dict(self.model.named_parameters())
        for name, weight in kwargs["weights_iterator"]:
            if self.deaf_to not in name:
                own[name].copy_(weight)
        self.calls.append(method)
        self.threads.add(threading.current_thread())

    def apply_model(self, function):
        pass

    def reset_prefix_cache(self):
        assert not self.asleep
        self.calls.append("reset")
        return True

    def generate(self, requests, params, use_tqdm):
        """As the plain sampler draws; it cannot know the seed that requests were made from."""
        prompts, asked = [r["prompt_token_ids"] for r in requests], params[0]
        drawn = self.sampler.generate(
            prompts, asked.n, asked.max_tokens, asked.stop_token_ids, asked.temperature, asked.seed
        )
        answers = []
        for group in drawn:
            outputs = []
            for c in group:
                found = []
                for token, logprob in zip(c.ids, c.logprobs, strict=True):
                    found.append({token: SimpleNamespace(logprob=logprob)})
                outputs.append(SimpleNamespace(token_ids=c.ids, logprobs=found))
            answers.append(SimpleNamespace(outputs=outputs))
        return answers


@pytest.fixture(autouse=True)
def package(monkeypatch):
    """What the sampler imports of vLLM."""
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(SamplingParams=SimpleNamespace))


def engine(model, **knobs) -> tuple[VLLM, StandIn]:
    llm = StandIn(model)
    return VLLM(model, llm, Engine(**knobs)), llm


def gap(p, sampler) -> float:
    """How far the model's own log-probs are from those of what the engine drew."""
    groups = sampler.generate(PROMPTS, 2, 6, [], 1.0, seed=0)
    widest = 0.0
    for prompt, group in zip(PROMPTS, groups, strict=True):
        for c in group:
            logp = p.model(torch.tensor([prompt + c.ids])).logits[0].log_softmax(-1)
            own = logp[len(prompt) - 1 : -1].gather(1, torch.tensor(c.ids)[:, None])[:, 0]
            widest = max(widest, (own - torch.tensor(c.logprobs)).abs().max().item())
    return widest


def test_weights_are_copied_once_before_somebody_writes_and_never_for_nobody():
    p = policy()
    sampler, llm = engine(p.model)
    for _ in range(3):
        sampler.sync()
    assert llm.calls == []
    for _ in range(2):
        assert gap(p, sampler) < 1e-5
        sampler.begin()
    assert llm.calls == ["reload_weights", "reset"]
    sampler.sync()
    sampler.begin()
    assert llm.calls == ["reload_weights", "reset"] * 2


def test_a_sleeping_engine_gets_weights_before_its_cache_wakes_and_after_torch_gave_back(
    monkeypatch,
):
    sampler, llm = engine(policy().model, sleep=True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: llm.calls.append("empty_cache"))
    sampler.begin()
    assert llm.calls == ["reload_weights", "reset"]
    llm.calls.clear()
    for _ in range(2):  # updates of SFT: it sleeps on
        sampler.sleep()
        sampler.sync()
        assert llm.is_sleeping()
    sampler.begin()
    woken = ["empty_cache", "wake weights", "reload_weights", "wake kv_cache", "reset"]
    assert llm.calls == woken
    sampler.sleep()
    sampler.begin()  # without a sync: its weights were dropped all the same
    assert llm.calls == woken * 2


def test_models_that_share_an_engine_each_write_with_their_own_weights():
    one, two = policy(), policy()
    with torch.no_grad():
        for weight in two.model.parameters():
            weight.mul_(-2.0)
    first, llm = engine(one.model)
    second = VLLM(two.model, llm, Engine())
    for _ in range(2):
        assert gap(one, first) < 1e-5 and gap(two, second) < 1e-5


def test_one_engine_serves_every_seed_and_checkpoint_of_an_architecture(tmp_path):
    made = [untrained(Cups(), Tiny(dim=32), seed)[0] for seed in (0, 1)]
    made[1].save_pretrained(tmp_path)
    for dtype in (torch.float32, torch.bfloat16):
        made.append(type(made[0]).from_pretrained(tmp_path, dtype=dtype))
    assert len({architecture(model) for model in made}) == 1
    wider, _ = untrained(Cups(), Tiny(dim=64), 0)
    assert architecture(wider) != architecture(made[0])


@pytest.mark.parametrize("wrong", ["missing", "twice"])
def test_a_sync_that_does_not_bring_each_weight_once_is_refused(monkeypatch, wrong):
    all_weights = vllm.weights

    def some(*model):
        for name, weight in all_weights(*model):
            if "down_proj" not in name or wrong == "twice":
                yield name, weight
            if wrong == "twice":
                yield name, weight

    monkeypatch.setattr(vllm, "weights", some)
    sampler, llm = engine(policy().model)
    with pytest.raises(RuntimeError, match="down_proj" if wrong == "missing" else "twice"):
        sampler.begin()
    assert llm.holds is None  # the next one who writes is refused as well


def test_an_engine_that_drops_a_weight_is_caught_by_what_it_writes():
    sampler, llm = engine(policy().model)
    sampler.begin()
    llm.deaf_to = "embed_tokens"
    with torch.no_grad():
        for weight in sampler.model.parameters():
            weight.mul_(-3.0)
    sampler.sync()
    with pytest.raises(RuntimeError, match="nats off"):
        sampler.begin()
    assert llm.holds is None


def run_of(checkpoints, folder, engines: list | None, monkeypatch, **knobs):
    """A run with a plain sampler, or with engines, which are appended to the list."""

    def make(model, *_):
        sampler, llm = engine(model)
        engines.append(llm)
        return sampler

    if engines is not None:
        monkeypatch.setattr(ladder, "make_sampler", make)
    cfg = replace(CFG, run=str(folder), **knobs)
    return start(cfg, 0, Lines(), checkpoints)


@pytest.mark.slow
def test_fine_tuning_copies_no_weights_and_each_batch_of_rl_copies_them_once(
    checkpoints, tmp_path, monkeypatch
):
    engines = []
    run = run_of(checkpoints, tmp_path, engines, monkeypatch, eval_tasks=0)
    (llm,) = engines
    run_stage(run, "sft:actions")
    assert llm.calls == []
    run_stage(run, "sft:actions+rl")
    assert llm.calls.count("reload_weights") == CFG.rl.updates


@pytest.mark.slow
def test_weights_change_hands_in_the_main_thread_while_nobody_writes(
    checkpoints, tmp_path, monkeypatch
):
    rl = replace(CFG.rl, max_async_level=1, loss="is")
    engines = []
    run = run_of(checkpoints, tmp_path, engines, monkeypatch, rl=rl)
    run_stage(run, "rl")
    assert engines[0].threads == {threading.main_thread()}
    assert [x["policy/staleness"] for x in log_of(run).lines] == [0, 1, 1, 1, 1]
    gaps = [x["policy/gap_max"] for x in log_of(run).lines]
    assert gaps[0] < 1e-4 < min(gaps[1:])
