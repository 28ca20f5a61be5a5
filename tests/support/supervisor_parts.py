"""Parts of a supervisor without its loops, on a real server."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.catalogue.writer import CatalogueWriter
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.recovery.recovery import Recovery
from rta_supervisor.recovery.session_restorer import SessionRestorer
from rta_supervisor.retention.day_index import DayIndex
from rta_supervisor.session.effects import SessionEffects
from rta_supervisor.session.model import SessionRecord, SessionRef
from rta_supervisor.session.opening.external_ids import ExternalIds
from rta_supervisor.session.service import SessionService
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import session
from rta_wire.pb import control_pb2
from tests.support.session_values import control_entry


def config(lease_s: float = 0.3, **changes: Any) -> settings.Settings:
    return settings.Settings(node=settings.NodeSettings(lease_s=lease_s), **changes)


def required(base: settings.Settings) -> settings.Settings:
    """The same settings, with a catalogue that has to be there."""
    return msgspec.structs.replace(base, catalogue=msgspec.structs.replace(base.catalogue, required=True))


def service(
    link: Link,
    settings_: settings.Settings,
    sessions: SessionStore,
    on_change: Callable[[str], None] = lambda _: None,
    clock: Clock = now_ms,
    remove_hash: Callable[[str, str], None] = lambda _key, _prefix: None,
) -> SessionService:
    """What serves requests about sessions, with its effects."""
    effects = SessionEffects(link, settings_, sessions, on_change, remove_hash=remove_hash, clock=clock)
    external_ids = ExternalIds(link, settings_, sessions)
    return SessionService(settings_, sessions, effects, external_ids, DayIndex(link, settings_, clock), clock=clock)


async def opened(
    link: Link, identity: str = "run-1", settings_: settings.Settings | None = None, **parts: Any
) -> tuple[SessionStore, SessionService]:
    """A store of sessions and a service, with one session in `rig` that is open."""
    settings_ = settings_ or config()
    sessions = SessionStore(link, settings_)
    session_service = service(link, settings_, sessions, **parts)
    text = session.dump(session.build(identity)).decode()
    request = control_pb2.OpenSession(identity=identity, stream="rig", session_json=text)
    await session_service.open(control_entry(), request)
    return sessions, session_service


class World(NamedTuple):
    """The parts of a supervisor, without its tasks."""

    link: Link
    sessions: SessionStore
    catalogue: SqliteCatalogue
    catalogue_writer: CatalogueWriter
    service: SessionService
    restorer: SessionRestorer
    recovery: Recovery

    async def open(self, identity: str = "run-1") -> SessionRef:
        """Open a session and write it to the catalogue."""
        text = session.dump(session.build(identity)).decode()
        request = control_pb2.OpenSession(identity=identity, stream="rig", session_json=text)
        await self.service.open(control_entry(), request)
        await self.catalogue_writer.flush()
        return (await self.record(identity)).ref

    async def record(self, identity: str = "run-1") -> SessionRecord:
        """The record of a session that Redis has."""
        record = await self.sessions.read(identity)
        assert record is not None
        return record

    async def save(self, identity: str = "run-1", **changes: object) -> None:
        """Write a newer version of a session to the catalogue, which Redis does not have."""
        row = await self.catalogue.get(identity)
        assert row is not None
        await self.catalogue.save([msgspec.structs.replace(row, version=row.version + 1, **changes)])

    async def unfinished(self) -> list[str]:
        return [row.identity for row in await self.catalogue.unfinished()]
