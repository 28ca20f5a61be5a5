"""Entries of a live stream with their LZ4 blocks unpacked, and packed again to the same bytes.

Which bytes LZ4 makes depends on how it was told to compress. That is found by trying: what our writers use, or what
worked last, then everything that there is. A value that nothing makes again stays as it came.
"""

import zlib
from typing import Final, NamedTuple

from rta_wire import errors, limits
from rta_wire.codec import burst

NOT_UNPACKED: Final = 255
_PREFIXED: Final = 128
RECIPE_MAX: Final = _PREFIXED + limits.LZ4_LEVEL_MAX - limits.LZ4_LEVEL_MIN
_SEARCHES_MAX: Final = 2
"""Values of a batch for which all levels are tried."""

_OPEN_MIN_BYTES: Final = 16
"""A shorter value stays as it came: there is nothing to gain."""

_ENTRY_OVERHEAD: Final = 32
_VALUE_OVERHEAD: Final = 16
"""What entries and values add to a batch beside their bytes, at most."""


class RawEntry(NamedTuple):
    """An entry of a stream, with whatever fields it has."""

    id: str
    fields: tuple[bytes, ...]
    """Names and values in turn, as Redis has them: a name may come twice."""

    def by_name(self) -> dict[bytes, bytes]:
        """Values by the names of their fields; of a name that comes twice the last one."""
        return dict(zip(self.fields[::2], self.fields[1::2], strict=True))


class UnpackedEntry(NamedTuple):
    """An entry whose LZ4 blocks are unpacked."""

    id: str
    names: tuple[bytes, ...]
    values: tuple[bytes, ...]
    recipes: bytes
    """How each value is packed again."""
    checksums: tuple[int, ...]
    """Checksums of those that have to be."""

    @property
    def size(self) -> int:
        overhead = _ENTRY_OVERHEAD + _VALUE_OVERHEAD * len(self.names)
        return overhead + sum(map(len, self.names)) + sum(map(len, self.values))


class Lz4Unpacker:
    """Unpacks the entries of one stream. Remembers how its writer packs them."""

    def __init__(self) -> None:
        self._way = _way(limits.LZ4_LEVEL, burst.Framing.RAW)
        self._searches = 0

    def next_batch(self) -> None:
        self._searches = 0

    def unpack(self, entry: RawEntry) -> UnpackedEntry:
        names, values = entry.fields[::2], entry.fields[1::2]
        opened = [self._open(value) for value in values]
        sums = tuple(zlib.crc32(value) for value, (_, way) in zip(values, opened, strict=True) if way != NOT_UNPACKED)
        return UnpackedEntry(entry.id, names, tuple(raw for raw, _ in opened), bytes(way for _, way in opened), sums)

    def _open(self, value: bytes) -> tuple[bytes, int]:
        if len(value) < _OPEN_MIN_BYTES:
            return value, NOT_UNPACKED
        for framing in burst.Framing:
            try:
                raw = burst.decompress(value, framing)
            except errors.BadBurst:
                continue
            way = self._found(value, raw, framing)
            if way is not None:
                return raw, way
        return value, NOT_UNPACKED

    def _found(self, value: bytes, raw: bytes, framing: burst.Framing) -> int | None:
        known = _way(_level(self._way), framing)
        if _packed(raw, known) == value:
            return known
        if self._searches == _SEARCHES_MAX:
            return None
        self._searches += 1
        for level in (*range(limits.LZ4_LEVEL_MAX + 1), *range(-1, limits.LZ4_LEVEL_MIN - 1, -1)):
            way = _way(level, framing)
            if _packed(raw, way) == value:
                self._way = way
                return way
        return None


def repack(opened: UnpackedEntry) -> tuple[RawEntry, bool]:
    """The entry as it stood in the live stream, and whether to the bit: another LZ4 than the one that packed the batch
    may make other bytes of the same content."""
    fields: list[bytes] = []
    sums = iter(opened.checksums)
    exact = True
    for name, value, way in zip(opened.names, opened.values, opened.recipes, strict=True):
        data = value
        if way != NOT_UNPACKED:
            data = _packed(value, way)
            exact = zlib.crc32(data) == next(sums) and exact
        fields += (name, data)
    return RawEntry(opened.id, tuple(fields)), exact


def _way(level: int, framing: burst.Framing) -> int:
    return level - limits.LZ4_LEVEL_MIN + (_PREFIXED if framing is burst.Framing.SIZE_PREFIXED else 0)


def _level(way: int) -> int:
    return way % _PREFIXED + limits.LZ4_LEVEL_MIN


def _packed(raw: bytes, way: int) -> bytes:
    return burst.compress(raw, _level(way), burst.Framing.SIZE_PREFIXED if way >= _PREFIXED else burst.Framing.RAW)
