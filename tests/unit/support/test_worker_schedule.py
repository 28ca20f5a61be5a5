"""Who gets which tests in a parallel run."""

from pathlib import Path

import pytest

from tests.support import worker_schedule

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    "path", [*worker_schedule.OWN_SPARK, *(name for name in worker_schedule.ORDER if name.startswith("tests/"))]
)
def test_files_that_have_a_place_are_there(path: str) -> None:
    """A file with a new name would lose its place in silence."""
    assert (ROOT / path).exists()


def test_tests_of_the_shared_spark_are_one_piece_and_come_first() -> None:
    """From whatever file; those that start a Spark of their own are not among them."""
    shared = ["tests/spark/test_read.py::test_a[x::y]", "tests/compat/test_any_spark.py::test_b"]
    others = [
        "tests/spark/test_cluster.py::test_c",
        "tests/unit/wire/test_keys.py::test_d",
        "tests/chaos/test_random_sessions.py::test_e",
    ]
    assert {worker_schedule.piece(nodeid) for nodeid in shared} == {worker_schedule.SHARED_SPARK}
    assert [worker_schedule.piece(nodeid) for nodeid in others] == [nodeid.partition("::")[0] for nodeid in others]
    found = sorted([*others, *shared], key=worker_schedule.place)
    assert found == [*shared, others[2], others[0], others[1]]
