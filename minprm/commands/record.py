"""minprm record --to URL: stands before any API, and writes what agents ask it as logs."""

from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Annotated
from urllib.parse import urlsplit

from minprm.commands.checks import check_ranges, refuse
from minprm.commands.cli import read_flags
from minprm.constants import Range, fail
from minprm.printable import printable


@dataclass
class Record:
    """Writes what agents ask an API as logs: they take http://127.0.0.1:PORT/v1 for its URL."""

    to: str  # base URL of the API, as SDKs take it: https://api.openai.com/v1
    out: str = "recorded"  # folder of the logs, a file for each conversation
    port: Annotated[int, Range(0, 65_535)] = 8001  # 0: a free one


def main(argv: list[str]) -> None:
    """The command. It ends with Ctrl-C."""
    flags = read_flags(Record, argv, "minprm record")
    check_ranges(flags)
    refuse(
        not is_plain(flags.to),
        "--to is a base URL without a key in it, as https://api.openai.com/v1",
    )
    from minprm.commands.recording import Recorder  # torch: what is refused above did not wait

    try:
        Path(flags.out).mkdir(parents=True, exist_ok=True)
        recorder = Recorder(flags.to, Path(flags.out), flags.port)
    except OSError as problem:
        fail(f"--out {flags.out} --port {flags.port}: {problem.strerror}; choose others")
    port = recorder.server.server_address[1]
    print(f"http://127.0.0.1:{port}/v1  (it asks {flags.to}; Ctrl-C ends it)", flush=True)
    try:
        Event().wait()
    except KeyboardInterrupt:
        print(printable(f"conversations: {recorder.files}; read them: minprm logs {flags.out}"))
        raise SystemExit(130) from None


def is_plain(url: str) -> bool:
    """Is it the address of a server and a path there, and nothing else?"""
    try:
        parts = urlsplit(url)
        secret = "@" in parts.netloc or parts.query or parts.fragment
        there = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        return there and not secret
    except ValueError:
        return False
