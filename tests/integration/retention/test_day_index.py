"""The index of days on a real server: which day a new session goes to, whatever the clocks show."""

from pathlib import Path
from typing import Any

import anyio
import pytest
import redis
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rta_supervisor.catalogue import model as catalogue_model
from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.retention import server_functions as retention_functions
from rta_supervisor.retention.day_index import DayIndex
from rta_supervisor.session.service import SessionService
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections import days as sections_days
from rta_supervisor.transport.link import Link
from rta_wire import day_streams, errors, keys, session
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_wire.session import State
from rta_writers.options import read as options_read
from rta_writers.read import lookup as read_lookup
from tests.support import samples, supervisor_parts
from tests.support.control import fields
from tests.support.day_streams import NAMES, TODAY, TODAY_MS, Clock, config, indexed_streams
from tests.support.session_values import control_entry


@pytest.fixture
def clock() -> Clock:
    return Clock(TODAY_MS + 1000)


def session_service(link: Link, clock: Clock, own_config: settings.Settings | None = None) -> SessionService:
    own_config = own_config or config()
    store = SessionStore(link, own_config, clock)
    return supervisor_parts.service(link, own_config, store, clock=clock)


async def open_session(service: SessionService, identity: str, stream: str = "rig", principal: str = "default") -> str:
    """Open a session, and return the stream that the reply names."""
    document = session.dump(session.build(identity)).decode()
    request = control_pb2.OpenSession(identity=identity, stream=stream, session_json=document)
    return (await service.open(control_entry(principal), request)).stream


def stream_of(number: int, source: str = "rig") -> str:
    """The stream of a day."""
    return day_streams.Day(source, number).stream


day_calls = st.one_of(
    st.tuples(st.just("choose"), st.integers(0, 30)),
    st.tuples(st.just("drop"), st.integers(0, 30)),
    st.tuples(st.just("keep"), st.integers(0, 30)),
)


@hypothesis_settings(max_examples=200, deadline=None)
@given(st.lists(day_calls, max_size=40))
def test_the_latest_day_ever_counts(raw: redis.Redis, calls: list[tuple[str, int]]) -> None:
    """Whatever day each clock shows, and whichever days leave the index or come back in between."""
    raw.flushall()
    latest = -1
    indexed: set[bytes] = set()
    for function, number in calls:
        day = day_streams.Day("rig", number)
        if function == "choose":
            latest = max(latest, number)
            stream, begins = raw.execute_command(*retention_functions.choose_day(NAMES, day))
            assert stream == stream_of(latest).encode()
            assert begins == (latest == number and stream not in indexed)
        elif function == "drop":
            raw.execute_command(*retention_functions.drop_day(NAMES, day))
        else:
            latest = max(latest, number)
            raw.execute_command(*retention_functions.keep_days(NAMES, "rig", [day]))
        indexed = set(raw.execute_command("ZRANGE", NAMES.days("rig"), 0, -1))
        assert (max(indexed) == stream_of(latest).encode()) if indexed else latest == -1
        assert not indexed or raw.execute_command("TTL", NAMES.days("rig")) > 0


async def test_new_sessions_go_to_the_new_day(link: Link, client: redis.Redis, clock: Clock) -> None:
    """A session that is open at midnight keeps its stream, however often it is opened again."""
    clock.now_ms = TODAY_MS - 1
    service = session_service(link, clock)
    assert await open_session(service, "before") == stream_of(TODAY - 1)
    clock.now_ms = TODAY_MS
    assert await open_session(service, "after") == stream_of(TODAY)
    assert await open_session(service, "before") == stream_of(TODAY - 1)
    assert await open_session(service, "before", stream_of(TODAY - 1)) == stream_of(TODAY - 1), (
        "by the name of its stream"
    )
    with pytest.raises(errors.SessionConflict, match=stream_of(TODAY - 1)):
        await open_session(service, "before", stream_of(TODAY))
    with pytest.raises(errors.SessionConflict):
        await open_session(service, "before", "other")
    assert client.smembers("streams") == {stream_of(TODAY - 1).encode(), stream_of(TODAY).encode()}
    assert indexed_streams(client) == [stream_of(TODAY - 1), stream_of(TODAY)]
    number = int(fields(client, "before")["streamSessionId"])
    assert samples.kinds(client, stream_of(TODAY - 1), number) == ["session_json"], "published once"


