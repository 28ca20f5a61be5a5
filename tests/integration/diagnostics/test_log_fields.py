"""The log of a supervisor that got valid, wrong and hostile messages."""

import json
import re

import redis

import rta_writers
from rta_supervisor.diagnostics import log_limiter
from rta_wire.pb import control_pb2
from tests.support import supervisors
from tests.support.control import dead_letters, send, write
from tests.support.waiting import wait_until

SECRET = "hush-hush-token"  # noqa: S105
PAYLOAD = "payload-of-a-customer"


def test_fields_and_nothing_else(url: str, client: redis.Redis) -> None:
    """Events have node, request, session and stream as fields, and no payload, secret or control character anywhere."""
    with supervisors.running(url, {"RTA_HTTP__TOKEN": SECRET}) as supervisor:
        sessions = rta_writers.SessionClient(url)
        with sessions.session("run-1", stream="rig", details={"Driver": PAYLOAD}) as session:
            write(client, session, 3)
        hostile = "\x1b[2J\u202eevil\nfake"
        send(client, control_pb2.OpenSession(request_id="r1", identity=hostile, stream="s"), kind="req")
        send(client, control_pb2.CloseSession(request_id="r2", identity="nobody", state=hostile), kind="req")
        client.xadd("rtas:req:default", {"m": PAYLOAD.encode() + b"\x00\x1b[31m"})
        for number in range(30):
            client.xadd("rtas:ctl:default", {"m": b"\xff" + str(number).encode()})
        wait_until(lambda: len(dead_letters(client)) >= 31, what="dead letters")
        wait_until(lambda: client.exists("rtas:reply:r1", "rtas:reply:r2") == 2, what="replies")
        assert supervisor.stop() == 0
        raw = supervisor.log_path.read_text()
        lines = [json.loads(line) for line in raw.splitlines()]
    assert raw.isascii()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", raw)
    assert SECRET not in raw
    assert PAYLOAD not in raw
    assert {line["node"] for line in lines} == {lines[0]["node"]}
    [opened] = [line for line in lines if line["event"] == "session_opened"]
    assert (opened["session"], opened["stream"], len(opened["request"]) > 8) == ("run-1", "rig", True)
    [closed] = [line for line in lines if line["event"] == "session_closed"]
    assert (closed["stream"], closed["samples"]) == ("rig", 3)
    refused = {line["request"]: line for line in lines if line["event"] == "request_refused"}
    assert refused["r1"]["session"] == hostile
    junk = [line for line in lines if line["event"] == "message_refused" and line.get("lane") == "reports"]
    counted = sum(line.get("repeats", 0) for line in junk)
    counted += sum(
        line["count"] for line in lines if line.get("repeated") == "message_refused" and line["lane"] == "reports"
    )
    assert len(junk) + counted == 30
    assert len(junk) < 30


def test_names_that_a_client_invents_do_not_fill_the_log(url: str, client: redis.Redis) -> None:
    """Of refused requests for many sessions some are logged; the others are counted, with how many sessions they are
    about."""
    requests = 300
    with supervisors.running(url) as supervisor:
        for number in range(requests):
            request = control_pb2.OpenSession(request_id=f"r{number}", identity=f"run-{number}", stream="{}")
            send(client, request, kind="req")
        wait_until(lambda: client.exists(f"rtas:reply:r{requests - 1}"), what="the last reply")
        assert supervisor.stop() == 0
        lines = [json.loads(line) for line in supervisor.log_path.read_text().splitlines()]
    refused = [line for line in lines if line["event"] == "request_refused"]
    assert {line["principal"] for line in refused} == {"default"}
    assert len(refused) <= 2 * log_limiter.KIND_PER_WINDOW
    counted = [line for line in lines if line.get("repeated") == "request_refused"]
    assert len(refused) + sum(line["count"] for line in counted) == requests
    assert sum(line["sessions"] for line in counted) == requests - len(refused)
