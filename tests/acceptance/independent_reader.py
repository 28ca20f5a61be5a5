"""A reader of the protocol that shares no code with the project: own LZ4, own protobuf, own Redis client.

Written from the text of the protocol alone. As a program it takes a port and prints the sessions of that server.
"""

import json
import socket
import struct
import sys
from collections.abc import Iterator
from typing import Any


class Redis:
    """A client that knows as much of RESP2 as the commands of this module need."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> "Redis":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def do(self, *arguments: str | bytes) -> Any:
        raw = [argument.encode() if isinstance(argument, str) else argument for argument in arguments]
        bulk_strings = b"".join(b"$%d\r\n%s\r\n" % (len(argument), argument) for argument in raw)
        self._socket.sendall(b"*%d\r\n" % len(raw) + bulk_strings)
        return self._read()

    def _read(self) -> Any:
        line = self._file.readline()[:-2]
        kind, rest = line[:1], line[1:]
        if kind == b":":
            return int(rest)
        if kind == b"$":
            if rest == b"-1":
                return None
            return self._file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self._read() for _ in range(int(rest))]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        return rest


def lz4_block(data: bytes) -> bytes:
    """Decompresses one LZ4 block, after the description of the format."""
    out = bytearray()
    at = 0
    while at < len(data):
        token = data[at]
        at += 1
        literals = token >> 4
        if literals == 15:
            while True:
                literals += data[at]
                at += 1
                if data[at - 1] != 255:
                    break
        out += data[at : at + literals]
        at += literals
        if at == len(data):
            break
        distance = data[at] | data[at + 1] << 8
        at += 2
        length = token & 15
        if length == 15:
            while True:
                length += data[at]
                at += 1
                if data[at - 1] != 255:
                    break
        length += 4
        start = len(out) - distance
        if distance >= length:
            out += out[start : start + length]
        else:
            pattern = bytes(out[start:])
            out += (pattern * (length // distance + 1))[:length]
    return bytes(out)


def varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def protobuf(raw: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and values: varints as int, fixed 64 bit and length-delimited as bytes."""
    at = 0
    while at < len(raw):
        tag, at = varint(raw, at)
        if tag & 7 == 0:
            value, at = varint(raw, at)
            yield tag >> 3, value
        elif tag & 7 == 1:
            yield tag >> 3, raw[at : at + 8]
            at += 8
        elif tag & 7 == 2:
            length, at = varint(raw, at)
            yield tag >> 3, raw[at : at + length]
            at += length
        else:
            raise ValueError(f"wire type {tag & 7}")


def signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def fixed64(raw: bytes) -> int:
    return int(struct.unpack("<q", raw)[0])


def samples_of(raw: bytes) -> list[tuple[int, int, float]]:
    """Channel, time and value of each sample in a TimestampedData message."""
    fields = dict(protobuf(raw))
    deltas = []
    at = 0
    packed = fields.get(4, b"")
    while at < len(packed):
        value, at = varint(packed, at)
        deltas.append(signed(value))
    values = struct.unpack(f"<{len(fields[5]) // 8}d", fields[5])
    assert len(values) == len(deltas), "as many samples as deltas"
    assert deltas[0] == 0, "the first delta is 0"
    time_ns = fixed64(fields[2])
    rows = []
    for delta, value in zip(deltas, values, strict=True):
        time_ns += delta * signed(fields[3])
        rows.append((fields.get(1, 0), time_ns, value))
    return rows


def read(port: int) -> dict[str, Any]:
    """Every session of a server; raises where one breaks a rule of the protocol about its entries."""
    with Redis(port) as redis:
        names = redis.do("SMEMBERS", "streams")
        entries = {name.decode(): redis.do("XRANGE", b"stream:" + name, "-", "+") for name in names}
        sessions = {}
        for key in sorted(redis.do("KEYS", "sessions:*")):
            flat = redis.do("HGETALL", key)
            fields = {flat[n].decode(): flat[n + 1].decode() for n in range(0, len(flat), 2)}
            stream = entries[fields["streamName"]]
            session_id = fields["streamSessionId"]
            session_entries = [(entry_id, pairs) for entry_id, pairs in stream if pairs[1].decode() == session_id]
            content = read_entries(session_entries, fields)
            sessions[key.decode()] = {"fields": fields, "ttl_s": redis.do("TTL", key), **content}
        return {
            "sessions": sessions,
            "lastStreamSessionId": int(redis.do("GET", "lastStreamSessionId")),
            "keys": sorted(key.decode() for key in redis.do("KEYS", "*")),
        }


def read_entries(entries: list[Any], fields: dict[str, str]) -> dict[str, Any]:
    """What the entries of one session hold, in their order."""
    order: list[str] = []
    documents: list[str] = []
    ranges: list[tuple[int, int]] = []
    rows: list[tuple[int, int, float]] = []
    position = tuple(map(int, fields["streamPosition"].split("-")))
    for entry_id, pairs in entries:
        assert pairs[0::2] == [b"id", b"data"], "exactly two fields"
        assert tuple(map(int, entry_id.decode().split("-"))) > position, "nothing before the position"
        raw = lz4_block(pairs[3])
        assert len(raw) <= 1 << 20, "at most 1 MiB"
        items = [next(protobuf(item)) for number, item in protobuf(raw) if number == 1]
        for number, value in items:
            if number == 2:
                assert len(items) == 1, "Session JSON stands alone"
                documents.append(value.decode())
            elif number == 3:
                time_range = dict(protobuf(value))
                ranges.append((fixed64(time_range[1]), fixed64(time_range[2])))
            elif number == 4:
                rows += samples_of(value)
        order.append({2: "json", 3: "range", 4: "data"}[items[0][0]])
    return {
        "order": order,
        "documents": [json.loads(document) for document in documents],
        "last_is_hash": documents[-1] == fields["json"],
        "ranges": ranges,
        "rows": rows,
    }


if __name__ == "__main__":
    result = read(int(sys.argv[1]))
    for session in result["sessions"].values():
        session["rows"] = len(session["rows"])
    print(json.dumps(result, indent=2))
