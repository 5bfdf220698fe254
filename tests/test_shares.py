"""Prompts that are shared out: one process writes after each, and all get what it has written."""

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, local
from types import SimpleNamespace

import pytest

from minprm.commands.cli import parse
from minprm.constants import Engine, Tiny
from minprm.envs.cups import Cups
from minprm.load.tiny import untrained
from minprm.load.vllm import VLLM, start_engine
from minprm.model.alone import ALONE, Alone
from minprm.several import shares as module
from minprm.several.owners import Owners
from minprm.several.shares import Shares
from shared import processes

PROMPTS = [[1, 2], [3], [1, 2], [4, 5, 6], [7], [8]]


class Processes:
    """Threads that take themselves for the processes of a run."""

    def __init__(self, count: int, monkeypatch):
        self.count = count
        self.place = local()
        self.said = [None] * count
        self.barrier = Barrier(count, timeout=20)
        monkeypatch.setattr(module, "rank", lambda: self.place.rank)
        monkeypatch.setattr(module, "count", lambda: count)
        monkeypatch.setattr(module, "group_of_its_own", object)
        monkeypatch.setattr(module, "gathered", self.gathered)

    def gathered(self, mine, group):
        self.said[self.place.rank] = mine
        self.barrier.wait()
        found = list(self.said)
        self.barrier.wait()
        return found

    def run(self, work) -> list:
        """What work(number) returns in each."""

        def in_place(number: int):
            self.place.rank = number
            return work(number)

        with ThreadPoolExecutor(self.count) as pool:
            return list(pool.map(in_place, range(self.count)))


class FakeEngine:
    """Writes the prompt's length and then the request's seed, and notes what it was asked."""

    holds = None

    def __init__(self):
        self.asked = []

    def generate(self, requests, params, use_tqdm):
        answers = []
        for request, param in zip(requests, params, strict=True):
            prompt = request["prompt_token_ids"]
            self.asked.append(tuple(prompt))
            ids = [len(prompt), param.seed]
            logprobs = [{each: SimpleNamespace(logprob=-1.0)} for each in ids]
            output = SimpleNamespace(token_ids=ids, logprobs=logprobs)
            answers.append(SimpleNamespace(outputs=[output] * param.n))
        return answers


@pytest.fixture
def made(monkeypatch):
    """Makes a sampler of this kind on an engine that it gives back too."""
    model, _ = untrained(Cups(), Tiny(dim=8), seed=0)
    fake = SimpleNamespace(SamplingParams=lambda **knobs: SimpleNamespace(**knobs))
    monkeypatch.setitem(sys.modules, "vllm", fake)
    monkeypatch.setattr(VLLM, "_copy", lambda self: None)
    monkeypatch.setattr(VLLM, "_compare", lambda self: None)

    def make(shares=ALONE):
        engine = FakeEngine()
        return VLLM(model, engine, Engine(), shares), engine

    return make


def write(sampler, prompts=PROMPTS, seed: int = 5):
    return sampler.generate(prompts, 2, 4, [], temperature=1.0, seed=seed)


@pytest.mark.parametrize(("count", "team"), [(2, 1), (3, 1), (2, 2), (4, 2)])
def test_each_prompt_is_written_by_one_team_and_all_get_what_one_engine_had_written(
    made, monkeypatch, count, team
):
    """Also the seeds of the requests, which FakeEngine writes: a prompt's is that of its place
    among all."""
    alone, _ = made()
    expected = write(alone)
    processes = Processes(count, monkeypatch)
    engines = {}

    def work(number: int):
        sampler, engines[number] = made(Shares(team))
        sampler.begin()
        return write(sampler)

    assert processes.run(work) == [expected] * count
    asked = [engines[i].asked for i in range(count)]
    for i in range(count):
        assert asked[i] == asked[i - i % team]  # a team is asked the same
    assert sum(map(Counter, asked[::team]), Counter()) == Counter(map(tuple, PROMPTS))
    assert all(asked)


def test_what_goes_on_is_written_where_its_beginning_was_until_a_new_walk(made, monkeypatch):
    def work(number: int):
        sampler, engine = made(Shares())
        sampler.begin()
        write(sampler, [[1, 2], [3, 4]])
        first = set(engine.asked)
        engine.asked.clear()
        write(sampler, [[3, 4, 5], [1, 2, 5]])
        went_on = {prompt[:2] for prompt in engine.asked} == first
        sampler.begin()
        engine.asked.clear()
        write(sampler, [[3, 4, 5], [1, 2, 5]])
        return went_on, engine.asked

    found = Processes(2, monkeypatch).run(work)
    assert found == [(True, [(3, 4, 5)]), (True, [(1, 2, 5)])]


def test_processes_that_ask_for_different_prompts_are_told(made, monkeypatch, capsys):
    def work(number: int):
        sampler, _ = made(Shares())
        with pytest.raises(SystemExit):
            write(sampler, [[number]])
        return True

    assert all(Processes(2, monkeypatch).run(work))
    assert capsys.readouterr().err.count("asked to continue different prompts") == 2


