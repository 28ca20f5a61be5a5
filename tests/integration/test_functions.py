"""The Lua functions against a model of them in Python, on a real server."""

from collections.abc import Iterator
from typing import Any

import anyio
import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from rta_supervisor import calls
from rta_supervisor import settings as settings_
from rta_supervisor.embedded import server
from rta_supervisor.link import Link
from rta_wire import keys
from rta_wire.totals import Totals
from rta_writers import connection

NAMES = keys.Keys()

times = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 2**50)


@st.composite
def totals(draw: st.DrawFn) -> Totals:
    span = draw(st.none() | st.tuples(times, times).map(sorted))
    return Totals(draw(counts), draw(counts), draw(counts), draw(counts), *(span or (None, None)))


reports = st.lists(st.dictionaries(st.sampled_from(["a", "b/1", "c d"]), totals(), min_size=1), min_size=1, max_size=5)


@pytest.fixture(scope="module")
def raw(shared_server: server.EmbeddedServer) -> Iterator[redis.Redis]:
    async def load() -> None:
        link = Link(settings_.RedisSettings(url=shared_server.url))
        await link.load_functions()
        await link.close()

    anyio.run(load)
    with connection.connect(shared_server.url) as client:
        client.response_callbacks.clear()
        yield client


def open_session(client: redis.Redis, identity: str = "run", number: int = 1) -> list[Any]:
    call = calls.open_session(
        NAMES,
        identity,
        stream_session_id=number,
        stream="rig",
        position="0-0",
        json="{}",
        state="open",
        principal="p",
        now_ms=1,
        ttl_s=100,
    )
    answer: list[Any] = client.execute_command(*call)
    return answer


def model(batches: list[dict[str, Totals]]) -> Totals:
    """What a session should come to, by the one-line rule of each field."""
    units: dict[str, Totals] = {}
    for batch in batches:
        for unit, value in batch.items():
            units[unit] = units[unit].joined(value) if unit in units else value
    everything = Totals()
    for value in units.values():
        everything = everything.added(value)
    return everything


def folded(client: redis.Redis) -> Totals:
    names = ("bursts", "samples", "rawBytes", "storedBytes", "tStart", "tEnd")
    values = client.execute_command("HMGET", NAMES.state("run"), *names)
    return Totals.from_words(
        [value.decode() if value else default for value, default in zip(values, "0000--", strict=True)]
    )


@settings(max_examples=150, deadline=None)
@given(batches=reports, order=st.randoms(use_true_random=False))
def test_reports_fold_the_same_in_any_order_and_number(
    raw: redis.Redis, batches: list[dict[str, Totals]], order: Any
) -> None:
    """Shuffled and repeated reports give what the model gives for them in order, to the last nanosecond."""
    raw.execute_command("FLUSHALL")
    open_session(raw)
    shuffled = [*batches, *order.choices(batches, k=2)]
    order.shuffle(shuffled)
    for batch in shuffled:
        raw.execute_command(*calls.fold(NAMES, "run", 1, batch))
    assert folded(raw) == model(batches)


def test_opening_twice_keeps_the_first(raw: redis.Redis) -> None:
    """The second gets what stands there."""
    raw.execute_command("FLUSHALL")
    assert open_session(raw) == [1, b"1", b"rig", b"p", b"open"]
    assert open_session(raw, number=2) == [0, b"1", b"rig", b"p", b"open"]


def test_a_report_of_another_session_is_unknown(raw: redis.Redis) -> None:
    """An id that is not the session's changes nothing."""
    raw.execute_command("FLUSHALL")
    open_session(raw)
    before = raw.execute_command("HGETALL", NAMES.state("run"))
    assert raw.execute_command(*calls.fold(NAMES, "run", 2, {"u": Totals(1, 1, 1, 1, 1, 1)})) == [b"unknown", b""]
    assert raw.execute_command(*calls.fold(NAMES, "gone", 1, {"u": Totals(1)})) == [b"unknown", b""]
    assert raw.execute_command("HGETALL", NAMES.state("run")) == before


def test_a_refresh_tells_once_that_there_is_news(raw: redis.Redis) -> None:
    """The same range goes out once, and a wider one again."""
    raw.execute_command("FLUSHALL")
    open_session(raw)
    refresh = calls.refresh(NAMES, "run", 1, now_ms=2, ttl_s=100)
    assert raw.execute_command(*refresh) == [0, b"-", b"-"]
    raw.execute_command(*calls.fold(NAMES, "run", 1, {"u": Totals(1, 1, 1, 1, 5, 9)}))
    assert raw.execute_command(*refresh) == [1, b"5", b"9"]
    assert raw.execute_command(*refresh) == [0, b"5", b"9"]
    raw.execute_command(*calls.fold(NAMES, "run", 1, {"v": Totals(1, 1, 1, 1, 6, 10)}))
    assert raw.execute_command(*refresh) == [1, b"5", b"10"]


def test_json_is_changed_only_by_who_saw_the_latest(raw: redis.Redis) -> None:
    """A stale version changes nothing; after closing nothing is folded or refreshed any more."""
    raw.execute_command("FLUSHALL")
    open_session(raw)
    assert raw.execute_command(*calls.put_json(NAMES, "run", 1, "new", "closed", 5, 50)) == 1
    assert raw.execute_command(*calls.put_json(NAMES, "run", 1, "stale", "open", 6, 50)) == 0
    assert raw.execute_command("HGET", NAMES.session("run"), "json") == b"new"
    assert raw.execute_command(*calls.fold(NAMES, "run", 1, {"u": Totals(1)})) == [b"closed", b"rig"]
    assert raw.execute_command(*calls.refresh(NAMES, "run", 1, now_ms=9, ttl_s=100)) == []


def test_first_and_last_entries_are_written_once(raw: redis.Redis) -> None:
    """Repeating a step after a crash adds no second entry, and the gate only ever closes."""
    raw.execute_command("FLUSHALL")
    gate = NAMES.gate("rig", 1)
    for _ in range(2):
        raw.execute_command(*calls.announce(NAMES, "rig", 1, b"{}", ttl_s=100))
    assert raw.execute_command("GET", gate) == b"open"
    raw.execute_command(*calls.seal(NAMES, "rig", 1, ttl_s=100))
    assert raw.execute_command("GET", gate) == b"sealed"
    for _ in range(2):
        raw.execute_command(*calls.finish(NAMES, "rig", 1, b"{}", ttl_s=100))
    raw.execute_command(*calls.seal(NAMES, "rig", 1, ttl_s=100))
    raw.execute_command(*calls.announce(NAMES, "rig", 1, b"{}", ttl_s=100))
    assert raw.execute_command("GET", gate) == b"finished"
    assert raw.execute_command("XLEN", "stream:rig") == 2


def test_the_gate_of_a_long_session_is_kept(raw: redis.Redis) -> None:
    """It is renewed once less than half of its life is left, and left alone before."""
    raw.execute_command("FLUSHALL")
    raw.execute_command(*calls.announce(NAMES, "rig", 1, b"{}", ttl_s=100))
    assert raw.execute_command(*calls.keep(NAMES, "rig", 1, ttl_s=100)) == 0
    assert raw.execute_command(*calls.keep(NAMES, "rig", 1, ttl_s=1000)) == 1
    assert raw.execute_command("TTL", NAMES.gate("rig", 1)) > 900
