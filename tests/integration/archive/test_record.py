"""Recording that a session is archived: who may ask for it, and how long the session lives then."""

from pathlib import Path
from typing import Any

import pytest
import redis

from rta_supervisor.archive.record import ArchiveRecorder
from rta_supervisor.session import server_functions as session_functions
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import function_loader
from rta_supervisor.transport.link import Link
from rta_wire import day_streams, errors
from rta_wire.control import messages
from rta_wire.pb import control_pb2
from rta_wire.session import State
from tests.integration.archive.archive_runs import NAMES, REQUIRED, archive, closed, sessions_of, state
from tests.support.session_values import control_entry, session_record


def test_only_operators_record_an_archived_session(client: redis.Redis, url: str) -> None:
    """The request of a writer is refused, and so is one with a malformed checksum."""
    with sessions_of(url) as sessions:
        session = closed(client, sessions)
        note = control_pb2.NoteArchived(
            request_id=messages.new_request_id(),
            identity="run-1",
            stream_session_id=session.target.stream_session_id,
            version=2,
            checksum="a" * 64,
        )
        with pytest.raises(errors.SessionConflict, match="operator"):
            request(client, note, "default")
        note.request_id, note.checksum = messages.new_request_id(), "short"
        with pytest.raises(errors.BadMessage, match="checksum"):
            request(client, note, "operator")
        assert "archived" not in state(client)


async def test_a_session_is_not_marked_before_the_catalogue_has_it(client: redis.Redis, url: str) -> None:
    """A marked session may expire: without the catalogue nobody would find its files."""

    class UnavailableCatalogue:
        async def save_locations(self, locations: Any) -> None:
            raise errors.CatalogueUnavailable(path="x", reason=f"it is away, with {len(locations)} locations")

    config = settings.Settings(redis=settings.RedisSettings(url=url))
    link = Link(config.redis)
    await function_loader.load(link)
    record = session_record("run-1", state=State.CLOSED)
    await link.do(*session_functions.open_session(NAMES, record, position="0-0", now_ms=1, ttl_s=100))
    note = control_pb2.NoteArchived(identity="run-1", stream_session_id=1, version=1, checksum="a" * 64)
    recorder = ArchiveRecorder(link, config, SessionStore(link, config), UnavailableCatalogue())  # type: ignore[arg-type]
    with pytest.raises(errors.CatalogueUnavailable):
        await recorder.record(control_entry("operator"), note)
    assert "archived" not in state(client)
    await link.close()


def request(client: redis.Redis, note: control_pb2.NoteArchived, principal: str) -> control_pb2.SessionReply:
    client.xadd(NAMES.requests(principal), {"m": messages.pack(note)})
    raw: Any = client.blmove(NAMES.reply(note.request_id), NAMES.reply(note.request_id), 20, "LEFT", "RIGHT")
    return messages.unpack_reply(raw)


@pytest.mark.usefixtures("without_spark")
def test_a_session_expires_after_the_archive_has_it(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """Where the archive is required: a long lifetime until the session is archived, the usual one afterwards."""
    with sessions_of(url, **REQUIRED) as sessions:
        closed(client, sessions)
        day_s = day_streams.DAY_S
        assert client.ttl(NAMES.session("run-1")) > 6 * day_s
        assert client.ttl(NAMES.session_state("run-1")) > 6 * day_s
        assert archive(url, tmp_path).code == 0
        assert client.ttl(NAMES.session("run-1")) <= day_s
        assert client.ttl(NAMES.session_state("run-1")) <= day_s
