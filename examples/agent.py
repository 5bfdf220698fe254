"""An agent of your own, trained where it runs: it asks a model over OpenAI's chat/completions.

    minprm train --preset smoke --agent examples/agent.py:play --stages rl

The task: a ball lies under one of five cups, and two of them are swapped, three times. The embedded
model knows these words and no others. Nothing here is minprm's: any client will do.
"""

import json
import random
from urllib.request import Request, urlopen


def ask(base_url: str, messages: list[dict]) -> str:
    """What the model answers. `openai.OpenAI(base_url=base_url, api_key="none")` does the same."""
    body = json.dumps({"model": "policy", "messages": messages}).encode()
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(f"{base_url}/chat/completions", body, headers)) as response:
        return json.load(response)["choices"][0]["message"]["content"] or ""


def play(base_url: str, seed: int) -> float:
    """Plays the task of this seed. Returns what the agent earned: from 1 on it has won."""
    rng = random.Random(seed)
    ball = rng.choice("abcde")
    question = f"ball under {ball} ."
    for _ in range(3):
        one, other = rng.sample("abcde", 2)
        question += f" swap {one} {other} ."
        ball = {one: other, other: one}.get(ball, ball)
    answer = ask(base_url, [{"role": "user", "content": question}])
    return float(answer == f"open {ball}")
