"""A counter of stream session ids that somebody spoilt: at a start, and while a supervisor runs."""

import pytest
import redis

import rta_writers
from rta_wire import errors, keys
from tests.support import commands, supervisors

SPOILT: list[str | list[str]] = ["junk", str(2**63 - 1), ["a", "list"]]


def spoil(client: redis.Redis, value: str | list[str]) -> None:
    client.delete(keys.LAST_STREAM_SESSION_ID)
    if isinstance(value, str):
        client.set(keys.LAST_STREAM_SESSION_ID, value)
    else:
        client.rpush(keys.LAST_STREAM_SESSION_ID, *value)


@pytest.mark.parametrize("value", SPOILT)
def test_a_start_is_refused_with_the_key(
    client: redis.Redis, url: str, value: str | list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    """Once, with 78, so that systemd does not try again; no traceback."""
    spoil(client, value)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("RTA_HTTP__HOST", "")
    result = commands.run(url, "run", "--log-format", "json")
    commands.refused(result, 78, "The key 'lastStreamSessionId' in Redis, which counts the ids of sessions, ")
    assert "DEL lastStreamSessionId" in result.err


def test_while_a_supervisor_runs_only_opens_are_refused(client: redis.Redis, url: str) -> None:
    """By name. Open sessions go on, and the supervisor too. What the error says to do helps: no id is used twice."""
    with supervisors.running(url) as supervisor:
        sessions = rta_writers.SessionClient(url)
        first = sessions.session("run-1", stream="rig")
        for value in SPOILT:
            spoil(client, value)
            with pytest.raises(errors.IdCounterUnusable, match="'lastStreamSessionId'"):
                sessions.session("run-2", stream="rig")
        assert first.close().state == "closed"
        assert supervisor.process.poll() is None
        assert not supervisor.events("message_poisonous")
    client.delete(keys.LAST_STREAM_SESSION_ID)
    with supervisors.running(url):
        sessions.session("run-2", stream="rig").close()
    assert client.hget(keys.Keys().session("run-2"), keys.STREAM_SESSION_ID) == b"2"
