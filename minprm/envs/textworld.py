"""TextWorld's cooking games (Côté et al., arXiv:1806.11532): read a recipe, follow it.

The world teaches tools that differ from task to task. A thought can explain the expert: all is in
one kitchen, and the expert reads the cookbook first. A game takes seconds to make, so it is made
once, by its seed, into a cache. textworld itself divides the foods between training and test.
"""

import copy
import os
import re
import tempfile
import warnings
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from loguru import logger

from minprm.envs.base import SPLITS, Illegal, World, call, called, needs, tool

KITCHEN = {"recipe": 1, "take": 1, "go": 1, "open": False, "cook": False, "cut": False}
COOKING = [  # levels 1 to 3
    KITCHEN,
    KITCHEN | {"open": True, "cook": True},
    KITCHEN | {"recipe": 2, "take": 2, "open": True, "cook": True, "cut": True},
]
ASKED = (  # what the game has to tell beside its text
    "policy_commands",
    "admissible_commands",
    "command_templates",
    "objective",
    "won",
    "lost",
    "max_score",
)
PARAMETERS = ("object", "other")  # of a command: at most two


class TextWorld(World):
    teaches = "tools that differ from task to task: read a recipe, follow it"
    system = "You play a text adventure. Do what you are asked to."
    waits = True
    state: Any  # the game's own type says that each part of it may be missing
    tools = [tool("look", "Look around.")]  # noqa: RUF012  the game's own come with reset

    def __init__(self, level: int = 2, games: int = 100, turns: int = 30):
        """games: how many different games a split has."""
        needs("textworld", "textworld")
        if not 1 <= level <= len(COOKING):
            raise ValueError(f"level from 1 to {len(COOKING)}")
        if not 1 <= games <= 10_000 or not 1 <= turns <= 1000:
            raise ValueError("games from 1 to 10,000, turns from 1 to 1000")
        self.level = level
        self.games = games
        self.turns = turns

    def begin(self) -> str:
        import textworld

        # Tasks from number `games` on play the same games again.
        split, index = divmod(self.seed, 10**9)
        path = _made(self.level, list(SPLITS)[split], index % self.games)
        with warnings.catch_warnings(action="ignore"):  # jericho keeps no score of these games
            infos = textworld.EnvInfos(**dict.fromkeys(ASKED, True))
            self.env = textworld.start(str(path), infos)
            self.state = self.env.reset()
        self.points = 0  # of the whole game so far
        self.has_recipe = False  # the cookbook was read
        self._make_tools()
        return _clean(self.state.feedback, self.state.objective)

    def belongs(self, split: str) -> bool:
        return True  # each game was made for its split

    def __deepcopy__(self, memo: dict) -> World:
        twin = copy.copy(self)  # a step replaces what it changes, but for the emulator
        with warnings.catch_warnings(action="ignore"):
            twin.env = self.env.copy()
        return twin

    def _make_tools(self) -> None:
        """Makes a tool of each command: `cook {f} with {o}` is called cook_with."""
        self.templates = {}
        for template in self.state.command_templates:
            words = re.sub(r"{\w+}", "{}", template)
            name = "_".join(word for word in words.split() if word != "{}")
            self.templates[name] = words
        self.tools = []
        for name, words in sorted(self.templates.items()):
            parameters = PARAMETERS[: words.count("{}")]
            description = words.format(*PARAMETERS)
            self.tools.append(tool(name, description, **dict.fromkeys(parameters, "a name")))

    def act(self, action: str) -> tuple[str, float]:
        name, arguments = called(action, self.tools)
        values = [arguments[key] for key in PARAMETERS if key in arguments]
        command = self.templates[name].format(*values)
        if command not in self.state.admissible_commands:
            raise Illegal("illegal: that cannot be done here")
        self.state, points, _ = self.env.step(command)
        if command == "examine cookbook":
            self.has_recipe = True
        self.success = bool(self.state.won)
        self.done = bool(self.state.lost)
        gained = points - self.points
        self.points = points
        return _clean(self.state.feedback), gained / max(self.state.max_score, 1)

    def actions(self) -> list[str]:
        return [self._call_for(command) for command in self.state.admissible_commands]

    def expert(self) -> str:
        # The game's own plan does not need the cookbook. A thought does, to explain the plan.
        if "examine cookbook" in self.state.admissible_commands and not self.has_recipe:
            return self._call_for("examine cookbook")
        commands = self.state.policy_commands or ["look"]
        return self._call_for(commands[0])

    def _call_for(self, command: str) -> str:
        """Returns the tool call that stands for a command."""
        # `put {} on {}` also fits `put {}`, so templates with the most words are tried first
        templates = sorted(self.templates.items(), key=lambda pair: -len(pair[0].split("_")))
        for name, words in templates:
            pattern = re.escape(words).replace(re.escape("{}"), "(.+)")
            match = re.fullmatch(pattern, command)
            if match:
                return call(name, **dict(zip(PARAMETERS, match.groups(), strict=False)))
        raise AssertionError(f"no template for {command!r}")


def _made(level: int, split: str, number: int) -> Path:
    """Returns the file of a game: from the cache, or made now."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "minprm"
    folder = cache / f"textworld-{version('textworld')}-by-task"
    path = folder / f"cooking-{level}-{split}-{number}.z8"
    if path.exists():
        return path
    _tell_once(folder)
    # Two processes may make the same game at once. Each makes it in a folder of its own and then
    # moves the files. The .z8, which is looked for above, comes last: when it is there, all are.
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as half:
        half_made = Path(half) / "game.z8"
        _compile(level, split, number, half_made)
        for suffix in (".ni", ".json", ".z8"):
            os.replace(half_made.with_suffix(suffix), path.with_suffix(suffix))
    return path


@cache
def _tell_once(folder: Path) -> None:
    """Says what the user waits for."""
    logger.info(f"textworld makes its games, some seconds each; they are kept in {folder}")


def _compile(level: int, split: str, number: int, path: Path) -> None:
    import textworld
    from textworld.challenges.tw_cooking import cooking
    from textworld.generator import compile_game

    options = textworld.GameOptions()
    options.path = str(path)
    options.seeds = 10**7 * list(SPLITS).index(split) + 100 * number
    # textworld has names of its own for the splits
    foods = {"train": "train", "validation": "valid", "test": "test"}[split]
    knobs = {"drop": False, "split": foods, "recipe_seed": 100 * number + 1}
    compile_game(cooking.make(COOKING[level - 1] | knobs, options), options)


def _clean(feedback: str, objective: str = "") -> str:
    """Returns the game's text without banner, status line and end screen."""
    if objective:
        start = max(feedback.find(objective), 0)  # the banner is what comes before
        feedback = feedback[start:]
    text = re.split(r"\n>|\*\*\* The End", feedback)[0]
    return re.sub(r"\s*\n\s*", "\n", text).strip()
