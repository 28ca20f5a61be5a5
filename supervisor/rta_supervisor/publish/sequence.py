"""The sequence of a round of calls, by which the Session Service ignores what is older than what it has."""

import msgspec

from rta_supervisor.catalogue.publications import table
from rta_supervisor.catalogue.publications.table import PublicationTable
from rta_supervisor.publish import server_functions
from rta_supervisor.transport.link import Link
from rta_wire import keys


class LastSequence(msgspec.Struct, frozen=True):
    """The sequence that was given out last, as Redis and the catalogue know it."""

    in_redis: bytes
    """Empty where Redis knows of none."""
    in_catalogue: int


class CallSequence:
    """Gives out sequences so that of two calls about a session the one with the higher sequence tells the newer state,
    whoever makes them.

    A publisher reads the last sequence, then what it tells, and then takes the next one, which it gets only where no
    other publisher has taken one in between.
    """

    def __init__(self, link: Link, names: keys.Keys, publications: PublicationTable, catalogue_name: str) -> None:
        self._link = link
        self._keys = names
        self._publications = publications
        self._catalogue_name = catalogue_name

    async def last(self) -> LastSequence:
        """The sequence that was given out last."""
        in_catalogue = await self._publications.mark(table.SEQUENCE)
        in_redis = await self._link.do("HGET", self._keys.publishing(), keys.PUBLISHING_SEQUENCE)
        return LastSequence(in_redis or b"", in_catalogue)

    async def take_next(self, last: LastSequence, *, at_ms: int) -> int | None:
        """A sequence above every one that Redis or the catalogue knows; None where `last` is no longer the last one.

        The time is a floor for where both were lost.
        """
        if await self._publications.mark(table.SEQUENCE) != last.in_catalogue:
            return None  # Redis may have lost the one that was given out since
        floor = max(last.in_catalogue + 1, at_ms)
        reply = await self._link.do(
            *server_functions.next_sequence(self._keys, last=last.in_redis, floor=floor, catalogue=self._catalogue_name)
        )
        if reply is None:
            return None
        sequence = int(reply)
        await self._publications.raise_mark(table.SEQUENCE, sequence)
        return sequence
