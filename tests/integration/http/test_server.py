"""The HTTP server of a running supervisor: its basic routes, authentication, and what an outage of Redis does to it."""

import http.client
import os
import signal
import socket
from urllib.parse import urlsplit

from rta_supervisor.embedded import server
from rta_supervisor.http import server as http_server
from rta_supervisor.settings.sections.servers.gateway import GatewaySettings
from rta_wire import __version__
from tests.support import http_client as web
from tests.support import supervisors
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until


def test_basic_routes(supervisor: Supervisor) -> None:
    """`/`, `/health` and `/metrics` answer on a loopback port."""
    base = web.address(supervisor)
    assert urlsplit(base).hostname == "127.0.0.1"
    about = web.get(base, "/").json()
    assert (about["name"], about["version"]) == ("rta-supervisor", __version__)
    health = wait_until(lambda: (answer := web.get(base, "/health")).status == 200 and answer, what="readiness")
    assert health
    assert health.json()["status"] == "ready"
    assert health.json()["redisRoundTripMs"] > 0
    metrics = web.get(base, "/metrics")
    assert metrics.headers["content-type"].startswith("text/plain; version=")
    assert web.get(base, "/nothing").status == 404


def test_small_frames_are_sent_at_once() -> None:
    """A connection that was accepted does not wait for the acknowledgement of what was sent before."""
    with (
        http_server.listen(GatewaySettings(port=server.free_port())) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_without_a_token_the_host_name_has_to_be_loopback(supervisor: Supervisor) -> None:
    """A foreign page that makes its own host name resolve to loopback gets no response of ours."""
    base = web.address(supervisor)
    assert web.get(base, "/", {"Host": "evil.example"}).status == 421
    for name in ("localhost", "127.0.0.1:8630", "[::1]:1"):
        assert web.get(base, "/", {"Host": name}).status == 200


def test_a_token_is_required(url: str) -> None:
    """Programs send it as a header, browsers once in the address, from where it moves to a cookie."""
    with supervisors.running(url, {"RTA_HTTP__TOKEN": "pass word"}) as supervisor:
        base = web.address(supervisor)
        assert web.get(base, "/").status == 401
        assert web.get(base, "/", {"Authorization": "Bearer wrong"}).status == 401
        assert web.get(base, "/", {"Authorization": "Bearer pass word", "Host": "ingest.example"}).status == 200
        assert web.get(base, "/?token=wrong").status == 401
        redirect = web.get(base, "/?a=1&token=pass%20word&b=2")
        assert (redirect.status, redirect.headers["location"]) == (303, "/?a=1&b=2")
        cookie = redirect.headers["set-cookie"]
        assert "httponly" in cookie.lower()
        assert "samesite=strict" in cookie.lower()
        assert web.get(base, "/", {"Cookie": cookie.partition(";")[0]}).status == 200
        assert web.get(base, "//evil.example?token=pass%20word").headers["location"] == "/evil.example"
        assert "pass word" not in supervisor.log_path.read_text()


def test_every_response_says_nosniff(supervisor: Supervisor) -> None:
    """Pages, errors, refusals, and the response to what is no HTTP."""
    base = web.address(supervisor)
    for path, headers in (("/", {}), ("/ui", {}), ("/metrics", {}), ("/nothing", {}), ("/", {"Host": "evil.example"})):
        assert web.get(base, path, headers).headers["x-content-type-options"] == "nosniff", path
    parts = urlsplit(base)
    with socket.create_connection((parts.hostname or "", parts.port or 0), 10) as client:
        client.sendall(b"hello\r\n\r\n")
        response = client.recv(4096)
    assert response.startswith(b"HTTP/1.1 400 ")
    assert b"X-Content-Type-Options: nosniff" in response


def test_it_listens_while_redis_is_down() -> None:
    """The start succeeds, `/health` is 503 with the reason, and the work begins when Redis is up."""
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
    """SIGTERM ends a supervisor that has no Redis yet."""
    with supervisors.running("unix:///nonexistent/socket") as supervisor:
        assert supervisor.stop() == 0
        assert supervisor.events("supervisor_stopped")


def test_an_outage_of_redis_makes_it_unready() -> None:
    """`/health` is 503 while Redis does not answer, and 200 when it does again."""
    with server.running(port=server.free_port()) as redis_server, supervisors.running(redis_server.url) as supervisor:
        base = web.address(supervisor)
        wait_until(lambda: web.get(base, "/health").status == 200, what="readiness")
        os.kill(redis_server.pid, signal.SIGSTOP)
        try:
            wait_until(lambda: web.get(base, "/health").status == 503, what="unreadiness")
        finally:
            os.kill(redis_server.pid, signal.SIGCONT)
        wait_until(lambda: web.get(base, "/health").status == 200, what="readiness")


def test_an_open_connection_does_not_hold_up_the_end(url: str) -> None:
    """The connection of a client that sends nothing is closed."""
    with supervisors.running(url) as supervisor:
        parts = urlsplit(web.address(supervisor))
        idle = http.client.HTTPConnection(parts.hostname or "", parts.port)
        idle.connect()
        assert supervisor.stop() == 0
        idle.close()
