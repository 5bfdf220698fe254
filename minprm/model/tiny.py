"""The embedded language model: a tiny Qwen3 raised from scratch on narrated random play.

It stands in for a pretrained model that has the skills and does not know which thought is useful:
it can track a ball, but mostly narrates from a wrong start, restates, or says nothing of use, and
its actions follow its thoughts. Nothing is downloaded; the result is cached in `checkpoints/`.
"""

import hashlib
import inspect
import json
import random
from collections import Counter
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path

import torch
from loguru import logger
from tokenizers import Tokenizer, models, pre_tokenizers
from tqdm import tqdm
from transformers import AutoTokenizer, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from minprm.constants import Babble, Training, fail, pairs
from minprm.data import Sample
from minprm.envs.base import World, task_seed
from minprm.model.policy import Policy, load_model, schedule
from minprm.model.sampler import Sampler
from minprm.text.chat import ORDERS, TAGS, Chat

TEMPLATE = (
    "{% for m in messages %}"
    "{% if m.role == 'assistant' %}<asst> {{ m.content }} <end> "
    "{% elif m.role != 'system' %}<user> {{ m.content }} {% endif %}"  # it has no words for rules
    "{% endfor %}{% if add_generation_prompt %}<asst> {% endif %}"
)


def make_tokenizer(words: list[str]) -> PreTrainedTokenizerFast:
    """One token a word. Control tokens are not in the words' table: content cannot spell them."""
    ids = {word: i for i, word in enumerate(dict.fromkeys(words))}  # a gap would meet <pad>
    table = models.WordLevel(ids)  # no <unk>: it raises
    tokenizer = Tokenizer(table)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<end>",
        additional_special_tokens=["<user>", "<asst>", *TAGS],
        chat_template=TEMPLATE,
    )


def raised(world: World, cfg: Babble, seed: int, micro_tokens: int, root: Path) -> Policy:
    """The model raised on this world, from the cache where its settings were seen before."""
    if not world.thought_mix:
        fail(f"the embedded model cannot be raised on {type(world).__name__}: name a --model")
    settings = {"babble": asdict(cfg), "seed": seed, "template": TEMPLATE}
    settings |= {"world": vars(world), "source": inspect.getsource(inspect.getmodule(type(world)))}
    key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
    path = root / f"babble-{type(world).__name__.lower()}-{key}"
    if not path.is_dir():
        policy = Policy(*untrained(world, cfg, seed), micro_tokens)
        _pretrain(policy, world, cfg, seed)
        policy.save(path)
    # read back also when new: weights that lie elsewhere in memory round differently, now and then
    return Policy(load_model(path), AutoTokenizer.from_pretrained(path), micro_tokens)


def gate(policy: Policy, world: World, thought_tokens: int, tasks: int = 50) -> dict[str, float]:
    """Skills of the base model: {kind of sampled thought: share, "acts": p(a | s, good thought)}.

    Asked at every turn of the expert's episodes, good thoughts in the history. Both are needed: a
    model can follow a good thought and still garble the ones that it writes.
    """
    chat, kinds, prompts, samples, states = Chat(policy.tokenizer), Counter(), [], [], []
    for i in range(tasks):
        history, done = [], False
        observation = world.reset(task_seed("validation", i))
        while not done:
            state = [{"role": "user", "content": observation}]
            history = history + chat.state(state, [], first=not history)
            thought, action = (chat.content(text) for text in (world.thought(), world.expert()))
            before = history + chat.opening(thought)
            samples.append(Sample().extend(before).extend(action, 0.0))
            prompts.append(history + chat.think)
            states.append(deepcopy(world))
            history = history + chat.turn(thought, action)
            observation, _, done, _ = world.step(world.expert())
    sampler = Sampler(policy.model)
    drawn = sampler.generate(prompts, 1, thought_tokens, chat.stop, 1.0, seed=0)
    for state, (completion,) in zip(states, drawn, strict=True):
        kinds[state.classify(chat.text(completion.ids[:-1]))] += 1 / len(states)
    acts = torch.stack([l.sum().exp() for l in policy.logprobs(samples)]).mean().item()
    return {"acts": acts, "?": 0.0, **kinds}


def check_gate(skills: dict[str, float], stop: bool) -> None:
    """Exits where the skills are not there: what is built on such a model would mean nothing."""
    logger.info("base model: " + "  ".join(f"{k} {v:.2f}" for k, v in sorted(skills.items())))
    if stop and (skills["acts"] < 0.97 or skills["?"] > 0.2):
        fail(
            f"the base model lacks the world's skills: it acts on a good thought with probability "
            f"{skills['acts']:.2f} (needs .97) and garbles {skills['?']:.2f} of its own thoughts "
            "(at most .20); raise it longer with --babble.updates, or go on with --no-gate"
        )


def untrained(
    world: World, cfg: Babble, seed: int
) -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerFast]:
    """The model and its tokenizer before they have read anything."""
    torch.manual_seed(seed)
    tokenizer = make_tokenizer(world.words)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=cfg.dim, intermediate_size=cfg.ffn,
        num_hidden_layers=cfg.layers, num_attention_heads=cfg.heads,
        num_key_value_heads=cfg.heads, head_dim=cfg.head_dim, max_position_embeddings=4096,
        rope_parameters={"rope_type": "default", "rope_theta": cfg.rope_theta},
        initializer_range=cfg.init, tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )  # fmt: skip
    return Qwen3ForCausalLM(config), tokenizer


def _pretrain(policy: Policy, world: World, cfg: Babble, seed: int) -> None:
    chat = Chat(policy.tokenizer)
    training = Training(lr=cfg.lr, warmup=20, decay=True)
    lr = schedule(training, cfg.updates)
    for update in tqdm(range(cfg.updates), desc="raising the base model", leave=False):
        rng = random.Random(f"babble {seed} {update}")
        samples = [_episode(world, chat, cfg, rng) for _ in range(cfg.batch)]
        policy.update(samples, training, lr(update))


def _episode(world: World, chat: Chat, cfg: Babble, rng: random.Random) -> Sample:
    """Random play with a narrator; the loss is on the assistant's tokens."""
    mixture = pairs(cfg.mixture, float) or world.thought_mix
    hinted = rng.random() < cfg.action_first
    mute = rng.random() < cfg.act_only
    row, done = Sample(), False
    observation = world.reset(rng.randrange(10**9))  # task_seed("train", ·): never a test task
    while not done:
        (kind,) = rng.choices(list(mixture), list(mixture.values()))
        thought, action = world.narrate(kind, rng)
        if mute:
            thought, action = None, rng.choice(world.actions())
        order = rng.choice(ORDERS) if hinted else "natural"
        row.extend(chat.state([{"role": "user", "content": observation}], [], first=not row.ids))
        turn = chat.turn(thought and chat.content(thought), chat.content(action), order)
        observation, _, done, _ = world.step(action)
        row.extend(turn, 1.0)
    return row
