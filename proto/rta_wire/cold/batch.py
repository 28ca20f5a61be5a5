"""Batches of a cold stream: many entries of a live stream, compressed together, each of which comes back bit by bit.

Entries of a live stream are LZ4 blocks, one for each burst. A batch holds the content of those blocks
(`lz4_roundtrip`), puts the samples of a channel side by side (`byte_split`), and compresses that. No I/O. Unpacking
takes a bounded amount of memory, whatever the bytes of a batch say.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Final

import lz4
import lz4.block
import msgspec
import pyarrow as pa

from rta_wire import entry_ids, errors, limits
from rta_wire.cold import batch_table, byte_split
from rta_wire.cold.lz4_roundtrip import NOT_UNPACKED, RawEntry, UnpackedEntry, repack

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
        msgspec.msgpack.encode(batch_table.build(entries, split)),
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


def read_header(data: bytes) -> Header:
    """The header of a batch whose checksum is right."""
    header, _ = _parse_frame(data)
    return header


def unpack_batch(data: bytes) -> list[UnpackedEntry]:
    """The entries of a batch with their LZ4 blocks unpacked. Raises BadBatch for other bytes."""
    header, body = _parse_frame(data)
    try:
        parts = list(_decompress_parts(header, body))
        table = msgspec.msgpack.decode(parts[0], type=batch_table.BatchTable)
        entries = list(batch_table.join_entries(table, parts))
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
