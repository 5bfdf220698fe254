"""OMP_NUM_THREADS=1 python -m benchmarks.parallel [--small] [--json FILE]: what a second one saves.

Writing, scoring and an update, by one process and by two of one thread each, in turns: the second
process waits while the first one does all of it, then they share it. "At once" both do all of it
and share nothing: no program can be faster on two cores than twice that. Seconds are those of the
clock, because a process that waits for another one takes no others: the machine has to be idle.
Then TRL's update and minprm's, under the same launcher, on the ids that TRL drew; five minutes.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch

from benchmarks import peers
from benchmarks.cost import count_learned, on_each_pass, timed
from benchmarks.peers import Regime
from benchmarks.sampler import SIZES, Size, model_of, prompts_of
from benchmarks.traffic import Traffic, Waiting, on_the_wire
from evidence.results import save_run, take_json_flag
from evidence.tables import TABLES
from minprm.constants import Sampled
from minprm.data import Sample
from minprm.model.policy import Policy
from minprm.model.sampler import Sampler
from minprm.several.processes import count, gathered, rank, start
from minprm.several.shares import Shares

PHASES = ("writing", "scoring", "update")
TOGETHER = "all three"
AVERAGE = 28  # tokens of a completion, about, if none were cut
MICRO_TOKENS = 16_384
TRAINING = Sampled(loss="ppo_clip")
CPU = torch.device("cpu")
INTERVAL = "seconds: medians of rounds; ratio of a round: median, smallest and largest"


class Work(NamedTuple):
    """What is measured, and how often."""

    sizes: dict[str, Size]
    rounds: dict[str, int]  # after one that is not timed
    regime: Regime  # of the comparison with TRL
    updates: int  # of it that are timed


FULL = Work(
    {"4 x 256": SIZES["4 x 256"], "12 x 512": SIZES["12 x 512"]._replace(prompts=4, group=8)},
    {"4 x 256": 7, "12 x 512": 3},
    next(iter(peers.REGIMES.values())),
    5,
)
SMALL = Work(
    {"small": Size(2, 32, 16, 2, 100, prompts=4, group=4, shortest=8, longest=12, new=12)},
    {"small": 1},
    Regime(shortest_prompt=20, longest_prompt=20, longest=4, average=100),
    1,
)

# --- one model: minprm alone ---


@dataclass
class Worker:
    """A policy and its sampler, at one of three pieces of work."""

    policy: Policy
    sampler: Sampler
    prompts: list[list[int]]
    size: Size
    samples: list[Sample] = field(default_factory=list)  # what was written last
    norm: float = 0.0  # of its last update
    given: int = 0  # tokens that its model was given, padding included

    def __post_init__(self):
        on_each_pass(self.policy.model, self.note)

    def note(self, tokens: int) -> None:
        self.given += tokens

    def writing(self, seed: int) -> None:
        self.sampler.begin()
        stops = list(range(self.size.vocabulary // AVERAGE))
        drawn = self.sampler.generate(
            self.prompts, self.size.group, self.size.new, stops, 1.0, seed
        )
        self.samples = peers.grouped(self.prompts, drawn)

    def scoring(self, seed: int) -> None:
        self.policy.logprobs(self.samples)

    def update(self, seed: int) -> None:
        self.sampler.sleep()
        self.norm = self.policy.update(self.samples, TRAINING, peers.TIMED_LR)["policy/grad_norm"]


def workers_of(size: Size) -> dict[str, Worker]:
    """One process's, and those of all: weights whole and spread."""
    tokenizer = peers.words()
    prompts = prompts_of(size)
    policy = Policy(model_of(size), tokenizer, MICRO_TOKENS)
    workers = {"alone": Worker(policy, Sampler(policy.model), prompts, size)}
    for name, spread_on in (("whole", None), ("spread", CPU)):
        policy = sharing(model_of(size), tokenizer, spread_on)
        sampler = Sampler(policy.model, shares=policy.shares)
        workers[name] = Worker(policy, sampler, prompts, size)
    return workers


