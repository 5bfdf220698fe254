"""A server of the engine, asked once."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

from minprm.commands.serve import by_module
from shared.chats import TOOLS

FAST = {"TORCH_COMPILE_DISABLE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}  # seconds, not minutes
# vLLM's parsers of thoughts and calls for Qwen3's template, as chapter 5 names them
CHAPTER = "--reasoning-parser qwen3 --enable-auto-tool-choice --tool-call-parser hermes"


def free_port() -> int:
    """A port of this machine that nobody uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def asked(arguments: list[str], model: str) -> dict:
    """The answer of a server, which is ended afterwards, to a chat with tools."""
    port = free_port()
    server = by_module(["vllm", "serve", *arguments])  # as `minprm serve` starts it
    server += f"--port {port} --enforce-eager --kv-cache-memory-bytes {2**26}".split()
    server += ["--max-model-len", "1024", "--dtype", "float32"]
    process = subprocess.Popen(server, env=os.environ | FAST, start_new_session=True)
    body = {"model": model, "messages": [{"role": "user", "content": "show page 1"}],
            "tools": TOOLS, "max_tokens": 12}  # fmt: skip
    try:
        until_ready(f"http://127.0.0.1:{port}/health", process)
        sent = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/chat/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(sent, timeout=60) as answer:
            assert answer.status == 200
            return json.load(answer)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until_ready(address: str, process: subprocess.Popen) -> None:
    """Waits until the server answers."""
    while process.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise AssertionError(f"the server ended with {process.returncode}")
