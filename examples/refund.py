"""python examples/refund.py FOLDER [--seed 0]: logs of a refund desk, for a small pretrained model.

A customer names a quantity, a price and a fee; the expert answers `refund 22`. A model of 135 M
weights cannot work that out in its head, and can in a thought: `5 x 5 = 25, 25 - 3 = 22.`

    refund.jsonl      160 logs of actions alone
    examples.jsonl    three logs with a thought; nobody wrote more thoughts than these
    test.jsonl        150 further logs of actions

    minprm train --preset small --demos FOLDER/refund.jsonl --few-shot FOLDER/examples.jsonl
    minprm evaluate CHECKPOINT --demos FOLDER/test.jsonl

No combination of the three numbers comes twice, so what is held out is a combination and not a
sentence.
"""

import argparse
import json
import random
from collections.abc import Sequence
from itertools import product
from pathlib import Path

EXAMPLES, LOGS, TEST = 3, 160, 150
PRICES, QUANTITIES, FEES = range(4, 16), range(3, 10), range(1, 10)
THINGS = ("mug", "lamp", "scarf", "pen", "plate", "candle", "towel", "vase")
RULES = (
    "You are a shop's agent. Answer with `refund X`, where X is the price of all items less the "
    "fee."
)


def conversations(seed: int, ranges: Sequence[range] = (PRICES, QUANTITIES, FEES)) -> list[dict]:
    """One of each combination, in the order of this seed, with the thought that an expert has."""
    rng = random.Random(seed)
    numbers = [*product(*ranges)]
    rng.shuffle(numbers)
    conversations = []
    for price, quantity, fee in numbers:
        question = (
            f"I bought {quantity} {rng.choice(THINGS)}s for {price} dollars each. Please send them "
            f"back. The return fee is {fee} dollars."
        )
        whole = quantity * price
        thought = f"{quantity} x {price} = {whole}, {whole} - {fee} = {whole - fee}."
        conversations.append(conversation(question, thought, f"refund {whole - fee}"))
    return conversations


def conversation(question: str, thought: str, action: str, rules: str = RULES) -> dict:
    """A log in the form that chat models have."""
    return {
        "messages": [
            {"role": "system", "content": rules},
            {"role": "user", "content": question},
            {"role": "assistant", "content": action, "reasoning_content": thought},
        ]
    }


def without_thoughts(log: dict) -> dict:
    """The same log with its actions alone."""
    messages = [{k: v for k, v in m.items() if k != "reasoning_content"} for m in log["messages"]]
    return log | {"messages": messages}


def write(logs: list[dict], file: Path) -> None:
    """A line for each log."""
    with open(file, "w", encoding="utf-8") as lines:
        for log in logs:
            lines.write(json.dumps(log) + "\n")


def write_all(folder: Path, seed: int) -> list[dict]:
    """Writes the three files. Returns the 160 logs with the thoughts of their expert."""
    folder.mkdir(parents=True, exist_ok=True)
    logs = conversations(seed)
    examples, logs = logs[:EXAMPLES], logs[EXAMPLES:]
    training, test = logs[:LOGS], logs[LOGS : LOGS + TEST]
    write(examples, folder / "examples.jsonl")
    write([without_thoughts(log) for log in training], folder / "refund.jsonl")
    write([without_thoughts(log) for log in test], folder / "test.jsonl")
    return training


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes logs of a refund desk.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()
    write_all(flags.folder, flags.seed)


if __name__ == "__main__":
    main()
