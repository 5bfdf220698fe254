"""Is what we compute of a model what the model computes? Asked once, when it is loaded.

The trainer puts many samples in one row, and the sampler continues from what it has cached. Not
every architecture allows both: sliding windows and recurrent layers do not. So a small walk is
scored in six ways, and they must agree:

    the model's own forward, one sample at a time     the truth
    the trainer, each sample in a row of its own      or else the model is refused
    the trainer, all samples as trees in one row      or else each sample gets its own row
    the trainer, from what it keeps of a long log     or else it reads every log anew at each step
    the sampler, completions of a prompt in a row     or else each gets its own row
    the sampler, from the cache of its last call      or else it reads every prompt anew

docs/models.md has a table of what was found, by architecture. `check_seams` compares a turn that is
put together from pieces with the same turn tokenised as one text.
"""

import random

import torch
from loguru import logger
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer
from transformers.cache_utils import DynamicSlidingWindowLayer, LinearAttentionLayer

from minprm.constants import fail
from minprm.data import Sample
from minprm.load.grown import other_message
from minprm.model import blocks
from minprm.model.agent import Agent, Player
from minprm.model.policy import Policy
from minprm.model.precision import in_bf16, own_logprobs
from minprm.model.sampler import Sampler
from minprm.model.trunks import Trunks
from minprm.text.chat import Chat
from minprm.text.render import QUESTION

BEYOND = 16  # tokens of a prompt beyond the longest window
TREES = 16  # a row of this many trees is read by blocks
DRAWN = 4  # tokens of a completion
WALK = 32  # tokens of a whole walk behind its first prompt, at most
# what an action begins with; tokenizers split text differently before each of these
ACTIONS = {
    "a letter": "so", "a digit": "7", "<": "<b>", "a quotation mark": '"so"', "a space": " so",
}  # fmt: skip
CALL = {"a call": '{"name": "visit", "arguments": {}}'}  # as the template writes it
# what the code of a model raises that cannot be read in one of these ways
CANNOT = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
KINDS = {"a sliding window": DynamicSlidingWindowLayer, "recurrent layers": LinearAttentionLayer}


def check(player: Player) -> None:
    """Compares the six ways. What the model does not allow is switched off with a sentence, and a
    model whose log-probs we do not get right is refused.

    A player that is no agent only writes: it has no trainer to compare. A sampler that is vLLM is
    compared whenever it gets weights (vllm.py), and at every update (correction.check_gap).
    """
    check_sizes(player.sampler.model, player.chat.tokenizer, player.context)
    check_seams(player.chat, player.sampler.model)
    sampler = player.sampler
    # one that shares its work with other processes would be alone in finding that it cannot write
    ours = Sampler(sampler.model)
    model = ours.model
    prompts = some_prompts(model, player.context)
    try:
        if isinstance(sampler, Sampler):
            samples, own = check_sampler(ours, prompts)
            sampler.branches, sampler.reuses_cache = ours.branches, ours.reuses_cache
        else:
            samples = walk(ours, prompts)
            own = truth(model, samples)
        if isinstance(player, Agent):
            check_trainer(player.policy, samples, own, player.context)
    except CANNOT as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        fail(f"{name_of(model)} cannot be used: reading it raised {reason}; choose another --model")
    ours.begin()


def check_sampler(sampler: Sampler, prompts: list[list[int]]) -> tuple[list[Sample], Tensor]:
    """Switches off that completions stand in one row, and then the reuse of caches, where what is
    written so has another log-prob than the model's own. Returns what was written, and its own
    log-probs."""
    model = sampler.model
    # do completions stand in one row; are caches used again; and what is said where they are not
    ways = [
        (True, True, ""),
        (False, True, "the completions of a prompt cannot be written in one row, so each gets its "
         "own row"),
        (False, False, f"the sampler cannot continue from a cached prompt ({cause(model)}), so it "
         "reads every prompt anew"),
    ]  # fmt: skip
    if not sampler.reuses_cache:
        ways = ways[-1:]
    for sampler.branches, sampler.reuses_cache, switched_off in ways:
        try:
            samples = walk(sampler, prompts)
            own = truth(model, samples)
        except CANNOT:
            if sampler.branches:
                continue
            raise
        if not differs(model, reported(samples), own):
            if switched_off:
                logger.warning(f"{name_of(model)}: {switched_off}")
            return samples, own
        if not sampler.reuses_cache:
            refuse_model(model, "the sampler", reported(samples), own)
    raise AssertionError("the last way returns or refuses")


