"""Batches of a cold stream: many entries of a live one, smaller, each of which comes back bit by bit.

What stands in a live stream is LZ4 already, burst by burst. A batch holds what is inside those blocks (`opened`),
samples of a channel side by side (`woven`), and compresses that. No I/O. Whatever the bytes of a batch say, reading
one takes a bounded amount of memory.
"""

import itertools
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import lz4
import lz4.block
import msgspec
import numpy as np
import pyarrow as pa

from rta_wire import entry_ids, errors, limits
from rta_wire.arrays import Array
from rta_wire.cold import byte_split
from rta_wire.cold.lz4_roundtrip import NOT_UNPACKED, RECIPE_MAX, RawEntry, UnpackedEntry, repack

MAGIC: Final = b"rtac"
VERSION: Final = 1
ZSTD: Final = "zstd"
LZ4: Final = "lz4"
CODECS: Final = (ZSTD, LZ4)
LEVELS: Final = {ZSTD: (1, 19), LZ4: (1, limits.LZ4_LEVEL_MAX)}
LEVEL: Final = 3
REORDERED_LEVEL: Final = 1
"""For reordered columns: on those a higher level of zstd takes three times as long and gains nothing."""

_FRAME: Final = struct.Struct("<4sBII")
_U32: Final = np.dtype("<u4")
_U64: Final = np.dtype("<u8")
_TABLE_MAX_BYTES: Final = 2 * limits.COLD_BATCH_MAX_BYTES
_HEADER_MAX_BYTES: Final = 4 * limits.KIB


class ColdCompression(msgspec.Struct, frozen=True):
    """How batches are compressed."""

    codec: str = ZSTD
    level: int = LEVEL


DEFAULT: Final = ColdCompression()


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What can be known of a batch without unpacking it."""

    codec: str
    first_id: str
    last_id: str
    entries: int
    raw_bytes: int
    live_bytes: int
    """Values and names as they stood in the live stream."""
    lz4_version: int
    sizes: tuple[int, int, int, int]
    """Of the table, of what stayed, of columns in order and of reordered ones, before compression."""
    stored: tuple[int, int, int, int]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Numbers as little-endian arrays: by entry, by value, by cut, by column."""

    ms: bytes
    seq: bytes
    shapes: tuple[tuple[bytes, ...], ...]
    shape: bytes
    lengths: bytes
    ways: bytes
    sums: bytes
    counts: bytes
    gaps: bytes
    sizes: bytes
    places: bytes
    column_sizes: bytes
    column_widths: bytes


def is_over_limit(entries: int, size: int) -> bool:
    """Whether a batch of so many entries and bytes is more than one may be."""
    return entries > limits.COLD_BATCH_MAX_ENTRIES or size > limits.COLD_BATCH_MAX_BYTES


def pack_batch(
    batch: Sequence[UnpackedEntry],
    widths: byte_split.WidthChooser,
    *,
    live_bytes: int,
    options: ColdCompression = DEFAULT,
) -> bytes:
    """Entries as one batch. `widths` is kept for the next batch of the stream."""
    values = [pair for one in batch for pair in zip(one.values, one.recipes, strict=True)]
    apart = byte_split.split_values([(value, way != NOT_UNPACKED) for value, way in values], widths)
    parts = (
        msgspec.msgpack.encode(_table(batch, apart)),
        apart.rest,
        b"".join(column.data for column in apart.columns if column.width == byte_split.UNSPLIT),
        b"".join(column.data for column in apart.columns if column.width != byte_split.UNSPLIT),
    )
    reordered = msgspec.structs.replace(options, level=min(options.level, REORDERED_LEVEL))
    stored = [_compressed(part, options) for part in parts[:-1]] + [_compressed(parts[-1], reordered)]
    sizes = tuple(map(len, parts))
    header = Header(
        codec=options.codec,
        first_id=batch[0].id,
        last_id=batch[-1].id,
        entries=len(batch),
        raw_bytes=sum(one.size for one in batch),
        live_bytes=live_bytes,
        lz4_version=lz4.library_version_number(),
        sizes=(sizes[0], sizes[1], sizes[2], sizes[3]),
        stored=(len(stored[0]), len(stored[1]), len(stored[2]), len(stored[3])),
    )
    body = b"".join((msgspec.msgpack.encode(header), *stored))
    header_size = len(body) - sum(header.stored)
    return _FRAME.pack(MAGIC, VERSION, zlib.crc32(body), header_size) + body


