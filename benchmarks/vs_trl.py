"""python -m benchmarks.vs_trl [--vllm]: TRL's GRPOTrainer and minprm in one process, as ratios.

Both train copies of one model of random weights on the same prompts. First the same sampled ids
give the same gradient norm over three updates; only then is anything timed: an update (what comes
after sampling), and a whole step (sampling included, each with its own sampler). TRL runs with what
is fastest here: one pass over all rows, no reference model, no checkpointing, logits of
completions only, sdpa. `--vllm` adds a step whose tokens vLLM writes. OMP_NUM_THREADS sets threads.
"""

import os
import random
import sys
import tempfile
import time
from copy import deepcopy
from math import log
from statistics import mean, median

import datasets
import torch
import transformers
import trl
from transformers import Qwen3Config, Qwen3ForCausalLM, TrainerCallback

from docs.results import save_run, take_json_flag
from minprm.constants import Engine, Training
from minprm.data import Sample
from minprm.model.policy import Policy
from minprm.model.sampler import Sampler
from minprm.model.tiny import make_tokenizer
from minprm.model.vllm import start

WORDS, PROMPTS, GROUP, CHECKED, TIMED = 1000, 4, 8, 3, 6
# loss, aggregation, learning rate, steps: two are compared, then one is timed, hardly moving, so
# that completions stay as long as they are
RUNS = [("grpo", "sequence", 1e-4, CHECKED), ("dapo", "token", 1e-4, CHECKED),
        ("dapo", "token", 1e-7, TIMED + 1)]  # fmt: skip
REGIMES = {"prompts of 208-256, completions to 64": ((208, 256), 64, 28),
           "prompts of 32, completions to 512": ((32, 32), 512, 200)}  # fmt: skip


class Recorded(trl.GRPOTrainer):
    """TRL's trainer, with what went into each update and the seconds that sampling took."""

    batches: list[dict]
    sampling: list[float]

    def _generate_and_score_completions(self, inputs):
        began = time.perf_counter()
        out = super()._generate_and_score_completions(inputs)
        self.sampling.append(time.perf_counter() - began)
        return out

    def _compute_loss(self, model, inputs):
        self.batches.append(inputs)
        return super()._compute_loss(model, inputs)


class Clock(TrainerCallback):
    """Seconds of each whole step."""

    def __init__(self):
        self.seconds = []

    def on_step_begin(self, *_, **__):
        self.began = time.perf_counter()

    def on_step_end(self, *_, **__):
        self.seconds.append(time.perf_counter() - self.began)


