"""Streams trimmed on request: exactly what was asked for, unless it is protected; live and cold."""

import time
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.compaction.cold_trimmer import ColdTrimmer
from rta_supervisor.retention.trim_requests import rules
from rta_supervisor.retention.trim_requests import service as service_module
from rta_supervisor.retention.trim_requests.service import TrimService
from rta_supervisor.retention.trimmer import Trimmer
from rta_supervisor.retention.unarchived_session import UnarchivedSession
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections.archive import ArchiveSettings
from rta_supervisor.transport.link import Link
from rta_wire import errors, keys
from rta_wire.cold.lz4_roundtrip import RawEntry
from rta_wire.pb import control_pb2
from tests.support import cold_streams
from tests.support.cold_streams import NAMES
from tests.support.session_values import control_entry

REQUIRED = ArchiveSettings(path="/nowhere", required=True)
OLD_MS = 1_700_000_000_000


def fill(client: redis.Redis, count: int, size: int = 10) -> list[str]:
    entries = [RawEntry(f"{OLD_MS + n}-0", (b"id", b"7", b"data", b"x" * size)) for n in range(count)]
    cold_streams.fill(client, "rig", entries)
    return [entry.id for entry in entries]


def open_session(client: redis.Redis, stream: str = "rig") -> None:
    client.hset(NAMES.session_state("run-1"), mapping={"streamName": stream, "state": "open"})
    client.expire(NAMES.session_state("run-1"), 100)
    client.zadd(NAMES.session_index(), {"run-1": time.time_ns() // 1_000_000})


def ids_in(client: redis.Redis, stream: str = "rig") -> list[str]:
    """Of what readers see, live and cold."""
    return [entry_id for entry_id, _ in cold_streams.read_all(client, stream)]


class Clock:
    """A clock that a test sets."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def build(link: Link, config: settings.Settings | None = None, trimmer: Trimmer | None = None) -> TrimService:
    config = config or settings.Settings()
    return TrimService(link, config, trimmer or Trimmer(link, config), ColdTrimmer(link, config).trim)


async def trim(service: TrimService, principal: str = "operator", stream: str = "rig", **extent: int) -> Any:
    """The reply to requests that go on until one is not partial, with what all of them removed."""
    removed = 0
    while True:
        request = control_pb2.TrimStream(request_id="r", stream=stream, **extent)
        reply = await service.trim(control_entry(principal), request)
        removed += reply.removed_entries
        if not reply.is_partial:
            return control_pb2.TrimReply(
                stream=reply.stream, removed_entries=removed, entries=reply.entries, kept_because=reply.kept_because
            )


@hypothesis_settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    count=st.integers(1, 320),
    size=st.sampled_from([1, 60, 5000]),
    keep=st.one_of(st.none(), st.integers(1, 400)),
    before=st.integers(-5, 400),
    per_call=st.integers(1, 150),
)
async def test_exactly_what_was_asked_for(
    client: redis.Redis, link: Link, count: int, size: int, keep: int | None, before: int, per_call: int
) -> None:
    """Against a list: entries of any size, in calls of any size. The last entry stays."""
    client.flushdb()
    entries = fill(client, count, size)
    extent: Any = {"before_ms": OLD_MS + before} if keep is None else {"keep_entries": keep}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "CALL_MAX_BYTES", per_call * max(size, 20))
        reply = await trim(build(link), **extent)
    expected = entries[max(before, 0) :] if keep is None else entries[-keep:]
    expected = expected or entries[-1:]
    assert ids_in(client) == expected
    assert (reply.removed_entries, reply.entries) == (count - len(expected), len(expected))
    assert reply.kept_because == ""


async def test_a_large_removal_is_done_in_parts(
    client: redis.Redis, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request ends after its time, says that there is more, and the next one goes on."""
    entries = fill(client, 500, 5000)
    monkeypatch.setattr(service_module, "REQUEST_MAX_S", 0.0)
    monkeypatch.setattr(rules, "CALL_MAX_BYTES", 60 * 5000)
    request = control_pb2.TrimStream(request_id="r", stream="rig", keep_entries=10)
    first = await build(link).trim(control_entry("operator"), request)
    assert first.is_partial
    assert 0 < first.removed_entries <= 60
    reply = await trim(build(link), keep_entries=10)
    assert (first.removed_entries + reply.removed_entries, ids_in(client)) == (490, entries[-10:])


async def test_only_operators_may(client: redis.Redis, link: Link) -> None:
    """And only a stream that there is can be trimmed."""
    entries = fill(client, 5)
    with pytest.raises(errors.OperatorsOnly):
        await trim(build(link), "default", keep_entries=1)
    with pytest.raises(errors.UnknownStream):
        await trim(build(link), stream="rigg", keep_entries=1)
    assert ids_in(client) == entries


@pytest.mark.parametrize("is_trimmed", [True, False])
async def test_entries_of_an_open_session_stay_for_a_while(client: redis.Redis, link: Link, is_trimmed: bool) -> None:
    """For `min_retention_s` after a sweep has seen them, also where trimming is switched off."""
    clock = Clock()
    config = settings.Settings(trim=settings.TrimSettings(enabled=is_trimmed, min_retention_s=60))
    service = build(link, config, trimmer := Trimmer(link, config, clock))
    entries = fill(client, 20)
    open_session(client)
    reply = await trim(service, keep_entries=1)
    assert (reply.removed_entries, reply.kept_because) == (0, rules.FOR_OPEN_SESSIONS)
    await trimmer.sweep()
    clock.now_s += 60
    late = [RawEntry(f"{OLD_MS + 1000 + n}-0", (b"id", b"7", b"data", b"x")) for n in range(5)]
    cold_streams.fill(client, "rig", late)
    reply = await trim(service, keep_entries=1)
    assert ids_in(client) == [entries[-1], *(entry.id for entry in late)]
    assert (reply.removed_entries, reply.kept_because) == (19, rules.FOR_OPEN_SESSIONS)


async def test_what_the_archive_needs_stays(client: redis.Redis, link: Link) -> None:
    """From the first entry of a session that it does not have; all goes where the archive is not required."""
    entries = fill(client, 20)
    session = UnarchivedSession(7, "rig", entries[8], "run-1")
    client.zadd(NAMES.unarchived(), {session.member: 1})
    reply = await trim(build(link, settings.Settings(archive=REQUIRED)), keep_entries=2)
    assert (ids_in(client), reply.removed_entries) == (entries[8:], 8)
    assert reply.kept_because == rules.FOR_ARCHIVE
    reply = await trim(build(link), keep_entries=2)
    assert (ids_in(client), reply.removed_entries) == (entries[-2:], 10)


async def test_cold_batches_go_first(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """Whole ones, and none with an entry that stays; then live entries. What the archive needs stays there too."""
    noise = [RawEntry(entry.id, (b"id", b"7", b"data", bytes([n]) * 700_000)) for n, entry in enumerate(_noise_ids())]
    cold_streams.fill(client, "rig", noise)
    await cold_streams.compactor(link, catalogue).sweep()
    extent = cold_streams.read_extent(client)
    assert extent is not None
    assert extent.batches > 2
    live = [RawEntry(f"{OLD_MS + 100 + n}-0", (b"id", b"7", b"data", b"x")) for n in range(5)]
    cold_streams.fill(client, "rig", live)
    entries = [entry.id for entry in [*noise, *live]]
    client.zadd(NAMES.unarchived(), {UnarchivedSession(7, "rig", entries[0], "run-1").member: 1})
    reply = await trim(build(link, settings.Settings(archive=REQUIRED)), keep_entries=2)
    assert (reply.removed_entries, reply.kept_because, ids_in(client)) == (0, rules.FOR_ARCHIVE, entries)
    client.unlink(NAMES.unarchived())
    reply = await trim(build(link), before_ms=OLD_MS + 13)
    left = ids_in(client)
    assert reply.kept_because == rules.FOR_BATCH
    assert set(entries[13:]) <= set(left) < set(entries)
    assert (reply.removed_entries, reply.entries) == (len(entries) - len(left), len(left))
    await trim(build(link), keep_entries=3)
    assert ids_in(client) == entries[-3:]
    assert cold_streams.read_extent(client) is None
    assert not client.exists(keys.cold_stream("rig"))


def _noise_ids() -> list[RawEntry]:
    return [RawEntry(f"{OLD_MS + n}-0", ()) for n in range(20)]
