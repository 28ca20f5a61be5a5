"""Sort orders: `property:asc` and `property:desc`, of which the first counts most. Typed, and stable. Pure."""

from collections.abc import Sequence

import msgspec

from rta_wire import errors, limits, quoting
from rta_wire.query import typed_values
from rta_wire.query.evaluate import Columns

_DIRECTIONS = {"asc": False, "desc": True}


class SortKey(msgspec.Struct, frozen=True):
    """One property to sort by."""

    path: str
    is_descending: bool = False


def parse(texts: Sequence[str]) -> tuple[SortKey, ...]:
    """Sort keys as a request gives them; without a direction they ascend. Raises `BadQuery`."""
    if len(texts) > limits.SORT_MAX_KEYS:
        raise errors.BadQuery(where="sort", reason=f"it is there more than {limits.SORT_MAX_KEYS} times")
    return tuple(_parse_key(text) for text in texts if text)


def _parse_key(text: str) -> SortKey:
    path, _, direction = text.rpartition(":")
    if not path:
        return SortKey(text)
    if direction.lower() not in _DIRECTIONS:
        reason = f"{quoting.cut(direction, quoting.NAME_MAX_CHARS)!r} is no direction; asc and desc are"
        raise errors.BadQuery(where="sort", reason=reason)
    return SortKey(path, _DIRECTIONS[direction.lower()])


def sort(rows: list[int], keys: Sequence[SortKey], columns: Columns) -> list[int]:
    """The rows in the order of the keys; those that are equal in all of them keep their order.

    A document that lacks a property comes last in either direction, so that an unknown property changes nothing.
    """
    ordered = list(rows)
    for key in reversed(keys):
        column = columns(key.path)
        to_key = typed_values.state_sort_key if key.path == "state" else typed_values.sort_key
        absent = [row for row in ordered if column[row] is None]
        present = [row for row in ordered if column[row] is not None]
        # `reverse` keeps the order of equal rows.
        present.sort(key=lambda row: to_key(column[row]), reverse=key.is_descending)
        ordered = present + absent
    return ordered
