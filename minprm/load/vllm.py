"""vLLM as the sampler: it writes the tokens of larger models, on the GPU that trains them.

The engine is built from the model's configuration alone, with weights that mean nothing. The real
ones come when somebody is about to write, the first time on the same path as every later one, so
there is no second path to test. This is the only file in minprm that imports vLLM, which is not
installed where types are checked.

Of several processes (torchrun) each has an engine, or K have one together (--engine.tensor-parallel
K), each with a part of every weight. What of this was run: two processes on a CPU, which have one
engine each or one together, with weights that are whole and that are spread. Not run, for want of
two GPUs: nccl, tensor parallel on cards, engines that sleep.
"""

import json
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.core_model_loading import revert_weight_conversion

from minprm.constants import Engine, fail
from minprm.model.adapters import under_adapters
from minprm.model.alone import ALONE, Alone
from minprm.model.precision import own_logprobs
from minprm.model.sampler import Completion

PROBE_PROMPT = list(range(8))  # what the engine continues after each sync, to be compared
PROBE_TOKENS = 8
CPU_CACHE = 2**28  # bytes of keys and values, where there is no GPU


def start_engine(
    model: PreTrainedModel, cfg: Engine, context: int, shares: Alone = ALONE
) -> "VLLM":
    """A sampler that writes with the model's weights, in sequences of up to `context` tokens."""
    _require_divisible(model, cfg.tensor_parallel)
    config = architecture(under_adapters(model), shares)
    team = cfg.tensor_parallel if shares.count > 1 else 0
    try:
        engine = _engine(config, cfg.memory, context, cfg.sleep, team)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:  # as of DeepSeek-V3 in fp32, on a processor with AMX
        raise RuntimeError(
            f"vLLM does not run {model.config.model_type} here ({error}): use --sampler "
            "transformers"
        ) from error
    shares.at_end(engine.llm_engine.engine_core.shutdown)
    return VLLM(model, engine, cfg, shares)


