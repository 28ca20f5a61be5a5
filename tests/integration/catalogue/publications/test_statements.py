"""The SQL of publications on a real file."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from rta_supervisor.catalogue.publications import statements
from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from tests.support.catalogue_rows import ROW

SQL = statements.PublicationStatements("?", "max")
OF_FEW = ("sessions_unfinished", statements.CLOSED_INDEX, statements.PENDING_INDEX, statements.REFUSED_INDEX)
"""Indexes that leave out sessions that ended and were told of."""


@pytest.mark.parametrize(
    "statement",
    [SQL.note_unfinished, SQL.note_closed, SQL.due, SQL.backlog, SQL.refused_count, SQL.refused, SQL.retry_refused],
)
async def test_what_is_asked_all_the_time_reads_a_few_of_many(statement: str, tmp_path: Path) -> None:
    """The catalogue keeps every session that there ever was, and is looked at every second."""
    catalogue = SqliteCatalogue(tmp_path / "c.sqlite")
    await catalogue.save([ROW])
    await catalogue.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "c.sqlite")) as connection:
        values = [0] * statement.count("?")
        plan = [step for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    read = [step for step in plan if step.startswith("SCAN") or "updated_ms>" in step]
    assert read, plan
    assert all(step.endswith(OF_FEW) or "updated_ms>" in step for step in read), plan
