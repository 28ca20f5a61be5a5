"""The archive without a server: what rows become in files, how they are counted, named, noted, planned and put away."""

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.archive import finalize, folders, manifest, verify
from rta_supervisor.archive import plan as archive_plan
from rta_supervisor.archive.plan import ArchiveCandidate, ArchiveFilter
from rta_supervisor.retention.archive_queue import UnarchivedSession
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections import archive as sections_archive
from rta_wire import archive_spec, content_digest, errors
from rta_wire.codec import encode, event_messages, layout
from rta_wire.session import State
from rta_writers.archive import parquet, recount
from rta_writers.options import read as options_read
from rta_writers.read import batches as read_batches

NOON_MS = 1_778_932_800_000
"""2026-05-16, 12:00 UTC."""

QUIET, OTHER_NAN = (
    struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in (0x7FF8000000000000, 0xFFF80000DEADBEEF)
)


def candidate(number: int = 7, **other: Any) -> ArchiveCandidate:
    facts: dict[str, Any] = {
        "identity": f"run-{number}",
        "stream": "rig",
        "stream_session_id": number,
        "position": "5-0",
        "state": State.CLOSED,
        "version": 2,
        "opened_ms": NOON_MS,
        "updated_ms": NOON_MS + 1000,
        "samples": 0,
        "stored_bytes": 100,
        "document": b'{"identity": "run"}',
    }
    return ArchiveCandidate(**{**facts, **other})


def raw_entries(number: int, bursts: list[bytes]) -> Iterator[pa.RecordBatch]:
    ids = [f"{10 + place}-0" for place in range(len(bursts))]
    schema = read_batches.schema(
        options_read.ReadOptions(redis_url="", stream="rig", form=options_read.ReadForm.ENTRIES)
    )
    columns = [pa.array([None] * len(ids), pa.string()), pa.array([number] * len(ids)), pa.array(ids), pa.array(bursts)]
    yield pa.RecordBatch.from_arrays(columns, schema=schema)


def bursts(channels: list[int], times: list[int], values: list[float]) -> list[bytes]:
    made = encode.encode_doubles(np.array(channels, np.uint32), np.array(times, np.int64), np.array(values, np.float64))
    return [encode.session_json(b"{}"), *(one.data for one in made)]


def write(
    folder: Path, number: int, data: list[bytes], layouts: layout.Plan | None = None
) -> archive_spec.SessionResult:
    """What a pass makes of one session."""
    wanted = {number: parquet.SessionLayout("run", layouts or layout.Plan())}
    [told] = parquet.ParquetTask(str(folder), wanted)(raw_entries(number, data))
    rows = told.to_pylist()
    found = recount.recount_sessions(raw_entries(number, data), wanted)[number]
    return archive_spec.SessionResult(
        number,
        *(found.entries, found.size_bytes, found.first_id, found.last_id, found.begins_with_json),
        samples=archive_spec.RowSum(found.samples.rows, found.samples.sum),
        events=archive_spec.RowSum(found.events.rows, found.events.sum),
        files=tuple(
            archive_spec.ArchiveFile(row["kind"], row["file"], row["rows"]) for row in rows if row["kind"] != "broken"
        ),
        problem="".join(row["file"] for row in rows if row["kind"] == "broken"),
    )


def finish(
    session: ArchiveCandidate, outcome: archive_spec.SessionResult, aside: Path, archive: Path
) -> manifest.Manifest:
    checked = finalize.verify_files(session.stream_session_id, outcome.files, aside)
    return finalize.finalize(session, outcome, checked, aside, archive)


doubles = st.one_of(st.floats(width=64), st.sampled_from([0.0, -0.0, QUIET, OTHER_NAN, math.inf, 5e-324]))
samples = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(-(2**62), 2**62), doubles), min_size=1, max_size=50)


def of(rows: list[tuple[int, int, float]]) -> content_digest.Digest:
    channels, times, values = zip(*rows, strict=True)
    return content_digest.of_samples(
        np.array(channels, np.int64), np.array(times, np.int64), np.array(values, np.float64)
    )


