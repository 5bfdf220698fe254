"""A proxy before any API: requests and answers pass as they are, and conversations become logs.

Each conversation of chat/completions is a file, written anew where it goes on, with the tools as
they were sent. Headers, and with them the key of an agent, are written nowhere.
"""

import json
import os
import time
from contextlib import suppress
from email.message import Message
from http.client import HTTPException, IncompleteRead
from pathlib import Path
from threading import Lock
from typing import Any
from urllib import error, request

from minprm.endpoint.conversations import KEPT, key, let_go, steps_of
from minprm.endpoint.server import Endpoint, Handler, Refusal, message_in
from minprm.look.log import write_atomically
from minprm.printable import say
from minprm.text.actions import parse_json

SECONDS = 600  # in which the API has to answer, or to send the next part
OTHER_TALK = ("responses", "messages", "completions")  # conversations in a form not kept here
# Headers that belong to one connection.
OWN = ("host", "connection", "keep-alive", "content-length", "transfer-encoding",
       "accept-encoding", "expect", "date", "server")  # fmt: skip


class Recorder(Endpoint):
    """The proxy, and what it needs to know a conversation that goes on."""

    def __init__(self, to: str, folder: Path, port: int):
        self.to = to.rstrip("/")
        self.send = request.build_opener(NoRedirect).open
        start = time.strftime("%Y%m%d-%H%M%S")
        self.name = f"{folder}/{start}-{os.getpid()}"  # the name of each file begins so
        self.files = 0
        self.writing = Lock()
        # by what was said, the file and the messages of conversations that stand there; the newest
        self.ends: dict[tuple, list[tuple[Path, list]]] = {}
        super().__init__(("127.0.0.1", port), RecordHandler)

    def keep(self, body: bytes, answer: bytes) -> None:
        """Writes down what was asked and answered. What fails here does not reach the agent."""
        try:
            if answer.startswith(b"\x1f\x8b"):
                raise ValueError("the API has compressed its answer")
            fields = parse_json(body.decode())
            messages = [*fields["messages"], message_in(answer.decode())]
            with self.writing:
                self._write(messages, fields.get("tools") or [])
        except (ValueError, LookupError, TypeError, AttributeError, OSError) as problem:
            warn(problem)

    def _write(self, messages: list[dict], tools: list[dict]) -> None:
        """Writes a conversation, over its file where it goes on."""
        steps = []
        with suppress(Refusal):  # it has a file of its own, and `minprm logs` says what is wrong
            steps = steps_of(messages, tools)
        if sum(len(step.state) + 1 for step in steps) != len(messages):
            steps = []
        for turns in range(len(steps) - 1, 0, -1):
            beginning = key(steps[:turns], tools)
            if beginning in self.ends:
                file, before = self.ends[beginning].pop()
                if not self.ends[beginning]:
                    del self.ends[beginning]
                messages[: len(before)] = before  # the agent may have dropped thoughts
                break
        else:
            self.files += 1
            file = Path(f"{self.name}-{self.files:06}.jsonl")
        if steps:
            place = key(steps, tools)
            self.ends[place] = [*self.ends.pop(place, []), (file, messages)]  # the newest is last
            let_go(self.ends, KEPT)
        line = json.dumps({"messages": messages, "tools": tools}, ensure_ascii=False)
        write_atomically(file, line + "\n")


class NoRedirect(request.HTTPRedirectHandler):
    """A redirect is an answer: the key of an agent goes to no other place."""

    def redirect_request(self, req, fp, code, msg, headers, newurl) -> None:
        return None


class RecordHandler(Handler):
    """One connection of an agent."""

    endpoint: Recorder

    def do_GET(self) -> None:
        try:
            self._forward(None)
        except Refusal as refusal:
            self._send(refusal.reply())

    def do_POST(self) -> None:
        try:
            body = self._body()
            place = self._place()[1]
            if not place or place in OTHER_TALK:
                asked = place or self.path
                raise Refusal(f"{asked} is not recorded: use /v1/chat/completions", 404)
            if body is None:
                raise Refusal("the request is too long to be recorded", 413)
            self._forward(body)
        except Refusal as refusal:
            self._send(refusal.reply())

    def _forward(self, body: bytes | None) -> None:
        """Sends a request on, and what comes back. It is kept before its end is sent: the agent may
        go on at once."""
        url = f"{self.endpoint.to}/{self.path.partition('/v1/')[2]}"
        forwarded = request.Request(url, body, dict(passing(self.headers)))
        try:
            answer = self.endpoint.send(forwarded, timeout=SECONDS)
        except error.HTTPError as refused:  # it is an answer too
            answer = refused
        except (OSError, HTTPException) as problem:
            raise Refusal(f"{self.endpoint.to} does not answer: {problem}", 502) from None
        with answer:
            self.send_response(answer.status or 502)
            for name, text in [*passing(answer.headers), ("Transfer-Encoding", "chunked")]:
                self.send_header(name, text)
            self.end_headers()
            try:
                self._pass(answer, body)
            except (OSError, HTTPException) as problem:  # the agent sees an answer without an end
                self.close_connection = True
                warn(problem)

    def _pass(self, answer: Any, body: bytes | None) -> None:
        """Sends the answer's lines as they come."""
        lines = []
        done = False
        for line in answer:
            lines.append(line)
            done = line.startswith(b"data: [DONE]")
            if done:
                break
            self._part(line)
        if not done and getattr(answer, "length", 0):
            raise IncompleteRead(b"", answer.length)
        if body and answer.status == 200 and self._place()[1] == "chat/completions":
            self.endpoint.keep(body, b"".join(lines))
        if done:
            self._part(lines[-1])
            with suppress(HTTPException):  # nothing has to follow
                for line in answer:
                    self._part(line)
        self._part(b"")

    def _part(self, part: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        self.wfile.flush()


def passing(headers: Message) -> list[tuple[str, str]]:
    """The headers that a request or an answer takes along."""
    return [(name, text) for name, text in headers.items() if name.lower() not in OWN]


def warn(problem: Exception) -> None:
    """Says that a turn is in no log."""
    say(f"not recorded: {problem!r:.200}")
