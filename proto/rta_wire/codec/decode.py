"""Bursts to messages or to columns, safe on any bytes: no size in the data decides how much memory is taken.

Two ways lead to columns. The fast one reads packed fields as bytes and decodes those of all bursts at once. Where a
burst is not laid out the way protobuf writes it (repeated or unknown fields, say), which is legal, it is written
again by protobuf first.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence

import lz4.block
from google.protobuf.message import DecodeError

from rta_wire import errors, limits
from rta_wire.codec import burst as codec_burst
from rta_wire.codec import layout, sample_columns
from rta_wire.codec.protobuf import field_scan
from rta_wire.pb import scan_pb2, stream_pb2
from rta_wire.stream import cursor

Columns = sample_columns.Columns
Decoded = field_scan.Decoded


def burst(data: bytes, framing: codec_burst.Framing = codec_burst.Framing.RAW) -> stream_pb2.StreamDataBurst:
    """The message inside the `data` of an entry."""
    return _message(decompress(data, framing))


def columns(
    bursts: Iterable[bytes],
    layouts: layout.Plan | None = None,
    *,
    framing: codec_burst.Framing = codec_burst.Framing.RAW,
    names: Sequence[str] | None = None,
) -> Decoded:
    """Everything in some bursts, samples as columns. `names` says in errors which burst it was, else its position."""
    stored = list(bursts)
    labels = names or [str(index) for index in range(len(stored))]
    raws = [decompress(data, framing, label) for data, label in zip(stored, labels, strict=True)]
    layouts = layouts or layout.Plan()
    try:
        return field_scan.decoded(_scanned(raws, labels), labels, layouts, sum(map(len, raws)))
    except sample_columns.Unusual:
        raws = [_rewritten(raw, label) for raw, label in zip(raws, labels, strict=True)]
        return field_scan.decoded(_scanned(raws, labels), labels, layouts, sum(map(len, raws)))


def entries(
    found: Iterable[cursor.Entry],
    layouts: layout.Plan | None = None,
    *,
    framing: codec_burst.Framing = codec_burst.Framing.RAW,
) -> Decoded:
    """Everything in some entries of a stream. The caller chooses the session."""
    kept = list(found)
    return columns([one.data for one in kept], layouts, framing=framing, names=[one.id for one in kept])


def decompress(data: bytes, framing: codec_burst.Framing = codec_burst.Framing.RAW, label: str | None = None) -> bytes:
    """What is inside the `data` of an entry, at most 1 MiB."""
    block, claimed = data, None
    if framing is codec_burst.Framing.SIZE_PREFIXED:
        if len(data) < _PREFIX.size:
            raise _bad(label, f"{len(data)} bytes are too few for a size")
        (claimed,) = _PREFIX.unpack_from(data)
        block = data[_PREFIX.size :]
    try:
        raw: bytes = lz4.block.decompress(block, uncompressed_size=limits.BURST_MAX_BYTES)
    except (lz4.block.LZ4BlockError, ValueError) as error:
        raise _bad(label, f"not an LZ4 block of at most {limits.BURST_MAX_BYTES} bytes: {error}") from error
    if claimed is not None and claimed != len(raw):
        raise _bad(label, f"the size before it says {claimed} bytes, the LZ4 block holds {len(raw)}")
    return raw


_PREFIX = struct.Struct("<I")


def _bad(label: str | None, reason: str) -> errors.BadBurst:
    return sample_columns.bad(label, reason)


def _message(raw: bytes, label: str | None = None) -> stream_pb2.StreamDataBurst:
    try:
        message = stream_pb2.StreamDataBurst.FromString(raw)
    except DecodeError as error:
        raise _bad(label, f"not a StreamDataBurst: {error}") from error
    _check_count(len(message.data), label)
    return message


def _check_count(count: int, label: str | None) -> None:
    if count > limits.BURST_MAX_MESSAGES:
        raise _bad(label, f"{count} messages are more than {limits.BURST_MAX_MESSAGES}")


def _rewritten(raw: bytes, label: str) -> bytes:
    message = _message(raw, label)
    message.DiscardUnknownFields()
    return message.SerializeToString()


def _scanned(raws: list[bytes], labels: Sequence[str]) -> Iterator[Iterable[scan_pb2.Item]]:
    for raw, label in zip(raws, labels, strict=True):
        try:
            scanned = scan_pb2.Burst.FromString(raw)
        except DecodeError as error:
            raise _bad(label, f"not a StreamDataBurst: {error}") from error
        _check_count(len(scanned.data), label)
        yield scanned.data