@given(rows=samples, data=st.data())
def test_a_digest_knows_rows_and_not_their_order(rows: list[tuple[int, int, float]], data: st.DataObject) -> None:
    """Shuffled and joined in parts it is the same; with one bit of one row changed, or a row twice, it is another."""
    mixed = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(1, len(rows)))
    parts = [part for part in (mixed[:cut], mixed[cut:]) if part]
    joined = content_digest.Digest()
    for part in parts:
        joined = joined.sum_of(of(part))
    assert joined == of(rows)
    channel, time_ns, value = rows[0]
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    (other,) = struct.unpack("<d", struct.pack("<Q", bits ^ (1 << data.draw(st.integers(0, 63)))))
    for wrong in ((channel ^ 1, time_ns, value), (channel, time_ns ^ 1, value), (channel, time_ns, other)):
        assert of([wrong, *rows[1:]]).sum != of(rows).sum
    assert of([*rows, rows[0]]) != of(rows)


def test_values_that_swap_places_are_noticed() -> None:
    """Each value belongs to its time and channel."""
    assert of([(1, 10, 1.0), (1, 20, 2.0)]) != of([(1, 10, 2.0), (1, 20, 1.0)])
    assert of([(1, 10, 1.0), (2, 10, 2.0)]) != of([(1, 10, 2.0), (2, 10, 1.0)])


def test_every_bit_of_a_double_is_in_the_file(tmp_path: Path) -> None:
    """NaNs with their bits, both zeros, the smallest and the largest; times of all 64 bits."""
    values = [0.0, -0.0, QUIET, OTHER_NAN, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 0.1]
    times = [-(2**63), -1, 0, 1, 2**63 - 1, 5, 6, 7, 8]
    outcome = write(tmp_path, 7, bursts(list(range(9)), times, values))
    [file] = outcome.files
    table = pq.read_table(tmp_path / "7" / file.name)
    order = np.argsort(table["channel"].to_numpy())
    assert table["value"].to_numpy()[order].tobytes() == np.array(values).tobytes()
    assert table["time"].to_numpy()[order].tolist() == times
    assert set(table["identity"].to_pylist()) == {"run"}
    assert table.schema.field("identity").type == pa.string()
    assert verify.digest_file(tmp_path / "7" / file.name, "samples") == content_digest.Digest(9, outcome.samples.sum)


@pytest.mark.parametrize("kind", list(layout.SampleType))
def test_every_sample_type_keeps_its_digits(tmp_path: Path, kind: layout.SampleType) -> None:
    """The ends of each type: exact as a double, or with all digits beside it."""
    if kind.dtype.kind == "f":
        values = np.array([np.finfo(kind.dtype).max, -1.5], kind.dtype)
    else:
        values = np.array([np.iinfo(kind.dtype).max, np.iinfo(kind.dtype).min], kind.dtype)
    layouts = layout.Plan(default=layout.Layout(type=kind))
    batch = pa.record_batch({"channel": pa.array([1, 1]), "time": pa.array([1, 2]), "value": pa.array(values)})
    data = [burst.data for burst in encode.Encoder(layouts).long([batch])]
    outcome = write(tmp_path, 7, data, layouts)
    [file] = outcome.files
    table = pq.read_table(tmp_path / "7" / file.name).to_pylist()
    exact = [int(row["integer"]) if row["integer"] is not None else row["value"] for row in table]
    assert exact == values.tolist()
    assert (table[0]["integer"] is not None) == (kind in (layout.SampleType.INT64, layout.SampleType.UINT64))
    assert verify.digest_file(tmp_path / "7" / file.name, "samples") == content_digest.Digest(2, outcome.samples.sum)
    [batch] = pq.read_table(tmp_path / "7" / file.name).to_batches()
    halves = [verify._samples(batch.slice(at, 1)) for at in (0, 1)]
    assert halves[0].sum_of(halves[1]) == content_digest.Digest(2, outcome.samples.sum), "wherever a part begins"


