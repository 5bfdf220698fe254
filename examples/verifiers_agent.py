"""A taskset of verifiers, with a reward of its own, trained through the address of its model.

verifiers 0.4.0 pins other libraries than minprm's extras, so it has an environment of its own:

    python3.11 -m venv tasksets && . tasksets/bin/activate
    pip install verifiers==0.4.0 -e .
    minprm train --preset smoke --agent examples/verifiers_agent.py:play --stages rl

Cups is the task of examples/agent.py, in the words that the embedded model knows: put your taskset
in its place. Chat plays in this process, without tools. For tools or code name a harness of
verifiers (`null`, `bash`), which starts a program with uv.
"""

# pyright: reportMissingImports=false
import asyncio
import random
from threading import Thread

import verifiers.v1 as vf
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from verifiers.v1.dialects.chat import message_to_wire

from minprm.envs.base import seeds_split, tasks_split

__all__ = ["Chat"]  # verifiers looks here for the harness that this file has


class CupsData(vf.TaskData):
    ball: str  # the cup where it ends


class CupsTask(vf.Task[CupsData]):
    @vf.reward
    async def opened(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == f"open {self.data.ball}")


class Cups(vf.Taskset[CupsTask]):
    def load(self):
        for number in range(5000):
            rng = random.Random(number)
            ball = rng.choice("abcde")
            prompt = f"ball under {ball} ."
            for _ in range(3):
                one, other = rng.sample("abcde", 2)
                prompt += f" swap {one} {other} ."
                ball = {one: other, other: one}.get(ball, ball)
            yield CupsTask(CupsData(prompt=prompt, ball=ball))


class Chat(vf.Harness[vf.HarnessConfig]):
    """Asks the model once for each message of the user."""

    APPENDS_SYSTEM_PROMPT = SUPPORTS_RESUME = True
    EXECUTES_CODE = NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        system, prompt = self.resolve_prompt(data)
        messages: list = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages += map(message_to_wire, prompt)
        client = AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0, http_client=HTTP)
        await client.chat.completions.create(model=ctx.model, messages=messages)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


TASKS = {"train": [], "validation": [], "test": []}
for task in Cups(vf.TasksetConfig()):
    TASKS[tasks_split(task.data.prompt)].append(task)  # a hash decides, as in every world


HTTP = DefaultAsyncHttpxClient(timeout=None)  # an answer waits for its batch
LOOP = asyncio.new_event_loop()  # one for all episodes: verifiers keeps locks that belong to one
Thread(target=LOOP.run_forever, daemon=True).start()


def play(base_url: str, seed: int) -> float:
    """Plays a task of the seed's split, and returns what its rewards sum to."""
    client = vf.EvalClientConfig(base_url=base_url, api_key_var="NONE")
    harness = vf.HarnessConfig(id=__name__)
    runtime = vf.SubprocessConfig()  # the default is in a cloud
    config = vf.AgentConfig(model="policy", client=client, harness=harness, runtime=runtime)
    tasks = TASKS[seeds_split(seed)]
    run = vf.Agent(config).run(tasks[seed % len(tasks)])
    trace = asyncio.run_coroutine_threadsafe(run, LOOP).result()
    if not trace.ok:  # then the episode has failed, and nothing is learned from it
        raise RuntimeError(f"{trace.last_error.type}: {trace.last_error.message}")
    return trace.reward
