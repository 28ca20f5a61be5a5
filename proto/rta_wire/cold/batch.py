"""Batches of a cold stream: many entries of a live stream, compressed together, each of which comes back bit by bit.

Entries of a live stream are LZ4 blocks, one for each burst. A batch holds the content of those blocks
(`lz4_roundtrip`), puts the samples of a channel side by side (`byte_split`), and compresses that. No I/O. Unpacking
takes a bounded amount of memory, whatever the bytes of a batch say.
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
"""The level for reordered columns: with a higher one zstd takes three times as long on them and gains nothing."""

_FRAME: Final = struct.Struct("<4sBII")
_U32: Final = np.dtype("<u4")
_U64: Final = np.dtype("<u8")
_TABLE_MAX_BYTES: Final = 2 * limits.COLD_BATCH_MAX_BYTES
_HEADER_MAX_BYTES: Final = 4 * limits.KIB


class ColdCompression(msgspec.Struct, frozen=True):
    """The codec and the level by which batches are compressed."""

    codec: str = ZSTD
    level: int = LEVEL


DEFAULT: Final = ColdCompression()


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a batch says of itself, readable without unpacking it. Stored as a map of msgpack."""

    codec: str
    first_id: str
    last_id: str
    entries: int
    raw_bytes: int
    live_bytes: int
    """Size of the values and names of fields in the live stream."""
    lz4_version: int
    sizes: tuple[int, int, int, int]
    """Sizes before compression: of the table, of the rest, of unsplit columns and of reordered ones."""
    stored: tuple[int, int, int, int]
    """Sizes of the same parts as they are stored."""


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """How entries are put together again. Numbers are little-endian arrays. Stored without names: the order counts."""

    ms: bytes
    """Of each entry: the time in its id, as the difference to the entry before."""
    seq: bytes
    """Of each entry: the sequence number in its id."""
    shapes: tuple[tuple[bytes, ...], ...]
    """The different lists of field names."""
    shape: bytes
    """Of each entry: the index of its list in `shapes`."""
    lengths: bytes
    """Of each value: its size."""
    recipes: bytes
    """Of each value: how it is packed again."""
    checksums: bytes
    """Of each value that is packed again: its checksum."""
    counts: bytes
    """Of each value: the number of its cuts."""
    gaps: bytes
    """Of each cut: the bytes of the rest before it."""
    sizes: bytes
    """Of each cut: its size."""
    column_indices: bytes
    """Of each cut: its column."""
    column_sizes: bytes
    """Of each column: its size."""
    column_widths: bytes
    """Of each column: the width by which its bytes are reordered."""


def is_over_limit(entries: int, size: int) -> bool:
    """Whether so many entries with so many bytes are too many for one batch."""
    return entries > limits.COLD_BATCH_MAX_ENTRIES or size > limits.COLD_BATCH_MAX_BYTES


def pack_batch(
    entries: Sequence[UnpackedEntry],
    widths: byte_split.WidthChooser,
    *,
    live_bytes: int,
    options: ColdCompression = DEFAULT,
) -> bytes:
    """Packs entries into one batch. `widths` is used again for the next batch of the stream."""
    values = [
        (value, recipe != NOT_UNPACKED)
        for entry in entries
        for value, recipe in zip(entry.values, entry.recipes, strict=True)
    ]
    split = byte_split.split_values(values, widths)
    parts = (
        msgspec.msgpack.encode(_table(entries, split)),
        split.rest,
        b"".join(column.data for column in split.columns if column.width == byte_split.UNSPLIT),
        b"".join(column.data for column in split.columns if column.width != byte_split.UNSPLIT),
    )
    reordered_options = msgspec.structs.replace(options, level=min(options.level, REORDERED_LEVEL))
    stored = [_compress(part, options) for part in parts[:-1]] + [_compress(parts[-1], reordered_options)]
    sizes = tuple(map(len, parts))
    header = Header(
        codec=options.codec,
        first_id=entries[0].id,
        last_id=entries[-1].id,
        entries=len(entries),
        raw_bytes=sum(entry.size for entry in entries),
        live_bytes=live_bytes,
        lz4_version=lz4.library_version_number(),
        sizes=(sizes[0], sizes[1], sizes[2], sizes[3]),
        stored=(len(stored[0]), len(stored[1]), len(stored[2]), len(stored[3])),
    )
    body = b"".join((msgspec.msgpack.encode(header), *stored))
    header_size = len(body) - sum(header.stored)
    return _FRAME.pack(MAGIC, VERSION, zlib.crc32(body), header_size) + body


