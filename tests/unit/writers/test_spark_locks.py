"""Locks for older Sparks: versions with hashes, and no address in them."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "requirements" / "compat"


@pytest.mark.parametrize("version", ["3.5", "4.0"])
def test_there_is_a_lock_for_each_older_spark(version: str) -> None:
    """Each lock pins the version that its name says."""
    text = (FOLDER / f"pyspark-{version}.lock").read_text()
    assert re.search(rf"^pyspark=={re.escape(version)}\.\d+ ", text, re.MULTILINE)
    assert "--hash=sha256:" in text
    assert "://" not in text