def test_mixed_types_events_and_rows_are_all_there(tmp_path: Path) -> None:
    """Whole numbers beside doubles, row data as samples, events in a file of their own."""
    layouts = layout.Plan([(2, layout.Layout(type=layout.SampleType.UINT64, kind=layout.Kind.ROW))])
    encoder = encode.Encoder(layouts)
    batch = pa.record_batch({"channel": pa.array([1, 2]), "time": pa.array([1, 2]), "value": pa.array([3, 2**53 + 1])})
    told = [
        event_messages.event(3, 9, app_name="ECU", status_text="up", raw_data=[1.5, math.nan]),
        event_messages.event(-1, -5),
    ]
    data = [burst.data for burst in (*encoder.long([batch]), *encoder.events(told))]
    outcome = write(tmp_path, 7, data, layouts)
    files = {file.kind: tmp_path / "7" / file.name for file in outcome.files}
    rows = {(row["channel"], row["integer"] or row["value"]) for row in pq.read_table(files["samples"]).to_pylist()}
    assert rows == {(1, 3.0), (2, 2**53 + 1)}
    assert verify.digest_file(files["samples"], "samples") == content_digest.Digest(2, outcome.samples.sum)
    assert verify.digest_file(files["events"], "events") == content_digest.Digest(2, outcome.events.sum)
    assert pq.read_table(files["events"])["status_text"].to_pylist() == ["up", ""]
    assert files["samples"].name.startswith("part-")
    assert files["events"].name.startswith("events-")


def test_a_session_that_can_not_be_decoded_spoils_no_other(tmp_path: Path) -> None:
    """It is told of with the entry, and leaves no file."""
    wanted = {number: parquet.SessionLayout(f"run-{number}", layout.Plan()) for number in (7, 8)}
    good = bursts([1], [1], [1.0])
    batches = [*raw_entries(7, [*good, b"junk", good[1]]), *raw_entries(8, good)]
    [told] = parquet.ParquetTask(str(tmp_path), wanted)(iter(batches))
    found = {row["stream_session_id"]: row for row in told.to_pylist()}
    assert found[7]["kind"] == parquet.BROKEN
    assert "entry 12-0" in found[7]["file"]
    assert found[8]["rows"] == 1
    assert not list((tmp_path / "7").glob("*")) if (tmp_path / "7").exists() else True
    assert "entry 12-0" in recount.recount_sessions(batches, wanted)[7].problem


def test_a_task_holds_a_group_and_rolls_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are written by the group; a file ends at its bound and the next one begins."""
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", 100)
    monkeypatch.setattr(parquet, "FILE_ROWS", 300)
    monkeypatch.setattr(parquet, "ENTRIES_PER_DECODE", 1)
    data = [one for n in range(10) for one in bursts([1] * 100, list(range(n * 100, n * 100 + 100)), [0.5] * 100)[1:]]
    outcome = write(tmp_path, 7, data)
    assert [file.rows for file in outcome.files] == [300, 300, 300, 100]
    assert pq.ParquetFile(tmp_path / "7" / outcome.files[0].name).num_row_groups == 3
    found = content_digest.Digest()
    for file in outcome.files:
        found = found.sum_of(verify.digest_file(tmp_path / "7" / file.name, "samples"))
    assert found == content_digest.Digest(1000, outcome.samples.sum)


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


def test_bytes_can_be_split(tmp_path: Path) -> None:
    """The same rows, encoded in another way."""
    wanted = {7: parquet.SessionLayout("run", layout.Plan())}
    rows = list(range(1000))
    data = bursts([1] * 1000, rows, [n * 0.25 for n in rows])
    for split in (False, True):
        way = parquet.ParquetOptions(byte_stream_split=split)
        [told] = parquet.ParquetTask(str(tmp_path / str(split)), wanted, way)(raw_entries(7, data))
        path = tmp_path / str(split) / "7" / told["file"][0].as_py()
        found = pq.ParquetFile(path).metadata.row_group(0).column(4)
        assert ("BYTE_STREAM_SPLIT" in found.encodings) == split
        assert pq.read_table(path)["value"].to_pylist() == [n * 0.25 for n in rows]


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


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    """A file that is shorter or gone, a manifest that can't be read, was changed, or is not there."""
    finish(candidate(), write(tmp_path, 7, bursts([1], [1], [1.0])), tmp_path, tmp_path)
    folder = tmp_path / candidate().folder
    path, text = folder / "manifest.json", (folder / "manifest.json").read_text()
    [file] = folder.glob("part-*")
    for damage, words in (
        (lambda: path.write_text(text.replace('"samples": 1', '"samples": 2')), "contradicts itself"),
        (lambda: path.write_text("{"), "can't be read"),
        (lambda: (path.write_text(text), file.write_bytes(b"half")), "has 4 bytes"),
        (file.unlink, "is gone"),
        (path.unlink, "no manifest"),
    ):
        damage()
        with pytest.raises(errors.ArchiveDamaged, match=words):
            manifest.read(folder, "run-7")