def check_trainer(policy: Policy, samples: list[Sample], own: Tensor, context: int) -> None:
    """Switches trees off where their log-probs are not those of the model, or would not be further
    on: in bf16 a few tokens beyond a window look like rounding. own: those of its own forward."""
    model = policy.model
    alone = scored(policy, [[sample] for sample in samples])
    if differs(model, alone, own):
        refuse_model(model, "the trainer", alone, own)
    if model.device.type == "cpu":
        again = scored(policy, [[sample] for sample in samples])
        if not torch.equal(again, alone):
            fail(
                f"{name_of(model)} cannot be used: two readings of the same weights differ by "
                f"{(again - alone).abs().max():.1g} nats, so something in it is random while it "
                "learns; choose another --model"
            )
    by_blocks, policy.reads_blocks = policy.reads_blocks, False
    if forgets(model, context) or differs(model, scored(policy, [samples]), own):
        policy.shares_prefixes = policy.keeps_trunks = False
        logger.warning(
            f"{name_of(model)}: samples that share a beginning cannot be read in one row "
            f"({cause(model)}), so each sample gets its own row"
        )
        return
    if policy.keeps_trunks and not same_behind_trunks(policy, samples, own):
        policy.keeps_trunks = False
        logger.warning(
            f"{name_of(model)}: the trainer cannot go on from what it has read of a log "
            f"({cause(model)}), so it reads each log anew at each of its steps"
        )
    if by_blocks:
        policy.reads_blocks = same_by_blocks(policy)
        if not policy.reads_blocks:
            logger.warning(
                f"{name_of(model)}: its attention cannot leave out what nobody sees, so long rows "
                "are read with a dense mask"
            )


def same_behind_trunks(policy: Policy, samples: list[Sample], own: Tensor) -> bool:
    """Are they scored the same where what they continue is kept (trunks.py)?"""
    try:
        logps = Trunks(policy, base=False, least=1).logprobs(samples)
    except CANNOT:
        return False
    return not differs(policy.model, torch.cat(logps), own)


def same_by_blocks(policy: Policy) -> bool:
    """Does attention by blocks (blocks.py) say what it says with a dense mask? Not every model lets
    its attention be replaced."""
    rng = random.Random(0)
    words = range(policy.model.config.get_text_config().vocab_size)
    least = blocks.LONG.get(policy.model.device.type, 0) // TREES  # or their row has no blocks
    samples = []
    for _ in range(TREES):
        state = Sample().extend(rng.choices(words, k=max(least, 8)))
        samples += [Sample(parent=state).extend(rng.choices(words, k=8), 0.0) for _ in range(2)]
    policy.reads_blocks = False
    dense = scored(policy, [samples])
    policy.reads_blocks = True
    try:
        return not differs(policy.model, scored(policy, [samples]), dense)
    except CANNOT:
        return False


# --- sizes ---


