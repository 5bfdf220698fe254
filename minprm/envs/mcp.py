"""An MCP server as a world, --world "mcp:COMMAND": the tools that the command serves over stdio.

Its tasks stand in a file, tasks=FILE: {"question": "Where is order 7?", "answer": "Rome"} a line.
A turn makes calls, or answers in words and ends the episode. With `"check": {"name", "arguments"}`
that call is made at the end, and its text is compared with the answer.

Each episode has a server of its own, or one that `reset` made as new. A server that fails costs its
own episode, which then teaches nothing.
"""

import asyncio
import json
import logging
import os
import shlex
from concurrent.futures import Future
from contextlib import AsyncExitStack, closing
from functools import cache
from tempfile import TemporaryFile
from threading import Thread
from typing import Any, NamedTuple

from minprm.envs.base import Illegal, World, needs
from minprm.envs.tasks import tasks_of
from minprm.text.actions import parts

SECONDS = 60  # that a server may take to start, and for each call
LONGEST = 100_000  # characters of an answer; what is longer is cut
RULES = "Use the tools. When the task is done, answer in words, with nothing but the answer."
SHAPE = 'a task has "question", "answer", and may have "check"'
IDLE: dict[str, list["Connection"]] = {}  # by command, servers that wait for the next episode


class Task(NamedTuple):
    question: str
    answer: str
    check: dict | None = None  # a call that is made at the end


@cache
def world_of(command: str) -> type[World]:
    """The world of this server. Raises ValueError where it does not start, or has no tools."""
    needs("mcp", "mcp")
    if not command.strip():
        raise ValueError('mcp: the command of a server is missing, as in "mcp:python desk.py"')
    if "://" in command.split()[0]:
        why = "an address; name the command that starts the server, which is spoken to over stdio"
        raise ValueError(f"mcp:{command}: {why}")
    for name in ("mcp", "client"):  # they would show each line that is no JSON, each unknown tool
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        with closing(Connection(command)) as connection:
            tools, instructions = connection.described()
    except Exception as error:
        raise ValueError(f"mcp:{command}: {cause(error)}") from error
    if not tools:
        raise ValueError(f"mcp:{command}: the server has no tools")
    system = f"{instructions}\n\n{RULES}" if instructions else RULES
    return type("Server", (ServerWorld,), {"command": command, "tools": tools, "system": system})


