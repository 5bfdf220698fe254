"""Questions whose answer takes two pages: visit, read what to visit next, answer.

What it teaches: a chain of tool calls in which each observation names the next argument. A file of
one's own is JSONL in HotpotQA's format (question, answer, context, supporting_facts); without one,
small corpora of books, authors and towns are made. Graded by normalised exact match; a wrong answer
earns half its F1 (Rajpurkar et al., arXiv:1606.05250). No model judges.
"""

import re
import string
from collections import Counter
from functools import cache
from typing import NamedTuple

from minprm.data import read_jsonl
from minprm.envs.base import Illegal, World, call, called, tool
from minprm.envs.words import FIRST, LAST

TOWNS = (
    "Arden Belmar Corvo Dunlin Elspeth Farrow Galway Harlan Istria Jorvik Kestrel Lindau".split()
)
THINGS = "River Garden Mirror Harbour Winter Lantern Bridge Orchard Tower Island".split()
SHADES = "Silver Silent Broken Golden Hidden Distant Burning Empty".split()


class Question(NamedTuple):
    text: str
    answer: str
    pages: dict[str, str]
    chain: list[str]  # titles of the pages that the answer takes, in order


class Hotpot(World):
    teaches = "a chain of tool calls: each page names the next"
    system = "Answer the question from the pages. Visit pages by title, then answer in few words."
    tools = [  # noqa: RUF012
        tool("visit", "Read a page.", title="title of the page"),
        tool("answer", "Answer the question. This ends the task.", text="the answer, a few words"),
    ]
    turns = 8

    def __init__(self, file: str = "", authors: int = 4):
        if not 2 <= authors <= 10:
            raise ValueError("2 to 10 authors")
        self.questions, self.authors = read(file) if file else (), authors

    def begin(self) -> str:
        self.task = self.rng.choice(self.questions) if self.questions else self._made()
        self.read: set[str] = set()
        titles = sorted(self.task.pages)
        self.rng.shuffle(titles)
        return f"{self.task.text}\nPages: {', '.join(titles)}"

    def act(self, action: str) -> tuple[str, float]:
        name, arguments = called(action, self.tools)
        if name == "answer":
            self.done, said = True, arguments["text"]
            self.success = normalised(said) == normalised(self.task.answer)
            reward = 1.0 if self.success else f1(said, self.task.answer) / 2
            return f"The answer is: {self.task.answer}", reward
        if arguments["title"] not in self.task.pages:
            raise Illegal("illegal: there is no page of that title")
        self.read.add(arguments["title"])
        return self.task.pages[arguments["title"]], 0.0

    def actions(self) -> list[str]:
        visits = [call("visit", title=title) for title in self.task.pages]
        return visits + [call("answer", text=title) for title in self.task.pages]

    def expert(self) -> str:
        unread = [title for title in self.task.chain if title not in self.read]
        if unread and self.turn < self.turns - 1:
            return call("visit", title=unread[0])
        return call("answer", text=self.task.answer)

    def thought(self) -> str:
        unread = [title for title in self.task.chain if title not in self.read]
        return f"I need the page {unread[0]}." if unread else f"So it is {self.task.answer}."

    def _made(self) -> Question:
        """Books by authors who were born in towns that lie on rivers; a question over two pages."""
        n, rng = self.authors, self.rng
        people = [
            f"{a} {b}" for a, b in zip(rng.sample(FIRST, n), rng.sample(LAST, n), strict=True)
        ]
        towns = rng.sample(TOWNS, n)
        books = [
            f"The {a} {b}"
            for a, b in zip(rng.choices(SHADES, k=n), rng.sample(THINGS, n), strict=True)
        ]
        pages = {}
        for person, town, book in zip(people, towns, books, strict=True):
            pages[book] = f"{book} is a novel of {rng.randint(1900, 1999)} by {person}."
            pages[person] = f"{person} was a writer, born in {town} in {rng.randint(1850, 1899)}."
            pages[town] = f"{town} is a town of {rng.randint(2, 90)} thousand people."
        i = rng.randrange(n)
        text = f"In which town was the author of {books[i]} born?"
        return Question(text, towns[i], pages, [books[i], people[i]])


@cache
def read(file: str) -> list[Question]:
    """A user's questions. Raises ValueError with file, line and what is wrong."""
    return read_jsonl(file, _question)


def _question(row: dict) -> Question:
    pages = {title: " ".join(sentences) for title, sentences in row["context"]}
    chain = list(dict.fromkeys(title for title, _ in row["supporting_facts"]))
    if not set(chain) <= set(pages):
        raise ValueError("a supporting fact is on no page of the context")
    return Question(row["question"], row["answer"], pages, chain)


def normalised(text: str) -> str:
    """Small letters, no punctuation, no articles, single spaces.

    >>> normalised("The  Silver River.")
    'silver river'
    """
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def f1(said: str, answer: str) -> float:
    """Harmonic mean of precision and recall over normalised words.

    >>> round(f1("the town of Arden", "Arden"), 2)
    0.5
    """
    a, b = normalised(said).split(), normalised(answer).split()
    both = sum((Counter(a) & Counter(b)).values())
    return 2 * both / (len(a) + len(b)) if both else 0.0
