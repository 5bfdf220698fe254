"""A question over a corpus that is too long to read: search, expand, scroll, answer.

The world teaches to ask for what one needs, and to stop reading. Chunks of text are found by BM25
(bm25s). The corpus is made here (towns, their festivals and founders), or it is a folder of .txt
files with a JSONL of questions ("question", "answer", "document").
"""

import random
from collections.abc import Container
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

from loguru import logger

from minprm.envs.base import Illegal, World, call, called, needs, tool
from minprm.envs.hotpot import normalised
from minprm.envs.tasks import tasks_of
from minprm.envs.words import FIRST, LAST
from minprm.logs.files import unread_files

CHUNK = 60  # words of a chunk
STRIDE = 50  # words from the start of a chunk to the next: chunks overlap, so no sentence is torn
SHOWN = 5  # results of a search
PREVIEW = 12  # words of a result
SHAPE = 'needs "question", "answer" and "document" (a .txt file of the folder), all of them texts'
Place = tuple[str, int]  # a document's title, and the number of a chunk in it


class Question(NamedTuple):
    text: str
    answer: str
    document: str  # where the answer stands
    query: str  # what the expert searches


class Corpus:
    """Documents in chunks, and their index."""

    def __init__(self, documents: dict[str, str]):
        import bm25s

        self.chunks = {title: _chunked(text) for title, text in documents.items()}
        self.places: list[Place] = []
        texts = []
        for title, chunks in self.chunks.items():
            for number, chunk in enumerate(chunks):
                self.places.append((title, number))
                texts.append(f"{title} {chunk}")
        self.index = bm25s.BM25()
        self.index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)

    def search(self, query: str) -> list[Place]:
        """Returns the best chunks that share a word with the query, best first."""
        import bm25s

        tokens = bm25s.tokenize([query[:500]], show_progress=False, return_ids=False)
        if not set(tokens[0]) & set(self.index.vocab_dict):
            return []  # bm25s would return chunks all the same
        count = min(SHOWN, len(self.places))
        indices, scores = self.index.retrieve(tokens, k=count, show_progress=False)
        ranked = zip(indices[0], scores[0], strict=True)
        return [self.places[number] for number, score in ranked if score > 0]


def _chunked(text: str) -> list[str]:
    words = text.split()
    chunks = [" ".join(words[i : i + CHUNK]) for i in range(0, len(words), STRIDE)]
    return chunks or [""]  # an empty document can be opened too


class Search(World):
    teaches = "asking a corpus for what one needs, and reading on"
    system = (
        "Answer the question from a corpus. Search it, expand a document of the results, scroll in "
        "the open document, then answer in few words."
    )
    tools = [  # noqa: RUF012
        tool("search", "Best chunks for some keywords.", query="keywords"),
        tool("expand", "Open a document of the last results.", document="its title"),
        tool("scroll", "Next or previous chunk of the open document.", direction="up or down"),
        tool("answer", "Answer the question. This ends the task.", text="the answer, a few words"),
    ]

    def __init__(self, docs: str = "", questions: str = "", turns: int = 12):
        """docs: folder of .txt files, with `questions` a JSONL."""
        needs("bm25s", "search")
        if not 3 <= turns <= 1000 or bool(docs) != bool(questions):
            raise ValueError("turns from 3 to 1000; docs (a folder) goes with questions (a JSONL)")
        self.turns = turns
        self.questions, self.corpus = _read(docs, questions) if docs else _made()

    def begin(self) -> str:
        self.question = self.rng.choice(self.questions)
        self.results: list[Place] = []
        self.open: Place | None = None  # what was opened, and how far it was scrolled
        return self.question.text

    def act(self, action: str) -> tuple[str, float]:
        name, arguments = called(action, self.tools)
        method = getattr(self, f"_{name}")  # safe: `called` lets only the names of tools through
        return method(**arguments)

    def actions(self) -> list[str]:
        searches = [call("search", query=word.strip("?.,")) for word in self.question.text.split()]
        expands = [call("expand", document=title) for title, _ in self.results]
        if not self.open:
            return searches + expands
        title, number = self.open
        scrolls = [call("scroll", direction=direction) for direction in ("up", "down")]
        words = self.corpus.chunks[title][number].split()
        answers = [call("answer", text=word.strip(".,")) for word in words]
        return searches + expands + scrolls + answers

    def expert(self) -> str:
        question = self.question
        if self.turn == self.turns - 1:
            return call("answer", text=question.answer)
        if self.open and self.open[0] == question.document:
            return self._read_on(*self.open)
        if any(title == question.document for title, _ in self.results):
            return call("expand", document=question.document)
        # the query names the festival, which only the right document shares
        return call("search", query=question.query)

    def key(self) -> tuple:
        return tuple(self.results), self.open, self.done

    def _read_on(self, title: str, here: int) -> str:
        """Scrolls towards the first chunk that holds the answer, and answers where it is open."""
        answer = self.question.answer
        holding = [i for i, chunk in enumerate(self.corpus.chunks[title]) if answer in chunk]
        if not holding or holding[0] == here:
            return call("answer", text=answer)
        return call("scroll", direction="down" if holding[0] > here else "up")

    # --- the four tools ---

    def _search(self, query: str) -> tuple[str, float]:
        self.results = self.corpus.search(query)
        lines = []  # only the beginning of each chunk: to read it, expand it
        for title, number in self.results:
            words = self.corpus.chunks[title][number].split()
            lines.append(f"{title}: {' '.join(words[:PREVIEW])} ...")
        return "\n".join(lines) or "Nothing found.", 0.0

    def _expand(self, document: str) -> tuple[str, float]:
        for title, number in self.results:
            if title == document:
                return self._page(title, number), 0.0  # its best chunk
        raise Illegal("illegal: no document of that title is among the last results")

    def _scroll(self, direction: str) -> tuple[str, float]:
        if self.open is None or direction not in ("up", "down"):
            raise Illegal("illegal: open a document first, then scroll up or down")
        title, number = self.open
        last = len(self.corpus.chunks[title]) - 1
        number += 1 if direction == "down" else -1
        return self._page(title, min(max(number, 0), last)), 0.0

    def _answer(self, text: str) -> tuple[str, float]:
        self.done = True
        self.success = normalised(text) == normalised(self.question.answer)
        return f"The answer is: {self.question.answer}", float(self.success)

    def _page(self, title: str, number: int) -> str:
        """Opens a document at this chunk."""
        self.open = title, number
        chunks = self.corpus.chunks[title]
        return f"{title}, chunk {number + 1} of {len(chunks)}: {chunks[number]}"