def _table(batch: Sequence[UnpackedEntry], apart: byte_split.SplitValues) -> _Table:
    ids = np.array([entry_ids.parse(one.id) for one in batch], _U64).reshape(-1, 2)
    shapes: dict[tuple[bytes, ...], int] = {}
    shape = [shapes.setdefault(one.names, len(shapes)) for one in batch]
    lengths = [len(value) for one in batch for value in one.values]
    return _Table(
        # Distances: they repeat.
        ms=np.diff(ids[:, 0], prepend=np.uint64(0)).tobytes(),
        seq=ids[:, 1].tobytes(),
        shapes=tuple(shapes),
        shape=np.array(shape, _U32).tobytes(),
        lengths=np.array(lengths, _U32).tobytes(),
        ways=b"".join(one.recipes for one in batch),
        sums=np.array([value for one in batch for value in one.checksums], _U32).tobytes(),
        counts=apart.counts.tobytes(),
        gaps=apart.gaps.tobytes(),
        sizes=apart.sizes.tobytes(),
        places=apart.column_indices.tobytes(),
        column_sizes=np.array([len(column.data) for column in apart.columns], _U32).tobytes(),
        column_widths=bytes(column.width for column in apart.columns),
    )


def read_header(data: bytes) -> Header:
    """What a batch says of itself, once its bytes are known to be whole."""
    found, _ = _framed(data)
    return found


def unpack_batch(data: bytes) -> list[UnpackedEntry]:
    """The entries of a batch, not packed yet. BadBatch where it is none."""
    found, body = _framed(data)
    try:
        parts = list(_parts(found, body))
        table = msgspec.msgpack.decode(parts[0], type=_Table)
        batch = list(_entries(table, parts))
    except (ValueError, OSError, msgspec.ValidationError, OverflowError) as error:
        raise errors.BadBatch(reason=f"{error}"[:_REASON_MAX_CHARS]) from error
    if len(batch) != found.entries or not batch or (batch[0].id, batch[-1].id) != (found.first_id, found.last_id):
        raise errors.BadBatch(reason="it does not hold the entries that it says")
    return batch


def unpack_entries(data: bytes, after: str = entry_ids.MIN, until: str | None = None) -> list[RawEntry]:
    """The entries of a batch as they stood in the live stream, those after one id and up to another."""
    low = entry_ids.parse(after)
    high = None if until is None else entry_ids.parse(until)
    return [
        repack(one)[0]
        for one in unpack_batch(data)
        if low < (at := entry_ids.parse(one.id)) and (high is None or at <= high)
    ]


_REASON_MAX_CHARS: Final = 300


def _framed(data: bytes) -> tuple[Header, memoryview]:
    if not _FRAME.size <= len(data) <= limits.COLD_STORED_MAX_BYTES:
        raise errors.BadBatch(reason=f"it has {len(data)} bytes")
    magic, version, checksum, header_size = _FRAME.unpack_from(data)
    if magic != MAGIC:
        raise errors.BadBatch(reason="it does not begin like one")
    if version != VERSION:
        raise errors.BadBatch(reason=f"it has version {version}, and only {VERSION} is known here")
    body = memoryview(data)[_FRAME.size :]
    if zlib.crc32(body) != checksum:
        raise errors.BadBatch(reason="its checksum is wrong")
    if header_size > min(len(body), _HEADER_MAX_BYTES):
        raise errors.BadBatch(reason=f"its header has {header_size} bytes")
    try:
        found = msgspec.msgpack.decode(body[:header_size], type=Header)
    except (msgspec.DecodeError, ValueError) as error:
        raise errors.BadBatch(reason=f"its header is none: {error}"[:_REASON_MAX_CHARS]) from error
    _check(found, len(body) - header_size)
    return found, body[header_size:]


