"""The embedded model: a tiny Qwen3 that is raised from scratch on narrated random play.

It stands in for a pretrained language model that has the skills and does not know which thought is
useful. On the cups world it can follow the ball, but mostly it follows from a wrong start, repeats
what it saw or says nothing of use; and its actions obey its thoughts. Nothing is downloaded. The
models of the presets come with minprm (shipped.py). Any other is raised first, and is kept in
`checkpoints/`.
"""

import contextlib
import hashlib
import inspect
import json
import math
from copy import deepcopy
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
from loguru import logger
from safetensors.torch import load_model as load_weights
from tokenizers import Tokenizer, models, pre_tokenizers
from tqdm import tqdm
from transformers import AutoTokenizer, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from minprm.constants import DeviceName, Optim, Tiny, Training, fail
from minprm.data import Sample
from minprm.envs.base import World, task_seed
from minprm.load.narration import Turn, narrated, require_narrator
from minprm.load.pretrained import device_of, load_model, pretrained
from minprm.load.shipped import settings, shipped
from minprm.model.policy import Policy, schedule
from minprm.model.precision import make_head_fp32
from minprm.model.sampler import Sampler
from minprm.model.tensors import require_finite
from minprm.text.chat import Chat
from minprm.text.render import TAGS

GATE_TASKS = 50  # episodes of the expert at which the skills are measured
TEMPLATE = (
    "{% for m in messages %}"
    "{% if m.role == 'assistant' %}<asst> {{ m.content }} <end> "
    "{% elif m.role != 'system' %}<user> {{ m.content }} {% endif %}"  # it has no words for rules
    "{% endfor %}{% if add_generation_prompt %}<asst> {% endif %}"
)

# Its sizes at the default width. At twice the width it has twice the heads and half the learning
# rate, and smaller initial weights, as in arXiv:2203.03466; a narrower one has these.
DIM = 64
LAYERS = 2
HEADS = 4
HEAD_DIM = 32  # with 16 it does not learn to track in 600 updates
FFN = 192  # width of the feed-forward layers
INIT = 0.08  # standard deviation of the initial weights
LR = 3e-3  # of AdamW at its height
WAY_OUT = "try a larger --tiny.batch, or another of --seeds"  # where raising it diverges

# --- raising it ---


def raised(
    world: World,
    cfg: Tiny,
    seed: int,
    micro_tokens: int,
    root: Path,
    device: DeviceName = "auto",
) -> Policy:
    """The model raised on this world: the one that comes with minprm, or else from the folder
    `root` where it was raised before.

    It is raised on the CPU and then brought to the device.
    """
    weights = shipped(world, cfg, seed)
    if weights:
        logger.info(f"base model: {weights.stem}, which comes with minprm")
        model, tokenizer = untrained(world, cfg, seed)
        load_weights(model, weights)
        make_head_fp32(model)  # as `load_model` does
        # transformers wraps `to`, and its type is lost
        model.eval().to(device_of(device))  # pyright: ignore[reportArgumentType]
        return Policy(model, tokenizer, micro_tokens)
    path = path_of(world, cfg, seed, micro_tokens, root)
    if not path.is_dir():
        keep(raise_one(world, cfg, seed, micro_tokens), path)
    # read it back even when it is new: weights that lie elsewhere in memory round differently, now
    # and then, and a first run has to give the numbers of a second one
    model = load_model(str(path), device=device)
    return Policy(model, pretrained(AutoTokenizer, str(path)), micro_tokens)


def raise_one(world: World, cfg: Tiny, seed: int, micro_tokens: int) -> Policy:
    """A model that is raised now, on the CPU."""
    policy = Policy(*untrained(world, cfg, seed), micro_tokens)
    try:
        _pretrain(policy, world, cfg, seed)
        require_finite(policy.parameters)
    except FloatingPointError as error:
        fail(f"raising the base model: {error}".replace("lower --*.lr", WAY_OUT))
    return policy


def is_here(world: World, cfg: Tiny, seed: int, micro_tokens: int, root: Path) -> bool:
    """Need it not be raised first? Exits where it cannot be raised on this world."""
    require_narrator(world, cfg)
    if not cfg.updates or shipped(world, cfg, seed):
        return True
    return path_of(world, cfg, seed, micro_tokens, root).is_dir()


