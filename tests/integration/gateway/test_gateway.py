"""The gateway as a process: metrics as documented, under its ACL, with TLS, beside a supervisor, seen by operators."""

import contextlib
import http.server
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import redis
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from tests.support import acl, gateways
from tests.support.certificates import make_certificate
from tests.support.commands import run
from tests.support.gateways import HandmadeSession, PythonViewer
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[3]


def test_the_metrics_are_those_of_the_guide(client: redis.Redis, url: str) -> None:
    """docs/gateway.md lists every metric of a gateway that has done everything, and no others."""
    session = HandmadeSession(client, "s", "rig", 1)
    session.open()
    with gateways.running(url) as gateway:
        PythonViewer(gateway, "nobody").read_to_close()
        gateway.get("/rta/v2/sessions/s/stream", {"Upgrade": "websocket", "Connection": "Upgrade"})
        gateway.get("/rta/v2/sessions")
        scraped = set(re.findall(r"^# TYPE (rta_\w+)", gateway.metrics(), re.MULTILINE))
    table = (ROOT / "docs/gateway.md").read_text().partition("| metric of the gateway |")[2]
    assert scraped == set(re.findall(r"`(rta_\w+)`", table))


def test_under_its_acl_and_nothing_more() -> None:
    """Signed in as the role of conf/acl/gateway.acl it serves a viewer from its first message to the close."""
    with acl.running() as own, redis.Redis(unix_socket_path=str(own.socket_path)) as client:
        session = HandmadeSession(client, "s", "rig", 1)
        session.open()
        session.data([1])
        url = f"unix://gateway@{own.socket_path}"
        with gateways.running(url, {"RTA_REDIS_PASSWORD": acl.PASSWORD}) as gateway:
            viewer = PythonViewer(gateway, "s")
            viewer.subscribe(1)
            viewer.read_until(lambda: set(viewer.samples) == set(session.samples()))
            status, _, body = gateway.get("/rta/v2/sessions")
            assert (status, [row["identity"] for row in json.loads(body)["sessions"]]) == (200, ["s"])
            assert gateway.get("/rta/v2/sessions/s/data?resolution=10")[0] == 200
            session.close()
            assert viewer.read_to_close() == 1000
        log = client.acl_log()
        assert [entry for entry in log if entry.get("username") in ("gateway", b"gateway")] == []