def sharing(model, tokenizer, spread_on: torch.device | None = None) -> Policy:
    """A policy whose work all processes share."""
    shares = Shares()
    shares.hand_out(model, spread_on)
    return Policy(model, tokenizer, MICRO_TOKENS, shares)


def counted(workers: dict[str, Worker]) -> dict[str, dict]:
    """A round that is not timed: what is sent, and the tokens of each process. All have to write
    the same, and to find the same gradient."""
    found = {phase: {} for phase in PHASES}
    for phase in PHASES:
        for name, worker in workers.items():
            worker.given = 0
            gathered(None)
            before = on_the_wire()
            with Traffic() as traffic:
                getattr(worker, phase)(0)
            gathered(None)
            wire = (on_the_wire() - before) / count()
            found[phase][name] = {"tokens": gathered(worker.given)}
            if name != "alone":
                found[phase][name] |= {"sent": traffic.told(), "wire": round(wire)}
    alone = workers["alone"]
    for worker in workers.values():
        if [s.ids for s in worker.samples] != [s.ids for s in alone.samples]:
            raise SystemExit("several processes wrote something else than one")
        peers.require_same([worker.norm], [alone.norm], "one process and several")
    return found


def smaller(worker: Worker, micro_tokens: int) -> dict:
    """What an update sends when it is split into smaller micro-batches."""
    worker.policy.micro_tokens = micro_tokens
    with Traffic() as traffic:
        worker.update(0)
    own = [worker.samples[i] for i in worker.policy.shares.to_read(worker.samples)]
    most = max(gathered(len(worker.policy.micro_batches(own))))
    worker.policy.micro_tokens = MICRO_TOKENS
    return {"micro_batches": most, "sent": traffic.told()}


def turns(workers: dict[str, Worker], waiting: Waiting, rounds: int) -> dict[str, dict]:
    """Each phase by one process, by both at once, by both together. Medians; ratios are those of
    a round."""
    alone = workers.pop("alone")
    seconds: dict[tuple[str, str], list[float]] = {}
    waited: dict[tuple[str, str], list[list[float]]] = {}

    def turn(phase: str, name: str, worker: Worker, seed: int, mine: bool = True) -> None:
        gathered(None)  # they begin together
        waiting.seconds = 0.0
        work = getattr(worker, phase) if mine else lambda seed: None
        _, took = timed(work, seed, clock=time.perf_counter)
        idle = waiting.seconds
        seconds.setdefault((phase, name), []).append(max(gathered(took)))
        shares = gathered(idle / took)
        waited.setdefault((phase, name), []).append(shares)

    for seed in range(1, rounds + 1):
        for phase in PHASES:
            turn(phase, "alone", alone, seed, rank() == 0)
            turn(phase, "at once", alone, seed)
            for name, worker in workers.items():
                turn(phase, name, worker, seed)
    names = ["alone", "at once", *workers]
    for name in names:
        parts = [seconds[phase, name] for phase in PHASES]
        seconds[TOGETHER, name] = [sum(each) for each in zip(*parts, strict=True)]
    rows = {phase: {} for phase in (*PHASES, TOGETHER)}
    for (phase, name), took in seconds.items():
        rows[phase][name] = row_of(
            took, seconds[phase, "alone"], count() if name == "at once" else 1
        )
        if name in workers and phase in PHASES:
            shares = zip(*waited[phase, name], strict=True)
            rows[phase][name]["waiting"] = [median(each) for each in shares]
    return rows


def row_of(took: list[float], alone: list[float], times: int = 1) -> dict[str, float]:
    """times: how often the work was done in that time."""
    ratios = [times * one / several for one, several in zip(alone, took, strict=True)]
    return {
        "seconds": median(took), "ratio": median(ratios), "low": min(ratios), "high": max(ratios)
    }  # fmt: skip


