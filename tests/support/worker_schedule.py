"""Which worker of a parallel run gets which files, and when.

All tests of the shared Spark session are one piece of work, so that one worker starts it and keeps it warm. It is the
longest piece and comes first. While a Spark computes, the other worker had better wait for something: those that start
a Spark of their own stand among tests that do. Small ones come last and fill up both workers.
"""

from typing import Any, Final

import pytest

SHARED_SPARK: Final = "the shared Spark session"
OWN_SPARK: Final = ("tests/spark/test_cluster.py", "tests/spark/test_connect.py", "tests/spark/test_driver.py")

ORDER: Final = (
    SHARED_SPARK,
    "tests/chaos/",
    "tests/spark/test_cluster.py",
    "tests/integration/",
    "tests/spark/test_connect.py",
    "tests/spark/test_driver.py",
    "tests/acceptance/",
)


def piece(nodeid: str) -> str:
    """What a test belongs to: tests of one piece run in one worker, one after the other."""
    path = nodeid.partition("::")[0]
    is_shared = path.startswith(("tests/spark/", "tests/compat/")) and path not in OWN_SPARK
    return SHARED_SPARK if is_shared else path


def place(nodeid: str) -> int:
    found = piece(nodeid)
    return next((number for number, start in enumerate(ORDER) if found.startswith(start)), len(ORDER))


def scheduler(config: pytest.Config, log: Any) -> Any:
    """Hands out pieces in the order in which they were collected, not by their number of tests."""
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped] # noqa: PLC0415 - few runs need it

    config.option.loadscopereorder = False
    made = LoadFileScheduling(config, log)
    made._split_scope = piece
    return made
