"""Entries that are made of the files of an archived part, against the bursts that the part was made of."""

import random
from pathlib import Path

import lz4.block
import pytest

from rta_supervisor.gateway.archived import part_files
from rta_wire import entry_ids
from rta_wire.archive.manifest import ManifestFile, PartManifest
from rta_wire.pb import stream_pb2
from rta_writers.archive import parquet
from rta_writers.archive import task as archive_task
from tests.support import archived_sessions

KINDS = ("timestamped", "periodic", "row", "event")
NUMBER = 7
Bursts = dict[str, list[bytes]]
"""Messages with data by the id of their entry, in their order."""


def random_message(chance: random.Random, at_ns: int) -> stream_pb2.StreamData:
    message = stream_pb2.StreamData()
    kind = chance.choice(KINDS)
    count = chance.randint(1, 6)
    if kind == "timestamped":
        data = message.timestamped_data
        data.channel_id, data.start_timestamp, data.timestamp_deltas_scale = chance.randint(0, 3), at_ns, 10
        data.timestamp_deltas.extend([0, *(chance.randint(-3, 9) for _ in range(count - 1))])
        data.buffer = chance.randbytes(8 * count)
    elif kind == "periodic":
        periodic = message.periodic_data
        periodic.channel_id, periodic.start_timestamp, periodic.interval = chance.randint(3, 5), at_ns, 1000
        periodic.samples, periodic.buffer = count, chance.randbytes(8 * count)
    elif kind == "row":
        row = message.row_data
        row.channel_ids.extend(chance.sample(range(8, 16), count))
        row.timestamp, row.buffer = at_ns, chance.randbytes(8 * count)
    else:
        message.event.event_definition_id, message.event.timestamp = count, at_ns
        message.event.status_text = f"é{count}"
        message.event.raw_data.extend([0.5] * count)
    return message


def random_bursts(chance: random.Random, count: int) -> list[stream_pb2.StreamDataBurst]:
    """Bursts of one to four messages; some have Session JSON alone."""
    bursts = [stream_pb2.StreamDataBurst(data=[stream_pb2.StreamData(session_json="{}")])]
    for number in range(count):
        size = chance.randint(1, 4)
        messages = [random_message(chance, 10**18 + number * 10**6 + at) for at in range(size)]
        bursts.append(stream_pb2.StreamDataBurst(data=messages))
        if chance.random() < 0.1:
            bursts.append(bursts[0])
    return bursts


def write_part(folder: Path, bursts: list[stream_pb2.StreamDataBurst]) -> PartManifest:
    blocks = [lz4.block.compress(burst.SerializeToString(), store_size=False) for burst in bursts]
    result = archived_sessions.write(folder, NUMBER, blocks)
    files = tuple(
        ManifestFile(file.name, file.kind, file.rows, 0, "", file.first_id, file.last_id) for file in result.files
    )
    last_id = f"{9 + len(bursts)}-0"
    return PartManifest(
        identity="run",
        stream_session_id=NUMBER,
        stream="rig",
        number=1,
        after=entry_ids.MIN,
        until=last_id,
        added=len(bursts),
        entries=len(bursts),
        first_id="10-0",
        last_id=last_id,
        rows={},
        content={},
        files=files,
    )


def data_messages(bursts: list[stream_pb2.StreamDataBurst]) -> Bursts:
    found = {}
    for index, burst in enumerate(bursts):
        messages = [message.SerializeToString() for message in burst.data if not message.session_json]
        if messages:
            found[f"{10 + index}-0"] = messages
    return found


@pytest.mark.parametrize("seed", range(6))
def test_all_messages_come_back_in_their_bursts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Of all kinds, over chunks and row groups, from any position on, each once and in the order of the stream."""
    monkeypatch.setattr(parquet, "CHUNK_ROWS", 60)
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", 16)
    monkeypatch.setattr(archive_task, "ENTRIES_PER_DECODE", 7)
    chance = random.Random(seed)  # noqa: S311 - a test has to be repeatable
    bursts = random_bursts(chance, chance.choice([1, 15, 90]))
    folder = tmp_path / str(NUMBER)
    folder.mkdir()
    part = write_part(tmp_path, bursts)
    expected = data_messages(bursts)
    for after in ("0-0", "10-0", f"{10 + len(bursts) // 2}-0", part.until):
        found: Bursts = {}
        position = after
        ranges = 0
        while entry_ids.is_after(part.until, position):
            entry_range = part_files.read_range(folder, part, position, part.until)
            assert entry_ids.is_after(entry_range.until, position)
            assert not entry_ids.is_after(entry_range.after, position)
            for entry in entry_range.entries:
                if entry_ids.is_after(entry.id, position):
                    raw = lz4.block.decompress(entry.data, uncompressed_size=1 << 20)
                    burst = stream_pb2.StreamDataBurst.FromString(raw)
                    found[entry.id] = [message.SerializeToString() for message in burst.data]
            position = entry_range.until
            ranges += 1
        wanted = [entry_id for entry_id in expected if entry_ids.is_after(entry_id, after)]
        assert found == {entry_id: expected[entry_id] for entry_id in wanted}
        assert list(found) == wanted
        assert after != "0-0" or len(bursts) < 80 or ranges > 3, "several chunks"