def test_tls_with_a_certificate_that_is_replaced(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """REST and WebSocket are served over TLS, and a new certificate counts for new connections."""
    make_certificate(tmp_path, "first")
    environment = {
        "RTA_GATEWAY__CERT_FILE": str(tmp_path / "cert.pem"),
        "RTA_GATEWAY__KEY_FILE": str(tmp_path / "key.pem"),
    }
    HandmadeSession(client, "s", "rig", 1).open()
    with gateways.running(url, environment) as gateway:
        assert gateway.address.startswith("https://")
        context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        info_url = f"{gateway.address}/rta/v2/info"
        with urllib.request.urlopen(info_url, context=context) as response:  # noqa: S310 - of the gateway above
            assert response.status == 200
        stream_url = gateway.stream_url("s").replace("ws://", "wss://")
        protocols = [Subprotocol(gateways.SUBPROTOCOL)]
        with connect(stream_url, ssl=context, subprotocols=protocols) as viewer:
            assert viewer.recv(5)
            first = ssl.get_server_certificate(("127.0.0.1", gateway.port))
            make_certificate(tmp_path, "second")
            wait_until(lambda: ssl.get_server_certificate(("127.0.0.1", gateway.port)) != first, what="the new one")


def test_operators_see_viewers(client: redis.Redis, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`viewers` lists them, `doctor` says that the gateway is ready, and 69 says that none answers."""
    HandmadeSession(client, "s", "rig", 1).open()
    with gateways.running(url) as gateway:
        monkeypatch.setenv("RTA_GATEWAY__ADDRESSES", f'["{gateway.address}"]')
        viewer = PythonViewer(gateway, "s")
        viewer.subscribe(1, 2)
        viewer.read()
        viewer.socket.ping().wait(5)
        [line] = run(url, "viewers", "--json").json()["viewers"]
        assert (line["identity"], line["channels"], line["is_live"]) == ("s", "2", True)
        assert "live" in run(url, "viewers").out
        assert "ready" in run(url, "doctor").out
        viewer.close()
    assert run(url, "viewers").code == 69


def test_another_server_at_the_address_of_a_gateway_is_named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it answers."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(b'["hello"]')

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        monkeypatch.setenv("RTA_GATEWAY__ADDRESSES", f'["http://127.0.0.1:{other.server_port}"]')
        asked = run(url, "viewers")
        other.shutdown()
    assert asked.code == 69
    assert "no gateway" in asked.err


@contextlib.contextmanager
def run_both(url: str, folder: Path, log: BinaryIO) -> Iterator[subprocess.Popen[bytes]]:
    """A supervisor that has a gateway beside it, ended by SIGTERM."""
    arguments = ["run", "--redis-url", url, "--with-gateway", "--log-format", "json"]
    environment = {
        "RTA_HTTP__PORT": "0",
        "RTA_GATEWAY__PORT": "0",
        "RTA_LOG__FORMAT": "json",
        "XDG_STATE_HOME": str(folder),
        "PATH": "/usr/bin",
        "PYTHONPATH": ":".join(sys.path),
    }
    command = [sys.executable, "-m", "rta_supervisor", *arguments]
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        assert process.wait(30) == 0


def test_beside_a_supervisor(url: str, tmp_path: Path) -> None:
    """`run --with-gateway` starts one, and both end with the signal. One that ends before is in the log."""
    log_path = tmp_path / "log"
    with log_path.open("wb") as log, run_both(url, tmp_path, log):
        wait_until(lambda: "gateway_started" in log_path.read_text() and "supervisor_started" in log_path.read_text())
    assert "gateway_stopped" in log_path.read_text()
    assert "gateway_ended" not in log_path.read_text()


def test_a_gateway_beside_a_supervisor_that_is_killed(url: str, tmp_path: Path) -> None:
    """The supervisor does its work on, and says that nobody serves viewers."""
    log_path = tmp_path / "log"
    with log_path.open("wb") as log, run_both(url, tmp_path, log) as process:
        wait_until(lambda: "gateway_started" in log_path.read_text() and "supervisor_started" in log_path.read_text())
        [child] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)
        wait_until(lambda: '"gateway_ended"' in log_path.read_text(), what="the line in the log")
        assert process.poll() is None


def test_settings_are_reloaded(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """What can change does at SIGHUP, what can't is named, what is none of a gateway's business is not, and a mistake
    changes nothing."""
    config = tmp_path / "supervisor.toml"
    config.write_text("[gateway]\nviewers = 1\n")
    HandmadeSession(client, "s", "rig", 1).open()
    with gateways.running(url, {}, "--config", str(config)) as gateway:
        first = PythonViewer(gateway, "s")
        with pytest.raises(InvalidStatus):
            PythonViewer(gateway, "s")
        config.write_text(
            '[gateway]\nviewers = 2\nlabel = "rig 4"\norigins = ["https://a.example"]\n[trim]\nevery_s = 9\n'
        )
        gateway.process.send_signal(signal.SIGHUP)
        [reloaded] = wait_until(lambda: gateway.events("configuration_reloaded"), what="the reload")
        assert sorted(reloaded["changed"]) == ["gateway.label", "gateway.viewers"]
        assert [event["settings"] for event in gateway.events("settings_need_restart")] == [["gateway.origins"]]
        second = PythonViewer(gateway, "s")
        assert b"rig 4" in gateway.get("/rta/v2/info")[2]
        config.write_text("[gateway]\nviewers = 0\n")
        gateway.process.send_signal(signal.SIGHUP)
        wait_until(lambda: gateway.events("configuration_refused"), what="the refusal")
        assert gateway.get("/health")[0] == 200
        for viewer in (first, second):
            viewer.close()


def test_limits_and_a_missing_catalogue_in_the_log(url: str) -> None:
    """A limit is named as the setting of the gateway that it is; a catalogue that is not there is logged once."""
    with gateways.running(url, {"RTA_GATEWAY__CONNECTIONS_PER_ADDRESS": "2"}) as gateway:
        for _ in range(4):
            assert gateway.get("/rta/v2/sessions")[0] == 200
        assert len(gateway.events("gateway_catalogue_unavailable")) == 1
        assert gateway.events("gateway_catalogue_back") == []
        held = [socket.create_connection(("127.0.0.1", gateway.port)) for _ in range(3)]
        [event] = wait_until(lambda: gateway.events("http_connections_limited"), what="the limit")
        assert event["limit"] == "gateway.connections_per_address"
        for each in held:
            each.close()
