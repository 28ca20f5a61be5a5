"""Recovery from a catalogue in PostgreSQL, as on another host: nothing but the database is shared."""

import redis

import rta_writers
from tests.support import postgres, supervisors
from tests.support.commands import run
from tests.support.control import fields
from tests.support.waiting import wait_until


def test_sessions_come_back_after_a_kill_and_an_empty_redis(
    url: str, client: redis.Redis, shared_postgres: postgres.Server
) -> None:
    """An open session is restored with its id, a closed one can be resurrected, and new ids go on after both."""
    with shared_postgres.schema() as config:
        environment = {**postgres.environment(config), "RTA_CATALOGUE__TIMEOUT_S": "5"}
        with supervisors.running(url, environment) as first:
            sessions = rta_writers.SessionClient(url, timeout_s=20)
            sessions.session("done", stream="rig").close()
            session = sessions.session("run-1", stream="rig")
            wait_until(lambda: client.zscore("rtas:idx", "done") is None, what="the closed session out of the index")
            statement = f"SELECT 1 FROM {config.schema}.sessions WHERE identity = 'run-1'"  # noqa: S608 - our own name
            wait_until(lambda: shared_postgres.execute(statement), what="the open session in the database")
            first.kill()
        client.flushall()
        client.function_flush()
        with supervisors.running(url, environment) as second:
            assert [event["session"] for event in second.events("session_restored")] == ["run-1"]
            assert int(fields(client, "run-1")["streamSessionId"]) == session.target.stream_session_id
            assert run(url, "sessions", "resurrect", "done", "--json").json()["state"] == "closed"
            assert sessions.session("next", stream="rig").target.stream_session_id == 3
            assert session.close().state == "closed"
            assert second.events("supervisor_started")[0]["catalogue"] == config.url
