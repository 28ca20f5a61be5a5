"""What the live page asks for, over HTTP: what it is sent, by whom it can be asked, and what it costs."""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
import redis

import rta_writers
from rta_supervisor.embedded import server
from rta_supervisor.web.live import routes
from rta_wire.codec import encode
from rta_writers.connection import redis_client
from rta_writers.write.exactly_once import ExactlyOnceAppender
from tests.integration.web.sse_client import Watcher, watching
from tests.support import http_client as web
from tests.support import samples, supervisors
from tests.support.control import write
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def own() -> Iterator[server.EmbeddedServer]:
    with server.running() as running:
        yield running


@pytest.fixture(scope="module")
def site(own: server.EmbeddedServer) -> Iterator[Supervisor]:
    """One supervisor for all that leave it as it was: each test has sessions of its own."""
    with supervisors.running(own.url) as running:
        yield running


@pytest.fixture
def client(own: server.EmbeddedServer) -> Iterator[redis.Redis]:
    with redis_client.connect(own.url) as client:
        yield client


@pytest.fixture
def sessions(own: server.EmbeddedServer) -> rta_writers.SessionClient:
    return rta_writers.SessionClient(own.url, timeout_s=20)


HOSTILE = '<img src=x onerror="hit=1">'


def test_the_page_is_guarded(site: Supervisor) -> None:
    """Nothing inline, nothing from elsewhere, nothing that another site may frame or read."""
    base = web.address(site)
    page = web.get(base, "/ui")
    assert page.status == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|style=|https?://", page.body)
    for path in re.findall(r'(?:src|href)="(ui/[^"]+)"', page.body):
        assert web.get(base, f"/{path}").status == 200
    for name in ("page.js", "page.css"):
        assert "innerHTML" not in web.get(base, f"/ui/static/{name}").body
    for path in ("/ui/static/..%2froutes.py", "/ui/static/routes.py", "/ui/static/"):
        assert web.get(base, path).status == 404
    assert web.get(base, "/ui", {"Host": "evil.example"}).status == 421
    assert web.get(base, "/ui/events", {"Sec-Fetch-Site": "cross-site"}).status == 403


def test_changes_come_as_they_happen(
    client: redis.Redis, sessions: rta_writers.SessionClient, site: Supervisor
) -> None:
    """Everything first, then what changes: a session that opens, its samples, its end, and what the log said."""
    base = web.address(site)
    with watching(base, "/ui/events") as page:
        assert page.answer.headers["content-type"].startswith("text/event-stream")
        first = page.next()
        assert first is not None
        assert "sessions" in first
        assert first["rest"]["problem"] == ""
        session = sessions.session(HOSTILE, stream="changes")
        write(client, session, 5)
        found = page.until(lambda news: any(one["samples"] == 5 for one in news.get("changed", [])))
        assert (found["changed"][0]["identity"], found["changed"][0]["state"]) == (HOSTILE, "open")
        session.close()
        closed = page.until(lambda news: any(one["state"] == "closed" for one in news.get("changed", [])))
        assert "gone" not in closed
        assert closed["number"] > found["number"] > first["number"]
    with watching(base, "/ui/events") as another:
        whole = another.next()
        assert whole is not None
        states = {one["identity"]: one["state"] for one in whole["sessions"]}
        assert states[HOSTILE] == "closed", "a session that ended stays in sight"
        assert "session_closed" in [one["event"] for one in whole["events"]]
        [stream] = [one for one in whole["rest"]["streams"] if one["stream"] == "changes"]
        assert stream["entries"] > 5
        assert stream["memory_bytes"] > 0


def test_nobody_watching_costs_nothing(client: redis.Redis, site: Supervisor) -> None:
    """Redis is looked at once a second for all pages together, and not at all without one."""

    def looks() -> int:
        info: Any = client.info("commandstats")
        return int(info.get("cmdstat_xrevrange", {}).get("calls", 0))

    base = web.address(site)
    before = looks()
    pages = [Watcher(base, "/ui/events") for _ in range(5)]
    began_s = time.monotonic()
    for _ in range(3):
        for page in pages:
            assert page.next() is not None
    shared = looks() - before
    seconds = time.monotonic() - began_s
    assert 2 <= shared <= seconds + 2, "five pages share one look a second"
    for page in pages:
        page.close()
    [node] = zrange(client, "rtas:nodes")
    wait_until(lambda: is_at_rest(client, f"rtas:beat:{node}", looks), what="rest")


def is_at_rest(client: redis.Redis, beat: str, looks: Callable[[], int]) -> bool:
    """Whether nobody looked while the supervisor's heart beat for more than a second."""

    def beats() -> int:
        raw: Any = client.get(beat)
        return int(raw)

    before, beat_before = looks(), beats()
    wait_until(lambda: beats() > beat_before + 15, what="beats")
    return looks() == before


def zrange(client: redis.Redis, key: str) -> list[str]:
    found: Any = client.zrange(key, 0, -1)
    return [one.decode() for one in found]