def _check(found: Header, body_size: int) -> None:
    """Sizes decide how much memory is taken: before any is."""
    table, *others = found.sizes
    is_bounded = (
        found.codec in CODECS
        and min(*found.sizes, *found.stored, found.entries) >= 0
        and table <= _TABLE_MAX_BYTES
        and sum(others) <= limits.COLD_BATCH_MAX_BYTES
        and found.entries <= limits.COLD_BATCH_MAX_ENTRIES
    )
    if not is_bounded or sum(found.stored) != body_size:
        raise errors.BadBatch(reason="the sizes in its header can't be right")


def _parts(found: Header, body: memoryview) -> Iterator[bytes]:
    at = 0
    for size, stored in zip(found.sizes, found.stored, strict=True):
        yield _decompressed(body[at : at + stored], size, found.codec)
        at += stored


def _entries(table: _Table, parts: Sequence[bytes]) -> Iterator[UnpackedEntry]:
    ms = np.cumsum(_numbers(table.ms, _U64), dtype=np.uint64)
    seqs = _numbers(table.seq, _U64)
    ids = [entry_ids.format_id(*numbers) for numbers in zip(ms.tolist(), seqs.tolist(), strict=True)]
    shape = _numbers(table.shape, _U32)
    if len(shape) != len(ids) or (len(shape) and int(shape.max()) >= len(table.shapes)):
        raise ValueError("an entry has fields that there are not")
    lengths = _numbers(table.lengths, _U32).tolist()
    names = [table.shapes[one] for one in shape.tolist()]
    if len(lengths) != sum(map(len, names)) or len(table.ways) != len(lengths):
        raise ValueError("there are not as many values as fields")
    values = iter(byte_split.join_values(_apart(table, parts), lengths))
    ways, sums = iter(table.ways), iter(_numbers(table.sums, _U32).tolist())
    for entry_id, some in zip(ids, names, strict=True):
        own = bytes(next(ways) for _ in some)
        if any(NOT_UNPACKED != way > RECIPE_MAX for way in own):
            raise ValueError("a value is packed in a way that there is not")
        needed = sum(way != NOT_UNPACKED for way in own)
        checks = tuple(itertools.islice(sums, needed))
        if len(checks) != needed:
            raise ValueError("a value has no checksum")
        yield UnpackedEntry(entry_id, some, tuple(itertools.islice(values, len(some))), own, checks)


def _apart(table: _Table, parts: Sequence[bytes]) -> byte_split.SplitValues:
    sizes = _numbers(table.column_sizes, _U32).tolist()
    if len(sizes) != len(table.column_widths) or len(sizes) > byte_split.COLUMNS_MAX:
        raise ValueError("the numbers of columns do not agree")
    _, rest, plain, reordered = parts
    columns: list[byte_split.ByteColumn] = []
    done = {True: 0, False: 0}
    for size, width in zip(sizes, table.column_widths, strict=True):
        is_plain = width == byte_split.UNSPLIT
        start = done[is_plain]
        done[is_plain] = start + size
        columns.append(byte_split.ByteColumn((plain if is_plain else reordered)[start : start + size], width))
    if (done[True], done[False]) != (len(plain), len(reordered)):
        raise ValueError("the columns do not add up")
    return byte_split.SplitValues(
        rest, columns, *(_numbers(some, _U32) for some in (table.counts, table.gaps, table.sizes, table.places))
    )


def _numbers(data: bytes, kind: np.dtype[Any]) -> Array:
    return np.frombuffer(data, kind)


def _compressed(part: bytes, options: ColdCompression) -> bytes:
    if not part:
        return b""
    data: bytes
    if options.codec == LZ4:
        data = lz4.block.compress(part, mode="high_compression", compression=options.level, store_size=False)
    else:
        data = pa.Codec(ZSTD, options.level).compress(part, asbytes=True)
    return data


def _decompressed(data: memoryview, size: int, codec: str) -> bytes:
    """Exactly so many bytes, and never room for more."""
    if not size and not data:
        return b""
    raw: bytes
    if codec == LZ4:
        try:
            raw = lz4.block.decompress(data, uncompressed_size=size)
        except lz4.block.LZ4BlockError as error:
            raise ValueError(f"not an LZ4 block: {error}") from error
    else:
        raw = pa.Codec(ZSTD).decompress(pa.py_buffer(data), decompressed_size=size, asbytes=True)
    if len(raw) != size:
        raise ValueError(f"{len(raw)} bytes come out instead of {size}")
    return raw