def test_one_run_at_a_time_and_no_leftovers(tmp_path: Path) -> None:
    """What a killed run left is removed by the next; a second run beside the first is refused."""
    (tmp_path / ".tmp-dead" / "7").mkdir(parents=True)
    with folders.staging_folder(tmp_path) as aside:
        assert [path.name for path in tmp_path.glob(".tmp-*")] == [aside.name]
        with pytest.raises(errors.ArchiveBusy), folders.staging_folder(tmp_path):
            pass
    assert list(tmp_path.glob(".tmp-*")) == []
    with folders.staging_folder(tmp_path):
        pass


def test_names_of_folders_are_safe() -> None:
    """Whatever an identity holds; the id makes it unique, and the day is that of the opening in UTC."""
    place = folders.session_folder("rig", NOON_MS, "../../etc/passwd é {}" + "x" * 300, 7)
    assert place.parts[:2] == ("date=2026-05-16", "source=rig")
    assert len(place.parts) == 3
    assert place.parts[2].startswith("session=.._.._etc_passwd")
    assert place.parts[2].endswith("x-7")
    assert len(place.parts[2]) < 120
    assert folders.day(NOON_MS + 12 * 3_600_000 - 1) == "2026-05-16"
    assert folders.day(NOON_MS + 12 * 3_600_000) == "2026-05-17"


@given(
    st.builds(
        UnarchivedSession,
        st.integers(0, 2**63),
        st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True),
        st.sampled_from(["0-0", "17-3", "+"]),
        st.text(st.characters(exclude_categories=["C"]), min_size=1),
    )
)
def test_names_in_the_list_say_everything(one: UnarchivedSession) -> None:
    """Identities may hold spaces."""
    assert UnarchivedSession.parse(one.member.encode()) == one


def test_what_is_chosen() -> None:
    """By stream, source and time, oldest first, up to a number."""
    found = [candidate(n, stream=f"rig.2026051{n}", opened_ms=NOON_MS + n) for n in (3, 1, 2)] + [candidate(9)]
    assert [one.stream_session_id for one in ArchiveFilter().select(found)] == [1, 2, 3, 9]
    assert [one.stream_session_id for one in ArchiveFilter(sources=("rig",), since_ms=NOON_MS + 2).select(found)] == [
        2,
        3,
    ]
    assert [one.stream_session_id for one in ArchiveFilter(streams=("rig.20260511",)).select(found)] == [1]
    assert [one.stream_session_id for one in ArchiveFilter(limit=2).select(found)] == [1, 2]


def test_a_thousand_short_sessions_are_one_reading_of_their_stream() -> None:
    """And many small streams share a pass, within bounds."""
    many = [candidate(n, position=f"{n + 8}-5") for n in range(1000, 0, -1)]
    [one] = archive_plan.passes(many, sections_archive.ArchiveSettings())
    [stream] = one.streams
    assert (stream.after, len(stream.sessions)) == ("9-5", 1000)
    apart = [candidate(n, stream=f"rig-{n}") for n in range(40)]
    sources = {"rig-3": sections_archive.ArchiveSourceSettings(sample_type="float")}
    passes = archive_plan.passes(apart, sections_archive.ArchiveSettings(sources=sources))
    assert [len(one.streams) for one in passes] == [16, 16, 8]
    assert passes[0].streams[3].sample_type == "float"
    large = [candidate(n, stream=f"rig-{n}", stored_bytes=3 << 30) for n in range(3)]
    assert len(archive_plan.passes(large, sections_archive.ArchiveSettings())) == 3


def test_settings_that_make_no_sense_are_named() -> None:
    """Each with its name."""
    for words, where in (
        ({"required": True}, "archive.path"),
        ({"max_bytes": -1}, "archive.max_bytes"),
        ({"alarm_at": 0}, "archive.alarm_at"),
        ({"level": 20}, "archive.level"),
    ):
        with pytest.raises(errors.BadConfiguration, match=where):
            settings.load(environ={}, overrides={f"archive.{name}": value for name, value in words.items()})