def test_whatever_one_process_does_alone_several_do_in_their_own_way():
    """What they would inherit, each would do without the others."""
    verbs = {name for name, verb in vars(Alone).items() if callable(verb)}
    assert len(verbs) > 20 and verbs <= vars(Shares).keys()


def test_equal_prompts_have_one_owner_and_work_is_shared_evenly():
    owners = Owners(2)
    assert owners.of([(1,), (1,), (2,), (3,)]) == [0, 0, 1, 1]
    assert owners.of([(1, 9), (3, 9), (2, 8)]) == [0, 1, 1]


def test_no_more_processes_write_than_there_are_logs():
    states = [(log, step) for log in (1, 2) for step in range(4)]
    owners = Owners(8)
    assert len({*owners.of([(1,)] * 4 + [(2,)] * 4)}) == 2
    assert len({*owners.of(states)}) == 2, "what goes on is its process's"


@pytest.mark.parametrize(("processes", "together", "says"), [
    ("1", 2, "there are 1: start 2 with torchrun"),
    ("3", 2, "there are 3: start 2 with torchrun, or a multiple"),
    ("1", 65, "at most 64"),
])  # fmt: skip
def test_an_engine_is_had_by_as_many_processes_as_there_are_or_a_part_of_them(
    processes, together, says, monkeypatch, capsys
):
    monkeypatch.setenv("WORLD_SIZE", processes)
    with pytest.raises(SystemExit):
        parse(["--sampler", "vllm", "--engine.tensor-parallel", str(together)])
    assert says in capsys.readouterr().err


def test_without_vllm_there_is_no_engine_to_share(monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SystemExit):
        parse(["--sampler", "transformers", "--engine.tensor-parallel", "2"])
    assert "the vLLM sampler" in capsys.readouterr().err


def test_heads_that_processes_cannot_share_are_refused(capsys):
    model, _ = untrained(Cups(), Tiny(), seed=0)
    with pytest.raises(SystemExit):
        start_engine(model, Engine(tensor_parallel=3), 64)
    assert "4 attention heads" in capsys.readouterr().err


# --- real processes ---

SPREAD = """
from copy import deepcopy
import torch
from minprm.constants import Tiny
from minprm.data import Sample
from minprm.envs.cups import Cups
from minprm.several import processes
from minprm.several.shares import Shares
from minprm.model.policy import Policy
from minprm.several.spread import local
from minprm.load.tiny import untrained
from minprm.load.vllm import architecture, weight_names, weights

processes.start()
torch._C._get_accelerator = lambda: torch.device("cuda")  # of a machine that has one
model, tokenizer = untrained(Cups(), Tiny(dim=16), seed=0)
whole = deepcopy(model)
told = architecture(model), weight_names(model)
shares = Shares()
shares.hand_out(model, torch.device("cpu"))
policy = Policy(model, tokenizer, 1000, shares)
"""
STREAMED = """
assert (architecture(policy.model, shares), weight_names(policy.model, shares)) == told
known = dict(whole.named_parameters())
for name, weight in weights(policy.model, shares):
    assert local(weight).equal(known.pop(name)), name
    parts = sum(p.to_local().numel() for p in policy.model.parameters())
    assert parts < sum(p.numel() for p in whole.parameters())  # all others are in parts
assert not known
"""
FINGERPRINT = """
from minprm.several.spread import unshard
from minprm.model.tensors import fingerprint_of_model
unshard(policy.model)
assert fingerprint_of_model(policy) == fingerprint_of_model(Policy(whole, tokenizer, 1000))
parts = sum(p.to_local().numel() for p in policy.model.parameters())
assert parts < sum(p.numel() for p in whole.parameters())
"""
LOADED = """
rows = [Sample(parent=Sample().extend([3, 4, 5])).extend([6, 7, 8], 0.0) for _ in range(2)]
policy.logprobs(rows)
other = Policy(whole, tokenizer, 1000)
with torch.no_grad():
    for weight in [*policy.parameters.values(), *other.parameters.values()]:
        weight += 0.5
policy.load(policy.weights())
for mine, known in zip(policy.logprobs(rows), other.logprobs(rows), strict=True):
    torch.testing.assert_close(mine, known)
"""
THREADS = """
from threading import Thread
wrong = []
def writes():
    for i in range(200):
        if shares.all({processes.rank(): i}) != {0: i, 1: i}:
            wrong.append(i)
thread = Thread(target=writes)
thread.start()
for i in range(200):
    assert shares.gathered(["learns", i]) == [["learns", i]] * 2
thread.join()
assert not wrong
"""


@pytest.mark.slow
def test_in_two_processes(tmp_path):
    """On a machine that has a GPU, which the weights are not on. STREAMED: each process is given
    every weight in one piece, one after the other. FINGERPRINT: it is that of the parts, as one
    process has them. LOADED: what is read after weights are loaded is read with those. THREADS: one
    writes, one learns."""
    script = SPREAD + STREAMED + FINGERPRINT + LOADED + THREADS
    both = processes.Processes(tmp_path, 2, lambda: exec(script, {}))
    assert both.ended() == [0, 0], both.said()[-3000:]
