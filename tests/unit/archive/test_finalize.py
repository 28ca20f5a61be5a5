"""The last steps for a session: files are compared with the stream, and get a manifest and their folder."""

from pathlib import Path

import msgspec
import pytest

from rta_supervisor.archive import finalize as archive_finalize
from rta_supervisor.archive import manifest
from rta_wire import archive_spec, errors
from tests.support.archived_sessions import bursts, write
from tests.unit.archive.candidates import candidate, finalize, planned


def test_verified_files_get_a_manifest_and_their_folder(tmp_path: Path) -> None:
    """The same rows have the same checksum, whatever the files are called; other files of Spark are removed."""
    checksums = set()
    for attempt in ("a", "b"):
        staging, archive = tmp_path / attempt / "staging", tmp_path / attempt / "archive"
        result = write(staging, 7, bursts([1, 2], [1, 2], [0.5, 0.25]))
        (staging / "7" / "part-of-a-dead-attempt.parquet").write_bytes(b"half")
        new = finalize(candidate(samples=2), result, staging, archive)
        folder = archive / "date=2026-05-16" / "source=rig" / "session=run-7-7"
        names = {path.name for path in folder.iterdir()}
        assert names == {"part-00001.json", "manifest.json", "session.json", *(file.name for file in result.files)}
        assert (folder / "session.json").read_bytes() == candidate().document
        assert manifest.read(folder, "run-7") == new
        assert new.complete
        assert new.rows == {"samples": 2, "events": 0, "messages": 2}
        assert (new.entries, new.first_id, new.last_id) == (2, "10-0", "11-0")
        checksums.add(new.checksum)
        assert not list((staging / "7").glob("*-00001-*"))
    assert len(checksums) == 1


def test_files_that_differ_from_the_stream_never_get_a_manifest(tmp_path: Path) -> None:
    """A row too few, and as many rows with one value changed."""
    for values, reason in (([0.5], "1 samples in the files, 2 in the stream"), ([0.5, 0.26], "but not the same")):
        staging = tmp_path / str(len(values))
        right = write(tmp_path / f"right-{len(values)}", 7, bursts([1, 1], [1, 2], [0.5, 0.25]))
        wrong = write(staging, 7, bursts([1] * len(values), [1, 2][: len(values)], values))
        result = msgspec.structs.replace(wrong, samples=right.samples)
        with pytest.raises(errors.ArchiveDiffers, match=reason):
            finalize(candidate(), result, staging, tmp_path / "archive")
    assert not (tmp_path / "archive").exists()


def test_what_is_missing_is_in_the_manifest(tmp_path: Path) -> None:
    """Samples that were reported and are gone, a beginning that was trimmed, and a session without any entry."""
    whole = write(tmp_path, 7, bursts([1, 1], [1, 2], [0.5, 0.25]))
    assert archive_finalize.describe_missing(planned(candidate(samples=2)), whole) == ()
    assert archive_finalize.describe_missing(planned(candidate(samples=3)), whole) == (
        "1 of 3 samples that were reported",
    )
    cut = write(tmp_path, 8, bursts([1, 1], [1, 2], [0.5, 0.25])[1:])
    assert archive_finalize.describe_missing(planned(candidate(samples=2)), cut) == (
        "entries before 10-0: they were trimmed",
    )
    nothing = archive_spec.SessionResult(7)
    assert "all of its entries" in archive_finalize.describe_missing(planned(candidate()), nothing)[0]
    empty = finalize(candidate(9), archive_spec.SessionResult(9), tmp_path, tmp_path / "archive")
    assert not empty.complete
    assert empty.files == ()


def test_newer_json_is_written_beside_the_same_files(tmp_path: Path) -> None:
    """Other JSON has another checksum and the same rows; the same JSON again changes no byte."""
    old = finalize(candidate(), write(tmp_path, 7, bursts([1], [1], [1.0])), tmp_path, tmp_path)
    folder = tmp_path / candidate().folder
    assert archive_finalize.refresh_manifest(candidate(8), tmp_path) is None
    before_ns = (folder / "manifest.json").stat().st_mtime_ns
    assert archive_finalize.refresh_manifest(candidate(), tmp_path) == old
    assert (folder / "manifest.json").stat().st_mtime_ns == before_ns
    new = archive_finalize.refresh_manifest(candidate(document=b"{}", version=3), tmp_path)
    assert new is not None
    assert (new.checksum != old.checksum, new.version, new.files) == (True, 3, old.files)
    assert (folder / "session.json").read_bytes() == b"{}"
    assert manifest.read(folder, "run-7") == new
