"""`sessions export`: exact, of many pages, and no file where it fails."""

import csv
import io
from pathlib import Path

import msgspec
import pytest

from rta_supervisor.settings import settings
from tests.integration.cli.catalogue_content import ROWS, START_NS, save
from tests.support.catalogue_rows import numbered_row
from tests.support.commands import NO_REDIS_URL, refused, run


@pytest.mark.usefixtures("catalogue")
def test_an_export_is_exact(tmp_path: Path) -> None:
    """Every row once and every nanosecond, as JSON lines and as CSV in which no cell is a formula."""
    lines = [msgspec.json.decode(line) for line in run(NO_REDIS_URL, "sessions", "export").out.splitlines()]
    assert [line["identity"] for line in lines] == ["run-4", "run-3", "run-2", "run-1"]
    assert lines[3]["start_ns"] == START_NS
    assert lines[3]["document"]["details"] == {"Rig": 4}
    assert lines[1]["document"] is None
    path = tmp_path / "sessions.csv"
    result = run(NO_REDIS_URL, "sessions", "export", "--output", str(path))
    assert (result.code, result.out, result.err) == (0, "", f"4 sessions in {path}\n")
    with path.open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["identity"] for row in table] == ["run-4", "run-3", "run-2", "run-1"]
    assert table[0]["identifier"] == '\'=1+1;"x"\n'
    assert (table[3]["start_ns"], table[3]["end_ns"]) == (str(START_NS), str(START_NS + 1))
    assert table[1]["start_ns"] == ""
    assert msgspec.json.decode(table[3]["json"]) == msgspec.json.decode(ROWS[0].json)
    chosen = run(NO_REDIS_URL, "sessions", "export", "--format", "csv", "--detail", "Rig=4").out
    assert [row["identity"] for row in csv.DictReader(io.StringIO(chosen, newline=""))] == ["run-1"]
    assert [file.name for file in tmp_path.iterdir() if "sessions" in file.name] == ["sessions.csv"]


def test_an_export_of_many_pages(catalogue: settings.CatalogueSettings) -> None:
    """More sessions than fit into a page: each is exported once."""
    save(catalogue, [numbered_row(number) for number in range(10, 2510)])
    lines = run(NO_REDIS_URL, "sessions", "export").out.splitlines()
    assert len({msgspec.json.decode(line)["identity"] for line in lines}) == len(lines) == 2504


@pytest.mark.usefixtures("catalogue")
def test_an_export_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that can't be written is numbered_row, and the file that was there before stays as it was."""
    refused(run(NO_REDIS_URL, "sessions", "export", "-o", str(tmp_path / "gone" / "x.csv")), 64, "can't be written")
    kept = tmp_path / "kept.json"
    kept.write_text("before")
    monkeypatch.setenv("RTA_CATALOGUE__PATH", str(tmp_path / "none.sqlite"))
    monkeypatch.setenv("RTA_CATALOGUE__URL", "")
    refused(run(NO_REDIS_URL, "sessions", "export", "-o", str(kept)), 69, "there is no such file")
    assert kept.read_text() == "before"
    assert not (tmp_path / "kept.json.part").exists()
