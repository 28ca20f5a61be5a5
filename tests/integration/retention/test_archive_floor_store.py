"""Entries that the archive does not have are neither trimmed nor removed, up to a limit of memory."""

from typing import Any

import anyio
import pytest
import redis

from rta_supervisor.diagnostics import counters
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe.doctor.deployment_checks import DeploymentChecks
from rta_supervisor.observe.doctor.key_scan import KeyScan
from rta_supervisor.retention import trimmer
from rta_supervisor.retention.unarchived_session import UnarchivedSession
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections import archive as sections_archive
from rta_supervisor.transport import function_loader
from rta_supervisor.transport.link import Link
from rta_wire import keys
from tests.support.archives import waiting

NAMES = keys.Keys()


class ArchivedStream:
    """The stream `rig` with entries 1-0 to 40-0, and sessions that begin at positions in it."""

    def __init__(self, client: redis.Redis, url: str, **archive_settings: Any) -> None:
        self.client = client
        self.config = settings.Settings(
            redis=settings.RedisSettings(url=url),
            trim=settings.TrimSettings(max_entries=4, entry_s=0, min_retention_s=0, exact=True),
            archive=sections_archive.ArchiveSettings(**{"path": "/nowhere", "required": True, **archive_settings}),
        )
        for number in range(1, 41):
            client.xadd("stream:rig", {"id": "1", "data": b"x" * 1000}, id=f"{number}-0")
        client.sadd("streams", "rig")
        client.zadd(NAMES.streams_used(), {"rig": now_ms()})

    def add_session(self, identity: str, position: str, number: int = 1, *, is_open: bool = False) -> UnarchivedSession:
        """An open session, or a closed one in the list of those that the archive does not have."""
        fields: Any = {"streamName": "rig", "streamSessionId": number, "streamPosition": position}
        self.client.hset(NAMES.session(identity), mapping=fields)
        self.client.hset(NAMES.session_state(identity), mapping={**fields, "state": "open" if is_open else "closed"})
        for key in (NAMES.session(identity), NAMES.session_state(identity)):
            self.client.expire(key, 500)
        session = UnarchivedSession(number, "rig", position, identity)
        if is_open:
            self.client.zadd(NAMES.session_index(), {identity: now_ms()})
        else:
            self.client.zadd(NAMES.unarchived(), {session.member: now_ms()})
        return session

    def sweep(self, **trim_settings: Any) -> trimmer.TrimResult:
        """Trim to 4 entries, unless other settings are given."""
        trim = settings.TrimSettings(
            **{"max_entries": 4, "entry_s": 0, "min_retention_s": 0, "exact": True, **trim_settings}
        )

        async def sweep() -> trimmer.TrimResult:
            link = Link(self.config.redis)
            try:
                await function_loader.load(link)
                sections = {name: getattr(self.config, name) for name in ("redis", "archive", "session")}
                return await trimmer.Trimmer(link, settings.Settings(trim=trim, **sections)).sweep()
            finally:
                await link.close()

        return anyio.run(sweep)

    @property
    def ids(self) -> list[str]:
        """The ids of the entries that are in the stream."""
        entries: Any = self.client.xrange("stream:rig")
        return [entry_id.decode() for entry_id, _ in entries]


def test_trimming_waits_for_the_archive(client: redis.Redis, url: str) -> None:
    """The oldest session that is not archived sets the floor, open or closed; without one the usual limits hold."""
    stream = ArchivedStream(client, url)
    stream.add_session("late", "30-0", 2, is_open=True)
    old = stream.add_session("old", "10-0")
    stream.sweep()
    assert stream.ids[0] == "10-0"
    client.zrem(NAMES.unarchived(), old.member)
    stream.sweep()
    assert stream.ids[0] == "30-0"
    client.zrem(NAMES.session_index(), "late")
    stream.sweep()
    assert stream.ids == ["37-0", "38-0", "39-0", "40-0"]


def test_what_keeps_no_entries(client: redis.Redis, url: str) -> None:
    """A session of which only the JSON is not archived, and any session where the archive is not required."""
    stream = ArchivedStream(client, url)
    client.zadd(NAMES.unarchived(), {UnarchivedSession(1, "rig", "+", "run").member: now_ms()})
    stream.sweep()
    assert len(stream.ids) == 4
    client.delete("stream:rig", NAMES.unarchived())
    stream = ArchivedStream(client, url, required=False)
    stream.add_session("old", "10-0")
    stream.sweep()
    assert len(stream.ids) == 4


