"""All sessions in memory, in columns: a query looks at the columns of its properties and not at documents. Pure.

A column is made when a query first asks for its property, and kept up to date after that. Documents are kept as the
text that they are stored as.
"""

import collections
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from rta_supervisor.gateway.rest.sessions.listed_session import ListedSession
from rta_wire.arrays import Bools, Indices
from rta_wire.query import criteria, evaluate, sort_order
from rta_wire.query.criteria import Criterion
from rta_wire.query.sort_order import SortKey

COLUMNS_MAX: Final = 64
"""Columns that are kept. The one that was not used for longest goes first."""


class SessionQuery(msgspec.Struct, frozen=True):
    """One page of the sessions that match."""

    criterion: Criterion = criteria.EVERYTHING
    sort: tuple[SortKey, ...] = ()
    first: int = 0
    count: int = 100
    streams: frozenset[str] | None = None
    """Streams that may be seen; None for all."""


class SessionTable:
    """The newest session of each identity."""

    def __init__(self) -> None:
        self.rows: list[ListedSession] = []
        self._places: dict[str, int] = {}
        self._timestamps: list[int] = []
        self._references: list[set[str]] = []
        self._referenced: collections.Counter[str] = collections.Counter()
        self._columns: collections.OrderedDict[str, list[Any]] = collections.OrderedDict()
        self._order: Indices | None = None
        """The default order, None where it has to be found anew."""

    def get(self, identity: str) -> ListedSession | None:
        place = self._places.get(identity)
        return None if place is None else self.rows[place]

    def streams(self) -> set[str]:
        return {row.stream for row in self.rows}

    def put(self, row: ListedSession) -> None:
        """Adds a session or replaces the one of its identity."""
        place = self._places.get(row.identity)
        if place is None:
            self._append(row)
            return
        before = self.rows[place]
        if before == row:
            return
        self.rows[place] = row
        if before.json != row.json or before.stream_session_id != row.stream_session_id:
            self._refer(place, row)
        for path, column in self._columns.items():
            column[place] = row.value_at(path)

    def remove(self, identity: str) -> None:
        """Removes the session of an identity, whose place the last one takes."""
        place = self._places.pop(identity, None)
        if place is None:
            return
        self._referenced -= collections.Counter(self._references[place])
        lists: tuple[list[Any], ...] = (self.rows, self._timestamps, self._references, *self._columns.values())
        for values in lists:
            _take_out(values, place)
        if place < len(self.rows):
            self._places[self.rows[place].identity] = place
        self._order = None

    def find(self, query: SessionQuery, check: Callable[[], None] = lambda: None) -> list[ListedSession]:
        """The sessions of a page: those that match, in the order that is asked for, newest first where none is. `check`
        is called before each look at all of them, and may raise."""

        def column(path: str) -> Sequence[Any]:
            check()
            return self.column(path)

        keys = query.sort
        self._load({*criteria.paths(query.criterion), *(key.path for key in keys)}, check)
        is_shown = evaluate.select(query.criterion, column, len(self.rows)) & self._is_listed(query.streams)
        order = self._default_order()
        places = order[is_shown[order]]
        if keys:
            places = np.array(sort_order.sort(places.tolist(), keys, column), np.intp)
        return [self.rows[place] for place in places[query.first : query.first + query.count].tolist()]

    def column(self, path: str) -> Sequence[Any]:
        """The values of one property, in the order of `rows`."""
        self._load([path])
        self._columns.move_to_end(path)
        return self._columns[path]

    def _load(self, paths: Iterable[str], check: Callable[[], None] = lambda: None) -> None:
        """Makes columns that are missing. As many as one query needs are there at once."""
        missing = [path for path in paths if path not in self._columns]
        for path in missing:
            check()
            self._columns[path] = [row.value_at(path) for row in self.rows]
        while len(self._columns) > max(COLUMNS_MAX, len(missing)):
            self._columns.popitem(last=False)

    def _append(self, row: ListedSession) -> None:
        self._places[row.identity] = len(self.rows)
        self.rows.append(row)
        self._timestamps.append(0)
        self._references.append(set())
        self._refer(len(self.rows) - 1, row)
        for path, column in self._columns.items():
            column.append(row.value_at(path))

    def _refer(self, place: int, row: ListedSession) -> None:
        """Notes the timestamp of a row, and to which sessions it refers."""
        core = row.core()
        references = core.references() - {row.identity}
        if references or self._references[place]:
            self._referenced -= collections.Counter(self._references[place])
            self._referenced += collections.Counter(references)
            self._references[place] = references
        self._timestamps[place] = core.timestamp_ns
        self._order = None

    def _is_listed(self, streams: frozenset[str] | None) -> Bools:
        """Which sessions may be seen and are no children or alternates of another one that may be seen."""
        mask: Bools = np.ones(len(self.rows), np.bool_)
        referenced: Iterable[str] = self._referenced
        if streams is not None:
            mask &= np.fromiter((row.stream in streams for row in self.rows), np.bool_, len(self.rows))
            # Those of the others must not show: they would tell that there are others.
            referenced = {
                identity for is_seen, named in zip(mask, self._references, strict=True) if is_seen for identity in named
            }
        for identity in referenced:
            if (place := self._places.get(identity)) is not None:
                mask[place] = False
        return mask

    def _default_order(self) -> Indices:
        """Newest timestamp first, then the highest number."""
        if self._order is None:
            numbers = np.fromiter((row.stream_session_id for row in self.rows), np.float64, len(self.rows))
            self._order = np.lexsort((-numbers, -np.array(self._timestamps, np.int64)))
        return self._order


def _take_out(values: list[Any], place: int) -> None:
    """Removes a value, whose place the last one takes."""
    last = values.pop()
    if place < len(values):
        values[place] = last
