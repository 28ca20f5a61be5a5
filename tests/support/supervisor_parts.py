"""Parts of a supervisor without its loops, on a real server."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.catalogue.writer import CatalogueWriter
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.recovery.restore import Recovery
from rta_supervisor.session.effects import SessionEffects
from rta_supervisor.session.model import SessionRecord, SessionRef
from rta_supervisor.session.service import SessionService
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import session
from rta_wire.pb import control_pb2


def config(lease_s: float = 0.3, **changes: Any) -> settings.Settings:
    return settings.Settings(node=settings.NodeSettings(lease_s=lease_s), **changes)


def required(base: settings.Settings) -> settings.Settings:
    """The same settings, with a catalogue that has to be there."""
    return msgspec.structs.replace(base, catalogue=msgspec.structs.replace(base.catalogue, required=True))


def service(
    link: Link,
    own: settings.Settings,
    sessions: SessionStore,
    on_change: Callable[[str], None] = lambda _: None,
    clock: Clock = now_ms,
) -> SessionService:
    """What serves requests about sessions, with its effects."""
    effects = SessionEffects(link, own, sessions, on_change, clock=clock)
    return SessionService(link, own, sessions, effects, clock=clock)


async def opened(link: Link, identity: str = "run-1") -> tuple[SessionStore, SessionService]:
    sessions = SessionStore(link, config())
    life = service(link, config(), sessions)
    text = session.dump(session.build(identity)).decode()
    await life.open("default", control_pb2.OpenSession(identity=identity, stream="rig", session_json=text))
    return sessions, life


class World(NamedTuple):
    """A supervisor without its tasks."""

    link: Link
    sessions: SessionStore
    catalogue: SqliteCatalogue
    archivist: CatalogueWriter
    life: SessionService
    recovery: Recovery

    async def open(self, identity: str = "run-1") -> SessionRef:
        """A session that the catalogue has."""
        text = session.dump(session.build(identity)).decode()
        await self.life.open("default", control_pb2.OpenSession(identity=identity, stream="rig", session_json=text))
        await self.archivist.flush()
        return (await self.known(identity)).ref

    async def known(self, identity: str = "run-1") -> SessionRecord:
        found = await self.sessions.read(identity)
        assert found is not None
        return found

    async def save(self, identity: str = "run-1", **changes: object) -> None:
        """The catalogue knows more of a session than Redis."""
        row = await self.catalogue.get(identity)
        assert row is not None
        await self.catalogue.save([msgspec.structs.replace(row, version=row.version + 1, **changes)])

    async def unfinished(self) -> list[str]:
        return [row.identity for row in await self.catalogue.unfinished()]