def check_sizes(model: PreTrainedModel, tokenizer: Tokenizer, context: int) -> None:
    """Refuses a tokenizer with more tokens than the model has rows, and a context beyond its
    positions, or beyond the length at which longrope computes all of them otherwise."""
    rows = model.get_input_embeddings().get_parameter("weight").shape[0]
    tokens = max(tokenizer.get_vocab().values()) + 1
    if tokens > rows:
        fail(
            f"{name_of(model)}: its tokenizer has {tokens} tokens, and the model rows for {rows} "
            "of them: give the model its own tokenizer, or its embedding more rows"
        )
    if tokens < rows:
        logger.info(
            f"{name_of(model)} has {rows} rows and its tokenizer {tokens} tokens: a thought that "
            "holds one of the others, which have no text, is not used"
        )
    config = model.config.get_text_config()
    positions = getattr(config, "max_position_embeddings", None)
    if positions and context > positions:
        fail(f"--context {context}: {name_of(model)} has {positions} positions; use --context "
             f"{positions}")  # fmt: skip
    rope = getattr(config, "rope_parameters", None) or {}
    for section in (rope, *rope.values()):  # of all layers, or of each kind of layer
        if isinstance(section, dict) and section.get("rope_type") == "longrope":
            length = section["original_max_position_embeddings"]
            if context > length:
                fail(
                    f"{name_of(model)}: beyond {length} tokens its positions change, so a text is "
                    f"not computed as it was written: use --context {length}"
                )


# --- the seams of a turn ---


def check_seams(chat: Chat, model: PreTrainedModel) -> None:
    """Warns where a turn has other ids than in whole text: the model would find the right action
    unlikely, whatever the thought."""
    if not chat.reads_any_text():
        return
    opening = other_opening(chat)
    if opening:
        logger.warning(
            f"{name_of(model)}: a turn that opens with {opening!r} has other ids than in whole "
            "text, because of what its chat template writes before it: the model has seldom read "
            "them so; choose another --layout or another chat template"
        )
    other = other_message(chat)
    if other:
        logger.warning(
            f"{name_of(model)}: its chat template writes {other} in another way than the one that"
            " was learned, and a history has the learned one: the model has seldom read it so;"
            " choose another chat template, or logs without such messages"
        )
    openings = {"behind a thought": None, "without a thought": chat.layout.act_without_thought}
    if chat.skip:
        openings["behind an empty thought"] = chat.layout.skip
    for where, opening in openings.items():
        others = other_seams(chat, opening)
        if others:
            logger.warning(
                f"{name_of(model)}: {where}, an action that begins with {' or '.join(others)} has "
                "other ids than in whole text, because of what its chat template writes before it: "
                "such actions are less likely; choose another --layout or another chat template"
            )


def some_state(chat: Chat) -> str:
    """The text of a conversation up to the assistant's first turn."""
    return chat.text(chat.state([QUESTION], chat.template.render.stand_in, None))


def other_opening(chat: Chat) -> str:
    """What opens a thought, where it has other ids behind a state than in one text with it."""
    state = some_state(chat)
    pieces = [*chat.encode(state, begins=True), *chat.think]
    whole = chat.encode(state + chat.layout.think, begins=True)
    return "" if whole == pieces else chat.layout.think


def other_seams(chat: Chat, opening: str | None = None) -> list[str]:
    """The beginnings of an action that has other ids than in one text with what stands before it:
    a thought; or, without one, the state and what opens such a turn."""
    layout = chat.layout
    if opening is None:
        before = f"{layout.think}So.{layout.gap}{layout.stop}{layout.act}"
        ids_before = chat.opening(chat.thought("So."))
    else:
        state = some_state(chat)
        before = state + opening
        ids_before = [*chat.encode(state, begins=True), *chat.encode(opening)]
    others = []
    for beginning, action in (ACTIONS | CALL if chat.tools else ACTIONS).items():
        ids = chat.action(action)
        # as it stands there: a template may trim it, and some texts alone do not show a space
        written = chat.text([*ids_before, *ids]).removeprefix(chat.text(ids_before))
        whole = f"{before}{written}{layout.act_end}"
        if chat.encode(whole, begins=opening is not None) != [*ids_before, *ids, *chat.act_end]:
            others.append(beginning)
    return others


# --- the walk ---