def path_of(world: World, cfg: Tiny, seed: int, micro_tokens: int, root: Path) -> Path:
    """Where the raised model is kept."""
    name = type(world).__name__.lower()
    return root / f"tiny-{name}-{cache_key(world, cfg, seed, micro_tokens)}"


def cache_key(world: World, cfg: Tiny, seed: int, micro_tokens: int) -> str:
    """A hash of all that the raised weights depend on, down to their last bit.

    An edited file of those that raising runs gives another model, and so does another number of
    threads, which adds numbers up in another order.
    """
    package = Path(__file__).parents[1]
    sources = [package / f"{name}.py" for name in ("constants", "algorithms", "zoo", "data")]
    sources.append(Path(__file__))
    sources += [*package.glob("text/*.py"), *package.glob("model/*.py")]
    classes = type(world).__mro__[:-1]  # the world and what it inherits from, without `object`
    sources += [Path(inspect.getfile(base)) for base in classes]
    inputs = settings(world, cfg, seed) | {
        "micro_tokens": micro_tokens,
        "sources": [hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(sources)],
        "versions": [version(name) for name in ("torch", "transformers", "tokenizers")],
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.is_available(),
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:12]


def keep(policy: Policy, path: Path) -> None:
    """Saves the model, unless another process that raised the same one was faster."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent) as folder:
        policy.save(Path(folder) / path.name)
        with contextlib.suppress(OSError):  # a folder with files in it is not written over
            (Path(folder) / path.name).rename(path)
    if not path.is_dir():
        raise OSError(f"{path}: the raised model could not be saved")


def untrained(
    world: World, cfg: Tiny, seed: int
) -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerFast]:
    """(model, tokenizer), before the model has read anything."""
    torch.manual_seed(seed)
    tokenizer = make_tokenizer(world.words)
    ids = tokenizer.get_vocab()
    wider = times_as_wide(cfg)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=cfg.dim,
        intermediate_size=round(wider * FFN),
        num_hidden_layers=LAYERS,
        num_attention_heads=round(wider * HEADS),
        num_key_value_heads=round(wider * HEADS),
        head_dim=HEAD_DIM,
        max_position_embeddings=4096,
        rope_parameters={"rope_type": "default", "rope_theta": 1000.0},
        initializer_range=round(INIT / wider**0.5, 4),
        tie_word_embeddings=True,  # one table of words for reading and writing
        pad_token_id=ids["<pad>"],
        eos_token_id=ids["<end>"],
        bos_token_id=None,
    )
    return Qwen3ForCausalLM(config), tokenizer


def times_as_wide(cfg: Tiny) -> float:
    """How many times as wide as by default; at least 1, for what follows from it.

    >>> times_as_wide(Tiny(dim=128)), times_as_wide(Tiny(dim=32))
    (2.0, 1.0)
    """
    return max(cfg.dim / DIM, 1.0)


def learning_rate(cfg: Tiny) -> float:
    """After the warm-up; from there it decays linearly to zero."""
    return round(LR / times_as_wide(cfg), 6)


def make_tokenizer(words: list[str]) -> PreTrainedTokenizerFast:
    """One token for each word; a text with any other word raises.

    Control tokens are not in the table of words, so the content of a message cannot spell them.
    """
    unique = dict.fromkeys(words)  # a word given twice would leave a gap, which <pad> would fill
    ids = {word: i for i, word in enumerate(unique)}
    tokenizer = Tokenizer(models.WordLevel(ids))  # without <unk>
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<end>",
        additional_special_tokens=["<user>", "<asst>", *TAGS],
        chat_template=TEMPLATE,
    )


def _pretrain(policy: Policy, world: World, cfg: Tiny, seed: int) -> None:
    """Trains on new episodes at every update: there is no data to run out of."""
    chat = Chat(policy.tokenizer)
    optim = Optim(warmup=20, decay="linear")
    lr = schedule(learning_rate(cfg), cfg.updates, optim)
    title = "raising the base model"
    for update in tqdm(range(cfg.updates), title, leave=False, disable=None):
        samples = [as_sample(episode, chat) for episode in narrated(world, cfg, seed, update)]
        policy.update(samples, Training(), lr(update), optim=optim)


def as_sample(episode: list[Turn], chat: Chat) -> Sample:
    """The episode as tokens. The loss is on the assistant's."""
    sample = Sample()
    for turn in episode:
        thought = None if turn.thought is None else chat.content(turn.thought)
        state = [{"role": "user", "content": turn.observation}]
        sample.extend(chat.state(state, [], after="" if sample.ids else None))
        sample.extend(chat.turn(thought, chat.content(turn.action), turn.order), 1.0)
    return sample


