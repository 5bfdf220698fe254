"""From the requests of a user's agent to Samples and Episodes.

An agent sends its whole conversation at each turn, as text. What it sends is compared with what was
drawn for it, and where it goes on from there, the turn goes on from the very ids that were drawn:
nothing sampled is tokenised again. Programs tell a conversation again in their own way. They give
calls other ids, write JSON with other spaces, drop thoughts. None of this counts. A history that
says something else than was drawn, or has other tools, begins a new sequence.

What a turn draws depends on the batch's noise, on its episode and on what it reads, and not on the
requests that happen to be answered with it.
"""

import json
import time
import zlib
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any, NamedTuple

from loguru import logger

from minprm.constants import refusal
from minprm.data import Sample, Step
from minprm.endpoint.server import MODEL, SIZE, Refusal, Reply, as_json, as_stream
from minprm.logs.books import AS_THEY_ARE, TO_DROP, is_list_of, is_nothing
from minprm.logs.normalise import UNSEEN_NOTE
from minprm.logs.reader import from_chat
from minprm.logs.thoughts import THOUGHTS
from minprm.model.agent import Player
from minprm.model.sampler import Completion
from minprm.own import is_number
from minprm.play import Episode, as_message, forced_opening, keep, turn_limit
from minprm.text.actions import normalise, parse_json
from minprm.text.chat import Chat
from minprm.text.render import QUESTION, placeholder

LIMITS = ("max_completion_tokens", "max_tokens")
READ = ("model", "messages", "tools", "stream", "stream_options", "n", *LIMITS)
OBEYED = ("temperature", "seed")  # where a model is served; in training they are the run's
KEPT = 1000  # ends of turns that a server of many conversations remembers
EMPTY = "(nothing)"  # stands for an assistant's empty message, which a log could not have


class Asked(NamedTuple):
    """What a request asks for."""

    messages: list[dict]  # as they were sent
    steps: list[Step]  # the same as turns; the last one is to be written, and has the state alone
    tools: list[dict]  # as they were sent: each spelling of a tool is another prompt
    limit: int | None  # tokens; None: none but ours
    model: str
    temperature: float | None  # None: none was given
    seed: int | None
    stream: bool
    usage: bool  # does the stream end with the number of tokens


@dataclass
class End:
    """Where a turn ended that was drawn, for the request that goes on from there."""

    sample: Sample
    length: int  # of the sample then
    action: str
    thoughts: list[str | None]  # of all turns so far


@dataclass
class AgentEpisode(Episode):
    """A task that a user's agent plays. Its turns are kept as they were drawn.

    They are in one Sample as long as each request goes on where the one before has ended; where the
    agent begins anew, or turns back, the next turns are in another.
    """

    number: int = 0  # in its batch
    reward: float = 0.0  # what the agent's program returned
    until: float = 0.0  # when it is given up, if its agent does not ask or end
    requests: int = 0  # of its agent so far
    drawn: int = 0  # turns so far
    ends: dict[tuple, list[End]] = field(default_factory=dict)
    prompts: Counter = field(default_factory=Counter)  # how often the same was asked

    def outcome(self) -> float:
        return self.reward


class Pending(NamedTuple):
    """A turn that is still to be drawn."""

    episode: AgentEpisode
    player: Player
    asked: Asked
    sample: Sample  # that it will stand in, with its state
    steps: list[Step]  # since the turn before: those that nobody here drew, and this one
    ids: list[int]  # the same, without what conversations have in common
    prompt: list[int]
    limit: int
    seed: int
    temperature: float


# --- reading a request ----------------------------------------------------------------------------


