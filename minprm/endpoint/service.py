"""A model for anybody on this machine: `minprm serve`, over OpenAI's chat/completions.

The endpoint of training answers, so what is served is what was trained. A conversation goes on from
the very ids of the turns that were drawn in it, also where its client drops thoughts on their way
back; the newest KEPT places are remembered. Temperature and seed are those of the request. Without
a temperature the likeliest turn is written, as it was evaluated.
"""

import secrets
from queue import Empty

from minprm.endpoint.agents import QUIET, AgentTask
from minprm.endpoint.conversations import (
    KEPT,
    AgentEpisode,
    Asked,
    Conversations,
    asked,
    let_go,
)
from minprm.endpoint.server import ALL, Endpoint, Refusal, Request
from minprm.logs.schemas import spelled_otherwise
from minprm.model.agent import Player
from minprm.printable import say


class Service:
    """Answers requests, those that wait together as one batch."""

    def __init__(self, agent: Player, tools: list[dict], address: tuple[str, int]):
        """tools: those that the model was trained with."""
        self.conversations = Conversations(agent, secrets.randbits(31))
        self.endpoint = Endpoint(address)
        self.endpoint.addresses.add(ALL)
        self.talk = AgentEpisode(AgentTask(0))  # all conversations
        self.tools = tools
        self.warned: set[str] = set()

    def run(self) -> None:
        """Serves until Ctrl-C."""
        while True:
            self.answer(self._gather())

    def _gather(self) -> list[Request]:
        """The next request, and those that come with it."""
        waiting = [self.endpoint.events.get()]
        try:
            while True:
                waiting.append(self.endpoint.events.get(timeout=QUIET))
        except Empty:
            return waiting

    def answer(self, waiting: list[Request]) -> None:
        """Draws the turns of these requests, and sends them back."""
        begun = []
        for request in waiting:
            try:
                wanted = asked(request.body, obeys=True)
                self._compare_tools(wanted)
                begun.append((request, self.conversations.begin(self.talk, wanted)))
            except Refusal as refusal:
                request.refuse(refusal)
        replies = self.conversations.answer([turn for _, turn in begun])
        for (request, _), reply in zip(begun, replies, strict=True):
            request.reply.set_result(reply)
        self._forget()

    def _compare_tools(self, wanted: Asked) -> None:
        """Warns once of a tool that is spelled otherwise than in training: a small model may not
        call it."""
        if not self.tools:
            return
        for name, how in spelled_otherwise(self.tools, wanted.tools).items():
            if name not in self.warned:
                self.warned.add(name)
                say(f"the tool {name[:60]} of a request {how}: the model may not call it")

    def _forget(self) -> None:
        """Lets go of what no conversation can go on from."""
        talk = self.talk
        for turns in (talk.samples, talk.spans, talk.turns, talk.steps, talk.infos):
            del turns[:-1]
        if len(talk.prompts) > KEPT:
            talk.prompts.clear()
            talk.number += 1  # or what was asked before would be answered alike once more
        let_go(talk.ends, KEPT)
        if len(self.conversations.roots) > KEPT:
            self.conversations.roots.clear()
