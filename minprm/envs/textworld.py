"""TextWorld games (Côté et al., arXiv:1806.11532): cooking, coin collector, treasure hunter.

What it teaches: tools that differ from task to task. Whether a thought can explain the expert: in
`cooking` up to level 3 all is in one kitchen, and the expert reads the cookbook first; at level 4
it knows a map that nobody saw; `coin` and `treasure` spell the route out in their first
observation. Games take seconds to make, so they are made once, by seed, into a cache.
"""

import os
import re
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path

from minprm.envs.base import SPLITS, Illegal, World, call, called, needs, tool

KITCHEN = {"recipe": 1, "take": 1, "go": 1, "open": False, "cook": False, "cut": False}
COOKING = [  # levels 1 to 4
    KITCHEN,
    KITCHEN | {"open": True, "cook": True},
    KITCHEN | {"recipe": 2, "take": 2, "open": True, "cook": True, "cut": True},
    KITCHEN | {"recipe": 3, "take": 3, "go": 6, "open": True, "cook": True, "cut": True},
]
LEVELS = {"cooking": len(COOKING), "coin": 300, "treasure": 30}


class TextWorld(World):
    teaches = "tools that differ from task to task: read a recipe, follow it"
    system = "You play a text adventure. Do what you are asked to."
    waits = True
    tools = [tool("look", "Look around.")]  # noqa: RUF012  the game's own come with reset

    def __init__(self, game: str = "cooking", level: int = 2, games: int = 100, turns: int = 30):
        """games: so many different ones a split."""
        needs("textworld", "textworld")
        if game not in LEVELS or not 1 <= level <= LEVELS[game] or games < 1 or turns < 1:
            raise ValueError(f"games and levels: {LEVELS}; games and turns from 1")
        self.game, self.level, self.games, self.turns = game, level, games, turns

    def begin(self) -> str:
        import textworld

        split, i = divmod(self.seed, 10**9)
        path = _made(self.game, self.level, list(SPLITS)[split], i % self.games)
        asked = ("policy_commands", "admissible_commands", "command_templates", "objective",
                 "won", "lost", "max_score")  # fmt: skip
        with warnings.catch_warnings(action="ignore"):  # jericho keeps no score of these games
            self.env = textworld.start(str(path), textworld.EnvInfos(**dict.fromkeys(asked, True)))
            self.state = self.env.reset()
        self.read = False
        self.templates = {}
        for template in self.state.command_templates:
            words = re.sub(r"{\w+}", "{}", template)
            self.templates["_".join(w for w in words.split() if w != "{}")] = words
        names = ("object", "other")
        self.tools = [
            tool(name, words.format(*names), **dict.fromkeys(names[: words.count("{}")], "a name"))
            for name, words in sorted(self.templates.items())
        ]
        return _clean(self.state.feedback, self.state.objective)

    def act(self, action: str) -> tuple[str, float]:
        name, arguments = called(action, self.tools)
        values = [arguments[key] for key in ("object", "other") if key in arguments]
        command = self.templates[name].format(*values)
        if command not in self.state.admissible_commands:
            raise Illegal("illegal: that cannot be done here")
        self.state, points, _ = self.env.step(command)
        self.read |= command == "examine cookbook"
        self.success, self.done = bool(self.state.won), bool(self.state.lost)
        return _clean(self.state.feedback), points / max(self.state.max_score, 1)

    def actions(self) -> list[str]:
        return [self._called(command) for command in self.state.admissible_commands]

    def expert(self) -> str:
        if "examine cookbook" in self.state.admissible_commands and not self.read:
            return self._called("examine cookbook")
        return self._called((self.state.policy_commands or ["look"])[0])

    def _called(self, command: str) -> str:
        """A command as the tool call that stands for it; templates with most words first."""
        for name, words in sorted(self.templates.items(), key=lambda x: -len(x[0].split("_"))):
            pattern = re.escape(words).replace(re.escape("{}"), "(.+)")
            if found := re.fullmatch(pattern, command):
                return call(name, **dict(zip(("object", "other"), found.groups(), strict=False)))
        raise AssertionError(f"no template for {command!r}")


def _made(game: str, level: int, split: str, number: int) -> Path:
    """The game's file, from the cache or made now. Two processes may make it at once: each in a
    folder of its own, and the file that is looked for comes last."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "minprm"
    folder = cache / f"textworld-{version('textworld')}"
    path = folder / f"{game}-{level}-{split}-{number}.z8"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as half:
        _compile(game, level, split, number, Path(half) / path.name)
        for suffix in (".ni", ".json", ".z8"):
            made = (Path(half) / path.name).with_suffix(suffix)
            if made.exists():
                os.replace(made, path.with_suffix(suffix))
    return path


def _compile(game: str, level: int, split: str, number: int, path: Path) -> None:
    import textworld
    from textworld.challenges.tw_coin_collector import coin_collector
    from textworld.challenges.tw_cooking import cooking
    from textworld.challenges.tw_treasure_hunter import treasure_hunter

    options = textworld.GameOptions()
    options.path = str(path)
    options.seeds = 10_000 * list(SPLITS).index(split) + number
    if game == "cooking":
        foods = {"train": "train", "validation": "valid", "test": "test"}[split]
        knobs = {"drop": False, "split": foods, "recipe_seed": number + 1}
        made = cooking.make(COOKING[level - 1] | knobs, options)
    else:
        maker = {"coin": coin_collector, "treasure": treasure_hunter}[game]
        made = maker.make({"level": level}, options)
    textworld.generator.compile_game(made, options)


def _clean(feedback: str, objective: str = "") -> str:
    """Without banner, status line and end screen."""
    start = max(feedback.find(objective), 0) if objective else 0
    text = re.split(r"\n>|\*\*\* The End", feedback[start:])[0]
    return re.sub(r"\s*\n\s*", "\n", text).strip()
