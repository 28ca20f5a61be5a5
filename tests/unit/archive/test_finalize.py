"""Files of a session on their way into the archive: verified, written down, and moved to their place."""

from pathlib import Path

import msgspec
import pytest

from rta_supervisor.archive import finalize, manifest
from rta_wire import archive_spec, errors
from tests.support.archived_sessions import bursts, write
from tests.unit.archive.candidates import candidate, finish


def test_files_that_are_verified_get_a_manifest_and_their_place(tmp_path: Path) -> None:
    """Twice the same: one checksum, whatever the files are called; what Spark left besides is gone."""
    sums = set()
    for attempt in ("a", "b"):
        aside, archive = tmp_path / attempt / "aside", tmp_path / attempt / "archive"
        outcome = write(aside, 7, bursts([1, 2], [1, 2], [0.5, 0.25]))
        (aside / "7" / "part-of-a-dead-attempt.parquet").write_bytes(b"half")
        made = finish(candidate(samples=2), outcome, aside, archive)
        folder = archive / "date=2026-05-16" / "source=rig" / "session=run-7-7"
        names = {path.name for path in folder.iterdir()}
        assert names == {"manifest.json", "session.json", *(file.name for file in outcome.files)}
        assert (folder / "session.json").read_bytes() == candidate().document
        assert manifest.read(folder, "run-7") == made
        assert made.complete
        assert made.rows == {"samples": 2, "events": 0}
        assert (made.entries, made.first_id, made.last_id) == (2, "10-0", "11-0")
        sums.add(made.checksum)
        assert not (aside / "7").exists()
    assert len(sums) == 1


def test_files_that_differ_from_the_stream_never_get_a_manifest(tmp_path: Path) -> None:
    """A row too few, and as many rows with one value changed."""
    for values, words in (([0.5], "1 samples in the files, 2 in the stream"), ([0.5, 0.26], "but not the same")):
        aside = tmp_path / str(len(values))
        right = write(tmp_path / f"right-{len(values)}", 7, bursts([1, 1], [1, 2], [0.5, 0.25]))
        wrong = write(aside, 7, bursts([1] * len(values), [1, 2][: len(values)], values))
        outcome = msgspec.structs.replace(wrong, samples=right.samples)
        with pytest.raises(errors.ArchiveDiffers, match=words):
            finish(candidate(), outcome, aside, tmp_path / "archive")
    assert not (tmp_path / "archive").exists()


def test_what_is_missing_is_written_down(tmp_path: Path) -> None:
    """Samples that were reported and are gone, a front that was trimmed, nothing left at all."""
    whole = write(tmp_path, 7, bursts([1, 1], [1, 2], [0.5, 0.25]))
    assert finalize.describe_missing(candidate(samples=2), whole) == ()
    assert finalize.describe_missing(candidate(samples=3), whole) == ("1 of 3 samples that were reported",)
    cut = write(tmp_path, 8, bursts([1, 1], [1, 2], [0.5, 0.25])[1:])
    assert finalize.describe_missing(candidate(samples=2), cut) == ("entries before 10-0: they were trimmed",)
    assert "all of its entries" in finalize.describe_missing(candidate(), archive_spec.SessionResult(7))[0]
    made = finish(candidate(9), archive_spec.SessionResult(9), tmp_path, tmp_path / "archive")
    assert not made.complete
    assert made.files == ()


def test_newer_json_is_written_beside_the_same_files(tmp_path: Path) -> None:
    """Other JSON, other checksum, same rows; the same JSON again changes no byte."""
    made = finish(candidate(), write(tmp_path, 7, bursts([1], [1], [1.0])), tmp_path, tmp_path)
    folder = tmp_path / candidate().folder
    assert finalize.refresh_manifest(candidate(8), tmp_path) is None
    before = (folder / "manifest.json").stat().st_mtime_ns
    assert finalize.refresh_manifest(candidate(), tmp_path) == made
    assert (folder / "manifest.json").stat().st_mtime_ns == before
    newer = finalize.refresh_manifest(candidate(document=b"{}", version=3), tmp_path)
    assert newer is not None
    assert (newer.checksum != made.checksum, newer.version, newer.files) == (True, 3, made.files)
    assert (folder / "session.json").read_bytes() == b"{}"
    assert manifest.read(folder, "run-7") == newer
