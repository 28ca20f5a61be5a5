"""Reads by the name of a source, without Spark: all of its days, live and cold, and errors for what is not there."""

from pathlib import Path
from typing import Any

import pytest
import redis

import rta_writers
from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.transport.link import Link
from rta_wire import day_streams, entry_ids, errors, keys
from rta_wire.cold.lz4_roundtrip import RawEntry
from rta_writers.connection import redis_client
from rta_writers.options.read import ReadOptions
from rta_writers.read import batches, lookup, plan
from tests.support import acl, cold_streams, control, samples, supervisors
from tests.support.cold_streams import NAMES, compactor

TODAY = 20_500


def day(number: int, source: str = "rig") -> day_streams.Day:
    return day_streams.Day(source, number)


def fill(client: redis.Redis, stream: str, values: range, first_ms: int, *, number: int = 7) -> None:
    """Entries of one value each, a ms apart, in a stream that is in every list that names streams."""
    bursts = samples.bursts(len(values), first=values.start)
    entries = [
        RawEntry(f"{first_ms + n}-0", (b"id", str(number).encode(), b"data", burst.data))
        for n, burst in enumerate(bursts)
    ]
    cold_streams.fill(client, stream, entries)
    if (parsed := day_streams.parse(stream)) is not None:
        client.zadd(NAMES.days(parsed.source), {stream: parsed.number})
        client.expire(NAMES.days(parsed.source), 3600)


def fill_days(client: redis.Redis) -> None:
    """An undivided stream from before, and three days of the source; the second has a session past its midnight."""
    fill(client, "rig", range(10), day(TODAY - 3).start_ms, number=5)
    fill(client, day(TODAY - 2).stream, range(10, 30), day(TODAY - 2).start_ms, number=6)
    fill(client, day(TODAY - 1).stream, range(30, 40), day(TODAY).start_ms - 5, number=7)
    fill(client, day(TODAY).stream, range(40, 45), day(TODAY).start_ms, number=8)


def rows(client: redis.Redis, url: str, **options: str) -> list[tuple[str | None, int, float]]:
    """Session, its number and the value of each row, in the order of the tasks."""
    read_options = ReadOptions.parse({"redisUrl": url, **options})
    return [
        (row["session"], row["stream_session_id"], row["value"])
        for entry_range in plan.plan_batch(client, read_options)
        for batch in batches.read_batches(read_options, entry_range, batches.RowFilter())
        for row in batch.to_pylist()
    ]


def values(client: redis.Redis, url: str, **options: str) -> list[float]:
    return [value for _, _, value in rows(client, url, **options)]


def add_session(client: redis.Redis, identity: str, stream: str, number: int) -> None:
    fields: Any = {"streamName": stream, "streamSessionId": number, "streamPosition": "0-0"}
    client.hset(NAMES.session(identity), mapping=fields)
    client.expire(NAMES.session(identity), 600)
    client.zadd(NAMES.session_index(), {identity: 1})


async def compact(link: Link, folder: Path) -> None:
    catalogue = SqliteCatalogue(folder / "catalogue.sqlite")
    await compactor(link, catalogue, cold_streams.config(after_s=0.001)).sweep()
    await catalogue.close()


async def test_a_source_is_one_stream(client: redis.Redis, link: Link, url: str, tmp_path: Path) -> None:
    """The stream from before it had days, then day after day; live, cold, and half of each."""
    fill_days(client)
    add_session(client, "run-7", day(TODAY - 1).stream, 7)
    expected = [float(n) for n in range(45)]
    assert values(client, url, stream="rig") == expected
    assert {session for session, number, _ in rows(client, url, stream="rig") if number == 7} == {"run-7"}
    assert sorted(values(client, url, stream="rig", partitions="9")) == expected
    await compact(link, tmp_path)
    assert client.xlen(keys.stream(day(TODAY - 2).stream)) == 0, "nothing is cold"
    assert values(client, url, stream="rig") == expected
    fill(client, day(TODAY).stream, range(45, 50), day(TODAY).start_ms + 100, number=8)
    assert values(client, url, stream="rig") == [float(n) for n in range(50)]
    assert values(client, url, stream=day(TODAY).stream) == [float(n) for n in range(40, 50)]
    assert values(client, url, stream="rig", followDays="false") == [float(n) for n in range(10)]
    # Entries of the day before that were added after its midnight are later than the first ones of today.
    midnight = entry_ids.format_id(day(TODAY).start_ms)
    assert values(client, url, stream="rig", startingOffset=midnight) == [
        *map(float, range(36, 40)),
        *map(float, range(41, 50)),
    ]
    assert values(client, url, stream="rig", startingOffset="latest") == []


