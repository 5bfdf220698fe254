"""A question over a corpus too long to read: search, expand, scroll, answer.

What it teaches: to ask for what one needs, and to stop reading. BM25 over chunks by bm25s. The
corpus is made here (towns, their festivals and founders); or a folder of .txt files with a JSONL of
questions ("question", "answer", "document"); or JSONL in LongBench-v2's format, whose long context
is then the corpus and whose answer is a letter. That format does not say where the answer stands:
there the expert names the letter at once, which no thought can explain.
"""

import random
from functools import cache
from pathlib import Path
from typing import NamedTuple

from minprm.data import read_jsonl
from minprm.envs.base import Illegal, World, call, called, needs, tool
from minprm.envs.hotpot import normalised
from minprm.envs.words import FIRST, LAST

CHUNK, STRIDE = 60, 50  # words of a chunk, and from one to the next: they overlap
SHOWN = 5  # results of a search
PREVIEW = 12  # words of a result


class Question(NamedTuple):
    text: str
    answer: str
    document: str  # where the answer stands; "": unknown
    query: str  # what the expert searches


class Corpus:
    """Documents in chunks, and their index."""

    def __init__(self, documents: dict[str, str]):
        import bm25s

        words = {title: text.split() for title, text in documents.items()}
        self.chunks = {
            title: [" ".join(w[i : i + CHUNK]) for i in range(0, len(w), STRIDE)] or [""]
            for title, w in words.items()
        }
        self.places = [
            (title, i) for title, parts in self.chunks.items() for i in range(len(parts))
        ]
        texts = [f"{title} {self.chunks[title][i]}" for title, i in self.places]
        self.index = bm25s.BM25()
        self.index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)

    def search(self, query: str) -> list[tuple[str, int]]:
        """(document, chunk) of the best chunks that share a word with the query, best first."""
        import bm25s

        tokens = bm25s.tokenize([query[:500]], show_progress=False, return_ids=False)
        if not set(tokens[0]) & set(self.index.vocab_dict):
            return []
        k = min(SHOWN, len(self.places))
        found, scores = self.index.retrieve(tokens, k=k, show_progress=False)
        return [self.places[i] for i, s in zip(found[0], scores[0], strict=True) if s > 0]


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

    def __init__(self, docs: str = "", questions: str = "", longbench: str = "", turns: int = 12):
        """docs: folder of .txt files, with `questions` a JSONL; longbench: JSONL instead."""
        needs("bm25s", "search")
        if turns < 3 or bool(docs) != bool(questions):
            raise ValueError("turns from 3; docs (a folder) goes with questions (a JSONL)")
        self.turns = turns
        if longbench:
            self.tasks = _longbench(longbench)
        elif docs:
            self.tasks = [(question, _folder(docs)) for question in _questions(questions)]
        else:
            self.tasks = _made()

    def begin(self) -> str:
        self.task, corpus = self.rng.choice(self.tasks)
        self.corpus = _corpus_of(corpus) if isinstance(corpus, str) else corpus
        self.results: list[tuple[str, int]] = []
        self.open: tuple[str, int] | None = None
        return self.task.text

    def act(self, action: str) -> tuple[str, float]:
        name, arguments = called(action, self.tools)
        return getattr(self, f"_{name}")(**arguments)

    def actions(self) -> list[str]:
        words = [w.strip("?.,") for w in self.task.text.split()]
        made = [call("search", query=word) for word in words]
        made += [call("expand", document=title) for title, _ in self.results]
        made += [call("scroll", direction=d) for d in ("up", "down") if self.open]
        text = self.corpus.chunks[self.open[0]][self.open[1]] if self.open else ""
        return made + [call("answer", text=w.strip(".,")) for w in text.split()]

    def expert(self) -> str:
        task = self.task
        if not task.document or self.turn == self.turns - 1:
            return call("answer", text=task.answer)
        if self.open and self.open[0] == task.document:
            chunks = self.corpus.chunks[task.document]
            wanted = next((i for i, c in enumerate(chunks) if task.answer in c), self.open[1])
            if wanted == self.open[1]:
                return call("answer", text=task.answer)
            return call("scroll", direction="down" if wanted > self.open[1] else "up")
        if task.document in {title for title, _ in self.results}:
            return call("expand", document=task.document)
        return call("search", query=task.query)

    def key(self) -> tuple:
        return tuple(self.results), self.open, self.done

    def _search(self, query: str) -> tuple[str, float]:
        self.results = self.corpus.search(query)
        lines = [f"{title}: {' '.join(self.corpus.chunks[title][i].split()[:PREVIEW])} ..."
                 for title, i in self.results]  # fmt: skip
        return "\n".join(lines) or "Nothing found.", 0.0

    def _expand(self, document: str) -> tuple[str, float]:
        hits = [place for place in self.results if place[0] == document]
        if not hits:
            raise Illegal("illegal: no document of that title is among the last results")
        self.open = hits[0]
        return self._page(), 0.0

    def _scroll(self, direction: str) -> tuple[str, float]:
        if self.open is None or direction not in ("up", "down"):
            raise Illegal("illegal: open a document first, then scroll up or down")
        title, i = self.open
        last = len(self.corpus.chunks[title]) - 1
        self.open = title, min(max(i + (1 if direction == "down" else -1), 0), last)
        return self._page(), 0.0

    def _answer(self, text: str) -> tuple[str, float]:
        self.done, self.success = True, normalised(text) == normalised(self.task.answer)
        return f"The answer is: {self.task.answer}", float(self.success)

    def _page(self) -> str:
        title, i = self.open
        chunks = self.corpus.chunks[title]
        return f"{title}, chunk {i + 1} of {len(chunks)}: {chunks[i]}"


