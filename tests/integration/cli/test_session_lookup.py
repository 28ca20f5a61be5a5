"""Commands about a session whose identity does not exist, or that is named by its external id."""

from pathlib import Path

import pytest
import redis

import rta_writers
from rta_wire import keys
from tests.support import supervisors
from tests.support.commands import refused, run
from tests.support.control import document
from tests.support.waiting import wait_until

NAMES = keys.Keys()


@pytest.mark.parametrize(
    "arguments", [["sessions", "show", "run-71"], ["sessions", "close", "run-71", "--yes"], ["tail", "run-71"]]
)
def test_an_unknown_session_is_named_with_the_nearest(
    url: str, sessions: rta_writers.SessionClient, arguments: list[str]
) -> None:
    """Ends with 66 and names the session that was probably meant."""
    sessions.open("run-17", stream="rig")
    sessions.open("other", stream="rig")
    refused(run(url, *arguments), 66, "There is no session 'run-71'; the nearest is 'run-17'")


def test_a_session_is_named_by_its_external_id(
    url: str, client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Redis and, once that has forgotten it, in the catalogue. An argument is always an identity."""
    environment = {
        "RTA_CATALOGUE__PATH": str(tmp_path / "catalogue.sqlite"),
        "RTA_CONTROL__PRINCIPALS": '["alice", "bob"]',
        "RTA_CATALOGUE__FLUSH_S": "0.05",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with supervisors.running(url, environment):
        alice, bob = (rta_writers.SessionClient(url, principal=name, timeout_s=20) for name in ("alice", "bob"))
        alice.open("run-a", stream="rig", external_id="job")
        assert run(url, "sessions", "show", "--external-id", "job", "--json").json()["session"]["identity"] == "run-a"
        refused(run(url, "sessions", "show", "job"), 66, "There is no session 'job'")
        bob.open("run-b", stream="rig", external_id="job")
        refused(run(url, "sessions", "show", "--external-id", "job"), 64, "'alice', 'bob'. Choose one with --principal")
        ending = run(url, "sessions", "close", "--external-id", "job", "--principal", "bob", "--yes", "--json").json()
        assert [ended["identity"] for ended in ending["sessions"]] == ["run-b"]
        assert document(client, "run-a")["state"] == "open"
        assert run(url, "tail", "--external-id", "job", "--principal", "bob").code == 0
        alice.close(external_id="job")
        listed = ("sessions", "export", "--external-id", "job", "--state", "closed")
        wait_until(lambda: run(url, *listed).out.count("run-") >= 4, what="both rows of the catalogue")
        for identity in ("run-a", "run-b"):
            client.delete(NAMES.session(identity), NAMES.session_state(identity))
        back = run(url, "sessions", "resurrect", "--external-id", "job", "--principal", "bob", "--json").json()
        assert (back["identity"], back["was_there"]) == ("run-b", False)
        refused(run(url, "sessions", "show", "--external-id", "none"), 66, "external id 'none' of any principal")
        refused(run(url, "sessions", "show"), 64, "IDENTITY or --external-id ID")
        refused(run(url, "sessions", "show", "run-b", "--external-id", "job"), 64, "Name one session")
        refused(run(url, "sessions", "show", "run-b", "--principal", "bob"), 64, "--principal goes with --external-id")
