"""`sessions close` and `sessions abandon`: what an operator may end, and who serves the request."""

import pytest
import redis

import rta_writers
from rta_supervisor.cli.sessions import end as sessions_end
from rta_wire import errors
from tests.support import supervisors
from tests.support.commands import convert, refused, run
from tests.support.control import document, write
from tests.support.supervisors import Supervisor


def test_an_operator_ends_sessions_of_any_principal(
    client: redis.Redis, url: str, sessions: rta_writers.SessionClient, supervisor: Supervisor
) -> None:
    """The log names the operator; a session that is closed keeps its state."""
    opened = [sessions.open(f"run-{number}", stream="rig") for number in (1, 2, 3)]
    write(client, opened[0], 3)
    refused(run(url, "sessions", "close", "run-1"), 64, "say --yes")
    refused(run(url, "sessions", "close", "run-1", "run-9", "--yes"), 66, "'run-9'")
    assert document(client, "run-1")["state"] == "open"
    printed = run(url, "sessions", "close", "run-1", "--yes", "--json").json()
    [closed] = convert(printed["sessions"], list[sessions_end.EndedSession])
    assert closed == sessions_end.EndedSession("run-1", "closed", was_closed=False, samples=3)
    assert document(client, "run-1")["state"] == "closed"
    with pytest.raises(errors.SessionClosed):
        write(client, opened[0], 5)
    assert "run-2 ended: abandoned" in run(url, "sessions", "abandon", "run-2", "--yes").out
    assert "run-3 ended: failed" in run(url, "sessions", "close", "run-3", "--state", "failed", "--yes").out
    assert "run-1 was closed before: closed" in run(url, "sessions", "abandon", "run-1", "--yes").out
    closings = {event["session"]: event for event in supervisor.events("session_closed")}
    assert [closings[name].get("by") for name in ("run-1", "run-2", "run-3")] == ["operator"] * 3


def test_an_operator_may_end_and_no_more(url: str, sessions: rta_writers.SessionClient) -> None:
    """An operator can't update or open a session of another principal, but can close it."""
    sessions.open("run-1", stream="rig")
    operator = rta_writers.SessionClient(url, principal="operator", timeout_s=20)
    for attempt in (
        lambda: operator.update("run-1", identifier="mine now"),
        lambda: operator.open("run-1", stream="rig"),
    ):
        with pytest.raises(errors.SessionConflict):
            attempt()
    assert operator.close("run-1").state == "closed"


def test_an_operator_whose_requests_nobody_reads(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ends at once with 78 and names the setting to change."""
    with supervisors.running(url):
        client = rta_writers.SessionClient(url, timeout_s=20)
        client.open("run-1", stream="rig")
        monkeypatch.setenv("RTA_CONTROL__OPERATORS", '["boss"]')
        refused(run(url, "sessions", "close", "run-1", "--yes"), 78, "no running supervisor reads requests of 'boss'")
        monkeypatch.setenv("RTA_CONTROL__OPERATORS", "[]")
        refused(run(url, "sessions", "close", "run-1", "--yes"), 78, "control.operators")


def test_many_sessions_end_with_one_command(url: str, sessions: rta_writers.SessionClient) -> None:
    """25 identities in one command: each is closed and printed with its state."""
    identities = [f"run-{number}" for number in range(25)]
    for identity in identities:
        sessions.open(identity, stream="rig")
    printed = run(url, "sessions", "close", *identities, "--yes", "--json").json()
    assert [session["state"] for session in printed["sessions"]] == ["closed"] * 25
    assert run(url, "sessions", "list", "--state", "open", "--json").json()["total"] == 0