def model_of(tokenizer, length: int) -> Qwen3ForCausalLM:
    """4 layers of width 256 whose completions end after `length` tokens on average."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=256, intermediate_size=768, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=4, head_dim=64, tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, bos_token_id=None,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config)
    model.lm_head = torch.nn.Linear(256, len(tokenizer))
    torch.nn.init.normal_(model.lm_head.weight, std=0.02)
    torch.nn.init.zeros_(model.lm_head.bias)
    with torch.no_grad():
        model.lm_head.bias[tokenizer.eos_token_id] = log(len(tokenizer) / length)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    return model


def peer(
    model, tokenizer, texts: list[str], longest: int, loss: str, lr: float, steps: int
) -> tuple:
    """Trains with TRL: (its trainer, seconds of each step, gradient norm of each)."""
    args = trl.GRPOConfig(
        output_dir=tempfile.mkdtemp(), report_to="none", use_cpu=True, bf16=False, max_steps=steps,
        per_device_train_batch_size=PROMPTS * GROUP, num_generations=GROUP, steps_per_generation=1,
        max_completion_length=longest, temperature=1.0, loss_type=loss, epsilon=0.2, beta=0.0,
        epsilon_high=0.28, learning_rate=lr, lr_scheduler_type="constant", warmup_steps=0,
        adam_beta2=0.95, max_grad_norm=1.0, gradient_checkpointing=False, logging_steps=1,
        save_strategy="no", disable_tqdm=True, seed=0,
    )  # fmt: skip
    reward = lambda completion_ids, **_: [float(sum(ids) % 7) for ids in completion_ids]  # noqa: E731
    rows, clock = datasets.Dataset.from_dict({"prompt": texts}), Clock()
    trainer = Recorded(model, reward, args=args, train_dataset=rows, processing_class=tokenizer,
                       callbacks=[clock])  # fmt: skip
    trainer.batches, trainer.sampling = [], []
    trainer.log = lambda logs, *_: trainer.state.log_history.append(logs)
    trainer.train()
    norms = [row["grad_norm"] for row in trainer.state.log_history if "grad_norm" in row]
    return trainer, clock.seconds, norms


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


def timed(function) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def told(name: str, seconds: list[float], against: list[float] | None = None) -> dict:
    """Prints one line, and returns its numbers."""
    row = {"median": median(seconds), "low": min(seconds), "high": max(seconds)}
    if against:
        row["ratio"] = median(against) / median(seconds)
    ratio = f"   TRL / minprm {row['ratio']:.2f}x" if against else ""
    spread = f"[{row['low']:.2f}, {row['high']:.2f}]"
    print(f"  {name:<28}{row['median']:>7.2f} s {spread:<16}{ratio}", flush=True)
    return row


def regime(name: str, lengths: tuple[int, int], longest: int, average: int, vllm: bool) -> dict:
    """Compares, then times. The seconds by what was timed, and completions' mean lengths."""
    tokenizer = make_tokenizer([f"w{i}" for i in range(WORDS)])
    tokenizer.padding_side = "left"
    model, rng = model_of(tokenizer, average), random.Random(0)
    texts = [" ".join(f"w{rng.randrange(WORDS)}" for _ in range(rng.randint(*lengths)))
             for _ in range(PROMPTS)]  # fmt: skip
    print(f"{name}: {sum(x.numel() for x in model.parameters()):,} parameters, {PROMPTS} x {GROUP}")
    cfg = Training(loss="ppo_clip", max_grad_norm=1.0)
    for loss, aggregation, lr, steps in RUNS:
        p = Policy(deepcopy(model), tokenizer, 16_384)
        trainer, seconds, norms = peer(deepcopy(model), tokenizer, texts, longest, loss, lr, steps)
        cfg.aggregation, updates = aggregation, []
        for i, batch in enumerate(trainer.batches):
            samples = samples_of(batch, p)
            began = time.perf_counter()
            norm = p.update(samples, cfg, lr)["policy/grad_norm"]
            updates.append(time.perf_counter() - began)
            if abs(norm / norms[i] - 1) > 1e-3:
                raise SystemExit(f"{loss}, update {i}: gradient norm {norm}, TRL's {norms[i]}")
        print(f"  {loss}, learning rate {lr:g}: the same gradient norms over {steps} updates")
    size = mean(int(batch["completion_mask"].sum()) / PROMPTS / GROUP for batch in trainer.batches)
    print(f"  TRL's completions: {size:.0f} tokens on average")
    after = [a - b for a, b in zip(seconds, trainer.sampling, strict=True)][1:]
    rows = {
        "update, TRL": told("update, TRL", after),
        "update, minprm": told("update, minprm", updates[1:], after),
        "step, TRL": told("step, TRL", seconds[1:]) | {"tokens": size},
    }
    prompts = tokenizer(texts)["input_ids"]
    stops = [tokenizer.eos_token_id]
    times, drawn = steps_of(Sampler(p.model), p, prompts, longest, stops, cfg)
    rows["step, minprm"] = told("step, minprm", times, seconds[1:]) | {"tokens": drawn}
    if vllm:  # its head has no bias: as many tokens end a completion as make it as long
        plain = Qwen3ForCausalLM(model.config)
        p = Policy(plain, tokenizer, 16_384)
        engine = start(plain, Engine(), 1024)
        stops = list(range(WORDS // average))
        times, drawn = steps_of(engine, p, prompts, longest, stops, cfg)
        name = "step, minprm with vLLM"
        rows[name] = told(name, times, seconds[1:]) | {"tokens": drawn}
    return rows


def steps_of(
    sampler, p: Policy, prompts, longest: int, stops: list[int], cfg
) -> tuple[list[float], float]:
    """(seconds of whole steps: sample, reward, update, sync; tokens of a completion)."""
    sizes = []

    def step(seed: int) -> None:
        drawn = sampler.generate(prompts, GROUP, longest, stops, 1.0, seed)
        samples = []
        for prompt, group in zip(prompts, drawn, strict=True):
            root = Sample().extend(prompt)
            rewards = torch.tensor([float(sum(c.ids) % 7) for c in group])
            a = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
            samples += [Sample(parent=root).extend(c.ids, x, c.logprobs)
                        for c, x in zip(group, a.tolist(), strict=True)]  # fmt: skip
        p.update(samples, cfg, RUNS[-1][2])
        sampler.sync()
        sizes.append(mean(len(s.ids) for s in samples))

    seconds = [timed(lambda i=i: step(i)) for i in range(1 + TIMED)][1:]
    print(f"  our completions: {mean(sizes):.0f} tokens on average")
    return seconds, mean(sizes)


if __name__ == "__main__":
    path = take_json_flag()
    rows = {}
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    torch.set_flush_denormal(True)
    transformers.utils.logging.set_verbosity_error()
    print(f"TRL {trl.__version__}, transformers {transformers.__version__}, "
          f"torch {torch.__version__}, {torch.get_num_threads()} threads, fp32")  # fmt: skip
    for name, (lengths, longest, average) in REGIMES.items():
        rows[name] = regime(name, lengths, longest, average, "--vllm" in sys.argv)
    save_run(path, [0], f"median of {TIMED}, smallest and largest", rows)
