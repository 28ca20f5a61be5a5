"""Reads a run back as any reader of the protocol would, and names everything that is not as it should be."""

from collections.abc import Iterator
from typing import Any, Final, cast

import msgspec
import numpy as np
import numpy.typing as npt
import redis

from rta_supervisor.demo import cars
from rta_wire import entry_ids, errors, keys, session
from rta_wire.codec import decode
from rta_wire.pb import data_pb2, stream_pb2

PAGE: Final = 500

Columns = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]


class DecodedEntry(msgspec.Struct, frozen=True):
    """One entry of the stream, decoded."""

    id: str
    stored_bytes: int
    message: stream_pb2.StreamDataBurst


class SessionCheck(msgspec.Struct):
    """What one session looks like from outside."""

    car: int
    identity: str
    bursts: int = 0
    samples: int = 0
    raw_bytes: int = 0
    stored_bytes: int = 0
    problems: list[str] = []


def check_all(client: redis.Redis, names: cars.RunNames) -> list[SessionCheck]:
    """One result per car, problems included."""
    bursts = _bursts_by_session(client, names.stream)
    reads = []
    for car, identity in names.sessions.items():
        read = SessionCheck(car, identity, problems=[])
        raw = cast("dict[bytes, bytes]", client.hgetall(keys.Keys().session(identity)))
        fields = {name.decode(): value.decode() for name, value in raw.items()}
        if fields:
            _check_stream(read, bursts.get(fields.get(keys.STREAM_SESSION_ID, ""), []), fields)
            _check_hash(read, fields, client, names)
        else:
            read.problems.append("its hash is missing")
        reads.append(read)
    return reads


def _bursts_by_session(client: redis.Redis, stream: str) -> dict[str, list[DecodedEntry]]:
    found: dict[str, list[DecodedEntry]] = {}
    for entry_id, fields in _entries(client, keys.stream(stream)):
        if set(fields) != {keys.ENTRY_ID, keys.ENTRY_DATA}:
            raise errors.BadBurst(reason=f"entry {entry_id} has the fields {sorted(fields)}, not id and data")
        data = fields[keys.ENTRY_DATA]
        message = decode.burst(data)
        found.setdefault(fields[keys.ENTRY_ID].decode(), []).append(DecodedEntry(entry_id, len(data), message))
    return found


def _entries(client: redis.Redis, key: str) -> Iterator[tuple[str, dict[bytes, bytes]]]:
    after = "-"
    while page := cast(Any, client.xrange(key, after, "+", count=PAGE)):
        for entry_id, fields in page:
            yield entry_id.decode(), fields
        after = f"({page[-1][0].decode()}"


def _check_stream(read: SessionCheck, entries: list[DecodedEntry], fields: dict[str, str]) -> None:
    kinds = [[item.WhichOneof("data") for item in entry.message.data] for entry in entries]
    if len(entries) < 2 or kinds[0] != ["session_json"] or kinds[-1] != ["session_json"]:
        read.problems.append("its first and last entries are not its Session JSON alone")
        return
    if entries[-1].message.data[0].session_json != fields.get(keys.JSON):
        read.problems.append("its last entry is not the JSON in its hash")
    position = fields.get(keys.STREAM_POSITION)
    if not position or not entry_ids.is_after(entries[0].id, position):
        read.problems.append("its streamPosition is not before its first entry")
    parts: list[Columns] = []
    for entry in entries:
        data = [item.timestamped_data for item in entry.message.data if item.HasField("timestamped_data")]
        if data:
            read.bursts += 1
            read.stored_bytes += entry.stored_bytes
            read.raw_bytes += entry.message.ByteSize()
            parts += [_columns(item) for item in data]
    _check_samples(read, parts)


def _columns(item: data_pb2.TimestampedData) -> Columns:
    deltas = np.array(item.timestamp_deltas, dtype=np.int64)
    times = item.start_timestamp + np.cumsum(deltas) * item.timestamp_deltas_scale
    return np.full(len(deltas), item.channel_id, dtype=np.int64), times, np.frombuffer(item.buffer, "<f8")


def _check_samples(read: SessionCheck, parts: list[Columns]) -> None:
    wanted = cars.expected(read.car)
    got = tuple(np.concatenate(column) for column in zip(*parts, strict=True)) if parts else wanted
    read.samples = len(got[0]) if parts else 0
    if read.samples != len(wanted[0]):
        different = len(np.unique(np.stack(got[:2]), axis=1).T) if parts else 0
        read.problems.append(
            f"{len(wanted[0]) - different} of {len(wanted[0])} samples are missing, "
            f"{read.samples - different} stand there twice"
        )
        return
    order = np.lexsort((got[1], got[0]))
    if not all(np.array_equal(ours[order], theirs) for ours, theirs in zip(got, wanted, strict=True)):
        read.problems.append("samples differ from what the car measured")


def _check_hash(read: SessionCheck, fields: dict[str, str], client: redis.Redis, names: cars.RunNames) -> None:
    _, times, _ = cars.expected(read.car)
    document = session.parse(fields.get(keys.JSON, "{}"))
    expected = {
        keys.STREAM_NAME: names.stream,
        keys.T_START: str(times.min()),
        keys.T_END: str(times.max()),
    }
    read.problems += [
        f"{name} in its hash is {fields.get(name)}, not {value}"
        for name, value in expected.items()
        if fields.get(name) != value
    ]
    if document["state"] != session.State.CLOSED:
        read.problems.append(f"it is {document['state']}, not closed")
    if document.get("timeRange") != {"startTime": int(times.min()), "endTime": int(times.max())}:
        read.problems.append("the time range in its JSON is not that of its samples")
    if client.ttl(keys.Keys().session(read.identity)) <= 0:
        read.problems.append("its hash never expires")
    if not client.sismember(keys.STREAMS, names.stream):
        read.problems.append("its stream is missing in the set of streams")
