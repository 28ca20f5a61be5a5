"""Streams per day on a real server: which day a session goes to, whatever clocks say."""

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
from rta_supervisor.retention import functions as retention_functions
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
from rta_writers.read import plan as read_plan
from tests.support import samples, supervisor_parts
from tests.support.control import fields
from tests.support.day_streams import NAMES, TODAY, TODAY_MS, Clock, config, listed
from tests.support.session_values import control_entry


@pytest.fixture
def clock() -> Clock:
    return Clock(TODAY_MS + 1000)


def life(link: Link, clock: Clock, made: settings.Settings | None = None) -> SessionService:
    made = made or config()
    store = SessionStore(link, made, clock)
    return supervisor_parts.service(link, made, store, clock=clock)


async def opened(life: SessionService, identity: str, stream: str = "rig", principal: str = "default") -> str:
    """The stream that the reply names."""
    document = session.dump(session.build(identity)).decode()
    request = control_pb2.OpenSession(identity=identity, stream=stream, session_json=document)
    return (await life.open(control_entry(principal), request)).stream


def name(number: int, source: str = "rig") -> str:
    return day_streams.Day(source, number).stream


steps = st.one_of(
    st.tuples(st.just("choose"), st.integers(0, 30)),
    st.tuples(st.just("drop"), st.integers(0, 30)),
    st.tuples(st.just("keep"), st.integers(0, 30)),
)


@hypothesis_settings(max_examples=200, deadline=None)
@given(st.lists(steps, max_size=40))
def test_never_back_under_any_order_of_clocks(raw: redis.Redis, made: list[tuple[str, int]]) -> None:
    """Whatever day each clock has, and whichever days are taken out or put back in between: the latest ever counts."""
    raw.flushall()
    latest = -1
    seen: set[bytes] = set()
    for what, number in made:
        day = day_streams.Day("rig", number)
        if what == "choose":
            latest = max(latest, number)
            stream, begins = raw.execute_command(*retention_functions.choose_day(NAMES, day))
            assert stream == name(latest).encode()
            assert begins == (latest == number and stream not in seen)
        elif what == "drop":
            raw.execute_command(*retention_functions.drop_day(NAMES, day))
        else:
            latest = max(latest, number)
            raw.execute_command(*retention_functions.keep_days(NAMES, "rig", [day]))
        seen = set(raw.execute_command("ZRANGE", NAMES.days("rig"), 0, -1))
        assert (max(seen) == name(latest).encode()) if seen else latest == -1
        assert not seen or raw.execute_command("TTL", NAMES.days("rig")) > 0


async def test_midnight_passes(link: Link, client: redis.Redis, clock: Clock) -> None:
    """New sessions go to the new day; one that lives on keeps its stream, however often it is opened again."""
    clock.now_ms = TODAY_MS - 1
    one = life(link, clock)
    assert await opened(one, "before") == name(TODAY - 1)
    clock.now_ms = TODAY_MS
    assert await opened(one, "after") == name(TODAY)
    assert await opened(one, "before") == name(TODAY - 1)
    assert await opened(one, "before", name(TODAY - 1)) == name(TODAY - 1), "by the name of its stream"
    with pytest.raises(errors.SessionConflict, match=name(TODAY - 1)):
        await opened(one, "before", name(TODAY))
    with pytest.raises(errors.SessionConflict):
        await opened(one, "before", "other")
    assert client.smembers("streams") == {name(TODAY - 1).encode(), name(TODAY).encode()}
    assert listed(client) == [name(TODAY - 1), name(TODAY)]
    number = int(fields(client, "before")["streamSessionId"])
    assert samples.kinds(client, name(TODAY - 1), number) == ["session_json"], "announced once"


async def test_a_clock_that_jumps_back(link: Link, client: redis.Redis, clock: Clock) -> None:
    """No session goes to an earlier day than one that there was."""
    one = life(link, clock)
    assert await opened(one, "a") == name(TODAY)
    clock.now_ms -= 3 * day_streams.DAY_MS
    assert await opened(one, "b") == name(TODAY)
    assert await opened(life(link, Clock(0)), "c") == name(TODAY), "nor one of another supervisor"
    assert listed(client) == [name(TODAY)]


@pytest.mark.usefixtures("link")
async def test_two_supervisors_on_two_sides_of_midnight(url: str, client: redis.Redis) -> None:
    """Each opens what it is asked to at the same time; once the new day has begun nobody goes back."""
    links = [Link(settings.RedisSettings(url=url)) for _ in range(2)]
    lives = [life(links[0], Clock(TODAY_MS - 1)), life(links[1], Clock(TODAY_MS))]
    async with anyio.create_task_group() as tasks:
        for number in range(40):
            tasks.start_soon(opened, lives[number % 2], f"run-{number}")
    assert await opened(lives[0], "last") == name(TODAY)
    for one in links:
        await one.close()
    late = {number for number in range(1, 40, 2) if fields(client, f"run-{number}")["streamName"] != name(TODAY)}
    assert late == set(), "whose clock has the new day is in it"
    found: Any = [client.xrange(keys.stream(name(day)), count=100) for day in (TODAY - 1, TODAY)]
    assert sum(map(len, found)) == 41
    assert listed(client)[-1] == name(TODAY)