def _table(entries: Sequence[UnpackedEntry], split: byte_split.SplitValues) -> _Table:
    ids = np.array([entry_ids.parse(entry.id) for entry in entries], _U64).reshape(-1, 2)
    shapes: dict[tuple[bytes, ...], int] = {}
    shape = [shapes.setdefault(entry.names, len(shapes)) for entry in entries]
    lengths = [len(value) for entry in entries for value in entry.values]
    return _Table(
        # Differences repeat, so they compress better.
        ms=np.diff(ids[:, 0], prepend=np.uint64(0)).tobytes(),
        seq=ids[:, 1].tobytes(),
        shapes=tuple(shapes),
        shape=np.array(shape, _U32).tobytes(),
        lengths=np.array(lengths, _U32).tobytes(),
        recipes=b"".join(entry.recipes for entry in entries),
        checksums=np.array([checksum for entry in entries for checksum in entry.checksums], _U32).tobytes(),
        counts=split.counts.tobytes(),
        gaps=split.gaps.tobytes(),
        sizes=split.sizes.tobytes(),
        column_indices=split.column_indices.tobytes(),
        column_sizes=np.array([len(column.data) for column in split.columns], _U32).tobytes(),
        column_widths=bytes(column.width for column in split.columns),
    )


def read_header(data: bytes) -> Header:
    """The header of a batch whose checksum is right."""
    header, _ = _parse_frame(data)
    return header


def unpack_batch(data: bytes) -> list[UnpackedEntry]:
    """The entries of a batch with their LZ4 blocks unpacked. Raises BadBatch for other bytes."""
    header, body = _parse_frame(data)
    try:
        parts = list(_decompress_parts(header, body))
        table = msgspec.msgpack.decode(parts[0], type=_Table)
        entries = list(_entries(table, parts))
    except (ValueError, OSError, msgspec.ValidationError, OverflowError) as error:
        raise errors.BadBatch(reason=f"{error}"[:_REASON_MAX_CHARS]) from error
    promised = (header.entries, header.first_id, header.last_id)
    if not entries or (len(entries), entries[0].id, entries[-1].id) != promised:
        raise errors.BadBatch(reason="it does not hold the entries that it says")
    return entries


def unpack_entries(data: bytes, after: str = entry_ids.MIN, until: str | None = None) -> list[RawEntry]:
    """The entries of a batch after one id and up to another, as they were in the live stream."""
    lower = entry_ids.parse(after)
    upper = None if until is None else entry_ids.parse(until)
    return [
        repack(entry)[0]
        for entry in unpack_batch(data)
        if lower < (number := entry_ids.parse(entry.id)) and (upper is None or number <= upper)
    ]


_REASON_MAX_CHARS: Final = 300


def _parse_frame(data: bytes) -> tuple[Header, memoryview]:
    """The header, and the parts behind it as they are stored."""
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
        header = msgspec.msgpack.decode(body[:header_size], type=Header)
    except (msgspec.DecodeError, ValueError) as error:
        raise errors.BadBatch(reason=f"its header is none: {error}"[:_REASON_MAX_CHARS]) from error
    _check(header, len(body) - header_size)
    return header, body[header_size:]


