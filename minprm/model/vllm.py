"""vLLM as the sampler: it writes the tokens of larger models, on the GPU that trains them.

The engine is built from the model's configuration alone, with weights that mean nothing. The first
`sync` brings the real ones on the same path as every later one, so there is no second path to test.
This is the only file in minprm that imports vLLM.
"""

import os
import tempfile
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel

from minprm.constants import Engine
from minprm.model.sampler import Completion


def start(model: PreTrainedModel, cfg: Engine, context: int) -> "VLLM":
    """A sampler that writes with the model's present weights, in sequences of up to `context`."""
    base = model.get_base_model() if hasattr(model, "peft_config") else model
    base.config.architectures = [type(base).__name__]
    config = base.config.to_json_string(use_diff=False)
    sampler = VLLM(model, _engine(config, cfg.memory, context, cfg.sleep), cfg.sleep)
    sampler.sync()
    return sampler


class VLLM:
    """A vLLM engine in this process, with the methods of `Sampler`.

    Its noise depends on how requests are batched on the GPU. A rerun with the same seed gives the
    same bits with `Sampler` alone.
    """

    def __init__(self, model: PreTrainedModel, llm, sleep: bool):
        """`llm` is a vllm.LLM, and not yet in step with the model. Does it sleep during updates?"""
        self.model = model
        self.llm = llm
        self.sleeps = sleep

    def begin(self) -> None:
        """There is nothing to do: `sync` drops the prefix cache together with the old weights."""

    def generate(
        self,
        prompts: list[list[int]],
        n: int,
        max_tokens: int,
        stop: list[int],
        temperature: float,
        seed: int,
    ) -> list[list[Completion]]:
        """n completions for each prompt, as `Sampler.generate` gives them."""
        from vllm import SamplingParams

        requests = []
        params = []
        for i, prompt in enumerate(prompts):
            requests.append({"prompt_token_ids": prompt})
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
                    seed=zlib.crc32(f"{seed} {i}".encode()),
                )
            )
        answers = self.llm.generate(requests, params, use_tqdm=False)
        groups = []
        for answer in answers:
            groups.append([_completion(output) for output in answer.outputs])
        return groups

    def sleep(self) -> None:
        """Gives the engine's memory to the update. `sync` wakes the engine."""
        if self.sleeps:
            self.llm.sleep(level=2)  # 2: the weights are dropped, for `sync` brings new ones
            assert self.llm.llm_engine.is_sleeping()

    def sync(self) -> None:
        """Copies the model's weights into the engine, and forgets what it cached of the old ones.

        Whatever fails raises: an engine with outdated weights would write without any warning.
        """
        # the cache wakes after the weights: while those are copied, its memory is still free
        if self.sleeps and self.llm.llm_engine.is_sleeping():
            self.llm.wake_up(tags=["weights"])
        self.llm.collective_rpc("reload_weights", kwargs={"weights_iterator": weights(self.model)})
        if self.model.config.tie_word_embeddings and not torch.cuda.is_available():
            self.llm.apply_model(_repack_head)
        if self.sleeps and self.llm.llm_engine.is_sleeping():
            self.llm.wake_up(tags=["kv_cache"])
            assert not self.llm.llm_engine.is_sleeping()
        if not self.llm.reset_prefix_cache():
            raise RuntimeError("vLLM kept its prefix cache: log-probs would be of old weights")


@torch.no_grad()
def weights(model: PreTrainedModel) -> Iterator[tuple[str, Tensor]]:
    """(name, weight) of each parameter, as the base model has them. Adapters are added, in fp32.

    vLLM can also run adapters itself, but its kernels for them cost time at every token
    (benchmarks/sync.py). Adding them here is one path for all models.
    """
    modules = dict(model.named_modules())
    for name, weight in list(model.named_parameters()):
        if ".lora_" in name:
            continue
        # peft wraps a layer: layer.weight becomes layer.base_layer.weight, and the adapter of the
        # layer is beside it
        owner = modules[name.rpartition(".")[0].removesuffix(".base_layer")]
        if hasattr(owner, "get_delta_weight") and name.endswith("base_layer.weight"):
            weight = weight.float() + owner.get_delta_weight("default").float()
        yield name.removeprefix("base_model.model.").replace(".base_layer", ""), weight


@cache
def _engine(config: str, memory: float, context: int, sleep: bool):
    """The engine for a model of this configuration (JSON).

    There is one for each shape of model in a process, because its memory is never given back.
    """
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # weights change hands in memory
    from vllm import LLM

    if torch.cuda.is_available():
        room = {"gpu_memory_utilization": memory, "dtype": "bfloat16"}
    else:
        room = {"kv_cache_memory_bytes": 2**28, "dtype": "float32", "enforce_eager": True}
        room["enable_chunked_prefill"] = False  # on a CPU it breaks requests that have a seed
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(config)
        return LLM(
            model=folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            max_model_len=context,
            logprobs_mode="processed_logprobs",  # at the temperature that was sampled at
            enable_sleep_mode=sleep,
            disable_log_stats=True,
            **room,
        )


def _completion(output) -> Completion:
    """One of vLLM's outputs. It has a dict for each token: {id: its log-prob and rank}."""
    ids = list(output.token_ids)
    logprobs = []
    for token, found in zip(ids, output.logprobs, strict=True):
        logprobs.append(found[token].logprob)
    return Completion(ids, logprobs)


def _repack_head(model) -> None:
    """Packs a tied output layer again. On a CPU it holds a packed copy of the embedding."""
    model.lm_head.quant_method.process_weights_after_loading(model.lm_head)
