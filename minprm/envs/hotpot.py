"""Questions whose answer takes two pages: visit one, read what to visit next, answer.

The world teaches a chain of tool calls in which each observation names the next argument. A file of
one's own is in HotpotQA's format (question, answer, context, supporting_facts), as its authors or
the hub publish it. Without a file, small corpora of books, authors and towns are made. An answer is
right if it equals the true one after normalisation; a wrong answer earns half its F1 (Rajpurkar et
al., arXiv:1606.05250). No model judges.
"""

import re
import string
from collections import Counter
from typing import NamedTuple

from minprm.envs.base import Illegal, World, call, called, tool
from minprm.envs.tasks import tasks_of
from minprm.envs.words import FIRST, LAST

TOWNS = (
    "Arden Belmar Corvo Dunlin Elspeth Farrow Galway Harlan Istria Jorvik Kestrel Lindau".split()
)
THINGS = "River Garden Mirror Harbour Winter Lantern Bridge Orchard Tower Island".split()
SHADES = "Silver Silent Broken Golden Hidden Distant Burning Empty".split()

SHAPE = (
    'needs "question", "answer", "context" with [title, sentences] of each page, and '
    '"supporting_facts" with [title, number]'
)


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
        self.questions = tasks_of(file, _from_row) if file else ()
        self.authors = authors

    def begin(self) -> str:
        self.question = self.rng.choice(self.questions) if self.questions else self._question()
        self.visited: set[str] = set()  # titles of the pages that were visited
        titles = sorted(self.question.pages)
        self.rng.shuffle(titles)  # or the order would tell which belong together
        return f"{self.question.text}\nPages: {', '.join(titles)}"

    def task(self) -> str:
        return self.question.text  # the same question over other pages is no other task

    def act(self, action: str) -> tuple[str, float]:
        name, arguments = called(action, self.tools)
        if name == "answer":
            reply = arguments["text"]
            self.done = True
            self.success = normalised(reply) == normalised(self.question.answer)
            reward = 1.0 if self.success else f1(reply, self.question.answer) / 2
            return f"The answer is: {self.question.answer}", reward
        title = arguments["title"]
        if title not in self.question.pages:
            raise Illegal("illegal: there is no page of that title")
        self.visited.add(title)
        return self.question.pages[title], 0.0

    def actions(self) -> list[str]:
        visits = [call("visit", title=title) for title in self.question.pages]
        # every true answer of a corpus made here is a town, which has a page: chance finds it
        answers = [call("answer", text=title) for title in self.question.pages]
        return visits + answers

    def expert(self) -> str:
        unread = self._unread()
        # an answer without all pages is better than none
        last_turn = self.turn >= self.turns - 1
        if unread and not last_turn:
            return call("visit", title=unread[0])
        return call("answer", text=self.question.answer)

    def thought(self) -> str:
        unread = self._unread()
        return f"I need the page {unread[0]}." if unread else f"So it is {self.question.answer}."

    def _unread(self) -> list[str]:
        """Returns the pages that the answer takes and that were not visited yet."""
        return [title for title in self.question.chain if title not in self.visited]

    def _question(self) -> Question:
        """Makes books, their authors and the authors' towns; a question needs two pages."""
        rng = self.rng
        first_names = rng.sample(FIRST, self.authors)
        last_names = rng.sample(LAST, self.authors)
        people = [f"{one} {other}" for one, other in zip(first_names, last_names, strict=True)]
        towns = rng.sample(TOWNS, self.authors)
        shades = rng.choices(SHADES, k=self.authors)
        things = rng.sample(THINGS, self.authors)
        books = [f"The {shade} {thing}" for shade, thing in zip(shades, things, strict=True)]
        pages = {}
        for person, town, book in zip(people, towns, books, strict=True):
            pages[book] = f"{book} is a novel of {rng.randint(1900, 1999)} by {person}."
            pages[person] = f"{person} was a writer, born in {town} in {rng.randint(1850, 1899)}."
            pages[town] = f"{town} is a town of {rng.randint(2, 90)} thousand people."
        author = rng.randrange(self.authors)
        text = f"In which town was the author of {books[author]} born?"
        return Question(text, towns[author], pages, [books[author], people[author]])


def _from_row(row: dict) -> Question:
    needed = {"question", "answer", "context", "supporting_facts"}
    if not isinstance(row, dict) or not needed <= {*row}:
        raise ValueError(f"{SHAPE}; a test file has no answers")
    context, facts = row["context"], row["supporting_facts"]
    try:
        if isinstance(context, dict):  # of the hub: columns in the place of rows
            context = [*zip(context["title"], context["sentences"], strict=True)]
            facts = [*zip(facts["title"], facts["sent_id"], strict=True)]
        pages = _pages(context)
        chain = list(dict.fromkeys(title for title, _ in facts))  # each title once, in order
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(SHAPE) from error
    if not set(chain) <= set(pages):
        raise ValueError("a supporting fact is on no page of the context: leave the row out")
    if not isinstance(row["question"], str) or not isinstance(row["answer"], str):
        raise ValueError("question and answer are texts")
    return Question(row["question"], row["answer"], pages, chain)


def _pages(context: list) -> dict[str, str]:
    """The text of each page. Pages of one title are read as one. Raises ValueError for others."""
    texts: dict[str, list[str]] = {}
    for page in context:
        match page:
            case [str(title), str(text)]:
                texts.setdefault(title, []).append(text)
            case [str(title), [*sentences]]:
                texts.setdefault(title, []).extend(sentences)
            case _:
                raise ValueError(SHAPE)
    return {title: " ".join(sentences) for title, sentences in texts.items()}


def normalised(text: str) -> str:
    """Returns the text in small letters, without punctuation, articles and double spaces.

    >>> normalised("The  Silver River.")
    'silver river'
    """
    text = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def f1(reply: str, answer: str) -> float:
    """Returns the harmonic mean of precision and recall over normalised words.

    >>> round(f1("the town of Arden", "Arden"), 2)
    0.5
    """
    said_words = normalised(reply).split()
    answer_words = normalised(answer).split()
    shared = (Counter(said_words) & Counter(answer_words)).total()
    if shared == 0:
        return 0.0
    return 2 * shared / (len(said_words) + len(answer_words))
