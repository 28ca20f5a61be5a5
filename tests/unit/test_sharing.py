"""Who gets which tests in a parallel run."""

from pathlib import Path

import pytest

from tests.support import sharing

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", [*sharing.OWN_SPARK, *(name for name in sharing.ORDER if name.startswith("tests/"))])
def test_files_that_have_a_place_are_there(path: str) -> None:
    """A file with a new name would lose its place in silence."""
    assert (ROOT / path).exists()


def test_tests_of_the_shared_spark_are_one_piece_and_come_first() -> None:
    """From whatever file; those that start a Spark of their own are not among them."""
    shared = ["tests/spark/test_read.py::test_a[x::y]", "tests/compat/test_any_spark.py::test_b"]
    others = [
        "tests/spark/test_cluster.py::test_c",
        "tests/unit/test_keys.py::test_d",
        "tests/chaos/test_lives.py::test_e",
    ]
    assert {sharing.piece(nodeid) for nodeid in shared} == {sharing.SHARED_SPARK}
    assert [sharing.piece(nodeid) for nodeid in others] == [nodeid.partition("::")[0] for nodeid in others]
    found = sorted([*others, *shared], key=sharing.place)
    assert found == [*shared, others[2], others[0], others[1]]
