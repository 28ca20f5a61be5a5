"""Entries of a live stream with their LZ4 blocks unpacked, and packed again to the same bytes.

Which bytes LZ4 makes depends on the level that its caller chose. The level is found by trying: first the one that
`rta_writers` uses, or that worked last, then all that there are. A value that no level makes again stays packed.
"""

import zlib
from typing import Final, NamedTuple

from rta_wire import errors, limits
from rta_wire.codec import burst

NOT_UNPACKED: Final = 255
"""The recipe of a value that is kept as it was."""

_PREFIXED: Final = 128
RECIPE_MAX: Final = _PREFIXED + limits.LZ4_LEVEL_MAX - limits.LZ4_LEVEL_MIN
_SEARCHES_MAX: Final = 2
"""Values of a batch for which all levels are tried."""

_UNPACK_MIN_BYTES: Final = 16
"""A shorter value is not unpacked: there is nothing to gain."""

_ENTRY_OVERHEAD: Final = 32
_VALUE_OVERHEAD: Final = 16
"""What an entry and a value take in a batch beside their bytes, at most."""


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
    """For each value a byte that says how it is packed again: framing and level, or NOT_UNPACKED."""
    checksums: tuple[int, ...]
    """CRC-32 of each packed value that was unpacked."""

    @property
    def size(self) -> int:
        """Bytes that the entry takes in a batch before compression, at most."""
        overhead = _ENTRY_OVERHEAD + _VALUE_OVERHEAD * len(self.names)
        return overhead + sum(map(len, self.names)) + sum(map(len, self.values))


class Lz4Unpacker:
    """Unpacks the entries of one stream. Remembers the level that its writer uses."""

    def __init__(self) -> None:
        self._last_recipe = _recipe(limits.LZ4_LEVEL, burst.Framing.RAW)
        self._searches = 0

    def next_batch(self) -> None:
        """Allows searches for the level again, some for each batch."""
        self._searches = 0

    def unpack(self, entry: RawEntry) -> UnpackedEntry:
        """The entry with those of its values unpacked that are LZ4 blocks."""
        names, packed_values = entry.fields[::2], entry.fields[1::2]
        unpacked = [self._unpack_value(value) for value in packed_values]
        checksums = tuple(
            zlib.crc32(value)
            for value, (_, recipe) in zip(packed_values, unpacked, strict=True)
            if recipe != NOT_UNPACKED
        )
        values = tuple(value for value, _ in unpacked)
        return UnpackedEntry(entry.id, names, values, bytes(recipe for _, recipe in unpacked), checksums)

    def _unpack_value(self, value: bytes) -> tuple[bytes, int]:
        """The value unpacked, and its recipe."""
        if len(value) < _UNPACK_MIN_BYTES:
            return value, NOT_UNPACKED
        for framing in burst.Framing:
            try:
                raw = burst.decompress(value, framing)
            except errors.BadBurst:
                continue
            recipe = self._find_recipe(value, raw, framing)
            if recipe is not None:
                return raw, recipe
        return value, NOT_UNPACKED

    def _find_recipe(self, value: bytes, raw: bytes, framing: burst.Framing) -> int | None:
        likely_recipe = _recipe(_level(self._last_recipe), framing)
        if _pack_value(raw, likely_recipe) == value:
            return likely_recipe
        if self._searches == _SEARCHES_MAX:
            return None
        self._searches += 1
        for level in (*range(limits.LZ4_LEVEL_MAX + 1), *range(-1, limits.LZ4_LEVEL_MIN - 1, -1)):
            recipe = _recipe(level, framing)
            if _pack_value(raw, recipe) == value:
                self._last_recipe = recipe
                return recipe
        return None


def repack(entry: UnpackedEntry) -> tuple[RawEntry, bool]:
    """The entry as it was in the live stream, and whether to the bit: another version of LZ4 than the one that made the
    batch may make other bytes of the same content."""
    fields: list[bytes] = []
    checksums = iter(entry.checksums)
    is_exact = True
    for name, raw, recipe in zip(entry.names, entry.values, entry.recipes, strict=True):
        value = raw
        if recipe != NOT_UNPACKED:
            value = _pack_value(raw, recipe)
            is_exact = zlib.crc32(value) == next(checksums) and is_exact
        fields += (name, value)
    return RawEntry(entry.id, tuple(fields)), is_exact


def _recipe(level: int, framing: burst.Framing) -> int:
    return level - limits.LZ4_LEVEL_MIN + (_PREFIXED if framing is burst.Framing.SIZE_PREFIXED else 0)


def _level(recipe: int) -> int:
    return recipe % _PREFIXED + limits.LZ4_LEVEL_MIN


def _pack_value(raw: bytes, recipe: int) -> bytes:
    framing = burst.Framing.SIZE_PREFIXED if recipe >= _PREFIXED else burst.Framing.RAW
    return burst.compress(raw, _level(recipe), framing)
