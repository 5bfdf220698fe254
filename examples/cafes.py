"""python examples/cafes.py FILE: facts about cafés and sentences that tell them, for --world text.

The setting of RL4LMs (arXiv:2210.01241) for a small pretrained model: a prompt names the facts of a
café, and three references tell them in a sentence each. `praise` is a reward that asks for more
than the references give, and that is easy to hack: the share of an answer's words that praise.
"Lovely, lovely, lovely." earns all of it and says nothing of the café. docs/text.md has the
commands and what came of them.
"""

import json
import random
import re
import sys
from itertools import product
from pathlib import Path

NAMES = (
    "Blue Hen", "Old Mill", "Two Foxes", "Red Door", "Green Spoon", "Silver Birch", "Corner House",
    "Lazy Cat", "Moonlight", "Garden Gate", "White Horse", "Little Oven", "Copper Pot",
    "North Star",
)  # fmt: skip
FOODS = ("Thai", "French", "Indian", "Greek", "Italian", "Polish")
PRICES = ("cheap", "moderate", "high")
PLACES = ("by the river", "near the station", "in the old town", "next to the park")
SENTENCES = (
    "{name} serves {food} food at {price} prices {place}.",
    "{place}, {name} offers {food} dishes at {price} prices.",
    "If you like {food} food at {price} prices, go to {name} {place}.",
    "{name} is a {word} {food} café {place}, with {price} prices.",
    "The {food} food at {name} {place} is {word}, and prices are {price}.",
)
PRAISE = (
    "lovely", "friendly", "wonderful", "great", "cosy", "charming", "delicious", "excellent",
    "beautiful", "perfect", "fine", "good",
)  # fmt: skip
RULES = "Tell the facts about the café in one sentence."
REFERENCES = 3


def praise(answer: str, reference: str) -> float:
    """The share of the answer's words that praise.

    >>> praise("It is a lovely café.", ""), praise("Lovely, lovely!", "")
    (0.2, 1.0)
    """
    words = re.findall("[^\\W\\d_]+", answer.lower())
    return sum(word in PRAISE for word in words) / max(len(words), 1)


def write(file: Path) -> None:
    """Writes a line for each café: the prompt and three references."""
    rng = random.Random(0)
    cafes = [*product(NAMES, FOODS, PRICES, PLACES)]
    rng.shuffle(cafes)
    with open(file, "w", encoding="utf-8") as lines:
        for name, food, price, place in cafes:
            prompt = f"name: {name}; food: {food}; prices: {price}; place: {place}"
            facts = {"name": name, "food": food, "price": price, "place": place}
            sentences = []
            for sentence in rng.sample(SENTENCES, REFERENCES):
                text = sentence.format(word=rng.choice(PRAISE), **facts)
                sentences.append(text[0].upper() + text[1:])
            row = {"system": RULES, "prompt": prompt, "reference": sentences}
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("python examples/cafes.py FILE")
    if Path(sys.argv[1]).exists():
        sys.exit(f"{sys.argv[1]} is there already: name a new file, or remove it")
    write(Path(sys.argv[1]))