@cache
def _made(towns: int = 200) -> list[tuple[Question, Corpus]]:
    """Towns with a festival in the first chunk and a founder in a later one."""
    rng, documents, questions = random.Random(0), {}, []
    heads = "Ar Bel Cor Dun El Far Gal Har Is Jor Kes Lin Mor Nor".split()
    tails = "by den ford gate ham ley mouth ness port stead ton vale wick wood".split()
    names = [head + tail for head in heads for tail in tails]
    things = "apple boat candle cheese flower kite lamp mask plum wine".split()
    times = "autumn dawn harvest midnight moon river spring summer winter storm".split()
    feasts = [f"{a} {b} {c}" for a in times for b in things for c in ("feast", "parade", "fair")]
    for town, feast in zip(
        rng.sample(names, len(names))[:towns], rng.sample(feasts, towns), strict=False
    ):
        founder = f"{rng.choice(FIRST)} {rng.choice(LAST)}"
        facts = [
            f"{town} is a town of {rng.randint(2, 90)} thousand people, known for the {feast}."
        ]
        for year in sorted(rng.sample(range(1500, 1999), 18)):
            what = rng.choice(
                ["bridge", "market", "school", "church", "mill", "station", "library"]
            )
            facts.append(f"In {year} a {what} was built there by {rng.choice(FIRST)} and others.")
        facts.insert(rng.randint(8, 18), f"The founder of {town} was {founder}.")
        documents[town] = " ".join(facts)
        questions.append(Question(f"Who founded the town of the {feast}?", founder, town, feast))
    corpus = Corpus(documents)
    return [(question, corpus) for question in questions]


@cache
def _questions(file: str) -> list[Question]:
    return read_jsonl(
        file, lambda r: Question(r["question"], r["answer"], r["document"], r["question"])
    )


@cache
def _folder(path: str) -> Corpus:
    files = sorted(Path(path).glob("*.txt"))
    if not files:
        raise ValueError(f"{path}: there is no .txt file in it")
    return Corpus({file.stem: file.read_text() for file in files})


@cache
def _longbench(file: str) -> list[tuple[Question, str]]:
    return read_jsonl(file, _multiple_choice)


def _multiple_choice(row: dict) -> tuple[Question, str]:
    choices = "\n".join(f"{x}: {row[f'choice_{x}']}" for x in "ABCD")
    text = f"{row['question']}\n{choices}\nAnswer with the letter."
    return Question(text, row["answer"], "", ""), row["context"]


@cache
def _corpus_of(text: str) -> Corpus:
    """A long context as one document."""
    return Corpus({"document": text})
