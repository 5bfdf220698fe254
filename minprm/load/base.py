"""The model that every arm starts from: the embedded one, or --model, ready to learn."""

from functools import partial
from pathlib import Path

from loguru import logger
from transformers import AutoTokenizer, PreTrainedModel

from minprm.constants import Config, fail, reads_base
from minprm.envs import make_world
from minprm.envs.base import World
from minprm.load import tiny
from minprm.load.names import is_small, uses_vllm
from minprm.load.pretrained import base_for, base_of, device_of, load_model, load_shape, pretrained
from minprm.load.shipped import shipped
from minprm.model.alone import ALONE, Alone
from minprm.model.policy import Policy
from minprm.model.precision import in_bf16, is_large
from minprm.model.tensors import require_finite
from minprm.several.processes import copy_from_first, count, rank
from minprm.several.shares import Shares


def base_policy(cfg: Config, seed: int, checkpoints: Path) -> Policy:
    """The model that every arm starts from: the embedded one of this seed, or --model."""
    if is_spread(cfg) and cfg.rl.max_async_level and not uses_vllm(cfg.sampler):
        fail(
            "--rl.max-async-level 1 needs a second copy of the weights to write with, and weights "
            "that are spread over processes have none: use --sampler vllm, or --shard never"
        )
    if cfg.model != "tiny":
        tokenizer = pretrained(AutoTokenizer, cfg.model)
        policy = _learning(_loaded(cfg, seed), tokenizer, cfg)
        try:
            require_finite(policy.parameters)
        except FloatingPointError:
            fail(f"--model {cfg.model} holds weights that are no finite numbers")
        return policy
    world = make_world(cfg)
    policy = _raised(world, cfg, seed, checkpoints)
    if cfg.tiny.updates:
        # a base without the world's skills would make every number that follows meaningless
        skills = tiny.gate(policy, world, cfg.thought_tokens)
        tiny.check_gate(skills, stop=cfg.gate)
    return _learning(policy.model, policy.tokenizer, cfg)


def _raised(world: World, cfg: Config, seed: int, checkpoints: Path) -> Policy:
    """The embedded model. Where it has to be raised first, one process does that for all."""
    raised = partial(tiny.raised, world, cfg.tiny, seed, cfg.micro_tokens, checkpoints, cfg.device)
    if count() > 1 and not shipped(world, cfg.tiny, seed):
        if rank() == 0:
            raised()  # leaves its files
        copy_from_first(tiny.path_of(world, cfg.tiny, seed, cfg.micro_tokens, checkpoints))
    return raised()


def _loaded(cfg: Config, seed: int) -> PreTrainedModel:
    """The model of --model. Where its weights will be spread over several processes, the first one
    has them all, and the others none."""
    _, adapters = checked_base(cfg)
    if adapters:
        logger.info(f"the adapters of {cfg.model} go on learning; their rank is {adapters}")
    if is_spread(cfg) and rank():
        return load_shape(cfg.model, cfg.checkpointing)
    device = "cpu" if is_spread(cfg) else cfg.device
    return load_model(
        cfg.model, cfg.lora, cfg.checkpointing, seed, cfg.lora_alpha, cfg.lora_targets, device
    )


def _learning(model: PreTrainedModel, tokenizer, cfg: Config) -> Policy:
    """The model as one that learns, in as many processes as there are."""
    shares: Alone = ALONE
    if count() > 1:
        spread_on = device_of(cfg.device) if is_spread(cfg) else None
        holding = "all weights" if spread_on is None else "a part of each weight"
        logger.info(f"{count()} processes share the work, each with {holding}")
        shares = Shares(cfg.engine.tensor_parallel)
        shares.hand_out(model, spread_on)
    if in_bf16(model):
        logger.info("layers compute in bf16, the output layer in fp32")
    elif model.device.type == "cpu" and is_large(model):
        logger.info("all computes in fp32, because this processor does not multiply bf16")
    return Policy(model, tokenizer, cfg.micro_tokens, shares)


def is_spread(cfg: Config) -> bool:
    """Does each process hold a part of each weight, and not all of them?"""
    if count() == 1 or cfg.shard != "auto":
        return count() > 1 and cfg.shard == "always"
    return not (cfg.lora or is_small(cfg.model) or base_of(cfg.model)[1])


def checked_base(cfg: Config) -> tuple[str, int]:
    """(the model under --model's adapters, their rank). Exits where a run cannot start from it."""
    base, rank = base_for(cfg.model, cfg.lora, cfg.lora_alpha, cfg.lora_targets)
    if rank and cfg.shard == "always":
        fail(
            f"--shard always: --model {cfg.model} holds adapters, and each process holds all of "
            "them and their base; leave it out"
        )
    if rank and reads_base(cfg):  # it would be read with the adapters off, not as they begin
        fail(
            f"--model {cfg.model} holds adapters: the model under them is not what this run "
            "starts from; leave out --*.kl, and use --act-prm.scored-by policy"
        )
    return base, rank