class ServerWorld(World):
    waits = True
    at_once = 32
    command = ""
    connection: "Connection | None" = None

    def __init__(self, tasks: str = "", turns: int = 10, reset: str = ""):
        """reset: the tool that makes a server as new, or `none` if an episode changes nothing."""
        if not tasks:
            raise ValueError('tasks=FILE is missing: {"question": ..., "answer": ...} in each line')
        if turns < 1:
            raise ValueError("turns 1 or more")
        self.tasks = tasks_of(tasks, _task)
        self.turns = turns
        self.resets_by = reset
        tools = {schema["function"]["name"]: schema for schema in self.tools}
        names = ", ".join(tools)
        if reset not in ("", "none", *tools):
            raise ValueError(f"reset={reset}: no such tool. Tools: {names}")
        if reset in tools:
            check_call(f"reset={reset}", {}, tools[reset])
        for task in self.tasks:
            if not task.check:
                continue
            name = task.check["name"]
            if name not in tools:
                raise ValueError(f"check {name}: no such tool. Tools: {names}")
            check_call(f"check {name}", task.check["arguments"], tools[name])
        self.tools = [schema for schema in self.tools if schema["function"]["name"] != reset]

    def begin(self) -> str:
        self._leave()
        self.chosen = self.rng.choice(self.tasks)
        self.reply = ""
        return self.chosen.question

    def step(self, action: str) -> tuple[str, float, bool, dict]:
        try:
            observation, reward, done, info = super().step(action)
            if done:
                self.success = self._is_won()
                reward = float(self.success)
        except ConnectionError as error:
            self._leave()
            self.done = True
            return "", 0.0, True, {"valid": False, "effective": False, "failure": str(error)}
        if done:
            self._leave(again=self.resets_by != "")
        return observation, reward, done, info

    def act(self, action: str) -> tuple[str, float]:
        reply, calls = parts(action)
        if not calls and not reply.strip():
            raise Illegal("illegal: call a tool, or answer in words")
        if not calls:
            self.reply = reply
            self.done = True
            return "", 0.0
        if any(call["name"] == self.resets_by for call in calls):
            raise Illegal(f"illegal: there is no tool {self.resets_by}")
        answers = [self._server().call(**call) for call in calls]
        text = "\n".join(answer for answer, _ in answers)
        if not all(legal for _, legal in answers):
            raise Illegal(text)
        return text, 0.0

    def _is_won(self) -> bool:
        reply = self.reply
        if self.chosen.check:
            reply, _ = self._server().call(**self.chosen.check)
        return plain(reply) == plain(self.chosen.answer)

    # --- its server ---

    def _server(self) -> "Connection":
        """The server of this episode, which starts at the first call."""
        if self.connection is None and self.resets_by:
            self.connection = self._again()
        if self.connection is None:
            self.connection = Connection(self.command)
            self._reset(self.connection)
        return self.connection

    def _again(self) -> "Connection | None":
        """A server of an earlier episode, if one waits that has not died meanwhile."""
        idle = IDLE.setdefault(self.command, [])
        while True:
            try:
                connection = idle.pop()
            except IndexError:
                return None
            try:
                self._reset(connection)
                return connection
            except ConnectionError:
                connection.close()

    def _reset(self, connection: "Connection") -> None:
        """Makes a server as new, if there is a tool for it."""
        if self.resets_by not in ("", "none"):
            text, done = connection.call(self.resets_by, {})
            if not done:
                raise ConnectionError(f"{self.resets_by} did not reset the server: {text[:200]}")

    def _leave(self, again: bool = False) -> None:
        """Ends the server, or lets the next episode have it again."""
        connection = self.connection
        self.connection = None
        if connection and again:
            IDLE[self.command].append(connection)
        elif connection:
            connection.close()

    def close(self) -> None:
        self._leave()  # of an episode that outgrew the context


class Connection:
    """A server that runs. The task that opens a session has to close it, and lives in an event loop
    of its own thread; calls may come from any other."""

    def __init__(self, command: str):
        self.closing = asyncio.Event()
        self.opened: Future[Any] = Future()
        asyncio.run_coroutine_threadsafe(self._hold(command), loop())
        self.client = self.opened.result()

    async def _hold(self, command: str) -> None:
        from mcp import Client, StdioServerParameters
        from mcp.client.stdio import stdio_client

        with TemporaryFile("w+", encoding="utf-8", errors="replace") as log:  # its error output
            try:
                program, *arguments = words(command)
                server = StdioServerParameters(command=program, args=arguments, env={**os.environ})
                client = Client(stdio_client(server, log))
                async with AsyncExitStack() as stack:
                    async with starts(), asyncio.timeout(SECONDS):
                        await stack.enter_async_context(client)
                    self.opened.set_result(client)
                    await self.closing.wait()
            except Exception as error:
                if not self.opened.done():
                    log.seek(0)
                    why = ": ".join([cause(error), *log.read()[-LONGEST:].splitlines()[-1:]])
                    self.opened.set_exception(ConnectionError(f"the server did not start: {why}"))

    def call(self, name: str, arguments: dict) -> tuple[str, bool]:
        """(the answer's text, was the call legal). Raises ConnectionError where none comes."""
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        try:
            answer = self._wait_for(self.client.call_tool(name, arguments, SECONDS))
        except MCPError as error:
            if error.code in (CONNECTION_CLOSED, REQUEST_TIMEOUT):
                raise ConnectionError(f"{name}: {error.message}") from error
            return error.message, False
        except Exception as error:  # the protocol allows no such answer
            raise ConnectionError(f"{name}: {cause(error)}") from error
        text = "\n".join(text_of(part) for part in answer.content)
        if not answer.content and answer.structured_content is not None:
            text = json.dumps(answer.structured_content, ensure_ascii=False)
        return text if len(text) <= LONGEST else f"{text[:LONGEST]} (cut)", not answer.is_error

    def described(self) -> tuple[list[dict], str]:
        """(its tools, in JSON schema as it has them; what it says of itself)"""
        tools = []
        page = None
        while page is None or page.next_cursor:
            page = self._wait_for(self.client.list_tools(cursor=page and page.next_cursor))
            for tool in page.tools:  # as the server describes them
                schema = {"type": "object", "properties": {}, **tool.input_schema}
                about = {"name": tool.name, "description": tool.description or ""}
                tools.append({"type": "function", "function": {**about, "parameters": schema}})
        return tools, self.client.instructions or ""

    def close(self) -> None:
        """Ends the server, which has a few seconds to do so; nobody waits for it."""
        loop().call_soon_threadsafe(self.closing.set)

    def _wait_for(self, answer: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(answer, loop()).result(2 * SECONDS)


@cache
def loop() -> asyncio.AbstractEventLoop:
    """The event loop of all servers, in a thread of its own."""
    events = asyncio.new_event_loop()
    Thread(target=events.run_forever, daemon=True).start()
    return events


@cache
def starts() -> asyncio.Semaphore:
    """So many servers start at the same time."""
    return asyncio.Semaphore(os.cpu_count() or 1)


def begin_anew() -> None:
    """In a process that was forked: the loop's thread is not there, and the servers are the
    parent's."""
    loop.cache_clear()
    starts.cache_clear()
    IDLE.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=begin_anew)