def test_pages_are_bounded(supervisor: Supervisor) -> None:
    """One too many is told so, and a place that is left can be taken."""
    base = web.address(supervisor)
    pages = [Watcher(base, "/ui/events") for _ in range(routes.PAGES_MAX)]
    refused = web.get(base, "/ui/events")
    assert (refused.status, "Close one" in refused.json()["problem"]) == (503, True)
    pages.pop().close()

    def is_free() -> bool:
        with watching(base, "/ui/events") as one:
            return one.status == 200

    wait_until(is_free, what="a place")
    began_s = time.monotonic()
    assert supervisor.stop() == 0
    assert time.monotonic() - began_s < 5, "pages that watch don't hold up the end"
    assert pages[0].until(lambda _: True)
    for page in pages:
        page.close()


def test_one_session(client: redis.Redis, sessions: rta_writers.SessionClient, site: Supervisor) -> None:
    """JSON, time range and writers; what is not there or can't be is said."""
    base = web.address(site)
    identity = f"one {HOSTILE}"
    session = sessions.session(identity, stream="rig", details={"Big": 2**53 + 1})
    write(client, session, 4, unit="u")
    write(client, session, 2, unit="v")
    place = f"/ui/session?identity={quote(identity)}"
    found = wait_until(lambda: (one := web.get(base, place).json())["totals"]["samples"] == 6 and one, what="samples")
    assert found
    assert [(unit["unit"], unit["samples"]) for unit in found["units"]] == [("u", 4), ("v", 2)]
    assert (found["totals"]["startNs"], found["totals"]["endNs"]) == (str(samples.START_NS), str(samples.START_NS + 3))
    assert '"Big": 9007199254740993' in found["json"]
    assert web.get(base, "/ui/session?identity=nobody").status == 404
    assert web.get(base, "/ui/session").status == 400
    assert web.get(base, "/ui/plot?identity=nobody").status == 404
    assert web.get(base, f"/ui/plot?identity={quote(identity)}&window_s=x").status == 400


def test_a_plot_follows_the_stream(client: redis.Redis, sessions: rta_writers.SessionClient, site: Supervisor) -> None:
    """Lowest and highest of each step as counted by hand, of this session alone, and more as it comes."""
    base = web.address(site)
    session, other = sessions.session("run-1", stream="plot"), sessions.session("run-2", stream="plot")
    times = samples.START_NS + np.arange(1000, dtype=np.int64) * 10_000_000
    values = np.sin(np.arange(1000) / 50)
    append(client, session, [1, 2, 7], times[:600], values[:600])
    append(client, other, [1, 2, 7], times, values + 100)
    client.xadd("stream:plot", {"id": str(session.target.stream_session_id), "data": b"junk"})
    with watching(base, "/ui/plot?identity=run-1&channels=2,7&steps=100&window_s=10") as page:
        first = page.until(lambda news: news.get("tracks"))
        assert (first["named"], first["chosen"], first["undecodable"]) == ([1, 2, 7], [2, 7], 1)
        assert sorted(first["tracks"]) == ["2", "7"]
        append(client, session, [1, 2, 7], times, values)
        more = page.until(lambda news: news.get("tracks"))
    seen: dict[str, dict[int, tuple[float, float]]] = {"2": {}, "7": {}}
    for news in (first, more):
        for channel, track in news["tracks"].items():
            seen[channel].update(zip(track["at"], zip(track["low"], track["high"], strict=True), strict=True))
    numbers = times // 100_000_000
    right = {int(n): (values[numbers == n].min(), values[numbers == n].max()) for n in np.unique(numbers)}
    window = {number: pair for number, pair in right.items() if number > more["last"] - 100}
    assert more["last"] == max(right)
    for found in seen.values():
        assert {number: pair for number, pair in found.items() if number > more["last"] - 100} == window


def append(client: redis.Redis, session: rta_writers.Session, channels: list[int], times: Any, values: Any) -> None:
    """Samples of some channels; rows that stand there already are passed by."""
    columns = (np.repeat(np.array(channels, np.uint32), len(times)), np.tile(times, len(channels)))
    bursts = list(encode.encode_doubles(*columns, np.tile(values, len(channels))))
    appender = ExactlyOnceAppender(client, session.target, unit=f"u{len(times)}", epoch=0)
    appender.append(len(bursts), lambda skip: bursts[skip:])
    appender.close()


def test_a_redis_that_is_away_is_said(own: server.EmbeddedServer, site: Supervisor) -> None:
    """What was known stays, with the reason; after it is back all is well."""
    with watching(web.address(site), "/ui/events") as page:
        page.next()
        os.kill(own.pid, signal.SIGSTOP)
        try:
            told = page.until(lambda news: news.get("rest", {}).get("problem"))
        finally:
            os.kill(own.pid, signal.SIGCONT)
        assert "Redis" in told["rest"]["problem"]
        assert "gone" not in told
        page.until(lambda news: news.get("rest", {}).get("problem") == "")
