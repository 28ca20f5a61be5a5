"""The routes of the live page over HTTP: what they send, what they refuse, and what they cost Redis."""

import os
import re
import signal
import socket
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
from rta_writers.write.delivery.exactly_once import ExactlyOnceAppender
from tests.integration.web import sse_client
from tests.integration.web.sse_client import EventStreamClient
from tests.support import http_client as web
from tests.support import samples, supervisors
from tests.support.control import write
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def redis_server() -> Iterator[server.EmbeddedServer]:
    with server.running() as running:
        yield running


@pytest.fixture(scope="module")
def site(redis_server: server.EmbeddedServer) -> Iterator[Supervisor]:
    """One supervisor for all tests that leave it running: each of them has sessions of its own."""
    with supervisors.running(redis_server.url) as running:
        yield running


@pytest.fixture
def client(redis_server: server.EmbeddedServer) -> Iterator[redis.Redis]:
    with redis_client.connect(redis_server.url) as client:
        yield client


@pytest.fixture
def sessions(redis_server: server.EmbeddedServer) -> rta_writers.SessionClient:
    return rta_writers.SessionClient(redis_server.url, timeout_s=20)


HOSTILE = '<img src=x onerror="hit=1">'


def test_the_page_restricts_browsers(site: Supervisor) -> None:
    """No inline code, nothing from other hosts, nothing that another site may frame or read."""
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


def test_updates_are_sent_as_things_change(
    client: redis.Redis, sessions: rta_writers.SessionClient, site: Supervisor
) -> None:
    """A whole snapshot first, then what changes: a session that opens, its samples, its end, and log events."""
    base = web.address(site)
    with sse_client.connect(base, "/ui/events") as page:
        assert page.response.headers["content-type"].startswith("text/event-stream")
        first = page.next()
        assert first is not None
        assert "sessions" in first
        assert first["rest"]["problem"] == ""
        session = sessions.session(HOSTILE, stream="changes")
        write(client, session, 5)
        written = page.until(lambda update: any(row["samples"] == 5 for row in update.get("changed", [])))
        assert (written["changed"][0]["identity"], written["changed"][0]["state"]) == (HOSTILE, "open")
        session.close()
        closed = page.until(lambda update: any(row["state"] == "closed" for row in update.get("changed", [])))
        assert "gone" not in closed
        assert closed["number"] > written["number"] > first["number"]
    with sse_client.connect(base, "/ui/events") as another:
        whole = another.next()
        assert whole is not None
        states = {row["identity"]: row["state"] for row in whole["sessions"]}
        assert states[HOSTILE] == "closed", "a session that ended is still shown"
        assert "session_closed" in [event["event"] for event in whole["events"]]
        [stream] = [stream for stream in whole["rest"]["streams"] if stream["stream"] == "changes"]
        assert stream["entries"] > 5
        assert stream["memory_bytes"] > 0


def test_without_a_page_redis_is_not_read(client: redis.Redis, site: Supervisor) -> None:
    """A snapshot is taken once a second for all pages together, and none without a page."""

    def snapshots() -> int:
        """Each snapshot reads the dead letters with XREVRANGE."""
        info: Any = client.info("commandstats")
        return int(info.get("cmdstat_xrevrange", {}).get("calls", 0))

    base = web.address(site)
    before = snapshots()
    pages = [EventStreamClient(base, "/ui/events") for _ in range(5)]
    began_s = time.monotonic()
    for _ in range(3):
        for page in pages:
            assert page.next() is not None
    shared = snapshots() - before
    seconds = time.monotonic() - began_s
    assert 2 <= shared <= seconds + 2, "five pages share one snapshot a second"
    for page in pages:
        page.close()
    [node] = zrange(client, "rtas:nodes")
    wait_until(lambda: has_stopped(client, f"rtas:beat:{node}", snapshots), what="no snapshots")


def has_stopped(client: redis.Redis, counter_key: str, snapshots: Callable[[], int]) -> bool:
    """Whether no snapshot was taken while the loss counter of the supervisor grew for more than a second."""

    def loss_counter() -> int:
        raw: Any = client.get(counter_key)
        return int(raw)

    snapshots_before, counter_before = snapshots(), loss_counter()
    wait_until(lambda: loss_counter() > counter_before + 15, what="the loss counter")
    return snapshots() == snapshots_before


def zrange(client: redis.Redis, key: str) -> list[str]:
    members: Any = client.zrange(key, 0, -1)
    return [member.decode() for member in members]


def test_pages_are_bounded(supervisor: Supervisor) -> None:
    """A page above the limit is refused, and accepted once another one has been closed."""
    base = web.address(supervisor)
    pages = [EventStreamClient(base, "/ui/events") for _ in range(routes.PAGES_MAX)]
    refused = web.get(base, "/ui/events")
    assert (refused.status, "Close one" in refused.json()["problem"]) == (503, True)
    pages.pop().close()

    def is_free() -> bool:
        with sse_client.connect(base, "/ui/events") as page:
            return page.status == 200

    wait_until(is_free, what="a connection below the limit")
    began_s = time.monotonic()
    assert supervisor.stop() == 0
    assert time.monotonic() - began_s < 5, "open pages don't hold up the end"
    assert pages[0].until(lambda _: True)
    for page in pages:
        page.close()


