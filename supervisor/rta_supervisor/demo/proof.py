"""Reads the sessions of a run back as any reader of the protocol would, and lists what is not as it should be."""

from collections.abc import Iterator
from typing import Any, Final, cast

import msgspec
import numpy as np
import redis

from rta_supervisor.demo import cars
from rta_wire import entry_ids, errors, keys, session
from rta_wire.arrays import F64, I64
from rta_wire.channels import config_json
from rta_wire.codec import decode
from rta_wire.pb import data_pb2, stream_pb2

PAGE_ENTRIES: Final = 500

SampleColumns = tuple[I64, I64, F64]


class DecodedEntry(msgspec.Struct, frozen=True):
    """One entry of the stream with its decoded burst."""

    id: str
    stored_bytes: int
    message: stream_pb2.StreamDataBurst


class SessionCheck(msgspec.Struct):
    """What the stream and the hash of one session hold, and what is wrong with them."""

    car: int
    identity: str
    bursts: int = 0
    samples: int = 0
    raw_bytes: int = 0
    stored_bytes: int = 0
    problems: list[str] = []


def check_all(client: redis.Redis, names: cars.RunNames) -> list[SessionCheck]:
    """Checks the session of each car against the samples that it should have."""
    entries = _entries_by_session(client, names.stream)
    checks = []
    for car, identity in names.sessions.items():
        check = SessionCheck(car, identity, problems=[])
        raw = cast("dict[bytes, bytes]", client.hgetall(keys.Keys().session(identity)))
        fields = {name.decode(): value.decode() for name, value in raw.items()}
        if fields:
            _check_stream(check, entries.get(fields.get(keys.STREAM_SESSION_ID, ""), []), fields)
            _check_hash(check, fields, client, names)
        else:
            check.problems.append("its hash is missing")
        checks.append(check)
    return checks


def _entries_by_session(client: redis.Redis, stream: str) -> dict[str, list[DecodedEntry]]:
    """Decoded entries of a stream, by stream session id."""
    by_session: dict[str, list[DecodedEntry]] = {}
    for entry_id, fields in _read_entries(client, keys.stream(stream)):
        if set(fields) != {keys.ENTRY_ID, keys.ENTRY_DATA}:
            raise errors.BadBurst(reason=f"entry {entry_id} has the fields {sorted(fields)}, not id and data")
        data = fields[keys.ENTRY_DATA]
        message = decode.burst(data)
        by_session.setdefault(fields[keys.ENTRY_ID].decode(), []).append(DecodedEntry(entry_id, len(data), message))
    return by_session


def _read_entries(client: redis.Redis, key: str) -> Iterator[tuple[str, dict[bytes, bytes]]]:
    start = "-"
    while page := cast(Any, client.xrange(key, start, "+", count=PAGE_ENTRIES)):
        for entry_id, fields in page:
            yield entry_id.decode(), fields
        start = f"({page[-1][0].decode()}"


def _check_stream(check: SessionCheck, entries: list[DecodedEntry], fields: dict[str, str]) -> None:
    kinds = [[item.WhichOneof("data") for item in entry.message.data] for entry in entries]
    if len(entries) < 2 or kinds[0] != ["session_json"] or kinds[-1] != ["session_json"]:
        check.problems.append("its first and last entries are not its Session JSON alone")
        return
    if entries[-1].message.data[0].session_json != fields.get(keys.JSON):
        check.problems.append("its last entry is not the JSON in its hash")
    if not entry_ids.is_after(entries[0].id, fields.get(keys.STREAM_POSITION) or entry_ids.MAX):
        check.problems.append("its streamPosition is not before its first entry")
    columns: list[SampleColumns] = []
    for entry in entries:
        data = [item.timestamped_data for item in entry.message.data if item.HasField("timestamped_data")]
        if data:
            check.bursts += 1
            check.stored_bytes += entry.stored_bytes
            check.raw_bytes += entry.message.ByteSize()
            columns += [_sample_columns(item) for item in data]
    _check_samples(check, columns)


def _sample_columns(item: data_pb2.TimestampedData) -> SampleColumns:
    """Channels, times and values of one message of samples."""
    deltas = np.array(item.timestamp_deltas, dtype=np.int64)
    times = item.start_timestamp + np.cumsum(deltas) * item.timestamp_deltas_scale
    return np.full(len(deltas), item.channel_id, dtype=np.int64), times, np.frombuffer(item.buffer, "<f8")


def _check_samples(check: SessionCheck, columns: list[SampleColumns]) -> None:
    expected = cars.expected_samples(check.car)
    samples = tuple(np.concatenate(column) for column in zip(*columns, strict=True)) if columns else ()
    check.samples = len(samples[0]) if samples else 0
    if check.samples != len(expected[0]):
        distinct = len(np.unique(np.stack(samples[:2]), axis=1).T) if samples else 0
        check.problems.append(
            f"{len(expected[0]) - distinct} of {len(expected[0])} samples are missing, "
            f"{check.samples - distinct} stand there twice"
        )
        return
    order = np.lexsort((samples[1], samples[0]))
    if not all(np.array_equal(column[order], wanted) for column, wanted in zip(samples, expected, strict=True)):
        check.problems.append("samples differ from what the car measured")


def _check_hash(check: SessionCheck, fields: dict[str, str], client: redis.Redis, names: cars.RunNames) -> None:
    _, times, _ = cars.expected_samples(check.car)
    document = session.parse(fields.get(keys.JSON, "{}"))
    expected = {
        keys.STREAM_NAME: names.stream,
        keys.T_START: str(times.min()),
        keys.T_END: str(times.max()),
    }
    check.problems += [
        f"{name} in its hash is {fields.get(name)}, not {value}"
        for name, value in expected.items()
        if fields.get(name) != value
    ]
    if document["state"] != session.State.CLOSED:
        check.problems.append(f"it is {document['state']}, not closed")
    if document.get("timeRange") != {"startTime": int(times.min()), "endTime": int(times.max())}:
        check.problems.append("the time range in its JSON is not that of its samples")
    _check_channels(check, document, client, names)
    if client.ttl(keys.Keys().session(check.identity)) <= 0:
        check.problems.append("its hash never expires")
    if not client.sismember(keys.STREAMS, names.stream):
        check.problems.append("its stream is missing in the set of streams")


def _check_channels(check: SessionCheck, document: session.Json, client: redis.Redis, names: cars.RunNames) -> None:
    """What the channels are has to be found by way of the session, as viewers do."""
    bindings = document.get("configBindings") or [{}]
    identifier = bindings[0].get("identifier", "")
    data = cast("bytes | None", client.get(keys.Keys(prefix=names.key_prefix).config(identifier)))
    if data is None or config_json.decode(data) != cars.CHANNEL_LIST:
        check.problems.append("its configuration does not describe the channels of the car")
