"""Clocks of hosts differ and jump; what a supervisor decides by time depends on none of them."""

import contextlib
import struct
from pathlib import Path

import pytest
import redis

import rta_writers
from rta_wire.pb import control_pb2
from tests.chaos import die_with_parent
from tests.support import supervisors
from tests.support.control import document, send
from tests.support.waiting import wait_until

SILENT_S = 2


@pytest.mark.parametrize("offset_s", [7200, -7200])
def test_a_supervisor_with_a_wrong_clock_abandons_nobody_who_lives(
    url: str, client: redis.Redis, tmp_path: Path, offset_s: int
) -> None:
    """Two supervisors, one of them hours off: who reports stays open, who is silent is found, requests are served."""
    with contextlib.ExitStack() as stack:
        for name, seconds in (("right", 0), ("wrong", offset_s)):
            (tmp_path / name).write_bytes(struct.pack("<q", seconds))
            environment = {
                **die_with_parent.environment(),
                "RTA_TEST_CLOCK": str(tmp_path / name),
                "RTA_SESSION__WRITER_SILENT_S": str(SILENT_S),
            }
            stack.enter_context(supervisors.running(url, environment, "tests.chaos.supervisor"))
        sessions = rta_writers.SessionClient(url)
        alive, silent = (sessions.session(name, stream="rig") for name in ("alive", "silent"))
        heartbeat = control_pb2.Heartbeat(identity="alive", stream_session_id=alive.target.stream_session_id)

        def is_silent_one_abandoned() -> bool:
            send(client, heartbeat)
            return bool(document(client, silent.identity)["state"] == "abandoned")

        wait_until(is_silent_one_abandoned, what="the end of the silent session")
        assert document(client, "alive")["state"] == "open"
        for number in range(4):
            assert sessions.session(f"more-{number}", stream="rig").close().state == "closed"
        assert alive.close().state == "closed"
