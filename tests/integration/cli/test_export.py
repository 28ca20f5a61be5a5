"""Exports of the catalogue: exact, of many pages, and nothing left where they fail."""

import csv
import io
import os
from pathlib import Path

import msgspec
import pytest

from rta_supervisor.settings import settings
from tests.integration.cli.catalogue_content import NOWHERE, ROWS, START_NS, save
from tests.support.catalogue_rows import numbered_row
from tests.support.commands import refused, run


@pytest.mark.usefixtures("catalogue")
def test_an_export_is_exact(tmp_path: Path) -> None:
    """Every row once and every nanosecond, as JSON lines and as CSV that no spreadsheet takes for a program."""
    lines = [msgspec.json.decode(line) for line in run(NOWHERE, "sessions", "export").out.splitlines()]
    assert [line["identity"] for line in lines] == ["run-4", "run-3", "run-2", "run-1"]
    assert lines[3]["start_ns"] == START_NS
    assert lines[3]["document"]["details"] == {"Rig": 4}
    assert lines[1]["document"] is None
    path = tmp_path / "sessions.csv"
    ran = run(NOWHERE, "sessions", "export", "--output", str(path))
    assert (ran.code, ran.out, ran.err) == (0, "", f"4 sessions in {path}\n")
    with path.open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["identity"] for row in table] == ["run-4", "run-3", "run-2", "run-1"]
    assert table[0]["identifier"] == '\'=1+1;"x"\n'
    assert (table[3]["start_ns"], table[3]["end_ns"]) == (str(START_NS), str(START_NS + 1))
    assert table[1]["start_ns"] == ""
    assert msgspec.json.decode(table[3]["json"]) == msgspec.json.decode(ROWS[0].json)
    part = run(NOWHERE, "sessions", "export", "--format", "csv", "--detail", "Rig=4").out
    assert [row["identity"] for row in csv.DictReader(io.StringIO(part, newline=""))] == ["run-1"]
    assert [one.name for one in tmp_path.iterdir() if "sessions" in one.name] == ["sessions.csv"]


def test_an_export_of_many_pages(catalogue: settings.CatalogueSettings) -> None:
    """Each once, whatever a page holds."""
    save(catalogue, [numbered_row(number) for number in range(10, 2510)])
    lines = run(NOWHERE, "sessions", "export").out.splitlines()
    assert len({msgspec.json.decode(line)["identity"] for line in lines}) == len(lines) == 2504


@pytest.mark.usefixtures("catalogue")
def test_an_export_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """A place that can't be written is a sentence; what stood there stays."""
    refused(run(NOWHERE, "sessions", "export", "-o", str(tmp_path / "gone" / "x.csv")), 64, "can't be written")
    kept = tmp_path / "kept.json"
    kept.write_text("before")
    os.environ["RTA_CATALOGUE__PATH"], os.environ["RTA_CATALOGUE__URL"] = str(tmp_path / "none.sqlite"), ""
    refused(run(NOWHERE, "sessions", "export", "-o", str(kept)), 69, "there is no such file")
    assert kept.read_text() == "before"
    assert not (tmp_path / "kept.json.part").exists()
