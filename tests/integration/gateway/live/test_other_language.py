"""Viewers in JavaScript that share no code with the gateway: every rule of the protocol, against a reader of Redis."""

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.support import gateways, npm
from tests.support.gateways import Gateway, HandmadeSession
from tests.support.waiting import wait_until

PROGRAM = Path(__file__).with_name("viewer.mjs")
BURSTS = 400


@pytest.fixture(scope="module")
def node_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package `ws`."""
    folder = tmp_path_factory.mktemp("node")
    npm.install(folder, "ws")
    return folder


@pytest.fixture
def gateway(url: str) -> Iterator[Gateway]:
    with gateways.running(url, {"RTA_GATEWAY__QUEUE_BYTES": "65536"}) as running:
        yield running


class NodeViewer:
    """One viewer, as a process that prints what it saw when it was closed."""

    def __init__(self, folder: Path, gateway: Gateway, steps: list[dict[str, Any]], pause_ms: int = 0) -> None:
        command = ["node", str(PROGRAM), gateway.stream_url("s"), json.dumps(steps), str(pause_ms)]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)

    def result(self) -> dict[str, Any]:
        output, _ = self.process.communicate(timeout=60)
        seen: dict[str, Any] = json.loads(output)
        return seen


def test_viewers_in_javascript(client: redis.Redis, url: str, gateway: Gateway, node_folder: Path) -> None:
    """Those that join before, during and after, subscribe piece by piece, or read slowly see every sample that they
    want, and next to none twice."""
    session = HandmadeSession(client, "s", "rig", 1)
    session.open()
    everything = [{"afterSamples": 0, "subscribe": {"all": True, "events": True}}]
    pieces = [
        {"afterSamples": 0, "subscribe": {"channels": [1]}},
        {"afterSamples": 40, "subscribe": {"channels": [2, 300]}},
    ]
    viewers = {
        "before": NodeViewer(node_folder, gateway, everything),
        "piece by piece": NodeViewer(node_folder, gateway, pieces),
        "slow": NodeViewer(node_folder, gateway, everything, pause_ms=2),
        "never": NodeViewer(node_folder, gateway, []),
    }
    wait_until(lambda: "rta_gateway_viewers 4.0" in gateway.metrics(), what="four viewers")
    session.time_range(1, 2)
    written = threading.Thread(target=_write, args=(url, session))
    written.start()
    wait_until(lambda: client.xlen("stream:rig") > BURSTS // 2, what="half of the session")
    viewers["during"] = NodeViewer(node_folder, gateway, everything)
    written.join()
    wait_until(lambda: "rta_gateway_viewers 5.0" in gateway.metrics(), what="five viewers")
    session.close()
    viewers["after"] = NodeViewer(node_folder, gateway, everything)
    wanted = dict.fromkeys(viewers) | {"piece by piece": [1, 2, 300], "never": []}
    for name, viewer in viewers.items():
        seen = viewer.result()
        samples = Counter(seen["samples"])
        expected = {f"{channel} {at_ns} {value.hex()}" for channel, at_ns, value in session.samples(wanted[name])}
        assert set(samples) == expected, name
        # The last values at each subscription, and no more.
        assert samples.total() - len(samples) <= 200, name
        assert seen["protocol"] == gateways.SUBPROTOCOL
        assert seen["kinds"][0] == "json", name
        assert seen["code"] == 1000
        assert seen["states"][-1] == "closed"
        assert seen["ranges"] >= 1
        assert seen["unsubscribedData"] == 0
        assert seen["pongs"] == 1


def _write(url: str, session: HandmadeSession) -> None:
    with redis.Redis.from_url(url) as own:
        session.client = own
        for _ in range(BURSTS):
            session.data([1, 2, 300, 4, 5], samples=20)