def test_one_session(client: redis.Redis, sessions: rta_writers.SessionClient, site: Supervisor) -> None:
    """JSON, time range and writers; sessions that do not exist and bad requests are refused."""
    base = web.address(site)
    identity = f"one {HOSTILE}"
    session = sessions.session(identity, stream="rig", details={"Big": 2**53 + 1})
    write(client, session, 4, unit="u")
    write(client, session, 2, unit="v")
    path = f"/ui/session?identity={quote(identity)}"
    details = wait_until(
        lambda: (body := web.get(base, path).json())["totals"]["samples"] == 6 and body, what="samples"
    )
    assert details
    assert [(unit["unit"], unit["samples"]) for unit in details["units"]] == [("u", 4), ("v", 2)]
    totals = details["totals"]
    assert (totals["startNs"], totals["endNs"]) == (str(samples.START_NS), str(samples.START_NS + 3))
    assert '"Big": 9007199254740993' in details["json"]
    assert web.get(base, "/ui/session?identity=nobody").status == 404
    assert web.get(base, "/ui/session").status == 400


def test_the_days_of_a_source_are_one_line(client: redis.Redis, site: Supervisor) -> None:
    """The table of streams has one line for a source; its streams can be asked for; other names are refused."""
    base = web.address(site)
    add_samples(client, "car.20260105", 1, range(10))
    add_samples(client, "car.20260106", 2, range(10, 20))
    assert web.get(base, "/ui/stream?stream=car").json() == {"streams": ["car", "car.20260105", "car.20260106"]}
    with sse_client.connect(base, "/ui/events") as page:
        rows = page.until(lambda update: update.get("rest"))["rest"]["streams"]
    [row] = [row for row in rows if row["stream"].startswith("car")]
    assert (row["stream"], row["entries"]) == ("car", 2)
    assert web.get(base, "/ui/stream?stream=cra").status == 404
    assert web.get(base, "/ui/stream?stream=").status == 400


def test_the_viewer_is_found(redis_server: server.EmbeddedServer) -> None:
    """The page learns where the viewer is: as configured, else where a gateway listens on this host, else nowhere."""
    port = server.free_port()
    with supervisors.running(redis_server.url, {"RTA_GATEWAY__PORT": str(port)}) as beside:
        assert web.get(web.address(beside), "/ui/viewer").json() == {}
        with socket.create_server(("127.0.0.1", port)):
            viewer = web.get(web.address(beside), "/ui/viewer").json()
    assert viewer == {"scheme": "http", "port": port, "isLocal": True}
    with supervisors.running(redis_server.url, {"RTA_HTTP__VIEWER_URL": "https://viewer.example/"}) as named:
        assert web.get(web.address(named), "/ui/viewer").json() == {"url": "https://viewer.example/"}


def add_samples(client: redis.Redis, stream: str, number: int, values: range) -> None:
    """One entry with samples 0.1 s apart of a session in a day of its source, which is in the index."""
    times = samples.START_NS + np.array(values, np.int64) * 100_000_000
    [burst] = encode.encode_doubles(np.full(len(times), 1, np.uint32), times, np.array(values, np.float64))
    client.xadd(f"stream:{stream}", {"id": str(number), "data": burst.data})
    source, _, digits = stream.rpartition(".")
    client.zadd(f"rtas:days:{source}", {stream: int(digits)})
    client.expire(f"rtas:days:{source}", 600)
    client.zadd("rtas:streams", {stream: time.time_ns() // 1_000_000})


def append(client: redis.Redis, session: rta_writers.Session, channels: list[int], times: Any, values: Any) -> None:
    """Appends the same samples for each channel; rows that were appended already are skipped."""
    columns = (np.repeat(np.array(channels, np.uint32), len(times)), np.tile(times, len(channels)))
    bursts = list(encode.encode_doubles(*columns, np.tile(values, len(channels))))
    appender = ExactlyOnceAppender(client, session.target, unit=f"u{len(times)}", epoch=0)
    appender.append(len(bursts), lambda skip: bursts[skip:])
    appender.close()


def test_an_outage_of_redis_is_shown(redis_server: server.EmbeddedServer, site: Supervisor) -> None:
    """The last snapshot stays, with the problem, until Redis answers again."""
    with sse_client.connect(web.address(site), "/ui/events") as page:
        page.next()
        os.kill(redis_server.pid, signal.SIGSTOP)
        try:
            outage = page.until(lambda update: update.get("rest", {}).get("problem"))
        finally:
            os.kill(redis_server.pid, signal.SIGCONT)
        assert "Redis" in outage["rest"]["problem"]
        assert "gone" not in outage
        page.until(lambda update: update.get("rest", {}).get("problem") == "")
