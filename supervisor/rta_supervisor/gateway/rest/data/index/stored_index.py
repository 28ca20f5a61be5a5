"""The bytes of time indexes and of cells in the cache. Pure.

A file that another version wrote in another form, or that is damaged, counts as none.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np

from rta_supervisor.gateway.rest.data.index.stream_index import StreamIndex
from rta_supervisor.gateway.rest.data.time_index import Block, TimeSpan
from rta_wire.chunks.envelope_cells import EnvelopeCells
from rta_wire.codec.layout import Plan

VERSION: Final = 1
"""Raised when the form changes, or what stands in it."""

_TYPES: Final = (np.uint32, np.int64, np.float64, np.float64, np.float64, np.int64)


class _StoredCells(msgspec.Struct, frozen=True, array_like=True):
    level: int
    columns: tuple[bytes, ...]


class _StoredBlock(msgspec.Struct, frozen=True, array_like=True):
    after: str
    until: str
    first: str
    entries: int
    samples: int
    sample_span: TimeSpan | None
    events: int
    event_span: TimeSpan | None
    channel_set: int
    cells: _StoredCells | None


class _StoredIndex(msgspec.Struct, frozen=True, array_like=True):
    key: str
    position: str
    is_complete: bool
    channel_sets: tuple[tuple[int, ...], ...]
    blocks: tuple[_StoredBlock, ...]


class _CellsOfFile(msgspec.Struct, frozen=True, array_like=True):
    key: str
    row_groups: dict[int, _StoredCells | None]


_encode: Final = msgspec.msgpack.Encoder().encode
_decode_index: Final = msgspec.msgpack.Decoder(_StoredIndex).decode
_decode_cells: Final = msgspec.msgpack.Decoder(_CellsOfFile).decode


def key_of(*facts: object, layouts: Plan) -> str:
    """The name of something in the cache. Read with other types, an entry has other samples."""
    types = msgspec.json.encode([layouts.default, sorted(layouts.channels.items())])
    return msgspec.json.encode([VERSION, *facts, hashlib.sha256(types).hexdigest()]).decode()


def dump_index(key: str, index: StreamIndex) -> bytes:
    """An index as it is now."""
    places: dict[frozenset[int], int] = {}
    blocks = tuple(
        _StoredBlock(
            *(block.after, block.until, block.first, block.entries, block.samples, block.sample_span),
            *(block.events, block.event_span),
            places.setdefault(block.channels or frozenset(), len(places)),
            _dump(block.cells),
        )
        for block in index.blocks
    )
    sets = tuple(tuple(sorted(channels)) for channels in places)
    return _encode(_StoredIndex(key, index.position, index.is_complete, sets, blocks))


def load_index(key: str, data: bytes, index: StreamIndex) -> bool:
    """Take what was saved into an index. Whether it could be read, and is about that key."""
    try:
        stored = _decode_index(data)
        sets = [frozenset(channels) for channels in stored.channel_sets]
        blocks = [
            Block(
                after=block.after,
                until=block.until,
                first=block.first,
                entries=block.entries,
                samples=block.samples,
                sample_span=block.sample_span,
                events=block.events,
                event_span=block.event_span,
                channels=sets[block.channel_set],
                cells=_load(block.cells),
            )
            for block in stored.blocks
        ]
    except (msgspec.DecodeError, ValueError, IndexError):
        return False
    if stored.key != key:
        return False
    index.restore(blocks, stored.position, is_complete=stored.is_complete)
    return True


def dump_cells(key: str, cells: Mapping[int, EnvelopeCells | None]) -> bytes:
    """Cells of row groups of one file."""
    return _encode(_CellsOfFile(key, {number: _dump(of_group) for number, of_group in cells.items()}))


def load_cells(key: str, data: bytes) -> dict[int, EnvelopeCells | None]:
    """Cells of row groups that were saved; none where they can't be read."""
    try:
        stored = _decode_cells(data)
        return {number: _load(cells) for number, cells in stored.row_groups.items()} if stored.key == key else {}
    except (msgspec.DecodeError, ValueError):
        return {}


def _dump(cells: EnvelopeCells | None) -> _StoredCells | None:
    return None if cells is None else _StoredCells(cells.level, tuple(column.tobytes() for column in cells[1:]))


def _load(stored: _StoredCells | None) -> EnvelopeCells | None:
    if stored is None:
        return None
    columns = [np.frombuffer(data, dtype) for data, dtype in zip(stored.columns, _TYPES, strict=True)]
    if len({len(column) for column in columns}) != 1:
        raise ValueError("columns of cells differ in length")
    return EnvelopeCells(stored.level, *columns)
