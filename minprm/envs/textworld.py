"""TextWorld games (Côté et al., arXiv:1806.11532): cooking, coin collector, treasure hunter.

The world teaches tools that differ from task to task. A thought cannot explain the expert in all of
its games. In `cooking` up to level 3 it can: all is in one kitchen, and the expert reads the
cookbook first. At level 4 the expert knows a map that nobody saw. `coin` and `treasure` spell the
route out in their first observation. A game takes seconds to make, so it is made once, by its seed,
into a cache. Its split is decided there: textworld itself divides cooking's foods between training
and test, and of the other games some are made until a hash says that one belongs to the split.
"""

import copy
import os
import re
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

from minprm.constants import fail
from minprm.envs.base import SPLITS, Illegal, World, call, called, needs, tasks_split, tool

KITCHEN = {"recipe": 1, "take": 1, "go": 1, "open": False, "cook": False, "cut": False}
COOKING = [  # levels 1 to 4
    KITCHEN,
    KITCHEN | {"open": True, "cook": True},
    KITCHEN | {"recipe": 2, "take": 2, "open": True, "cook": True, "cut": True},
    KITCHEN | {"recipe": 3, "take": 3, "go": 6, "open": True, "cook": True, "cut": True},
]
LEVELS = {"cooking": len(COOKING), "coin": 300, "treasure": 30}
ASKED = (  # what the game has to tell beside its text
    "policy_commands",
    "admissible_commands",
    "command_templates",
    "objective",
    "won",
    "lost",
    "max_score",
)
GAMES_TRIED = 100  # for one of the right split
PARAMETERS = ("object", "other")  # of a command: at most two


class TextWorld(World):
    teaches = "tools that differ from task to task: read a recipe, follow it"
    system = "You play a text adventure. Do what you are asked to."
    waits = True
    tools = [tool("look", "Look around.")]  # noqa: RUF012  the game's own come with reset

    def __init__(self, game: str = "cooking", level: int = 2, games: int = 100, turns: int = 30):
        """games: how many different games a split has."""
        needs("textworld", "textworld")
        if game not in LEVELS or not 1 <= level <= LEVELS[game]:
            raise ValueError(f"games and their levels: {LEVELS}")
        if not 1 <= games <= 10_000 or not 1 <= turns <= 1000:
            raise ValueError("games from 1 to 10,000, turns from 1 to 1000")
        self.game = game
        self.level = level
        self.games = games
        self.turns = turns

    def begin(self) -> str:
        # Tasks from number `games` on play the same games again.
        split, index = divmod(self.seed, 10**9)
        path = _made(self.game, self.level, list(SPLITS)[split], index % self.games)
        self.env, self.state = _started(path)
        self.points = 0  # of the whole game so far
        self.has_recipe = False  # the cookbook was read
        self._make_tools()
        return _first(self.state)

    def belongs(self, split: str) -> bool:
        return True  # each game was made for its split

    def __deepcopy__(self, memo: dict) -> World:
        twin = copy.copy(self)
        memo[id(self)] = twin
        for name, attribute in vars(self).items():
            if name == "env":  # the emulator is no Python object, but it can copy itself
                with warnings.catch_warnings(action="ignore"):
                    twin.env = attribute.copy()
            else:
                setattr(twin, name, copy.deepcopy(attribute, memo))
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


def _made(game: str, level: int, split: str, number: int) -> Path:
    """Returns the file of a game: from the cache, or made now."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "minprm"
    folder = cache / f"textworld-{version('textworld')}-by-task"
    path = folder / f"{game}-{level}-{split}-{number}.z8"
    if path.exists():
        return path
    # Two processes may make the same game at once. Each makes it in a folder of its own and then
    # moves the files. The .z8, which is looked for above, comes last: when it is there, all are.
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as half:
        half_made = _one_of(split, game, level, number, Path(half))
        for suffix in (".ni", ".json", ".z8"):
            file = half_made.with_suffix(suffix)
            if file.exists():
                os.replace(file, path.with_suffix(suffix))
    return path


def _one_of(split: str, game: str, level: int, number: int, folder: Path) -> Path:
    """Makes games until one belongs to the split, and returns its file. Exits if none does."""
    for attempt in range(GAMES_TRIED):
        path = folder / f"{attempt}.z8"
        _compile(game, level, split, number * GAMES_TRIED + attempt, path)
        env, state = _started(path)
        env.close()
        # no food of a test's recipe is in one of training, so any cooking game will do
        if game == "cooking" or tasks_split(_first(state)) == split:
            return path
    fail(f"textworld: none of {GAMES_TRIED} games of {game} {level} is a {split} task")


def _started(path: Path) -> tuple:
    """Starts a game. Returns (the emulator, the game's first state)."""
    import textworld

    with warnings.catch_warnings(action="ignore"):  # jericho keeps no score of these games
        env = textworld.start(str(path), textworld.EnvInfos(**dict.fromkeys(ASKED, True)))
        return env, env.reset()


def _first(state) -> str:
    """Returns the first observation of a game."""
    return _clean(state.feedback, state.objective)


def _compile(game: str, level: int, split: str, number: int, path: Path) -> None:
    import textworld
    from textworld.challenges.tw_coin_collector import coin_collector
    from textworld.challenges.tw_cooking import cooking
    from textworld.challenges.tw_treasure_hunter import treasure_hunter
    from textworld.generator import compile_game

    options = textworld.GameOptions()
    options.path = str(path)
    options.seeds = 10**7 * list(SPLITS).index(split) + number
    if game == "cooking":
        # textworld has names of its own for the splits
        foods = {"train": "train", "validation": "valid", "test": "test"}[split]
        knobs = {"drop": False, "split": foods, "recipe_seed": number + 1}
        new_game = cooking.make(COOKING[level - 1] | knobs, options)
    else:
        kind = coin_collector if game == "coin" else treasure_hunter
        level_of: Any = {"level": level}  # a number, where textworld's types say a text
        new_game = kind.make(level_of, options)
    compile_game(new_game, options)


def _clean(feedback: str, objective: str = "") -> str:
    """Returns the game's text without banner, status line and end screen."""
    if objective:
        start = max(feedback.find(objective), 0)  # the banner is what comes before
        feedback = feedback[start:]
    text = re.split(r"\n>|\*\*\* The End", feedback)[0]
    return re.sub(r"\s*\n\s*", "\n", text).strip()
