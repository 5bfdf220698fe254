"""Connections: sort sixteen words into four groups of four that have something in common.

The world teaches to hold back: some words fit several groups, and the fourth mistake ends the game.
Puzzles are put together from the categories below. Training and test share the categories, so a
model can learn them by heart; no puzzle of a test has the sixteen words of one of training. A file
of one's own is JSONL as MinRL has it: {"solution": {"groups": [{"reason": ..., "words": [...]}]}}.
"""

from itertools import chain, combinations
from typing import NamedTuple

from minprm.envs.base import Illegal, World
from minprm.envs.tasks import tasks_of

# Many words stand in several categories on purpose: a turkey is a bird, Turkey is a country.
CATEGORIES = {
    "metals": "iron gold lead tin silver copper zinc",
    "colours": "red green blue gold silver violet orange rose",
    "fruits": "apple orange plum date fig cherry lime",
    "flowers": "rose violet iris lily daisy tulip",
    "planets": "mercury venus earth mars saturn neptune",
    "gods": "mars mercury apollo zeus thor venus",
    "birds": "crane robin swift kite eagle turkey",
    "countries": "turkey chad jordan cuba peru kenya",
    "rivers": "nile danube amazon volga rhine jordan",
    "companies": "apple amazon shell orange intel meta",
    "programming languages": "python java ruby swift rust basic",
    "snakes": "python cobra viper adder boa mamba",
    "gems": "ruby opal pearl topaz jade diamond",
    "card words": "king queen ace club spade diamond",
    "chess pieces": "king queen rook bishop knight pawn",
    "tools": "hammer saw file drill plane spade",
    "ways to travel": "plane train ferry kite sled bus",
    "parts of the face": "nose chin cheek lip iris brow",
    "body of water": "sea lake pond bay sound river",
    "things heard": "sound echo noise ring tone hum",
    "jewellery": "ring chain crown brooch pearl bracelet",
    "monetary units": "crown dollar peso pound rand yen",
    "hits": "pound punch slap hammer club beat",
    "music genres": "rock jazz soul blues pop metal",
    "spirits": "soul ghost ghoul shade wraith phantom",
    "dog commands": "sit stay heel roll fetch beg",
    "parts of a foot": "heel toe sole arch nail ankle",
    "fish": "sole bass perch carp cod ray",
    "voices": "bass alto tenor soprano baritone treble",
    "trees": "palm elm oak plane ash beech",
}
MISTAKES = 4
SHAPE = (
    'needs {"solution": {"groups": [{"reason": a text, "words": [four texts]}, ...]}}, or '
    '{"answers": [{"group": a text, "members": [four texts]}, ...]}'
)


class Puzzle(NamedTuple):
    sorted_words: str  # all sixteen
    groups: dict[str, list[str]]  # by what they have in common


class Connections(World):
    teaches = "holding back: words that fit several groups, few mistakes allowed"
    system = (
        "Sixteen words make four groups of four, each with something in common. Answer with the "
        f"four words of one group, separated by commas. {MISTAKES} mistakes end the game."
    )
    turns = 4 + MISTAKES  # more than any game takes

    def __init__(self, file: str = ""):
        self.puzzles = tasks_of(file, _from_row) if file else ()

    def begin(self) -> str:
        puzzle = self.rng.choice(self.puzzles) if self.puzzles else self._puzzle()
        self.sorted_words, self.groups = puzzle
        self.left = self.sorted_words.split(", ")  # words of the groups that are not solved yet
        self.rng.shuffle(self.left)
        self.mistakes = 0
        return "Words: " + ", ".join(self.left)

    def task(self) -> str:
        return self.sorted_words  # the same puzzle may show them in any order

    def act(self, action: str) -> tuple[str, float]:
        chosen = sorted(word.strip().lower() for word in action.split(","))
        if len(chosen) != 4 or len(set(chosen)) != 4 or not set(chosen) <= set(self.left):
            self._mistake()  # or an agent could try words for free
            raise Illegal("illegal: answer with four of the words, separated by commas")
        for name, group in self.groups.items():
            if chosen == sorted(group):
                self.left = [word for word in self.left if word not in group]
                self.success = not self.left
                return f"Right: {name}. Words: {', '.join(self.left)}", 0.25
        self._mistake()
        most_shared = max(len(set(chosen) & set(group)) for group in self.groups.values())
        verdict = "Wrong, one away." if most_shared == 3 else "Wrong."
        return f"{verdict} Mistakes: {self.mistakes}.", 0.0

    def actions(self) -> list[str]:
        return [", ".join(four) for four in combinations(self.left, 4)]

    def expert(self) -> str:
        return ", ".join(self.groups[self._next_group()])

    def key(self) -> tuple[int, int]:
        return len(self.left), self.mistakes

    def thought(self) -> str:
        name = self._next_group()
        return f"These are {name}: {', '.join(self.groups[name])}."

    def _next_group(self) -> str:
        return next(name for name, group in self.groups.items() if group[0] in self.left)

    def _mistake(self) -> None:
        self.mistakes += 1
        self.done = self.mistakes >= MISTAKES

    def _puzzle(self) -> Puzzle:
        """Draws four words from each of four categories, until they sort in one way only."""
        while True:
            pools = {}
            for name in self.rng.sample(sorted(CATEGORIES), 4):
                pools[name] = CATEGORIES[name].split()
            groups = {name: self.rng.sample(pool, 4) for name, pool in pools.items()}
            words = {*chain(*groups.values())}
            # else two answers would be right, and one be called wrong
            if len(words) == 16 and _ways(words, list(pools.values())) == 1:
                return _puzzle_of(groups)


def _puzzle_of(groups: dict[str, list[str]]) -> Puzzle:
    return Puzzle(", ".join(sorted(chain(*groups.values()))), groups)


def _from_row(row: dict) -> Puzzle:
    match row:  # MinRL's generated puzzles, and its canonical ones
        case {"solution": {"groups": [*listed]}} | {"answers": [*listed]}:
            pass
        case _:
            raise ValueError(SHAPE)
    groups = {}
    for group in listed:
        match group:
            case {"reason": str(reason), "words": [*words]}:
                pass
            case {"group": str(reason), "members": [*words]}:
                pass
            case _:
                raise ValueError(SHAPE)
        if not all(isinstance(word, str) for word in words):
            raise ValueError(SHAPE)
        groups[reason] = [word.strip().lower() for word in words]
    words = [*chain(*groups.values())]
    if len({*words}) != 16 or any(len(group) != 4 for group in groups.values()):
        raise ValueError("a puzzle has four groups of four words, all different")
    if any("," in word for word in words):
        raise ValueError("a word with a comma: an answer could not be read")
    return _puzzle_of(groups)


def _ways(words: set[str], pools: list[list[str]]) -> int:
    """Counts the ways to give each category four of the words that fit it.

    A pool holds all words that fit a category, also those that were not drawn for it.
    """
    if not pools:
        return 1
    # give four words to the first category, and count what can be done with the rest
    fitting = sorted(words & set(pools[0]))
    count = 0
    for four in combinations(fitting, 4):
        count += _ways(words - set(four), pools[1:])
    return count
