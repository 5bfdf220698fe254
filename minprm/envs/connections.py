"""Connections: sort sixteen words into four groups of four that have something in common.

What it teaches: to hold back. Some words fit several groups, and only four mistakes are allowed.
Puzzles are put together from the categories below, whose words repeat between splits: a model can
learn them by heart. A file of one's own is JSON: a list of puzzles, each {category: [four words]}.
"""

import json
from functools import cache
from itertools import combinations
from pathlib import Path

from minprm.envs.base import Illegal, World

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


class Connections(World):
    teaches = "holding back: words that fit several groups, few mistakes allowed"
    system = (
        "Sixteen words make four groups of four, each with something in common. Answer with the "
        f"four words of one group, separated by commas. {MISTAKES} mistakes end the game."
    )
    turns = 4 + MISTAKES

    def __init__(self, file: str = ""):
        self.puzzles = read(file) if file else ()

    def begin(self) -> str:
        self.groups = self.rng.choice(self.puzzles) if self.puzzles else self._made()
        self.left = sorted(word for group in self.groups.values() for word in group)
        self.rng.shuffle(self.left)
        self.found: list[str] = []
        self.mistakes = 0
        return "Words: " + ", ".join(self.left)

    def act(self, action: str) -> tuple[str, float]:
        said = sorted(word.strip().lower() for word in action.split(","))
        if len(set(said)) != 4 or len(said) != 4 or not set(said) <= set(self.left):
            self._mistake()
            raise Illegal("illegal: answer with four of the words, separated by commas")
        for name, group in self.groups.items():
            if name not in self.found and said == sorted(group):
                self.found.append(name)
                self.left = [word for word in self.left if word not in group]
                self.success = len(self.found) == 4
                return f"Right: {name}. Words: {', '.join(self.left)}", 0.25
        near = max(len(set(said) & set(group)) for group in self.groups.values())
        self._mistake()
        return ("Wrong, one away." if near == 3 else "Wrong.") + f" Mistakes: {self.mistakes}.", 0.0

    def actions(self) -> list[str]:
        return [", ".join(four) for four in combinations(self.left, 4)]

    def expert(self) -> str:
        name = next(name for name in self.groups if name not in self.found)
        return ", ".join(self.groups[name])

    def key(self) -> tuple[int, int]:
        return len(self.found), self.mistakes

    def thought(self) -> str:
        name = next(name for name in self.groups if name not in self.found)
        return f"These are {name}: {', '.join(self.groups[name])}."

    def _mistake(self) -> None:
        self.mistakes += 1
        self.done = self.mistakes >= MISTAKES

    def _made(self) -> dict[str, list[str]]:
        """Four categories whose chosen words are sixteen and sort in one way only."""
        while True:
            names = self.rng.sample(sorted(CATEGORIES), 4)
            pools = {name: CATEGORIES[name].split() for name in names}
            groups = {name: self.rng.sample(pool, 4) for name, pool in pools.items()}
            if unique(groups, pools):
                return groups


def unique(groups: dict[str, list[str]], pools: dict[str, list[str]]) -> bool:
    """Are the words sixteen, and is there one way to give each category four that fit it?"""
    words = {word for group in groups.values() for word in group}
    if len(words) < 16:
        return False

    def ways(names: tuple[str, ...], left: set[str]) -> int:
        if not names:
            return 1
        fitting = sorted(left & set(pools[names[0]]))
        return sum(ways(names[1:], left - set(four)) for four in combinations(fitting, 4))

    return ways(tuple(pools), words) == 1


@cache
def read(file: str) -> tuple[dict[str, list[str]], ...]:
    """A user's puzzles. Raises ValueError with what is wrong."""
    try:
        puzzles = json.loads(Path(file).read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{file}: no JSON to be read there ({error})") from error
    lists = [list(p.values()) if isinstance(p, dict) else [] for p in puzzles]
    for i, groups in enumerate(lists, start=1):
        words = {str(word) for group in groups if isinstance(group, list) for word in group}
        if [len(group) for group in groups] != [4] * 4 or len(words) != 16:
            raise ValueError(f"{file}, puzzle {i}: needs four categories of four words each")
    return tuple({k: [w.lower() for w in v] for k, v in p.items()} for p in puzzles)