def check_call(name: str, arguments: dict, tool: dict) -> None:
    """Raises ValueError where the tool's schema says that no such call succeeds."""
    schema = tool["function"]["parameters"]
    properties = schema.get("properties", {})
    missing = [key for key in schema.get("required", ()) if key not in arguments]
    if missing:
        raise ValueError(
            f"{name} is called with {json.dumps(arguments)}, and the tool requires "
            f"{', '.join(missing)} too"
        )
    unknown = [key for key in arguments if key not in properties]
    closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    if unknown and closed:
        takes = ", ".join(properties) or "no arguments"
        raise ValueError(f"{name} is called with {', '.join(unknown)}, and the tool takes {takes}")


def words(command: str, windows: bool = os.name == "nt") -> list[str]:
    r"""The words of a command. On Windows a backslash divides a path, and escapes nothing.

    >>> words(r'python "my desk\server.py"', windows=True)
    ['python', 'my desk\\server.py']
    """
    lexer = shlex.shlex(command, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    if windows:
        lexer.escape = ""
    return list(lexer)


def cause(error: BaseException) -> str:
    """Why a server failed; anyio hands on errors in groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return f"it took more than {SECONDS} seconds"
    return " ".join(str(error).split()) or type(error).__name__


def text_of(part: Any) -> str:
    """A part of an answer. Of what is no text, such as an image, its kind alone is shown; of a link
    its address too."""
    if hasattr(part, "uri"):
        return f"[{part.type} {part.uri}]"
    return getattr(getattr(part, "resource", part), "text", f"[{part.type}]")


def plain(text: str) -> str:
    """What is compared: case, white space and a full stop at the end do not matter."""
    return " ".join(text.casefold().split()).removesuffix(".")


def _task(row: dict) -> Task:
    if not isinstance(row, dict):
        raise ValueError(SHAPE)
    if not {"question", "answer"} <= row.keys() <= {"question", "answer", "check"}:
        raise ValueError(f"{SHAPE}, not {[*row]}")
    for text in (row["question"], row["answer"]):
        if not isinstance(text, str) or not plain(text):
            raise ValueError("question and answer are texts, and not empty")
    # a table cannot leave the check out of one row: there it is None
    if row.get("check") is not None and not parts(json.dumps(row["check"]))[1]:
        raise ValueError('"check" is a call, {"name": ..., "arguments": {...}}')
    return Task(**row)