# --- has it learned enough? ---


class ExpertTurn(NamedTuple):
    """A turn of the expert's episode, with what the world itself would think."""

    prompt: list[int]  # all before the thought
    thought: Sample  # the world's own thought, to be scored
    action: Sample  # the expert's action after it, to be scored
    world: World  # in this state


def gate(policy: Policy, world: World, thought_tokens: int) -> dict[str, float]:
    """Skills of the base model: {kind of sampled thought: share, "acts": p(a | s, good thought)}.

    The share of "?" is that of thoughts of no kind, and that of "cut" of thoughts that were longer
    than thought_tokens. The model is asked at every turn of the expert's episodes, with good
    thoughts in the history. Both skills are needed: a model can obey a good thought and still
    garble the ones that it writes.

    "good" is p(z | s) of the world's own thought, averaged over these states, and "scarcest" the
    same over the tenth of them where it is smallest: there Act-PRM has least to learn from.
    """
    chat = Chat(policy.tokenizer)
    turns = []
    for i in range(GATE_TASKS):
        turns += _expert_turns(world, chat, task_seed("validation", i))
    prompts = [turn.prompt for turn in turns]
    skills = {"acts": 0.0, "?": 0.0}
    completions = Sampler(policy.model).generate(prompts, 1, thought_tokens, chat.stop, 1.0, seed=0)
    for turn, (completion,) in zip(turns, completions, strict=True):
        *thought, last = completion.ids
        kind = turn.world.classify(chat.text(thought)) if last in chat.stop else "cut"
        skills[kind] = skills.get(kind, 0.0) + 1 / len(turns)
    skills["acts"] = _probabilities(policy, [turn.action for turn in turns]).mean().item()
    good = _probabilities(policy, [turn.thought for turn in turns]).sort().values
    skills["good"] = good.mean().item()
    skills["scarcest"] = good[: math.ceil(len(good) / 10)].mean().item()
    return skills


def _probabilities(policy: Policy, samples: list[Sample]) -> torch.Tensor:
    """Of all scored tokens of each Sample together.  [N]"""
    return torch.stack([logp.sum().exp() for logp in policy.logprobs(samples)])


def check_gate(skills: dict[str, float], stop: bool) -> None:
    """Logs the skills. Exits where they are too low, for whatever is built on such a model."""
    named = {"garbled" if kind == "?" else kind: share for kind, share in skills.items()}
    logger.info("base model: " + "  ".join(f"{k} {v:.3g}" for k, v in sorted(named.items())))
    cut = skills.get("cut", 0.0)
    poor = skills["?"] + cut > 0.2
    if stop and (skills["acts"] < 0.97 or poor):
        longer = " allow longer ones (--thought-tokens)," if poor and cut > skills["?"] else ""
        fail(
            f"the base model lacks the world's skills: it acts on a good thought with probability "
            f"{skills['acts']:.2f} (needs .97); of its own thoughts {skills['?']:.2f} are garbled "
            f"and {cut:.2f} cut (.20 at most together);{longer} raise it longer with "
            "--tiny.updates, or go on with --no-gate"
        )


def _expert_turns(world: World, chat: Chat, seed: int) -> list[ExpertTurn]:
    """Those of the expert's episode, with the world's own thoughts in the history."""
    turns = []
    history = []
    observation = world.reset(seed)
    done = False
    while not done:
        state = [{"role": "user", "content": observation}]
        # a new list each time: the prompts of earlier turns hold the old ones
        history = history + chat.state(state, [], after="" if history else None)
        thought = chat.content(
            world.thought()
            or fail(
                f"the embedded model cannot be raised on {type(world).__name__}, which gives no "
                "reason for its expert's action: write its `thought`, or name a --model"
            )
        )
        action = chat.content(world.expert())
        prompt = history + chat.think
        thinks = Sample().extend(prompt).extend([*thought, *chat.stop], 0.0)
        acts = Sample().extend(history + chat.opening(thought)).extend(action, 0.0)
        turns.append(ExpertTurn(prompt, thinks, acts, deepcopy(world)))
        history = history + chat.turn(thought, action)
        observation, _, done, _ = world.step(world.expert())
    return turns
