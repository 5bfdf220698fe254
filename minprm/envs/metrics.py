"""Metrics of text, as rewards of --world text: each is (answer, its references) -> 0 to 1.

More is better, and of several references the best counts; BLEU alone looks for the answer's words
in all of them. Those that need a library take it from the extra `text`. `numbers` and `distinct`
look at the answer alone, so neither says that it is a right one.

`diversity` is no reward: it tells how much the answers of an evaluation differ from each other.
"""

import itertools
import re
from collections.abc import Callable
from statistics import fmean

from minprm.text import actions

SEGMENT = 100  # words of a segment, in `diversity`


def exact_match(answer: str, references: list[str]) -> float:
    """1 if the answer is one of the references, white space aside, else 0."""
    return max(actions.exact_match(answer, reference) for reference in references)


def numbers(answer: str, references: list[str]) -> float:
    """Share of the answer's numbers that are larger than the one before: a reward that is hacked.

    >>> numbers("1 2", []), numbers("5 4 6", [])
    (1.0, 0.5)
    """
    steps = list(itertools.pairwise(int(digits) for digits in re.findall("[0-9]{1,6}", answer)))
    return sum(before < after for before, after in steps) / max(len(steps), 1)


def distinct(answer: str, references: list[str]) -> float:
    """distinct-2 of the answer: the share of its pairs of words that are different ones.

    >>> distinct("no no no no yes", [])
    0.5
    """
    return _different(_pairs(answer))


def bleu(answer: str, references: list[str]) -> float:
    """BLEU of one sentence   Papineni et al. 2002, in sacrebleu

    Words are told apart as in European languages. `chrf` reads any script.

    >>> round(bleu("under the third cup", ["under the second cup", "below the third cup"]), 2)
    0.71
    """
    from sacrebleu import sentence_bleu

    return sentence_bleu(answer, references).score / 100


def chrf(answer: str, references: list[str]) -> float:
    """chrF, the F-score of character n-grams, of the best reference   Popovic 2015, in sacrebleu

    >>> round(chrf("under the third cup", ["under the second cup"]), 2)
    0.48
    """
    from sacrebleu import sentence_chrf

    return sentence_chrf(answer, references).score / 100


def rouge_l(answer: str, references: list[str]) -> float:
    """F-score of the longest common subsequence of words, of the best reference   Lin 2004, in
    rouge-score

    It reads the letters a to z and digits alone: of other scripts it is 0.

    >>> round(rouge_l("cup third the", ["under the third cup"]), 2)
    0.29
    """
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"]).score_multi(references, answer)["rougeL"].fmeasure


Metric = Callable[[str, list[str]], float]

METRICS: dict[str, Metric] = {
    "exact_match": exact_match,
    "bleu": bleu,
    "chrf": chrf,
    "rouge_l": rouge_l,
    "numbers": numbers,
    "distinct": distinct,
}
LIBRARIES = {"bleu": "sacrebleu", "chrf": "sacrebleu", "rouge_l": "rouge_score"}


def diversity(answers: list[str]) -> dict[str, float]:
    """How much answers differ, as RL4LMs reports it beside rewards (arXiv:2210.01241).

    distinct_1, distinct_2: share of different ones among all words, and among all pairs of words
    (Li et al., arXiv:1510.03055); both fall as there is more text. vocabulary: different words.
    msttr: mean share of different words in segments of 100 words, which does not fall (Johnson
    1944). words: of an answer, on average. A policy that gives everybody one answer shows here.

    >>> diversity(["a cup", "a cup", "the cup"])["distinct_1"]
    0.5
    """
    words = []
    pairs = []
    for answer in answers:
        words += answer.split()
        pairs += _pairs(answer)
    # the words left over at the end are a segment only where there is no whole one
    segment_count = max(len(words) // SEGMENT, 1)
    segments = [words[i * SEGMENT : (i + 1) * SEGMENT] for i in range(segment_count)]
    return {
        "distinct_1": _different(words),
        "distinct_2": _different(pairs),
        "vocabulary": len(set(words)),
        "msttr": fmean(_different(segment) for segment in segments),
        "words": len(words) / len(answers),
    }


def _pairs(text: str) -> list[tuple[str, str]]:
    """All two words in a row."""
    return list(itertools.pairwise(text.split()))


def _different(things: list) -> float:
    """The share of different ones; 0 where there are none."""
    return len(set(things)) / max(len(things), 1)
