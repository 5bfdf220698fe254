"""An agent of your own, trained where it runs: it asks a model over OpenAI's chat/completions.

    minprm train --agent examples/agent.py:play --stages rl --world-args rounds=1 swaps=1

The task: a ball lies under one of five cups, and two cups are swapped. The embedded model knows
these words and no others. Nothing here is minprm's: any client will do, and any other model.
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
    ball = start = rng.choice("abcde")
    one, other = rng.sample("abcde", 2)
    if ball in (one, other):
        ball = other if ball == one else one
    question = f"ball under {start} . swap {one} {other} ."
    answer = ask(base_url, [{"role": "user", "content": question}])
    return float(answer == f"open {ball}")
