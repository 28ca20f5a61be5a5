"""Reads chunks of data as the specification says them: LZ4, protobuf and deltas by hand, with no code of ours."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

TIMESTAMPED, PERIODIC, ROW, EVENTS = "timestamped", "periodic", "row", "events"
LZ4_MODE = 1


class ReadChunk(NamedTuple):
    """A chunk: what its header says, and its items."""

    start_ns: int
    duration_ns: int
    channels: tuple[int, ...]
    unpacked: int
    items: list[dict[int, list[object]]]


def lz4_block(data: bytes) -> bytes:
    """Decompresses one raw LZ4 block."""
    out = bytearray()
    at = 0
    while at < len(data):
        token = data[at]
        at += 1
        literals, at = _length(data, at, token >> 4)
        out += data[at : at + literals]
        at += literals
        if at >= len(data):
            break
        offset = data[at] | data[at + 1] << 8
        at += 2
        match, at = _length(data, at, token & 15)
        for _ in range(match + 4):
            out.append(out[-offset])
    return bytes(out)


def _length(data: bytes, at: int, length: int) -> tuple[int, int]:
    if length == 15:
        while True:
            length += data[at]
            at += 1
            if data[at - 1] != 255:
                break
    return length, at


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data: bytes) -> dict[int, list[object]]:
    """The fields of a message, by number: integers of varints and fixed 64 bits, else bytes."""
    found: dict[int, list[object]] = {}
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        value: object
        if tag & 7 == 0:
            value, at = varint(data, at)
        elif tag & 7 == 1:
            (value,) = struct.unpack_from("<q", data, at)
            at += 8
        else:
            size, at = varint(data, at)
            value = data[at : at + size]
            at += size
        found.setdefault(tag >> 3, []).append(value)
    return found


def packed(values: list[object]) -> list[int]:
    """The numbers of a repeated field, packed or not."""
    numbers: list[int] = []
    for value in values:
        if isinstance(value, int):
            numbers.append(value)
            continue
        assert isinstance(value, bytes)
        at = 0
        while at < len(value):
            number, at = varint(value, at)
            numbers.append(number)
    return numbers


def _number(message: dict[int, list[object]], field: int) -> int:
    value = message.get(field, [0])[-1]
    assert isinstance(value, int)
    return value


def _zigzag(value: int) -> int:
    return value >> 1 ^ -(value & 1)


def chunks(body: bytes) -> Iterator[ReadChunk]:
    """Every chunk of a body."""
    at = start = duration = mode = 0
    while at < len(body):
        (size,) = struct.unpack_from("<i", body, at)
        header = fields(body[at + 4 : at + 4 + size])
        at += 4 + size
        start += _zigzag(_number(header, 1))
        duration += _zigzag(_number(header, 2))
        mode += _number(header, 4)
        assert mode == LZ4_MODE
        payload = lz4_block(body[at : at + _number(header, 6)])
        at += _number(header, 6)
        assert len(payload) == _number(header, 5)
        items = [fields(item) for item in fields(payload).get(1, []) if isinstance(item, bytes)]
        yield ReadChunk(start, duration, tuple(packed(header.get(3, []))), len(payload), items)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def item_samples(kind: str, item: dict[int, list[object]], codes: dict[int, str]) -> list[tuple[int, int, object]]:
    """Channel, time and value of each sample of an item. `codes`: of `struct`, by channel; doubles otherwise."""
    if kind == ROW:
        channels = packed(item[1])
        buffer = item[3][-1]
        assert isinstance(buffer, bytes)
        cells = struct.unpack("<" + "".join(codes.get(channel, "d") for channel in channels), buffer)
        return [(channel, _number(item, 2), value) for channel, value in zip(channels, cells, strict=True)]
    channel, time_ns = _number(item, 1), _number(item, 2)
    buffer = item[5][-1]
    assert isinstance(buffer, bytes)
    code = codes.get(channel, "d")
    values = [value for (value,) in struct.iter_unpack("<" + code, buffer)]
    if kind == PERIODIC:
        assert _number(item, 4) == len(values)
        return [(channel, time_ns + n * _number(item, 3), value) for n, value in enumerate(values)]
    samples: list[tuple[int, int, object]] = []
    deltas = packed(item[4])
    assert deltas[0] == 0
    for delta, value in zip(deltas, values, strict=True):
        time_ns += _signed(delta) * _signed(_number(item, 3))
        samples.append((channel, time_ns, value))
    return samples


def checked_samples(
    body: bytes, kind: str = TIMESTAMPED, codes: dict[int, str] | None = None
) -> list[tuple[int, int, object]]:
    """All samples of a body, after every rule of the specification for a closed session has been checked."""
    samples: list[tuple[int, int, object]] = []
    ends: dict[tuple[int, ...], int] = {}
    for chunk in chunks(body):
        rows = [item_samples(kind, item, codes or {}) for item in chunk.items]
        assert all(0 < len(row) <= 128 or kind == ROW for row in rows)
        times = [time_ns for row in rows for _, time_ns, _ in row]
        assert times == sorted(times)
        assert (chunk.start_ns, chunk.duration_ns) == (times[0], times[-1] - times[0])
        assert chunk.duration_ns <= 1000 * 10**9
        assert chunk.unpacked <= 4 << 20
        assert all({channel for channel, _, _ in row} == set(chunk.channels) for row in rows)
        assert kind == ROW or len(chunk.channels) == 1
        assert ends.get(chunk.channels, -(1 << 63)) < chunk.start_ns
        ends[chunk.channels] = times[-1]
        samples += [sample for row in rows for sample in row]
    return samples