class VLLM:
    """A vLLM engine in this process, with the methods of `Sampler`.

    Its noise depends on how requests are batched on the GPU. A rerun with the same seed gives the
    same bits with `Sampler` alone.

    Of several processes each writes after its share of the prompts. A copy of the weights is made
    by all at once, and so is its check: where weights are spread, each parameter is put together in
    all of them.
    """

    def __init__(self, model: PreTrainedModel, llm, cfg: Engine, shares: Alone = ALONE):
        """`llm` is a vllm.LLM. Models of one architecture share it, one after the other."""
        self.shares = shares
        self.model = model
        self.llm = llm
        self.cfg = cfg
        self.names = weight_names(under_adapters(model), shares)
        self.mark = object()  # the engine wears it while it holds this model's weights
        self.sync()

    def sync(self) -> None:
        """Notes that the engine's weights are outdated. It gets new ones when it has to write.

        So updates between which nobody writes, as those of SFT, copy nothing.
        """
        self.llm.holds = None

    def begin(self) -> None:
        """Starts a new walk, with the model's weights."""
        self._hold()
        self.shares.begin()

    def _hold(self) -> None:
        """Copies the model's weights into the engine, where it holds older ones or another's.

        Whatever fails raises: an engine with outdated weights would write without any warning.
        """
        if self.llm.holds is self.mark:
            return
        self._copy()
        self._compare()
        self.llm.holds = self.mark

    def generate(
        self,
        prompts: list[list[int]],
        n: int,
        max_tokens: int,
        stop: list[int],
        temperature: float,
        seed: int | list[int],
    ) -> list[list[Completion]]:
        """n completions for each prompt, as `Sampler.generate` gives them."""
        self._hold()
        self.shares.require_same(prompts)
        own = {i: prompts[i] for i in self.shares.to_write(prompts)}
        groups = self._draw(own, n, max_tokens, stop, temperature, seed)
        return list(self.shares.all(groups).values())

    def sleep(self) -> None:
        """Gives the engine's memory to the update. The next who writes wakes the engine."""
        if self.cfg.sleep and not self._asleep():
            self.llm.sleep(level=2)  # 2: the weights are dropped, for new ones will come
            self.llm.holds = None
            assert self._asleep()

    def _asleep(self) -> bool:
        return self.cfg.sleep and self.llm.llm_engine.is_sleeping()

    def _draw(
        self,
        prompts: dict[int, list[int]],
        n: int,
        max_tokens: int,
        stop: list[int],
        temperature: float,
        seed: int | list[int],
    ) -> dict[int, list[Completion]]:
        """n completions for each prompt, with the weights that the engine has. The number of a
        prompt is a part of its seed, unless each has one of its own."""
        from vllm import SamplingParams  # pyright: ignore[reportAttributeAccessIssue]

        requests = []
        params = []
        for i, prompt in prompts.items():
            requests.append({"prompt_token_ids": prompt})
            own = f"{seed} {i}" if isinstance(seed, int) else str(seed[i])
            params.append(
                SamplingParams(
                    n=n,
                    max_tokens=max_tokens,
                    temperature=temperature,
                    top_p=1.0,  # the whole vocabulary, or log-probs would not be the trainer's
                    top_k=-1,
                    stop_token_ids=stop,
                    ignore_eos=True,  # a thought ends where `stop` says, and nowhere else
                    logprobs=0,  # of the drawn token, and of no others beside it
                    detokenize=False,
                    # equal prompts with equal seeds would give equal completions; the n completions
                    # of one request take seed, seed + 1, ..., so the seeds must lie far apart
                    seed=zlib.crc32(own.encode()),
                )
            )
        answers = self.llm.generate(requests, params, use_tqdm=False)
        groups = {}
        for i, answer in zip(prompts, answers, strict=True):
            groups[i] = [_completion(output) for output in answer.outputs]
        return groups

    def _copy(self) -> None:
        """Copies all weights in memory. What the engine cached of the old ones is dropped."""
        if self._asleep():
            torch.cuda.empty_cache()  # what torch keeps for later is what the engine needs now
            # the cache wakes after the weights: while those are copied, its memory is still free
            self.llm.wake_up(tags=["weights"])
        sent = []
        new = as_in_files(self.model, weights(self.model, self.shares), sent)
        try:
            self.llm.collective_rpc("reload_weights", kwargs={"weights_iterator": new})
        except (KeyError, ValueError) as error:  # it knows no such weight
            raise RuntimeError(
                f"vLLM does not take the weights of {self.model.config.model_type} ({error}): use "
                "--sampler transformers"
            ) from error
        if sorted(sent) != sorted(self.names):
            wrong = ", ".join(sorted(set(sent) ^ set(self.names))) or "some twice"
            raise RuntimeError(f"vLLM was not given the model's weights, each once: {wrong}")
        if not torch.cuda.is_available():
            self.llm.apply_model(_repack)
        if self._asleep():
            self.llm.wake_up(tags=["kv_cache"])
            assert not self._asleep()
        if not self.llm.reset_prefix_cache():
            raise RuntimeError("vLLM kept its prefix cache: log-probs would be of old weights")

    def _compare(self) -> None:
        """Has the engine write a few tokens, and raises where the model scores them otherwise.

        Evaluation, replay and relabelling look at no gap: what they write is checked here alone.
        """
        probe = {0: PROBE_PROMPT}
        (completion,) = self._draw(probe, 1, PROBE_TOKENS, [], temperature=1.0, seed=0)[0]
        logp = own_logprobs(self.model, PROBE_PROMPT + completion.ids, len(completion.ids))
        gap = (logp - torch.tensor(completion.logprobs)).abs().mean().item()
        if not gap <= self.cfg.max_gap:  # NaN, too, is no agreement
            raise RuntimeError(
                f"after a sync the log-probs of vLLM are {gap:.3f} nats off those of the model, "
                "beyond --engine.max-gap: it does not write with the weights that it was given, or "
                f"computes {self.model.config.model_type} otherwise; use --sampler transformers"
            )


def architecture(model: PreTrainedModel, shares: Alone = ALONE) -> str:
    """What an engine depends on, as JSON: the configuration without where its weights came from.

    A second seed, or a second checkpoint of one model, has the same and shares the engine.
    """
    config = json.loads(model.config.to_json_string(use_diff=False))
    sections = [config]
    for setting in config.values():
        if isinstance(setting, dict):
            sections.append(setting)
    for section in sections:
        for name in ("_name_or_path", "dtype"):
            section.pop(name, None)
    config["architectures"] = [shares.kind_of(model).__name__]
    config["head_dtype"] = "float32"  # as precision.py has it
    return json.dumps(config, sort_keys=True)


def _require_divisible(model: PreTrainedModel, together: int) -> None:
    """Exits where so many processes cannot have the model's heads together."""
    heads = getattr(model.config.get_text_config(), "num_attention_heads", 0)
    if heads % together:
        fail(
            f"--engine.tensor-parallel {together}: the model has {heads} attention heads, and each "
            "process takes as many as the others: use a number that divides them"
        )