def test_tasks_are_shared_among_days(client: redis.Redis, url: str) -> None:
    """By the number of their entries: each day has one at least, and all together about what was asked for."""
    fill_days(client)
    options = ReadOptions.parse({"redisUrl": url, "stream": "rig", "partitions": "9"})
    streams = [entry_range.stream for entry_range in plan.plan_batch(client, options)]
    assert [streams.count(stream) for stream in dict.fromkeys(streams)] == [2, 4, 2, 1]


def test_days_come_and_go(client: redis.Redis, url: str) -> None:
    """A day that was removed is no more than missing, and one that began without entries is empty."""
    fill_days(client)
    client.unlink(keys.stream(day(TODAY - 2).stream))
    client.zadd(NAMES.days("rig"), {day(TODAY + 1).stream: TODAY + 1})
    assert values(client, url, stream="rig") == [float(n) for n in range(45) if not 10 <= n < 30]


def test_what_is_not_there_is_an_error(client: redis.Redis, url: str) -> None:
    """An unknown stream and an unknown session, unless the reader waits for them. A known stream may be empty."""
    fill_days(client)
    for name in ("rih", day(TODAY + 1).stream):
        with pytest.raises(errors.UnknownStream, match=f"no source '{name}'.*waitForStream"):
            rows(client, url, stream=name)
        assert rows(client, url, stream=name, waitForStream="true") == []
    with pytest.raises(errors.UnknownStream):
        rows(client, url, stream="rih", startingOffset="latest")
    with pytest.raises(errors.UnknownSession, match="no session 'gone'"):
        rows(client, url, session="gone")
    assert rows(client, url, session="gone", waitForStream="true") == []
    client.sadd(keys.STREAMS, "quiet")
    assert rows(client, url, stream="quiet") == []
    client.zadd(NAMES.days("test"), {"test.20260101": 20_454})
    client.expire(NAMES.days("test"), 60)
    assert rows(client, url, stream="test") == []


def test_the_template_of_the_supervisors_is_learnt(client: redis.Redis, url: str) -> None:
    """From their registration, unless an option names one. A prefix under which nobody is registered is named."""
    with supervisors.running(url, {"RTA_KEYS__SESSION_TEMPLATE": "live/{identity}/rta"}):
        session = rta_writers.SessionClient(url, timeout_s=20).open("run-7", stream="rig")
        control.write(client, session, 3)
        for selection in ({"session": "run-7"}, {"stream": "rig"}):
            assert [row[0] for row in rows(client, url, **selection)] == ["run-7"] * 3
    assert len(rows(client, url, session="run-7")) == 3, "a registration is known after its supervisor stopped"
    with pytest.raises(errors.UnknownSession):
        rows(client, url, session="run-7", sessionTemplate="sessions:{identity}")
    with pytest.raises(errors.NoSupervisor, match=r"registered at .* under the key prefix 'rta:'.*keyPrefix"):
        rows(client, url, stream="rig", keyPrefix="rta:")
    client.zadd("rta:nodes", {"a supervisor of 0.1.0": 1})
    client.expire("rta:nodes", 60)
    assert len(rows(client, url, stream="rig", keyPrefix="rta:")) == 3


def test_an_acl_file_of_an_older_version_is_enough(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Days are found among the names of all streams, and a warning names the missing line."""
    older = [line.replace(" %R~rtas:days:* %R~rtas:node:last", "") for line in acl.lines()]
    assert older != acl.lines()
    monkeypatch.setattr(acl, "lines", lambda _: older)
    monkeypatch.setenv("RTA_REDIS_PASSWORD", acl.PASSWORD)
    lookup._warn_of_acl.cache_clear()
    with acl.running() as server:
        url = f"unix://reader@{server.socket_path}"
        with redis.Redis(unix_socket_path=str(server.socket_path)) as admin, redis_client.connect(url) as client:
            fill_days(admin)
            for _ in range(2):
                assert values(client, url, stream="rig") == [float(n) for n in range(45)]
            with pytest.raises(errors.UnknownStream):
                rows(client, url, stream="rih")
    assert [record.message for record in caplog.records] == [
        "The ACL of this user lacks %R~rtas:days:*: days are looked for among the names of all streams"
    ]
