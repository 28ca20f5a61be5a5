"""Records of what was archived: who may write them, and what a session's lifetime is then."""

from pathlib import Path
from typing import Any

import pytest
import redis

from rta_supervisor.archive.record import ArchiveRecorder
from rta_supervisor.session import functions as session_functions
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import functions
from rta_supervisor.transport.link import Link
from rta_wire import day_streams, errors
from rta_wire.control import messages
from rta_wire.pb import control_pb2
from rta_wire.session import State
from tests.integration.archive.archive_runs import NAMES, REQUIRED, archive, closed, sessions_of, state
from tests.support.session_values import control_entry, session_record


def test_only_operators_note_an_archive(client: redis.Redis, url: str) -> None:
    """A writer that says so is refused, and so is a checksum that is none."""
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
            ask(client, note, "default")
        note.request_id, note.checksum = messages.new_request_id(), "short"
        with pytest.raises(errors.BadMessage, match="checksum"):
            ask(client, note, "operator")
        assert "archived" not in state(client)


async def test_nothing_is_marked_that_the_catalogue_does_not_have(client: redis.Redis, url: str) -> None:
    """A mark lets everything else go: people would not find the files."""

    class Away:
        async def save_locations(self, locations: Any) -> None:
            raise errors.CatalogueUnavailable(path="x", reason=f"it is away, with {len(locations)} locations")

    made = settings.Settings(redis=settings.RedisSettings(url=url))
    link = Link(made.redis)
    await functions.load(link)
    record = session_record("run-1", state=State.CLOSED)
    await link.do(*session_functions.open_session(NAMES, record, position="0-0", now_ms=1, ttl_s=100))
    note = control_pb2.NoteArchived(identity="run-1", stream_session_id=1, version=1, checksum="a" * 64)
    marker = ArchiveRecorder(link, made, SessionStore(link, made), Away())  # type: ignore[arg-type]
    with pytest.raises(errors.CatalogueUnavailable):
        await marker.record(control_entry("operator"), note)
    assert "archived" not in state(client)
    await link.close()


def ask(client: redis.Redis, note: control_pb2.NoteArchived, principal: str) -> control_pb2.SessionReply:
    client.xadd(NAMES.requests(principal), {"m": messages.pack(note)})
    raw: Any = client.blmove(NAMES.reply(note.request_id), NAMES.reply(note.request_id), 20, "LEFT", "RIGHT")
    return messages.unpack_reply(raw)


@pytest.mark.usefixtures("without_spark")
def test_a_session_expires_after_the_archive_has_it(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """Where it is required: a long life while it waits, the usual one once it is marked."""
    with sessions_of(url, **REQUIRED) as sessions:
        closed(client, sessions)
        day_s = day_streams.DAY_S
        assert client.ttl(NAMES.session("run-1")) > 6 * day_s
        assert client.ttl(NAMES.session_state("run-1")) > 6 * day_s
        assert archive(url, tmp_path).code == 0
        assert client.ttl(NAMES.session("run-1")) <= day_s
        assert client.ttl(NAMES.session_state("run-1")) <= day_s