async def test_a_clock_that_jumps_back(link: Link, client: redis.Redis, clock: Clock) -> None:
    """No session goes to an earlier day than a session before it."""
    service = session_service(link, clock)
    assert await open_session(service, "a") == stream_of(TODAY)
    clock.now_ms -= 3 * day_streams.DAY_MS
    assert await open_session(service, "b") == stream_of(TODAY)
    assert await open_session(session_service(link, Clock(0)), "c") == stream_of(TODAY), (
        "nor through another supervisor"
    )
    assert indexed_streams(client) == [stream_of(TODAY)]


@pytest.mark.usefixtures("link")
async def test_two_supervisors_on_two_sides_of_midnight(url: str, client: redis.Redis) -> None:
    """Both open sessions at the same time; once the new day has begun, no session goes to the old one."""
    links = [Link(settings.RedisSettings(url=url)) for _ in range(2)]
    services = [session_service(links[0], Clock(TODAY_MS - 1)), session_service(links[1], Clock(TODAY_MS))]
    async with anyio.create_task_group() as tasks:
        for number in range(40):
            tasks.start_soon(open_session, services[number % 2], f"run-{number}")
    assert await open_session(services[0], "last") == stream_of(TODAY)
    for own_link in links:
        await own_link.close()
    late = {number for number in range(1, 40, 2) if fields(client, f"run-{number}")["streamName"] != stream_of(TODAY)}
    assert late == set(), "a supervisor whose clock shows the new day uses it"
    entries: Any = [client.xrange(keys.stream(stream_of(day)), count=100) for day in (TODAY - 1, TODAY)]
    assert sum(map(len, entries)) == 41
    assert indexed_streams(client)[-1] == stream_of(TODAY)


async def test_an_undivided_source_has_one_stream(link: Link, client: redis.Redis, clock: Clock) -> None:
    """And no index; each divided source has an index of its own."""
    sources = {
        "rig": sections_days.SourceDaysSettings(partition="day"),
        "car": sections_days.SourceDaysSettings(partition="day"),
    }
    service = session_service(link, clock, config(partition="none", sources=sources))
    assert await open_session(service, "a", "plain") == "plain"
    assert await open_session(service, "b", "plain.20200101") == "plain.20200101", (
        "named after a day of a source without days"
    )
    assert await open_session(service, "c", "rig") == stream_of(TODAY)
    clock.now_ms += day_streams.DAY_MS
    assert await open_session(service, "d", "car") == stream_of(TODAY + 1, "car")
    assert await open_session(service, "e", "rig") == stream_of(TODAY + 1)
    assert indexed_streams(client, "plain") == []
    assert indexed_streams(client, "car") == [stream_of(TODAY + 1, "car")]


async def test_the_stream_of_a_day_can_not_be_asked_for(link: Link, client: redis.Redis, clock: Clock) -> None:
    """A session could go to an earlier day. A source that is named like a day is in the settings, and has days."""
    with pytest.raises(errors.StreamOfDay, match="Ask for 'rig'"):
        await open_session(session_service(link, clock), "a", stream_of(TODAY - 5))
    assert client.keys("*") == []
    sources = {"rig.20260101": sections_days.SourceDaysSettings()}
    service = session_service(link, clock, config(sources=sources))
    assert await open_session(service, "a", "rig.20260101") == stream_of(TODAY, "rig.20260101")
    assert await open_session(service, "b", "rig") == stream_of(TODAY)
    assert indexed_streams(client, "rig.20260101") == [stream_of(TODAY, "rig.20260101")]


async def test_a_name_that_is_too_long_for_a_day(link: Link, client: redis.Redis, clock: Clock) -> None:
    """The error names it, and nothing is created."""
    with pytest.raises(errors.BadName, match="119"):
        await open_session(session_service(link, clock), "a", "x" * 120)
    assert client.keys("*") == []
    assert await open_session(session_service(link, clock), "a", "x" * 119) == stream_of(TODAY, "x" * 119)


