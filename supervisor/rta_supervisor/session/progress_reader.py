"""Reads how far sessions have come, for closes that wait: state and totals, and nothing else of a session."""

from collections.abc import Sequence

import msgspec

from rta_supervisor.session import model
from rta_supervisor.transport.link import Link
from rta_wire import keys
from rta_wire.control.totals import Totals
from rta_wire.session import State


class SessionProgress(msgspec.Struct, frozen=True):
    """How far a session has come."""

    is_closed: bool
    """Also for one that is unknown by now: there is nothing to wait for."""

    totals: Totals

    def has_arrived(self, expected: Totals) -> bool:
        """Whether a close that expects so much has nothing to wait for."""
        return self.is_closed or self.totals.has_arrived(expected)


class ProgressReader:
    """Reads the progress of many sessions in one round trip."""

    def __init__(self, link: Link, names: keys.Keys) -> None:
        self._link = link
        self._keys = names

    async def read_all(self, identities: Sequence[str]) -> list[SessionProgress]:
        """The progress of each session."""
        rows = await self._link.do_all(
            [("HMGET", self._keys.session_state(identity), keys.STATE, keys.TOTALS) for identity in identities]
        )
        return [
            SessionProgress(state is None or State(state.decode()).is_closed, model.parse_totals(totals))
            for state, totals in rows
        ]
