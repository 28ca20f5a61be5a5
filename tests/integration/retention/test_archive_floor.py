"""What is not archived is held back from trimming and removal, within bounds, on entries of our own making."""

from typing import Any

import anyio
import pytest
import redis

from rta_supervisor.diagnostics import counters
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe.deployment_checks import DeploymentChecks
from rta_supervisor.retention import trimmer
from rta_supervisor.retention.archive_queue import UnarchivedSession
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections import archive as sections_archive
from rta_supervisor.transport import functions
from rta_supervisor.transport.link import Link
from rta_wire import keys
from tests.support.archives import waiting

NAMES = keys.Keys()


class World:
    """A stream with entries 1-0 to 40-0, and sessions at places in it."""

    def __init__(self, client: redis.Redis, url: str, **archive_settings: Any) -> None:
        self.client = client
        self.config = settings.Settings(
            redis=settings.RedisSettings(url=url),
            trim=settings.TrimSettings(max_entries=4, min_retention_s=0, exact=True),
            archive=sections_archive.ArchiveSettings(**{"path": "/nowhere", "required": True, **archive_settings}),
        )
        for number in range(1, 41):
            client.xadd("stream:rig", {"id": "1", "data": b"x" * 1000}, id=f"{number}-0")
        client.sadd("streams", "rig")
        client.zadd(NAMES.streams_used(), {"rig": now_ms()})

    def session(self, identity: str, position: str, number: int = 1, *, is_open: bool = False) -> UnarchivedSession:
        place: Any = {"streamName": "rig", "streamSessionId": number, "streamPosition": position}
        self.client.hset(NAMES.session(identity), mapping=place)
        self.client.hset(NAMES.session_state(identity), mapping={**place, "state": "open" if is_open else "closed"})
        for key in (NAMES.session(identity), NAMES.session_state(identity)):
            self.client.expire(key, 500)
        one = UnarchivedSession(number, "rig", position, identity)
        if is_open:
            self.client.zadd(NAMES.session_index(), {identity: now_ms()})
        else:
            self.client.zadd(NAMES.unarchived(), {one.member: now_ms()})
        return one

    def sweep(self, **trimmed: Any) -> trimmer.TrimResult:
        changed = settings.TrimSettings(**{"max_entries": 4, "min_retention_s": 0, "exact": True, **trimmed})

        async def sweep() -> trimmer.TrimResult:
            link = Link(self.config.redis)
            try:
                await functions.load(link)
                parts = {name: getattr(self.config, name) for name in ("redis", "archive", "session")}
                return await trimmer.Trimmer(link, settings.Settings(trim=changed, **parts)).sweep()
            finally:
                await link.close()

        return anyio.run(sweep)

    @property
    def left(self) -> list[str]:
        found: Any = self.client.xrange("stream:rig")
        return [entry_id.decode() for entry_id, _ in found]


def test_trimming_waits_for_the_archive(client: redis.Redis, url: str) -> None:
    """The oldest session that is not archived decides, whether it is open or closed; then the usual bounds hold."""
    world = World(client, url)
    world.session("late", "30-0", 2, is_open=True)
    old = world.session("old", "10-0")
    world.sweep()
    assert world.left[0] == "10-0"
    client.zrem(NAMES.unarchived(), old.member)
    world.sweep()
    assert world.left[0] == "30-0"
    client.zrem(NAMES.session_index(), "late")
    world.sweep()
    assert world.left == ["37-0", "38-0", "39-0", "40-0"]


def test_json_alone_holds_no_data(client: redis.Redis, url: str) -> None:
    """Nor does anything where the archive is not required."""
    world = World(client, url)
    client.zadd(NAMES.unarchived(), {UnarchivedSession(1, "rig", "+", "run").member: now_ms()})
    world.sweep()
    assert len(world.left) == 4
    client.delete("stream:rig", NAMES.unarchived())
    world = World(client, url, required=False)
    world.session("old", "10-0")
    world.sweep()
    assert len(world.left) == 4


def test_a_stream_is_not_removed_before_the_archive_has_it(client: redis.Redis, url: str) -> None:
    """However long nobody used it."""
    world = World(client, url)
    old = world.session("old", "10-0")
    idle = {"idle_stream_s": 0.001}
    client.zadd(NAMES.streams_used(), {"rig": 1})
    world.config = settings.Settings(
        redis=world.config.redis,
        archive=world.config.archive,
        session=settings.SessionSettings(closed_ttl_s=1),
    )
    assert world.sweep(**idle).removed == ()
    client.zrem(NAMES.unarchived(), old.member)
    assert world.sweep(**idle).removed == ("rig",)


def test_memory_bounds_the_waiting(client: redis.Redis, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A warning before the bound; past it the oldest entries go, no more than have to, and it is noted of whom."""
    world = World(client, url)
    one = world.session("old", "10-0")
    world.session("new", "39-0", 2)
    world.sweep()
    used: Any = client.memory_usage("stream:rig")
    world.config = with_archive(world.config, max_bytes=int(used / 0.85))
    world.sweep()
    assert "archive_behind" in capsys.readouterr().out
    assert world.left[0] == "10-0"
    assert 0.5 < counters.counts.archive_held["rig"] < 1
    used = client.memory_usage("stream:rig")
    world.config = with_archive(world.config, max_bytes=int(used / 2))
    before = counters.counts.archive_cut["rig"]
    world.sweep()
    out = capsys.readouterr().out
    assert "archive_cut" in out
    assert "old" in out
    assert 4 < len(world.left) < 25
    assert client.memory_usage("stream:rig") <= used / 2 * 1.1
    assert counters.counts.archive_cut["rig"] > before
    assert client.hget(NAMES.session_state("old"), "cut") == b"1"
    assert client.hget(NAMES.session_state("new"), "cut") is None
    assert [found.identity for found in waiting(client)] == ["new", "old"] or one in waiting(client)


def with_archive(found: settings.Settings, **archive_settings: Any) -> settings.Settings:
    archive_ = sections_archive.ArchiveSettings(**{"path": "/nowhere", "required": True, **archive_settings})
    return settings.Settings(redis=found.redis, trim=found.trim, session=found.session, archive=archive_)


def test_who_waits_is_looked_after(client: redis.Redis, url: str) -> None:
    """Lives on while it waits; who is gone is taken off the list."""
    world = World(client, url)
    one = world.session("old", "10-0")
    gone = UnarchivedSession(9, "rig", "3-0", "gone")
    client.zadd(NAMES.unarchived(), {one.member: 1, gone.member: 1})
    world.sweep()
    assert waiting(client) == [one]
    assert client.ttl(NAMES.session("old")) > 500
    assert client.ttl(NAMES.session_state("old")) > 500
    score: Any = client.zscore(NAMES.unarchived(), one.member)
    assert score > 1


def test_the_doctor_looks_at_the_archive(client: redis.Redis, url: str) -> None:
    """Fine, near the bound, and past it."""
    world = World(client, url)
    world.session("old", "10-0")
    used: Any = client.memory_usage("stream:rig")
    for max_bytes, level in ((0, "ok"), (used * 2, "ok"), (int(used / 0.9), "warn"), (int(used / 2), "bad")):
        config_ = with_archive(world.config, max_bytes=max_bytes)

        async def look() -> Any:
            link = Link(config_.redis)  # noqa: B023
            try:
                return await DeploymentChecks(link, config_, scan_keys=0).archive()  # noqa: B023
            finally:
                await link.close()

        assert anyio.run(look).level == level, max_bytes