async def test_the_prefix_of_a_principal_holds_for_sources(link: Link, clock: Clock) -> None:
    """The source has to begin with it, and so its days do."""
    control = settings.ControlSettings(principals=("p",), stream_prefixes={"p": "rig-4."})
    own_config = settings.Settings(days=config().days, control=control)
    assert (await open_session(session_service(link, clock, own_config), "a", "rig-4.hot", "p")).startswith(
        "rig-4.hot."
    )
    with pytest.raises(errors.ForeignStream):
        await open_session(session_service(link, clock, own_config), "b", "rig-5.hot", "p")


async def test_the_partition_can_change(link: Link, clock: Clock) -> None:
    """From one stream to days and back: an open session stays in its stream, and is found by the name of its source."""
    current = config(partition="none")
    service = session_service(link, clock, current)
    assert await open_session(service, "whole") == "rig"
    current.days = config().days
    assert await open_session(service, "daily") == stream_of(TODAY)
    assert await open_session(service, "whole") == "rig"
    current.days = config(partition="none").days
    assert await open_session(service, "daily") == stream_of(TODAY)
    assert await open_session(service, "new") == "rig"


async def catalogue_with(path: Path, *streams: str) -> SqliteCatalogue:
    """A catalogue with a session in each of these streams."""
    catalogue = SqliteCatalogue(path / "catalogue.sqlite")
    await catalogue.save(
        [
            catalogue_model.CatalogueRow(f"run-{number}", stream, number, "p", State.CLOSED, "{}", Totals(), 1, 1, 1)
            for number, stream in enumerate(streams, 1)
        ]
    )
    return catalogue


async def test_the_index_is_restored(link: Link, client: redis.Redis, clock: Clock, tmp_path: Path) -> None:
    """From the streams that exist and the newest day that ever was, so that no session goes to an earlier day."""
    client.sadd("streams", stream_of(TODAY - 1), stream_of(TODAY - 2), "plain", stream_of(TODAY, "other"))
    catalogued = (stream_of(TODAY), stream_of(TODAY - 9), stream_of(TODAY - 1), "plain", stream_of(TODAY - 3, "car"))
    catalogue = await catalogue_with(tmp_path, *catalogued)
    sources = {"other": sections_days.SourceDaysSettings(partition="none")}
    await DayIndex(link, config(sources=sources)).restore(catalogue.streams)
    await catalogue.close()
    assert indexed_streams(client) == [stream_of(TODAY - 2), stream_of(TODAY - 1), stream_of(TODAY)]
    assert indexed_streams(client, "car") == [stream_of(TODAY - 3, "car")]
    assert client.exists(NAMES.days("other")) == 0
    assert client.zrange(NAMES.streams_used(), 0, -1) == [stream_of(TODAY - 2).encode(), stream_of(TODAY - 1).encode()]
    clock.now_ms -= 5 * day_streams.DAY_MS
    assert await open_session(session_service(link, clock), "a") == stream_of(TODAY)


async def test_the_index_is_restored_without_a_catalogue(link: Link, client: redis.Redis, tmp_path: Path) -> None:
    """From the streams that exist; the time of their last use stays."""
    client.sadd("streams", stream_of(TODAY - 1))
    client.zadd(NAMES.streams_used(), {stream_of(TODAY - 1): TODAY_MS})
    await DayIndex(link, config()).restore(SqliteCatalogue(tmp_path / "nowhere" / "catalogue.sqlite").streams)
    assert indexed_streams(client) == [stream_of(TODAY - 1)]
    assert client.zscore(NAMES.streams_used(), stream_of(TODAY - 1)) == TODAY_MS


async def test_a_reader_finds_a_session_by_its_source(link: Link, url: str, client: redis.Redis, clock: Clock) -> None:
    """A reader of a session may name its source, its stream or neither; another stream is refused."""
    await open_session(session_service(link, clock), "run-1")
    for stream in ({}, {"stream": "rig"}, {"stream": stream_of(TODAY)}):
        options = options_read.ReadOptions.parse({"redisUrl": url, "session": "run-1", **stream})
        assert read_lookup.find_source(client, options).streams == (stream_of(TODAY),)
    with pytest.raises(errors.Usage, match="is in stream"):
        read_lookup.find_source(
            client,
            options_read.ReadOptions.parse({"redisUrl": url, "session": "run-1", "stream": stream_of(TODAY + 1)}),
        )
