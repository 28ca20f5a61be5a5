"""Reads and writes the tables of publications. Connections and their errors are left to the catalogue."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from rta_supervisor.catalogue.publications import statements
from rta_supervisor.catalogue.publications.model import (
    Backlog,
    Delivery,
    DuePublication,
    PublicationStatus,
    RefusedPublication,
)
from rta_wire import errors
from rta_wire.session import State

SEQUENCE: Final = "sequence"
"""The mark of the highest sequence that was ever used in a call."""

CLOSED_SEEN_MS: Final = "closed_seen_ms"
"""The mark of the time up to which sessions that closed have publications."""

_SCHEMA: Final = "schema"

Read = Callable[..., Awaitable[list[tuple[Any, ...]]]]
Write = Callable[[str, Sequence[Sequence[Any]]], Awaitable[None]]


class PublicationTable:
    """The publications of all sessions in one catalogue. Each method may raise `CatalogueUnavailable`."""

    def __init__(self, read: Read, write: Write, sql: statements.PublicationStatements, tables: str) -> None:
        self._read = read
        self._write = write
        self._sql = sql
        self._tables = tables

    async def check(self, name: str) -> None:
        """Raise `CatalogueTooNew` where a newer program has made the tables. `name`: of the catalogue."""
        version = await self.mark(_SCHEMA)
        if version > statements.SCHEMA:
            raise errors.CatalogueTooNew(path=name, found=version, known=statements.SCHEMA)

    async def note(self, *, closed_since_ms: int, at_ms: int) -> None:
        """Note every session that is to be published: all unfinished ones, and those that closed or changed since."""
        await self._write(self._sql.note_unfinished, [(at_ms,)])
        await self._write(self._sql.note_closed, [(at_ms, closed_since_ms)])

    async def due(
        self, *, range_before_ms: int, heartbeat_before_ms: int, future_ms: int, limit: int
    ) -> list[DuePublication]:
        """Sessions that the service is to be told of now; those whose description changed come first.

        Of those that only grew, or that only need a heartbeat, the ones that were told before these times, or after
        `future_ms`: by a clock that has gone back since.
        """
        rows = await self._read(self._sql.due, range_before_ms, future_ms, heartbeat_before_ms, future_ms, limit)
        return [_parse_due(row) for row in rows]

    async def save_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        """Save what the service took, all or nothing. What a later call has told stays."""
        await self._write(self._sql.save_delivery, [_delivery_values(one) for one in _ordered(deliveries)])

    async def save_refusals(self, refusals: Sequence[RefusedPublication]) -> None:
        """Save that the service refuses sessions as they are."""
        rows = [
            (refusal.reason, due.version, due.state.value, due.identity, due.stream_session_id)
            for refusal in _ordered(refusals)
            if (due := refusal.due)
        ]
        await self._write(self._sql.save_refusal, rows)

    async def add_categories(self, lines: Mapping[str, str]) -> None:
        """Save which categories of details the service may have of sessions too, before it is told of them. Added to
        those that are known: several publishers may do so at once."""
        await self._write(self._sql.add_categories, [(line, identity) for identity, line in sorted(lines.items())])

    async def forget(self, identities: Sequence[str]) -> None:
        """Have sessions told from the beginning, which the service does not have."""
        await self._write(self._sql.forget, [(identity,) for identity in sorted(identities)])

    async def retry(self, identities: Sequence[str], *, at_ms: int) -> None:
        """Have sessions told from the beginning, refused or not, ended long ago or not."""
        await self._write(self._sql.retry, [(at_ms, identity) for identity in sorted(identities)])

    async def retry_refused(self) -> None:
        """Have all sessions tried again that were refused."""
        await self._write(self._sql.retry_refused, [("",)])

    async def skip(self, sessions: Sequence[tuple[str, int, int]]) -> None:
        """Never publish sessions of which this catalogue only infers that they ended, until they change.

        Each is an identity, a stream session id and a version.
        """
        await self._write(self._sql.skip, sorted(sessions))

    async def backlog(self) -> Backlog:
        """What is not delivered yet."""
        [(waiting, since_ms)] = await self._read(self._sql.backlog)
        [(refused,)] = await self._read(self._sql.refused_count)
        return Backlog(waiting, since_ms, refused)

    async def refused(self, limit: int) -> list[tuple[str, str]]:
        """Sessions that the service refuses, with its reasons."""
        if not await self._is_there():
            return []
        return [(identity, reason) for identity, reason in await self._read(self._sql.refused, limit)]

    async def get(self, identity: str) -> PublicationStatus | None:
        """What was told of a session; None where it is not to be published."""
        if not await self._is_there():
            return None
        rows = await self._read(self._sql.get, identity)
        if not rows:
            return None
        sequence, version, told_ms, pending, refused = rows[0]
        return PublicationStatus(sequence, version, told_ms, bool(pending), refused)

    async def mark(self, name: str) -> int:
        """A number that only rises, 0 where it was never set."""
        rows = await self._read(self._sql.mark, name)
        return int(rows[0][0]) if rows else 0

    async def raise_mark(self, name: str, number: int) -> None:
        """Raise a number; one that is higher stays."""
        await self._write(self._sql.raise_mark, [(name, number)])

    async def _is_there(self) -> bool:
        """Whether the table is there: a catalogue that only older supervisors wrote has none."""
        return (statements.PUBLICATIONS,) in await self._read(self._tables)


def _ordered(rows: Sequence[Any]) -> list[Any]:
    """In the same order everywhere: two that save the same rows at once can't deadlock."""
    return sorted(rows, key=lambda row: str(row.due.identity))


def _parse_due(columns: Sequence[Any]) -> DuePublication:
    identity, number, principal, version, state, json, start_ns, end_ns, *told = columns
    told_version, told_state, told_digest, told_start_ns, told_end_ns, categories, told_ms, noted_ms = told
    return DuePublication(
        *(identity, number, principal, version, State(state), json, start_ns, end_ns),
        *(told_version, told_state, told_digest, told_start_ns, told_end_ns),
        *(categories, told_ms, noted_ms),
    )


def _delivery_values(delivery: Delivery) -> tuple[Any, ...]:
    due = delivery.due
    return (
        *(due.version, due.state.value, delivery.digest, due.start_ns, due.end_ns),
        *(delivery.told_categories, delivery.categories, delivery.sequence, delivery.at_ms),
        *(int(not due.state.is_closed), due.identity, due.stream_session_id, delivery.sequence),
    )
