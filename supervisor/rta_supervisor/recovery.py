"""Makes Redis whole again after it lost data: functions, groups, the floor of ids, and the sessions that were open.

Repeating it is harmless, and several supervisors may do it at once: each step only adds what is missing.
"""

from collections.abc import Awaitable, Callable, Sequence

import anyio

from rta_supervisor import calls, log
from rta_supervisor.beat import Beat
from rta_supervisor.catalogue import Catalogue, Row
from rta_supervisor.life import Life
from rta_supervisor.link import Link, Outage, Refusal
from rta_supervisor.sessions import Ref, Sessions
from rta_wire import keys, session


class Recovery:
    """What is done at start and after a loss."""

    def __init__(
        self,
        link: Link,
        sessions: Sessions,
        life: Life,
        catalogue: Catalogue,
        prepare: Sequence[Callable[[], Awaitable[None]]],
    ) -> None:
        self._link = link
        self._sessions = sessions
        self._life = life
        self._catalogue = catalogue
        self._prepare = prepare
        self._lock = anyio.Lock()
        self._log = log.get()

    async def run(self, beat: Beat, every_s: float) -> None:
        """Watch the counter until cancelled."""
        while True:
            try:
                if reason := await beat.data_loss():
                    await self.recover(reason)
            except (*Outage, *Refusal) as error:
                self._log.warning("redis_unavailable", error=str(error))
            await anyio.sleep(every_s)

    async def recover(self, reason: str) -> None:
        """Redis lost something: put back what we know."""
        async with self._lock:
            self._log.error("redis_lost_data", reason=reason)
            restored, lossy = await self.make_whole()
            self._log.warning("redis_made_whole", sessions_restored=restored, sessions_with_loss=lossy)

    async def make_whole(self) -> tuple[int, int]:
        """Everything that has to be there. Gives how many sessions were put back and how many miss data."""
        await self._link.load_functions()
        for prepare in self._prepare:
            await prepare()
        await self._raise_floor()
        restored = lossy = 0
        for row in await self._catalogue.unfinished():
            restored += await self._put_back(row)
            lossy += await self._mark_loss(row)
        return restored, lossy

    async def _raise_floor(self) -> None:
        """Ids never repeat, not even those of sessions that only the streams remember."""
        streams = [raw.decode() for raw in await self._link.do("SMEMBERS", keys.STREAMS)]
        tails = await self._link.do_all([("XREVRANGE", keys.stream(name), "+", "-", "COUNT", 1) for name in streams])
        seen = [int(fields[1]) for tail in tails for _, fields in tail if fields[0] == keys.ENTRY_ID]
        await self._link.do(*calls.raise_floor(max([await self._catalogue.highest_id(), *seen])))

    async def _put_back(self, row: Row) -> bool:
        """A session that Redis forgot, with the id that it had."""
        ref = Ref(row.identity, row.stream, row.stream_session_id)
        position = await self._sessions.last_entry_id(row.stream)
        document = session.parse(row.json)
        is_new = await self._life.put_new(
            ref, document, state=row.state, principal=row.principal, position=position, openedMs=row.opened_ms
        )
        known = await self._sessions.read(row.identity)
        if known is None or known.ref != ref or known.state.is_closed:
            return False
        await self._life.announce(known)
        if is_new:
            self._log.warning("session_restored", session=row.identity, stream=row.stream, id=row.stream_session_id)
        return is_new

    async def _mark_loss(self, row: Row) -> bool:
        """Whether less stands in Redis than was reported. Such a session can't end as complete."""
        known = await self._sessions.read(row.identity)
        if known is None or known.ref.stream_session_id != row.stream_session_id or known.state.is_closed:
            return False
        await self._sessions.fold_marks(known.ref)
        known = await self._sessions.read(row.identity) or known
        missing = known.totals.short_of(row.totals)
        if missing is None or known.lost_data:
            return known.lost_data
        await self._sessions.note_loss(known.ref)
        self._log.error(
            "session_lost_data",
            session=row.identity,
            samples_reported=row.totals.samples,
            samples_found=known.totals.samples,
        )
        return True