def asked(body: bytes | None, obeys: bool = False) -> Asked:
    """What the body of a request asks for. Raises Refusal where it is none that can be answered.

    obeys: may it choose how its turn is drawn?
    """
    if body is None:
        raise Refusal(f"the request is longer than {SIZE:,} bytes", 413)
    try:
        fields = parse_json(body.decode())
    except ValueError as error:
        raise Refusal(f"the request is no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise Refusal("the request is no JSON object")
    for name in fields:
        known = name in READ or (obeys and name in OBEYED)
        if not known and not is_nothing(fields[name]):
            _say_ignored(name, obeys)
    if fields.get("n") not in (None, 1):
        raise Refusal("n must be 1: an episode is drawn turn by turn")
    limit = next((fields[name] for name in LIMITS if fields.get(name) is not None), None)
    if limit is not None and not (type(limit) is int and limit >= 1):
        raise Refusal("max_tokens is no number of tokens")
    messages = fields.get("messages")
    tools = fields.get("tools") or []
    if not isinstance(tools, list):
        raise Refusal("tools must be a list")
    if fields.get("stream") not in (None, True, False):
        raise Refusal("stream must be true or false")
    if not isinstance(messages, list) or not messages:
        raise Refusal("messages must be a list, and not empty")
    steps = steps_of([*messages, {"role": "assistant", "content": EMPTY}], tools)
    if steps[-1].action != EMPTY or not all(step.state for step in steps):
        raise Refusal("messages must end with one that is to be answered, as each turn must have")
    temperature, seed = [fields.get(name) if obeys else None for name in OBEYED]
    if temperature is not None and not (is_number(temperature) and 0 <= temperature <= 100):
        raise Refusal("temperature is no number from 0 to 100")
    if seed is not None and not isinstance(seed, int):
        raise Refusal("seed is no whole number")
    options = fields.get("stream_options")
    usage = isinstance(options, dict) and bool(options.get("include_usage"))
    model = str(fields.get("model") or MODEL["id"])
    stream = bool(fields.get("stream"))
    return Asked(messages, steps, tools, limit, model, temperature, seed, stream, usage)


def steps_of(messages: list, tools: Any) -> list[Step]:
    """The assistant's turns of this conversation, each with its state, read as those of a log."""
    notes: Counter[str] = Counter()
    texts: dict[str, str] = {}
    try:
        spoken = [_as_in_a_log(message, i, texts) for i, message in enumerate(messages)]
        log = from_chat({"messages": spoken, "tools": tools}, AS_THEY_ARE, notes)
    except ValueError as error:
        raise Refusal(str(error).partition(TO_DROP)[0]) from None
    if notes[UNSEEN_NOTE]:
        raise Refusal("a message holds an image, audio or a file, and the model reads text alone")
    if len(log.tools) != len(tools) or any("function" not in tool for tool in tools):
        raise Refusal("each of the tools must be a function with a schema")
    for step in log.steps:
        for mark, text in texts.items():
            step.action = step.action.replace(mark, text)
            for message in step.state:
                message["content"] = message["content"] and message["content"].replace(mark, text)
    return log.steps


def _as_in_a_log(message: Any, number: int, texts: dict[str, str]) -> Any:
    """The message. In one of the assistant's that a log could not have, something else is its text:
    EMPTY, or a placeholder, under which `texts` gets what the model wrote when it wrote no turn."""
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return message
    text = message.get("content")
    said = text
    if is_list_of(text, "text"):
        said = "".join(str(part["text"]) for part in text)
    others = ("tool_calls", "function_call", "refusal", *THOUGHTS)
    if not str(said or "").strip() and all(is_nothing(message.get(key)) for key in others):
        return {**message, "content": EMPTY}
    try:
        from_chat({"messages": [QUESTION, message]})
    except ValueError:
        if isinstance(text, str):
            texts[placeholder(number)] = text.strip()
            return {**message, "content": placeholder(number)}
    return message


@cache
def _say_ignored(name: str, served: bool) -> None:
    """Says once in a process that a field of requests has no effect."""
    why = ""
    if name in ("temperature", "top_p") and not served:
        why = ": turns are drawn as the run says (--temperature, --eval-temperature)"
    logger.info(f"the agent's requests set {name[:40]!r}, which is not obeyed here{why}")


# --- conversations --------------------------------------------------------------------------------


class Conversations:
    """All conversations of one batch of episodes."""

    def __init__(self, agent: Player, noise: int):
        self.agent = agent
        self.noise = noise
        self.opening = forced_opening(agent)
        self.roots: dict[tuple, Sample] = {}  # first states: episodes of one task share theirs

    def begin(self, e: AgentEpisode, request: Asked) -> Pending:
        """The turn that answers this request, ready to be drawn. Raises Refusal where it cannot be
        written, or would outgrow the context."""
        player = _tried(self._player, request.tools)
        end, turns = last_end(e, request)
        steps = request.steps[turns:]
        ids = _tried(write, player, steps, request.tools, end.action if end else None)
        before = _until(end).whole() if end else []
        limit = turn_limit(player)
        if len(before) + len(ids) + limit > player.context:
            e.outgrown = True
            sentence = f"the maximum context length is {player.context} tokens (--context)"
            raise Refusal(sentence, code="context_length_exceeded")
        e.outgrown = False  # its agent may have left something out
        sample = self._next_sample(e, end, ids)
        prompt = [*before, *ids, *self.opening]
        limit = min(limit, request.limit or limit)
        seed = self._seed(e, prompt) if request.seed is None else request.seed % 2**32
        temperature = self.agent.temperature
        if request.temperature is not None:
            temperature = request.temperature
        return Pending(e, player, request, sample, steps, ids, prompt, limit, seed, temperature)

    def answer(self, turns: list[Pending]) -> list[Reply]:
        """Draws all of these turns, keeps them, and returns what is sent back."""
        replies = []
        for turn, completion in zip(turns, self._draw(turns), strict=True):
            answer = self._finish(turn, completion)
            usage = turn.asked.usage
            replies.append(as_stream(answer, usage) if turn.asked.stream else as_json(answer))
        return replies

    def _draw(self, turns: list[Pending]) -> list[Completion]:
        """Draws all of them at once. A turn that may be shorter is cut: no token depends on what
        comes after it."""
        completions: dict[int, Completion] = {}
        groups: dict[tuple, list[Pending]] = {}
        for turn in turns:
            groups.setdefault((*turn.player.chat.ends, turn.temperature), []).append(turn)
        for group in groups.values():
            drawn_groups = self.agent.sampler.generate(
                [turn.prompt for turn in group],
                1,
                max(turn.limit for turn in group),
                group[0].player.chat.ends,
                group[0].temperature,
                [turn.seed for turn in group],
            )
            for turn, (completion,) in zip(group, drawn_groups, strict=True):
                cut = Completion(completion.ids[: turn.limit], completion.logprobs[: turn.limit])
                completions[id(turn)] = cut
        return [completions[id(turn)] for turn in turns]

    def _finish(self, turn: Pending, completion: Completion) -> dict:
        """Keeps the turn, and returns it as a chat completion."""
        e = turn.episode
        chat = turn.player.chat
        e.world.tools = turn.asked.tools
        e.state_ids = turn.ids, turn.ids
        thought, action, tokens, unreadable = keep(e, turn.sample, completion, chat, self.opening)
        e.in_pieces = e.in_pieces or len(turn.steps) > 1 or len(e.samples) > 1
        state = [_without_id(message) for message in turn.steps[-1].state]
        e.steps.append(Step(state, thought, action or "", unreadable=unreadable))
        readable = action is not None
        e.infos.append({
            "valid": readable, "effective": readable, "formatted": readable,
            "thought_tokens": tokens,
        })  # fmt: skip
        e.drawn += 1
        message = as_message(e.world, thought and thought.strip(), action or "")
        if action is None:
            acted = chat.split([*self.opening, *completion.ids])[1]
            message["content"] = chat.tokenizer.decode(acted, skip_special_tokens=True)
        for i, call in enumerate(message.get("tool_calls", ())):
            call["id"] = f"call_{e.drawn}_{i}"
        if self.agent.history.thoughts:  # else what comes back is written anew, without thoughts
            remember(turn, message, action or "")
        reason = "stop" if completion.ids[-1] in chat.ends else "length"
        if "tool_calls" in message:
            reason = "tool_calls"
        prompt, answer = len(turn.prompt), len(completion.ids)
        return {
            "id": f"chatcmpl-{e.number}-{e.drawn}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": turn.asked.model,
            "choices": [
                {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
            ],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": answer,
                "total_tokens": prompt + answer,
            },
        }  # fmt: skip

    def _player(self, tools: list[dict]) -> Player:
        """The agent with a chat that reads calls of these tools."""
        chat = self.agent.chat
        if not tools and not chat.tools:
            return self.agent
        return replace(self.agent, chat=_chat(chat.tokenizer, chat.layout.name, json.dumps(tools)))

    def _next_sample(self, e: AgentEpisode, end: End | None, ids: list[int]) -> Sample:
        """The Sample that the next turn will stand in, with its state. It is the episode's last
        one: so turns and Samples have the same order."""
        if end and e.samples[-1] is end.sample and len(end.sample.ids) == end.length:
            return end.sample.extend(ids)
        if end:
            sample = Sample(parent=_until(end), version=self.agent.version).extend(ids)
        else:
            root = self.roots.setdefault(tuple(ids), Sample().extend(ids))
            sample = Sample(parent=root, version=self.agent.version)
        e.samples.append(sample)
        return sample

    def _seed(self, e: AgentEpisode, prompt: list[int]) -> int:
        """The seed of a turn's noise. It differs where an agent asks the same once more."""
        e.prompts[tuple(prompt)] += 1
        return zlib.crc32(f"{self.noise} {e.number} {e.prompts[tuple(prompt)]} {prompt}".encode())


@lru_cache(maxsize=64)
def _chat(tokenizer, layout: str, tools: str) -> Chat:
    """Agents of one program have the same tools, and a template takes a moment to be learned."""
    return Chat(tokenizer, layout, json.loads(tools))


def _tried(function, *arguments) -> Any:
    """What the function returns. Raises Refusal where it exits: the template cannot write this."""
    box = []
    try:
        reason = refusal(lambda: box.append(function(*arguments)))
    except Exception as error:  # a template raises whatever its author liked
        reason = str(error)
    if not box:
        raise Refusal(f"these messages cannot be written for this model: {reason}")
    return box[0]


def _until(end: End) -> Sample:
    """The Sample up to this end: itself, or a copy that is not learned where it has gone on."""
    if len(end.sample.ids) == end.length:
        return end.sample
    return Sample(parent=end.sample.parent).extend(end.sample.ids[: end.length])


def _without_id(message: dict) -> dict:
    """A tool's answer in a log stands behind its call, and the calls there have no ids."""
    return {key: part for key, part in message.items() if key != "tool_call_id"}


# --- what is written anew, and what is known ------------------------------------------------------


def write(player: Player, steps: list[Step], tools: list[dict], after: str | None) -> list[int]:
    """Ids of turns that nobody here drew, written as those of logs, and of the last state.

    after: the action before them; None: they begin a conversation. Exits where the template cannot
    write them.
    """
    chat = player.chat
    ids = []
    for step in steps[:-1]:
        ids += player.state_ids(step.state, tools, after)[0]
        opening = chat.opening(None, step.action)
        if player.history.thoughts:
            opening = player.opening(step.thought, step.action)
        ids += chat.closed(opening, chat.action(step.action))
        after = step.action
    return ids + player.state_ids(steps[-1].state, tools, after)[0]


def remember(turn: Pending, message: dict, action: str) -> None:
    """Notes where a turn ended, so that the next request can go on from there."""
    try:
        steps = steps_of([*turn.asked.messages, message], turn.asked.tools)
    except Refusal:  # it would not be understood when it comes back
        return
    thoughts = [step.thought for step in steps]
    end = End(turn.sample, len(turn.sample.ids), action, thoughts)
    ends = turn.episode.ends
    place = key(steps, turn.asked.tools)
    ends[place] = [*ends.pop(place, []), end]  # the newest place stands last


def let_go(ends: dict[tuple, list], most: int) -> None:
    """Lets go of the oldest ends, until so many are left."""
    for _ in range(sum(map(len, ends.values())) - most):
        place, (_, *newer) = next(iter(ends.items()))
        ends[place] = newer
        if not newer:
            del ends[place]


def last_end(e: AgentEpisode, request: Asked) -> tuple[End | None, int]:
    """(the end of the longest beginning of this conversation that was drawn here, how many turns it
    has); None: the conversation is a new one."""
    for turns in range(len(request.steps) - 1, 0, -1):
        steps = request.steps[:turns]
        for end in reversed(e.ends.get(key(steps, request.tools), [])):
            if _same_thoughts(steps, end.thoughts):
                return end, turns
    return None, 0


def key(steps: list[Step], tools: list[dict]) -> tuple:
    """What two tellings of one conversation have in common: tools, texts and calls."""
    parts: list[Any] = [json.dumps(tools)]
    for step in steps:
        parts += [(m["role"], (m["content"] or "").strip()) for m in step.state]
        parts.append(normalise(step.action))
    return tuple(parts)


def _same_thoughts(steps: list[Step], thoughts: list[str | None]) -> bool:
    """A thought may be dropped on its way back. One that is another was edited."""
    for step, thought in zip(steps, thoughts, strict=True):
        if step.thought is not None and step.thought.strip() != (thought or "").strip():
            return False
    return True
