"""A doctest of a metric is skipped where the library of the metric is missing."""

import pytest

from minprm.envs.metrics import LIBRARIES


def pytest_runtest_setup(item: pytest.Item) -> None:
    module, _, metric = item.name.rpartition(".")
    if module == "minprm.envs.metrics" and metric in LIBRARIES:
        pytest.importorskip(LIBRARIES[metric], reason='needs the extra: pip install "minprm[text]"')