def weight_names(model: PreTrainedModel, shares: Alone = ALONE) -> list[str]:
    """The names of all that a file holds of a plain model with this configuration, tied ones
    once: its parameters, and the buffers that are saved."""
    with torch.device("meta"):
        plain = shares.kind_of(model)(deepcopy(model.config))
    return [name for name, _ in [*plain.named_parameters(), *saved_buffers(plain)]]


def saved_buffers(model: PreTrainedModel) -> list[tuple[str, Tensor]]:
    """Buffers that belong to the weights, as a bias that DeepSeek-V3 chooses experts by."""
    saved = model.state_dict(keep_vars=True)
    return [(name, buffer) for name, buffer in model.named_buffers() if name in saved]


def as_in_files(
    model: PreTrainedModel, pairs: Iterable[tuple[str, Tensor]], names: list[str]
) -> Iterator[tuple[str, Tensor]]:
    """The same weights as a checkpoint's files have them, which is what engines read: each expert
    by itself. The name of each pair is appended to `names` as it goes by."""
    for name, weight in pairs:
        names.append(name)
        yield from revert_weight_conversion(under_adapters(model), {name: weight}).items()


@torch.no_grad()
def weights(model: PreTrainedModel, shares: Alone = ALONE) -> Iterator[tuple[str, Tensor]]:
    """(name, weight) of each parameter and saved buffer, as the base model has them. Adapters are
    added, in fp32. Where weights are spread, one after the other is whole, and all processes have
    to ask.

    vLLM can also run adapters itself, but its kernels for them cost time at every token
    (benchmarks/sync.py). Adding them here is one path for all models.
    """
    modules = dict(model.named_modules())
    for name, weight in [*model.named_parameters(), *saved_buffers(model)]:
        if ".lora_" in name:
            continue
        # peft wraps a layer: layer.weight becomes layer.base_layer.weight, and the adapter of the
        # layer is beside it. Weights that are no layers' are wrapped once each, so layers nest
        layer, _, own_name = name.rpartition(".")
        while layer.endswith(".base_layer"):
            layer = layer.removesuffix(".base_layer")
            adapter: Any = modules[layer]
            if getattr(adapter, "parameter_name", "weight") == own_name:
                weight = weight.float() + adapter.get_delta_weight("default").float()
        plain = name.removeprefix("base_model.model.").replace(".base_layer", "")
        yield plain, shares.in_one_piece(weight)


@cache
def _engine(config: str, memory: float, context: int, sleep: bool, team: int):
    """The engine for models of this architecture (JSON). team: how many processes have it together;
    0 where there is only one process.

    There is one for each architecture in a process, because its memory is never given back.
    """
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # weights change hands in memory
    # or it would set torch's to "highest" for all of this process (model/precision.py)
    os.environ.setdefault("VLLM_FLOAT32_MATMUL_PRECISION", "high")
    from vllm import LLM  # pyright: ignore[reportAttributeAccessIssue]

    if torch.cuda.is_available():
        room = {"gpu_memory_utilization": memory, "dtype": "bfloat16"}
    else:
        # in bf16 it holds all activations so: SmolLM2's log-probs were .2 nats off the model's
        room = {"kv_cache_memory_bytes": CPU_CACHE, "dtype": "float32", "enforce_eager": True}
        room["enable_chunked_prefill"] = False  # on a CPU it breaks requests that have a seed
    if team:  # it takes the place of this process, and its card, from torchrun's variables
        room |= {"distributed_executor_backend": "external_launcher"}
        room |= {"tensor_parallel_size": team}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(config, encoding="utf-8")
        llm = LLM(
            model=folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            max_model_len=context,
            logprobs_mode="processed_logprobs",  # at the temperature that was sampled at
            enable_sleep_mode=sleep,
            disable_log_stats=True,
            **room,
        )
    return llm


def _completion(output) -> Completion:
    """One of vLLM's outputs. It has a dict for each token: {id: its log-prob and rank}."""
    ids = list(output.token_ids)
    logprobs = []
    for token, by_id in zip(ids, output.logprobs, strict=True):
        logprobs.append(by_id[token].logprob)
    return Completion(ids, logprobs)


def _repack(model) -> None:
    """Packs again what vLLM packs on a CPU at the first load alone: a tied output layer, which has
    a packed copy of the embedding, and experts."""
    if model.config.tie_word_embeddings:
        model.lm_head.quant_method.process_weights_after_loading(model.lm_head)
    for layer in model.modules():
        kernel = getattr(getattr(layer, "quant_method", None), "moe_kernel", None)
        if kernel is not None:
            kernel.fused_experts.process_weights_after_loading(layer)
