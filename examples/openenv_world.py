"""A server of OpenEnv as a world, through the client that OpenEnv has for any server.

openenv-core brings a web server and many more packages, so it has an environment of its own:

    python3.11 -m venv servers && . servers/bin/activate
    pip install openenv-core==0.3.0 -e .
    python examples/openenv_world.py &                     # the server at the end of this file
    minprm train --preset smoke --arms base --run cups     # a model that knows its words
    minprm train --model checkpoints/cups/base-0 --preset smoke --stages rl \\
        --world examples/openenv_world.py:OpenEnv

For a server of yours: `--world-args url=...`, and in `begin` and `act` the fields of what it shows
and takes. An action of several fields is a call (`tools`, minprm/envs/base.py).
"""

# pyright: reportMissingImports=false
import random
from typing import Any

from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.generic_client import GenericEnvClient

from minprm.envs.base import Illegal, World


class OpenEnv(World):
    teaches = "what the server shows"
    turns = 4
    waits = True  # episodes are stepped side by side
    at_once = 32
    client: Any = None

    def __init__(self, url: str = "http://127.0.0.1:8000"):
        self.url = url

    def begin(self) -> str:
        if self.client is None:
            self.client = GenericEnvClient(base_url=self.url).sync().connect()
        return self.client.reset(seed=self.rng.randrange(10**6)).observation["text"]

    def act(self, action: str) -> tuple[str, float]:
        try:
            answer = self.client.step({"text": action})
        except RuntimeError as error:  # the server refuses the action
            raise Illegal(f"illegal: {error}") from None
        reward = float(answer.reward or 0)
        self.done = answer.done
        self.success = answer.done and reward >= 1
        return answer.observation["text"], reward

    def close(self) -> None:
        if self.client:
            self.client.close()
            self.client = None


class Text(Action):
    text: str


class Shown(Observation):
    text: str = ""


class Cups(Environment):
    """A server to try: the task of examples/agent.py."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None, **options) -> Shown:
        rng = random.Random(seed)
        self.ball = rng.choice("abcde")
        question = f"ball under {self.ball} ."
        for _ in range(3):
            one, other = rng.sample("abcde", 2)
            question += f" swap {one} {other} ."
            self.ball = {one: other, other: one}.get(self.ball, self.ball)
        return Shown(text=question)

    def step(self, action, timeout_s=None, **options) -> Shown:
        return Shown(done=True, reward=float(action.text == f"open {self.ball}"))

    @property
    def state(self) -> State:
        return State()


if __name__ == "__main__":
    import uvicorn

    app = create_fastapi_app(Cups, Text, Shown, max_concurrent_envs=64)  # 1 by default
    uvicorn.run(app, port=8000, log_level="critical")  # it takes each end of a session for an error