def _check(header: Header, body_size: int) -> None:
    """Refuses sizes over the limits before memory is allocated by them."""
    table_size, *other_sizes = header.sizes
    is_bounded = (
        header.codec in CODECS
        and min(*header.sizes, *header.stored, header.entries) >= 0
        and table_size <= _TABLE_MAX_BYTES
        and sum(other_sizes) <= limits.COLD_BATCH_MAX_BYTES
        and header.entries <= limits.COLD_BATCH_MAX_ENTRIES
    )
    if not is_bounded or sum(header.stored) != body_size:
        raise errors.BadBatch(reason="the sizes in its header can't be right")


def _decompress_parts(header: Header, body: memoryview) -> Iterator[bytes]:
    offset = 0
    for size, stored in zip(header.sizes, header.stored, strict=True):
        yield _decompress(body[offset : offset + stored], size, header.codec)
        offset += stored


def _entries(table: _Table, parts: Sequence[bytes]) -> Iterator[UnpackedEntry]:
    ms = np.cumsum(_numbers(table.ms, _U64), dtype=np.uint64)
    seqs = _numbers(table.seq, _U64)
    ids = [entry_ids.format_id(*numbers) for numbers in zip(ms.tolist(), seqs.tolist(), strict=True)]
    shape = _numbers(table.shape, _U32)
    if len(shape) != len(ids) or (len(shape) and int(shape.max()) >= len(table.shapes)):
        raise ValueError("an entry has fields that there are not")
    lengths = _numbers(table.lengths, _U32).tolist()
    names_of_entries = [table.shapes[index] for index in shape.tolist()]
    if len(lengths) != sum(map(len, names_of_entries)) or len(table.recipes) != len(lengths):
        raise ValueError("there are not as many values as fields")
    values = iter(byte_split.join_values(_split_values(table, parts), lengths))
    all_recipes, all_checksums = iter(table.recipes), iter(_numbers(table.checksums, _U32).tolist())
    for entry_id, names in zip(ids, names_of_entries, strict=True):
        recipes = bytes(next(all_recipes) for _ in names)
        if any(NOT_UNPACKED != recipe > RECIPE_MAX for recipe in recipes):
            raise ValueError("a value is packed in a way that there is not")
        packed_count = sum(recipe != NOT_UNPACKED for recipe in recipes)
        checksums = tuple(itertools.islice(all_checksums, packed_count))
        if len(checksums) != packed_count:
            raise ValueError("a value has no checksum")
        yield UnpackedEntry(entry_id, names, tuple(itertools.islice(values, len(names))), recipes, checksums)


def _split_values(table: _Table, parts: Sequence[bytes]) -> byte_split.SplitValues:
    sizes = _numbers(table.column_sizes, _U32).tolist()
    if len(sizes) != len(table.column_widths) or len(sizes) > byte_split.COLUMNS_MAX:
        raise ValueError("the numbers of columns do not agree")
    _, rest, unsplit, reordered = parts
    columns: list[byte_split.ByteColumn] = []
    offsets = {True: 0, False: 0}
    for size, width in zip(sizes, table.column_widths, strict=True):
        is_unsplit = width == byte_split.UNSPLIT
        start = offsets[is_unsplit]
        offsets[is_unsplit] = start + size
        columns.append(byte_split.ByteColumn((unsplit if is_unsplit else reordered)[start : start + size], width))
    if (offsets[True], offsets[False]) != (len(unsplit), len(reordered)):
        raise ValueError("the columns do not add up")
    cuts = (_numbers(data, _U32) for data in (table.counts, table.gaps, table.sizes, table.column_indices))
    return byte_split.SplitValues(rest, columns, *cuts)


def _numbers(data: bytes, dtype: np.dtype[Any]) -> Array:
    return np.frombuffer(data, dtype)


def _compress(part: bytes, options: ColdCompression) -> bytes:
    if not part:
        return b""
    data: bytes
    if options.codec == LZ4:
        data = lz4.block.compress(part, mode="high_compression", compression=options.level, store_size=False)
    else:
        data = pa.Codec(ZSTD, options.level).compress(part, asbytes=True)
    return data


def _decompress(data: memoryview, size: int, codec: str) -> bytes:
    """Exactly `size` bytes. Never allocates room for more."""
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