@cache
def _made() -> tuple[list[Question], Corpus]:
    """Makes 196 towns with a festival in the first chunk and a founder in a later one."""
    rng = random.Random(0)  # the corpus is the same in every task; a task draws its question
    heads = "Ar Bel Cor Dun El Far Gal Har Is Jor Kes Lin Mor Nor".split()
    tails = "by den ford gate ham ley mouth ness port stead ton vale wick wood".split()
    times = "autumn dawn harvest midnight moon river spring summer winter storm".split()
    things = "apple boat candle cheese flower kite lamp mask plum wine".split()
    names = [f"{head}{tail}" for head, tail in product(heads, tails)]
    feasts = [" ".join(words) for words in product(times, things, ("feast", "parade", "fair"))]
    feasts = rng.sample(feasts, len(names))
    documents = {}
    questions = []
    for town, feast in zip(names, feasts, strict=True):
        founder = f"{rng.choice(FIRST)} {rng.choice(LAST)}"
        documents[town] = _town(town, feast, founder, rng)
        questions.append(Question(f"Who founded the town of the {feast}?", founder, town, feast))
    return questions, Corpus(documents)


def _town(town: str, feast: str, founder: str, rng: random.Random) -> str:
    """Writes a document about a town, in which much is of no use to the question."""
    people = rng.randint(2, 90)
    facts = [f"{town} is a town of {people} thousand people, known for the {feast}."]
    buildings = ["bridge", "market", "school", "church", "mill", "station", "library"]
    for year in sorted(rng.sample(range(1500, 1999), 18)):
        building = rng.choice(buildings)
        builder = rng.choice(FIRST)
        facts.append(f"In {year} a {building} was built there by {builder} and others.")
    facts.insert(rng.randint(8, 18), f"The founder of {town} was {founder}.")
    return " ".join(facts)


@cache
def _read(docs: str, questions: str) -> tuple[list[Question], Corpus]:
    """A user's questions and documents. A line tells how many files of the folder are not read."""
    folder = Path(docs).resolve()
    if not folder.is_dir():
        raise ValueError(f"{docs}: no such folder")
    files = sorted(folder.glob("*.txt"))
    others = unread_files(folder, [*files, Path(questions).resolve()]).total()
    if not files:
        raise ValueError(
            f"{docs}: there is no .txt file right in this folder, which has {others:,} other files"
        )
    try:
        documents = {file.stem: file.read_text(encoding="utf-8") for file in files}
    except UnicodeDecodeError as error:
        raise ValueError(f"{docs}: a .txt file in it is not UTF-8 ({error})") from error
    tasks = tasks_of(questions, partial(_question, documents, docs))
    if others:
        unread = f"{others:,} of its files are left out: only .txt files right in it are read"
        logger.info(f"{docs}: {unread}")
    return tasks, Corpus(documents)


def _question(documents: Container[str], docs: str, row: dict) -> Question:
    match row:
        case {"question": str(text), "answer": str(answer), "document": str(name)}:
            document = name if name in documents else name.removesuffix(".txt")
        case _:
            raise ValueError(SHAPE)
    if document not in documents:
        raise ValueError(
            f"document {name!r}: there is no {document}.txt right in the folder {docs}"
        )
    return Question(text, answer, document, query=text)