async def test_other_sources_stay_as_they_are(link: Link, client: redis.Redis, clock: Clock) -> None:
    """What is not divided has one stream, with no index; each divided source has days of its own."""
    own = {
        "rig": sections_days.SourceDaysSettings(partition="day"),
        "car": sections_days.SourceDaysSettings(partition="day"),
    }
    one = life(link, clock, config(partition="none", sources=own))
    assert await opened(one, "a", "plain") == "plain"
    assert await opened(one, "b", "plain.20200101") == "plain.20200101", "called after a day of nothing that has days"
    assert await opened(one, "c", "rig") == name(TODAY)
    clock.now_ms += day_streams.DAY_MS
    assert await opened(one, "d", "car") == name(TODAY + 1, "car")
    assert await opened(one, "e", "rig") == name(TODAY + 1)
    assert listed(client, "plain") == []
    assert listed(client, "car") == [name(TODAY + 1, "car")]


async def test_a_day_can_not_be_asked_for(link: Link, client: redis.Redis, clock: Clock) -> None:
    """It would be a way back. A source that is called like a day stands in the settings, and gets days of its own."""
    with pytest.raises(errors.StreamOfDay, match="Ask for 'rig'"):
        await opened(life(link, clock), "a", name(TODAY - 5))
    assert client.keys("*") == []
    own = {"rig.20260101": sections_days.SourceDaysSettings()}
    one = life(link, clock, config(sources=own))
    assert await opened(one, "a", "rig.20260101") == name(TODAY, "rig.20260101")
    assert await opened(one, "b", "rig") == name(TODAY)
    assert listed(client, "rig.20260101") == [name(TODAY, "rig.20260101")]


async def test_a_name_without_room_for_a_day(link: Link, client: redis.Redis, clock: Clock) -> None:
    """It is refused by its name, before anything is made."""
    with pytest.raises(errors.BadName, match="119"):
        await opened(life(link, clock), "a", "x" * 120)
    assert client.keys("*") == []
    assert await opened(life(link, clock), "a", "x" * 119) == name(TODAY, "x" * 119)


async def test_streams_of_a_principal(link: Link, clock: Clock) -> None:
    """A prefix is held against the source; its days begin with it too."""
    control = settings.ControlSettings(principals=("p",), stream_prefixes={"p": "rig-4."})
    made = settings.Settings(days=config().days, control=control)
    assert (await opened(life(link, clock, made), "a", "rig-4.hot", "p")).startswith("rig-4.hot.")
    with pytest.raises(errors.ForeignStream):
        await opened(life(link, clock, made), "b", "rig-5.hot", "p")


async def test_partition_can_change(link: Link, clock: Clock) -> None:
    """From one stream to days and back: who is open stays where it is and is found by the name of the source."""
    current = config(partition="none")
    one = life(link, clock, current)
    assert await opened(one, "whole") == "rig"
    current.days = config().days
    assert await opened(one, "daily") == name(TODAY)
    assert await opened(one, "whole") == "rig"
    current.days = config(partition="none").days
    assert await opened(one, "daily") == name(TODAY)
    assert await opened(one, "new") == "rig"


async def saved(path: Path, *streams: str) -> SqliteCatalogue:
    """A catalogue with a session in each of these streams."""
    made = SqliteCatalogue(path / "catalogue.sqlite")
    await made.save(
        [
            catalogue_model.CatalogueRow(f"run-{number}", stream, number, "p", State.CLOSED, "{}", Totals(), 1, 1, 1)
            for number, stream in enumerate(streams, 1)
        ]
    )
    return made


async def test_the_index_comes_back(link: Link, client: redis.Redis, clock: Clock, tmp_path: Path) -> None:
    """From the streams that are there and the newest day that ever was; then nobody goes back before it."""
    client.sadd("streams", name(TODAY - 1), name(TODAY - 2), "plain", name(TODAY, "other"))
    ever = (name(TODAY), name(TODAY - 9), name(TODAY - 1), "plain", name(TODAY - 3, "car"))
    known = await saved(tmp_path, *ever)
    own = {"other": sections_days.SourceDaysSettings(partition="none")}
    await DayIndex(link, config(sources=own)).restore(known.streams)
    await known.close()
    assert listed(client) == [name(TODAY - 2), name(TODAY - 1), name(TODAY)]
    assert listed(client, "car") == [name(TODAY - 3, "car")]
    assert client.exists(NAMES.days("other")) == 0
    assert client.zrange(NAMES.streams_used(), 0, -1) == [name(TODAY - 2).encode(), name(TODAY - 1).encode()]
    clock.now_ms -= 5 * day_streams.DAY_MS
    assert await opened(life(link, clock), "a") == name(TODAY)


async def test_the_index_comes_back_without_a_catalogue(link: Link, client: redis.Redis, tmp_path: Path) -> None:
    """As far as Redis knows; what is noted of a stream stays."""
    client.sadd("streams", name(TODAY - 1))
    client.zadd(NAMES.streams_used(), {name(TODAY - 1): TODAY_MS})
    await DayIndex(link, config()).restore(SqliteCatalogue(tmp_path / "nowhere" / "catalogue.sqlite").streams)
    assert listed(client) == [name(TODAY - 1)]
    assert client.zscore(NAMES.streams_used(), name(TODAY - 1)) == TODAY_MS


async def test_a_reader_finds_a_session_by_its_source(link: Link, url: str, client: redis.Redis, clock: Clock) -> None:
    """Who reads a session may name its source, its stream, or neither; another one is refused."""
    await opened(life(link, clock), "run-1")
    for stream in ({}, {"stream": "rig"}, {"stream": name(TODAY)}):
        options = options_read.ReadOptions.parse({"redisUrl": url, "session": "run-1", **stream})
        assert read_plan.find_position(client, options).stream == name(TODAY)
    with pytest.raises(errors.Usage, match="is in stream"):
        read_plan.find_position(
            client, options_read.ReadOptions.parse({"redisUrl": url, "session": "run-1", "stream": name(TODAY + 1)})
        )