def some_prompts(model: PreTrainedModel, context: int) -> list[list[int]]:
    """Two prompts of different lengths, longer than every window that the context can fill."""
    config = model.config.get_text_config()
    room = min(context, getattr(config, "max_position_embeddings", None) or context) - WALK
    length = BEYOND
    for name, size in config.to_dict().items():
        window = isinstance(size, int) and ("window" in name or "chunk" in name)
        if window and size < context:
            length = max(length, size + BEYOND)
    length = max(min(length, room), 8)
    rng = random.Random(0)
    return [rng.choices(range(config.vocab_size), k=k) for k in (length, length - 5)]


def walk(sampler: Sampler, prompts: list[list[int]]) -> list[Sample]:
    """What is written after the prompts, and after what they grow to: two trees of Samples."""
    sampler.begin()
    first = write(sampler, [Sample().extend(prompt) for prompt in prompts], n=2)
    grown = []
    for i, sample in enumerate(first):
        observed = prompts[0][i : 2 * i + 3]  # another length for each
        grown.append(Sample(parent=sample).extend(observed))
    return first + write(sampler, grown, n=1)


def write(sampler: Sampler, states: list[Sample], n: int) -> list[Sample]:
    """n completions of each state, as Samples below it."""
    prompts = [state.whole() for state in states]
    groups = sampler.generate(prompts, n, DRAWN, [], temperature=1.0, seed=0)
    samples = []
    for state, group in zip(states, groups, strict=True):
        for c in group:
            samples.append(Sample(parent=state).extend(c.ids, 0.0, c.logprobs))
    return samples


# --- its log-probs, in six ways.  [T] each, sample after sample ---


def truth(model: PreTrainedModel, samples: list[Sample]) -> Tensor:
    """Those of the model's own forward."""
    return torch.cat([own_logprobs(model, sample.whole(), DRAWN) for sample in samples])


def reported(samples: list[Sample]) -> Tensor:
    """Those that the sampler reported."""
    logprobs = []
    for sample in samples:
        logprobs += sample.logprobs
    return torch.tensor(logprobs)


@torch.no_grad()
def scored(policy: Policy, rows: list[list[Sample]]) -> Tensor:
    """Those of the trainer, read as in an update: a dropout that was left on would show."""
    policy.model.train()
    logp = policy.read(rows, 1.0).logp
    policy.model.eval()
    return logp


# --- verdicts ---


def differs(model: PreTrainedModel, logp: Tensor, own: Tensor) -> bool:
    """Is this more than rounding? In fp32 that is 1e-3 nats for any token. In bf16 single tokens
    round far, and their mean counts: .1 nats, as for --engine.max-gap."""
    gap = (logp - own).abs()
    if model.dtype == torch.float32 and not in_bf16(model):
        return not gap.max() < 1e-3  # NaN differs too
    return not gap.mean() < 0.1


def forgets(model: PreTrainedModel, context: int) -> bool:
    """Is there a layer that does not see every token of such a context?"""
    for layer in DynamicCache(config=model.config).layers:
        if isinstance(layer, LinearAttentionLayer):
            return True
        if isinstance(layer, DynamicSlidingWindowLayer) and layer.sliding_window < context:
            return True
    return False


def refuse_model(model: PreTrainedModel, who: str, logp: Tensor, own: Tensor) -> None:
    """Ends the program."""
    fail(
        f"{name_of(model)} cannot be used: {who}'s log-probs are up to "
        f"{(logp - own).abs().max():.3f} nats from those of the model's own forward "
        f"({cause(model)}); choose another --model"
    )


def cause(model: PreTrainedModel) -> str:
    """What in the model does not keep keys and values of all tokens."""
    layers = DynamicCache(config=model.config).layers
    causes = []
    for words, kind in KINDS.items():
        if any(isinstance(layer, kind) for layer in layers):
            causes.append(words)
    return " and ".join(causes) or "something that its config does not name"


def name_of(model: PreTrainedModel) -> str:
    """Path and architecture."""
    return f"{model.config.name_or_path} ({model.config.model_type})".strip()
