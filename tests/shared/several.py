"""What test_parallel.py has several processes do.

    runs        makes each run of a FILE of {name: flags}
    policies    updates small policies in many ways, and writes what came of it to FILE
    caches      counts the tokens that each process reads of growing prompts, for FILE

The same job in one process gives the numbers that all others are compared with.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import Qwen3ForCausalLM

from minprm.commands import train
from minprm.constants import RL, Optim
from minprm.data import Sample
from minprm.load import pretrained as load
from minprm.load import tiny
from minprm.load.pretrained import adapted
from minprm.model.policy import Policy
from minprm.model.sampler import Sampler
from minprm.several import processes
from minprm.several.processes import count, gathered, rank, start
from minprm.several.shares import Shares
from shared.policies import SAMPLES, policy, sample


def runs(file: Path) -> None:
    """Base models under adapters are in fp32: in bf16 their log-probs depend on how rows are
    padded, and so on who reads them, whatever the number of processes."""
    tiny.gate = lambda *_: {"acts": 1.0, "?": 0.0}  # what CFG's models can is no matter here
    pretrained = load.pretrained

    def in_fp32(kind, path, **knobs):
        dtype = {"dtype": torch.float32} if "dtype" in knobs else {}
        return pretrained(kind, path, **(knobs | dtype))

    load.pretrained = in_fp32
    processes.stop = lambda: None  # one run after the other, in the same processes
    for name, flags in json.loads(file.read_text()).items():
        train.main(["--run", name, *flags])


# --- policies ---


@dataclass
class Case:
    """A policy, and what it learns from."""

    objective: RL
    samples: list[Sample]
    tied: bool = True
    lora: int = 0
    checkpointing: bool = False
    micro_tokens: int = 10_000


def branches() -> list[Sample]:
    """Samples that share a beginning, beside others that do not."""
    state = Sample().extend([3, 4, 5, 6, 7])
    below = []
    for k in range(5):
        drawn = Sample(parent=state).extend([k + 1, 2 * k + 3, 7], 0.3 * k - 0.5, [-1.0, -2.0, -3])
        below.append(drawn)
    return [*SAMPLES, *below]


def criticised() -> list[Sample]:
    samples = [Sample(**vars(each)) for each in branches()]
    for each in samples:
        each.values = [0.1] * len(each.ids)
        each.returns = [1.0] * len(each.ids)
    return samples


def with_infinity() -> list[Sample]:
    """One process alone finds that the loss is not finite."""
    return [*SAMPLES, sample([1, 2, 3], [False, True, True], advantage=float("inf"))]


OPTIM = Optim(max_grad_norm=0.5)
PLAIN = RL(kl=0.1, entropy=0.01, loss="ppo_clip")
CASES = {
    "tied": Case(PLAIN, branches()),
    "untied": Case(PLAIN, branches(), tied=False),
    "adapters": Case(PLAIN, branches(), lora=4),
    "checkpointing": Case(PLAIN, branches(), checkpointing=True),
    "critic": Case(RL(), criticised()),
    "many micro-batches": Case(PLAIN, branches(), micro_tokens=8),
    "one sample": Case(PLAIN, SAMPLES[:1]),
    "not finite": Case(PLAIN, with_infinity()),
}  # fmt: skip
WAYS = ("whole", "spread")
PROMPTS = [[1, 2, 3], [4, 5], [6], [7, 8, 9, 1]]


def made(case: Case, way: str) -> Policy:
    """The policy of a case, in as many processes as there are."""
    p = policy()
    model = p.model
    if not case.tied:
        torch.manual_seed(0)
        model.config.tie_word_embeddings = False
        model = Qwen3ForCausalLM(model.config).eval()
    model = adapted(model, case.lora, case.checkpointing)
    if count() == 1:
        return Policy(model, p.tokenizer, case.micro_tokens)
    device = torch.device("cpu") if way == "spread" else None
    shares = Shares()
    shares.hand_out(model, device)
    return Policy(model, p.tokenizer, case.micro_tokens, shares)


def learned(case: Case, way: str) -> dict:
    """Three updates, two calls of the sampler, the best weights put back; all that is found."""
    p = made(case, way)
    stats = [p.update(case.samples, case.objective, 1e-3, optim=OPTIM) for _ in range(2)]
    best = p.weights()
    stats.append(p.update(case.samples, case.objective, 1e-3, optim=OPTIM))
    sampler = Sampler(p.model, shares=p.shares)
    first = sampler.generate(PROMPTS, 4, 6, [3], 1.0, 5)
    grown = [[*prompt, *group[0].ids, 2] for prompt, group in zip(PROMPTS, first, strict=True)]
    drawn = [c for group in first + sampler.generate(grown[:3], 3, 6, [3], 1.0, 6) for c in group]
    again = p.logprobs(case.samples)  # the weights are in one piece
    sampler.sleep()
    scored = [p.logprobs(case.samples), p.logprobs(case.samples, base=True)]
    collected = p.shares.collected(p.parameters, p.parameters)
    weights = {name: w.tolist() for name, w in collected.items()}
    p.load(best)
    scored.append(p.logprobs(case.samples))
    p.save(Path(f"saved-{way}-{count()}"))
    found = {
        "stats": stats,
        "ids": [c.ids for c in drawn],
        "logprobs": [c.logprobs for c in drawn],
        "scored": [[logp.tolist() for logp in logps] for logps in [*scored, again]],
    }
    assert len({*gathered(json.dumps(found))}) == 1  # the same to the last bit, everywhere
    return found | {"weights": weights}


def policies(file: Path) -> None:
    found = {}
    for name, case in CASES.items():
        for way in WAYS:
            if count() == 1 or way == "whole" or not case.lora:
                found[f"{name}, {way}"] = learned(case, way)
    if rank() == 0:
        file.write_text(json.dumps(found))


# --- caches ---


def caches(file: Path) -> None:
    """Eight prompts that are continued twice, as in a walk over logs."""
    p = made(CASES["tied"], "whole")
    sampler = Sampler(p.model, shares=p.shares)
    step = sampler._forward
    read = []

    def counted(ids, *what):
        read.append(ids.numel())
        return step(ids, *what)

    sampler._forward = counted
    prompts = [[k + 1] * 40 for k in range(8)]
    told = []
    for _ in range(3):
        read.clear()
        sampler.generate(prompts, 2, 1, [], 1.0, 0)
        told.append(gathered(sum(read)))
        prompts = [[*prompt, 1, 2] for prompt in prompts]
    if rank() == 0:
        file.write_text(json.dumps(told))


# --- the jobs ---


def do(jobs: dict[str, str]) -> None:
    """{job: file}, one after the other."""
    torch.set_num_threads(1)
    start()
    for job, file in jobs.items():
        {"runs": runs, "policies": policies, "caches": caches}[job](Path(file))
