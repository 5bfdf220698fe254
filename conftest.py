"""How the tests run: all of them beside each other, those of a file that was named one by one."""

import os
from importlib.util import find_spec

import pytest

# A tiny model is no quicker with two threads. The processes share the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # for who asks for more (load/threads.py)
# No test needs a download. Without a network the hub's library would try again for half a minute.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

# Their libraries do not go together with ours: each says how its own environment is made.
collect_ignore = ["examples/verifiers_agent.py", "examples/openenv_world.py"]


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One process a core, at most four, where nothing was named. Else this one: nothing else is
    loaded, and a debugger and a breakpoint work."""
    if config.args_source is not config.ArgsSource.TESTPATHS:
        return 0
    return min(4, os.cpu_count() or 1)


def pytest_itemcollected(item: pytest.Item) -> None:
    """A doctest of a metric is skipped where the library of the metric is missing."""
    module, _, metric = item.name.rpartition(".")
    if module == "minprm.envs.metrics":
        from minprm.envs.metrics import LIBRARIES

        if metric in LIBRARIES:
            missing = find_spec(LIBRARIES[metric]) is None
            item.add_marker(pytest.mark.extras)
            item.add_marker(
                pytest.mark.skipif(missing, reason='needs the extra: pip install ".[text]"')
            )
