"""The table of a batch: ids, names of fields, sizes and cuts, from which entries are put together again."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from rta_wire import entry_ids
from rta_wire.arrays import Array
from rta_wire.cold import byte_split
from rta_wire.cold.lz4_roundtrip import NOT_UNPACKED, RECIPE_MAX, UnpackedEntry

_U32: Final = np.dtype("<u4")
_U64: Final = np.dtype("<u8")


class BatchTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Numbers of entries, values, cuts and columns, as little-endian arrays. Stored without names of fields, so that
    their order must not change."""

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


def build(entries: Sequence[UnpackedEntry], split: byte_split.SplitValues) -> BatchTable:
    """The table of some entries whose values are split."""
    ids = np.array([entry_ids.parse(entry.id) for entry in entries], _U64).reshape(-1, 2)
    shapes: dict[tuple[bytes, ...], int] = {}
    shape = [shapes.setdefault(entry.names, len(shapes)) for entry in entries]
    lengths = [len(value) for entry in entries for value in entry.values]
    return BatchTable(
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


def join_entries(table: BatchTable, parts: Sequence[bytes]) -> Iterator[UnpackedEntry]:
    """The entries of a batch from its table and its parts. Raises ValueError where the numbers do not add up."""
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


def _split_values(table: BatchTable, parts: Sequence[bytes]) -> byte_split.SplitValues:
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
