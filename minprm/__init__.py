"""minprm: how an LLM agent learns to think from logs that hold only actions.

`from minprm import read_logs`, and so the other names of HOMES; docs/api.md shows them at work.
A name is looked up when it is asked for, so that `import minprm` waits for no library. Type
checkers read the same names in __init__.pyi.

Under the story:  stages (methods alone)  model (writes, is read, learns)  text (messages to ids)
                  run (what a method needs of a run)  envs (worlds by name; cups is the story's)
Beside it:        look, report (who listens, and what they show)  load (where models come from)
                  logs (people's logs)  arms (whole arms)  several (processes)
                  endpoint (a user's own agent)  commands
"""

from importlib import import_module

__version__ = "0.1.0"

# The names of the package, by the module that each lives in.
HOMES = {
    "constants": ("Config",),
    "data": ("Demo", "Sample", "Step"),
    "logs.reader": ("read_logs",),
    "envs.base": ("World",),
    "model.agent": ("Agent",),
    "look.log": ("Log",),
    "trainer": ("Run", "learn"),
    "arms.evaluation": ("evaluate", "load_agent"),
    "stages.act_prm": ("walk_logs", "outcomes", "credit", "to_samples"),
    "arms.ladder": ("start",),
    "commands.train": ("go_on",),
}
_names = [name for names in HOMES.values() for name in names]
__all__ = ["__version__", *_names]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    for module, names in HOMES.items():
        if name in names:
            return getattr(import_module(f"minprm.{module}"), name)
    raise AttributeError(f"module 'minprm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
