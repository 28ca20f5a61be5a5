"""The HTTP server of a running supervisor: what it says, to whom, and when Redis is away."""

import http.client
import os
import signal
from urllib.parse import urlsplit

import pytest

from rta_supervisor.embedded import server
from rta_supervisor.settings import settings
from rta_wire import __version__, errors
from tests.support import http_client as web
from tests.support import supervisors
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until


def test_it_says_what_it_is_and_how_it_is(supervisor: Supervisor) -> None:
    """`/`, `/health` and `/metrics` answer on a loopback port."""
    base = web.address(supervisor)
    assert urlsplit(base).hostname == "127.0.0.1"
    about = web.get(base, "/").json()
    assert (about["name"], about["version"]) == ("rta-supervisor", __version__)
    health = wait_until(lambda: (found := web.get(base, "/health")).status == 200 and found, what="readiness")
    assert health
    assert health.json()["status"] == "ready"
    assert health.json()["redisRoundTripMs"] > 0
    metrics = web.get(base, "/metrics")
    assert metrics.headers["content-type"].startswith("text/plain; version=")
    assert web.get(base, "/nothing").status == 404


def test_without_a_token_only_this_host_is_asked_by_name(supervisor: Supervisor) -> None:
    """A foreign page that points a name of its own at loopback learns nothing."""
    base = web.address(supervisor)
    assert web.get(base, "/", {"Host": "evil.example"}).status == 421
    for name in ("localhost", "127.0.0.1:8630", "[::1]:1"):
        assert web.get(base, "/", {"Host": name}).status == 200


def test_a_token_is_asked_for(url: str) -> None:
    """As a header for programs, once in the address for browsers, which then keep it out of sight."""
    with supervisors.running(url, {"RTA_HTTP__TOKEN": "pass word"}) as supervisor:
        base = web.address(supervisor)
        assert web.get(base, "/").status == 401
        assert web.get(base, "/", {"Authorization": "Bearer wrong"}).status == 401
        assert web.get(base, "/", {"Authorization": "Bearer pass word", "Host": "ingest.example"}).status == 200
        assert web.get(base, "/?token=wrong").status == 401
        kept = web.get(base, "/?a=1&token=pass%20word&b=2")
        assert (kept.status, kept.headers["location"]) == (303, "/?a=1&b=2")
        cookie = kept.headers["set-cookie"]
        assert "httponly" in cookie.lower()
        assert "samesite=strict" in cookie.lower()
        assert web.get(base, "/", {"Cookie": cookie.partition(";")[0]}).status == 200
        assert "pass word" not in supervisor.log_path.read_text()


def test_it_listens_while_redis_is_down() -> None:
    """The start succeeds, /health is 503 and says why, and the work begins when Redis comes."""
    port = server.free_port()
    with supervisors.running(f"redis://127.0.0.1:{port}", {"RTA_REDIS__STARTUP_PATIENCE_S": "0"}) as supervisor:
        base = web.address(supervisor)
        assert web.get(base, "/").status == 200
        health = web.get(base, "/health")
        assert health.status == 503
        assert "Redis" in health.json()["reason"]
        assert supervisor.events("supervisor_started") == []
        with server.running(port=port):
            supervisor.wait_for_event("supervisor_started")
            wait_until(lambda: web.get(base, "/health").status == 200, what="readiness")
            assert supervisor.stop() == 0


def test_it_ends_while_it_waits_for_redis() -> None:
    """SIGTERM is heard without a Redis too."""
    with supervisors.running("unix:///nonexistent/socket") as supervisor:
        assert supervisor.stop() == 0
        assert supervisor.events("supervisor_stopped")


def test_two_strikes() -> None:
    """A Redis that stops answering makes it unready, and ready again when it goes on."""
    with server.running(port=server.free_port()) as own, supervisors.running(own.url) as supervisor:
        base = web.address(supervisor)
        wait_until(lambda: web.get(base, "/health").status == 200, what="readiness")
        os.kill(own.pid, signal.SIGSTOP)
        try:
            wait_until(lambda: web.get(base, "/health").status == 503, what="unreadiness")
        finally:
            os.kill(own.pid, signal.SIGCONT)
        wait_until(lambda: web.get(base, "/health").status == 200, what="readiness")


def test_an_open_connection_does_not_hold_up_the_end(url: str) -> None:
    """A client that keeps its connection and says nothing is let go."""
    with supervisors.running(url) as supervisor:
        parts = urlsplit(web.address(supervisor))
        idle = http.client.HTTPConnection(parts.hostname or "", parts.port)
        idle.connect()
        assert supervisor.stop() == 0
        idle.close()


@pytest.mark.parametrize("host", ["10.0.0.1", "::", "example.com"])
def test_elsewhere_needs_a_token(host: str) -> None:
    """What others can reach is refused without one."""
    with pytest.raises(errors.BadConfiguration, match=r"http\.token"):
        settings.load(environ={"RTA_HTTP__HOST": host})
    assert settings.load(environ={"RTA_HTTP__HOST": host, "RTA_HTTP__TOKEN": "x"}).http.host == host