def test_an_idle_stream_stays_until_it_is_archived(client: redis.Redis, url: str) -> None:
    """However long it was not used."""
    stream = ArchivedStream(client, url)
    old = stream.add_session("old", "10-0")
    idle = {"idle_stream_s": 0.001}
    client.zadd(NAMES.streams_used(), {"rig": 1})
    stream.config = settings.Settings(
        redis=stream.config.redis,
        archive=stream.config.archive,
        session=settings.SessionSettings(closed_ttl_s=1),
    )
    assert stream.sweep(**idle).removed == ()
    client.zrem(NAMES.unarchived(), old.member)
    assert stream.sweep(**idle).removed == ("rig",)


def test_over_the_memory_limit_archived_entries_go_first(
    client: redis.Redis, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As long as they are enough, no session is cut and nobody is alarmed."""
    stream = ArchivedStream(client, url)
    stream.add_session("new", "30-0")
    used: Any = client.memory_usage("stream:rig")
    stream.config = with_archive(stream.config, max_bytes=int(used * 0.8))
    stream.sweep(max_entries=1000)
    assert 10 <= len(stream.ids) < 40
    assert "archive_cut" not in capsys.readouterr().out
    assert client.hget(NAMES.session_state("new"), "cut") is None


def test_waiting_for_the_archive_is_bounded_by_memory(
    client: redis.Redis, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A warning near the limit; over it the oldest entries are removed, no more than necessary, and that is noted."""
    stream = ArchivedStream(client, url)
    old = stream.add_session("old", "10-0")
    new = stream.add_session("new", "39-0", 2)
    stream.sweep()
    used: Any = client.memory_usage("stream:rig")
    stream.config = with_archive(stream.config, max_bytes=int(used / 0.85))
    stream.sweep()
    assert "archive_behind" in capsys.readouterr().out
    assert stream.ids[0] == "10-0"
    assert 0.5 < counters.counts.archive_held["rig"] < 1
    used = client.memory_usage("stream:rig")
    stream.config = with_archive(stream.config, max_bytes=int(used / 2))
    before = counters.counts.archive_cut["rig"]
    stream.sweep()
    out = capsys.readouterr().out
    assert "archive_cut" in out
    assert "old" in out
    assert 4 < len(stream.ids) < 25
    assert client.memory_usage("stream:rig") <= used / 2 * 1.1
    assert counters.counts.archive_cut["rig"] > before
    assert client.hget(NAMES.session_state("old"), "cut") == b"1"
    assert client.hget(NAMES.session_state("new"), "cut") is None
    assert sorted(waiting(client)) == [old, new]


def with_archive(config: settings.Settings, **archive_settings: Any) -> settings.Settings:
    """The same settings, with others of the archive."""
    archive = sections_archive.ArchiveSettings(**{"path": "/nowhere", "required": True, **archive_settings})
    return settings.Settings(redis=config.redis, trim=config.trim, session=config.session, archive=archive)


def test_a_session_in_the_list_does_not_expire(client: redis.Redis, url: str) -> None:
    """Its lifetime is renewed by each sweep; a session that is gone is taken off the list."""
    stream = ArchivedStream(client, url)
    old = stream.add_session("old", "10-0")
    gone = UnarchivedSession(9, "rig", "3-0", "gone")
    client.zadd(NAMES.unarchived(), {old.member: 1, gone.member: 1})
    stream.sweep()
    assert waiting(client) == [old]
    assert client.ttl(NAMES.session("old")) > 500
    assert client.ttl(NAMES.session_state("old")) > 500
    score: Any = client.zscore(NAMES.unarchived(), old.member)
    assert score > 1


def test_the_doctor_reports_how_near_the_limit_is(client: redis.Redis, url: str) -> None:
    """No limit, far from it, near it, and over it."""
    stream = ArchivedStream(client, url)
    stream.add_session("old", "10-0")
    used: Any = client.memory_usage("stream:rig")
    for max_bytes, level in ((0, "ok"), (used * 2, "ok"), (int(used / 0.9), "warn"), (int(used / 2), "bad")):
        config = with_archive(stream.config, max_bytes=max_bytes)

        async def look() -> Any:
            link = Link(config.redis)  # noqa: B023
            try:
                return await DeploymentChecks(link, config, KeyScan(link, 0)).archive()  # noqa: B023
            finally:
                await link.close()

        assert anyio.run(look).level == level, max_bytes