def own(work: Work) -> dict:
    """Each size."""
    waiting = Waiting()
    results = {}
    for name, size in work.sizes.items():
        workers = workers_of(size)
        policy = workers["spread"].policy
        found = counted(workers)
        tokens = found["update"]["alone"]["tokens"][0]
        more = smaller(workers["spread"], tokens // 4)
        rows = turns(workers, waiting, work.rounds[name])
        for phase in PHASES:
            for kind, counts in found[phase].items():
                rows[phase][kind] |= counts
        weights = sum(p.numel() for p in policy.model.parameters())
        results[name] = {"bytes": 4 * weights, "layers": size.layers, "smaller": more} | rows
    return results


# --- beside TRL ---


def beside_trl(work: Work) -> dict:
    """TRL's update and minprm's, in as many processes as there are; medians of seconds."""
    from benchmarks import vs_trl  # where TRL is not installed, the rest can be had without it

    small = vs_trl.small(work.regime)
    tokenizer = small.tokenizer
    shared = peers.model_of(tokenizer, work.regime.average)
    p = Policy(shared, tokenizer, MICRO_TOKENS) if count() == 1 else sharing(shared, tokenizer)
    steps = work.updates + 1
    trainer = vs_trl.trainer_of(small, "dapo", peers.TIMED_LR, steps, count())
    trainer.clock = time.perf_counter
    read = {"TRL": count_learned(trainer.model), "minprm": count_learned(p.model)}
    norms, updates = [], []

    def turn() -> None:
        keys = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages")
        mine = {key: trainer.batches[-1][key] for key in keys}
        samples = [s for batch in gathered(mine) for s in vs_trl.samples_of(batch, p)]
        gathered(None)
        stats, seconds = timed(p.update, samples, TRAINING, peers.TIMED_LR, clock=time.perf_counter)
        norms.append(stats["policy/grad_norm"])
        updates.append(max(gathered(seconds)))

    clock = vs_trl.InTurns(turn, time.perf_counter)
    trainer.add_callback(clock)
    trainer.train()
    logged = [row["grad_norm"] for row in trainer.state.log_history if "grad_norm" in row]
    peers.require_same(norms, logged, f"processes: {count()}; dapo")
    theirs = [step - part for step, part in zip(clock.seconds, trainer.sampling, strict=True)]
    tokens = {side: sum(map(sum, gathered(lists))) / steps for side, lists in read.items()}
    return {
        "TRL": {"seconds": median(max(both) for both in zip(*gathered(theirs[1:]), strict=True)),
                "tokens": tokens["TRL"]},
        "minprm": {"seconds": median(updates[1:]), "tokens": tokens["minprm"]},
    }  # fmt: skip


# --- the processes ---


def launched(processes: int, part: str, small: bool) -> dict:
    """What a part has found in as many processes, started by torchrun where they are several."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        words = ["-m", "benchmarks.parallel", "--part", part, str(file), *["--small"] * small]
        subprocess.run([sys.executable, *(torchrun if processes > 1 else []), *words], check=True)
        return json.loads(file.read_text())


def of_a_process(part: str, file: str, work: Work) -> None:
    """One of the processes that `launched` starts."""
    start()
    found = PARTS[part](work)
    if rank() == 0:
        Path(file).write_text(json.dumps(found))
    gathered(None)


def main() -> None:
    path = take_json_flag()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a few seconds, to see that it runs")
    parser.add_argument("--part", nargs=2, help=argparse.SUPPRESS)  # of one process
    flags = parser.parse_args()
    peers.prepare()
    if flags.part:
        of_a_process(*flags.part, SMALL if flags.small else FULL)
        return
    rows = launched(2, "own", flags.small)
    rows["beside TRL"] = {str(n): launched(n, "beside_trl", flags.small) for n in (1, 2)}
    for name in ("parallel", "parallel:sent", "parallel:waiting", "parallel:trl"):
        print(f"\n{TABLES[name](rows)}")
    save_run(path, [0], INTERVAL, rows, ["trl"])


PARTS = {"own": own, "beside_trl": beside_trl}

if __name__ == "__main__":
    main()
