"""The catalogue from the command line: searched and paged, of either kind and whether or not anybody runs."""

import sqlite3
import tempfile
from pathlib import Path

import msgspec
import pytest
import redis

import rta_writers
from rta_supervisor.cli import catalogue_access
from rta_supervisor.settings import settings
from rta_wire import keys
from rta_wire.stream import cold_index
from tests.integration.cli.catalogue_content import NOWHERE, ROWS, save
from tests.support import postgres, supervisors, unprivileged
from tests.support.commands import refused, run
from tests.support.control import fields
from tests.support.waiting import wait_until


@pytest.mark.parametrize(
    ("words", "identities"),
    [
        ("", ["run-4", "run-3", "run-2", "run-1"]),
        ("--text run-2", ["run-2"]),
        ("--detail Rig=4", ["run-1"]),
        ("--state closed --state failed", ["run-2", "run-1"]),
        ("--stream other", ["run-4", "run-2"]),
        ("--since 2023-11-14T22:13:20.123456790Z --until 1700000000123456790", ["run-1"]),
        ("--since 2023-11-14T22:13:20.123456791Z", []),
        ("--limit 2", ["run-4", "run-3"]),
        ("--limit 2 --before 3", ["run-2", "run-1"]),
    ],
)
@pytest.mark.usefixtures("catalogue")
def test_all_that_ever_were(words: str, identities: list[str]) -> None:
    """Found without a Redis, in tables and in JSON."""
    for name in (["sessions"], ["sessions", "list"]):
        found = run(NOWHERE, *name, "--all", *words.split(), "--json").json()
        assert [line["identity"] for line in found["sessions"]] == identities
        assert len(msgspec.convert(found["sessions"], list[catalogue_access.CatalogueLine])) == len(identities)
        assert found["next_before"] == (3 if words == "--limit 2" else None)
    page = run(NOWHERE, "sessions", "--all", *words.split()).out
    assert all(identity in page for identity in identities)
    assert ("There are more: --before 3" in page) == (words == "--limit 2")
    assert "=1+1" not in page or "\\n" in page, "a name does not break a line"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--text x", "say --all"),
        ("--before 3", "say --all"),
        ("--all --since yesterday", "is no time"),
        ("--all --since 99999999999999999999", "is no time"),
        ("--all --until 2026-13-01", "is no time"),
        ("--all --detail Rig", "is no detail"),
    ],
)
def test_questions_that_make_no_sense(words: str, sentence: str) -> None:
    """64, and how to say it."""
    refused(run(NOWHERE, "sessions", "list", *words.split()), 64, sentence)


def test_show_says_where_the_data_is(url: str, client: redis.Redis, catalogue: settings.CatalogueSettings) -> None:
    """Of a session that Redis has forgotten too: in the stream, in the cold one, in files."""
    client.xadd("stream:rig", {"id": 1, "data": b"x"}, id="7-1")
    cold = cold_index.ColdExtent("1-1", "6-1", 5, 1, 5, 100, 200, 300, 1, 8)
    client.hset(keys.Keys().cold_index(), "rig", cold_index.dump(cold))
    found = run(url, "sessions", "show", "run-1", "--json").json()
    assert [(place["kind"], place["location"], place["last_id"]) for place in found["places"]] == [
        ("cold", "cold:rig", "6-1"),
        ("live", "stream:rig", "7-1"),
        ("files", "cold:rig", "9-0"),
    ]
    assert (found["expires_s"], found["catalogue_error"], found["document"]["identifier"]) == (None, "", "Run 1")
    page = run(url, "sessions", "show", "run-1").out
    assert "cold, live, files" in page
    assert "sessions resurrect brings it back" in page
    assert "nowhere any more" in run(url, "sessions", "show", "run-2").out
    client.delete(keys.Keys().cold_index())
    assert "live, files" in run(url, "sessions", "show", "run-1").out, "what the catalogue noted is gone since"
    client.delete("stream:rig")
    refused(run(url, "sessions", "show", "nobody"), 66, "There is no session 'nobody'")
    assert catalogue.schema


def test_without_a_catalogue_show_says_so(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Redis knows is shown all the same; who searches gets a sentence."""
    with supervisors.running(url):
        rta_writers.SessionClient(url, timeout_s=20).session("run-1", stream="rig")
        monkeypatch.setenv("RTA_CATALOGUE__PATH", str(tmp_path / "none.sqlite"))
        assert "there is no such file" in run(url, "sessions", "show", "run-1").out
        refused(run(url, "sessions", "--all"), 69, "none.sqlite can't be used: there is no such file")
    monkeypatch.setenv("RTA_CATALOGUE__PATH", "")
    monkeypatch.setenv("RTA_CATALOGUE__URL", "postgresql://me:rosebud@127.0.0.1:1/db")
    ran = run(url, "sessions", "--all")
    refused(ran, 69, "postgresql://me:***@127.0.0.1:1/db can't be used")
    assert "rosebud" not in ran.err


def test_a_file_beside_which_nothing_may_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator who may only read gets an answer, while a supervisor has the file open and after it has ended."""
    with tempfile.TemporaryDirectory(prefix="rtas-test-") as name:
        directory = Path(name)
        path = directory / "c.sqlite"
        save(settings.CatalogueSettings(path=str(path)), ROWS)
        monkeypatch.setenv("RTA_CATALOGUE__PATH", str(path))
        directory.chmod(0o555)
        path.chmod(0o444)
        with unprivileged.unprivileged():
            assert len(run(NOWHERE, "sessions", "--all", "--json").json()["sessions"]) == 4
        directory.chmod(0o755)
        path.chmod(0o644)
        holder = sqlite3.connect(path)
        holder.execute("UPDATE sessions SET stream = 'held' WHERE stream_session_id = 1")
        holder.commit()
        directory.chmod(0o555)
        for beside in directory.iterdir():
            beside.chmod(0o444)
        with unprivileged.unprivileged():
            assert len(run(NOWHERE, "sessions", "--all", "--stream", "held", "--json").json()["sessions"]) == 1
        holder.close()
        directory.chmod(0o755)


def test_a_file_of_an_older_schema_is_not_changed_by_looking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who only looks does not raise it, and says who does."""
    path = tmp_path / "c.sqlite"
    raw = sqlite3.connect(path)
    raw.executescript((Path(__file__).parents[1] / "catalogue" / "schema-1.sql").read_text())
    raw.close()
    monkeypatch.setenv("RTA_CATALOGUE__PATH", str(path))
    refused(run(NOWHERE, "sessions", "--all"), 69, "it has schema 1, not 2")


def test_a_daemon_on_postgres_is_killed_and_redis_emptied(
    url: str, client: redis.Redis, shared_postgres: postgres.Server
) -> None:
    """What was open comes back from the database with its id, what was closed on request; ids go on."""
    with shared_postgres.schema() as config:
        environment = {**postgres.environment(config), "RTA_CATALOGUE__TIMEOUT_S": "5"}
        with supervisors.running(url, environment) as first:
            sessions = rta_writers.SessionClient(url, timeout_s=20)
            sessions.session("done", stream="rig").close()
            opened = sessions.session("run-1", stream="rig")
            wait_until(lambda: client.zscore("rtas:idx", "done") is None, what="the closed one put away")
            statement = f"SELECT 1 FROM {config.schema}.sessions WHERE identity = 'run-1'"  # noqa: S608 - our own name
            wait_until(lambda: shared_postgres.execute(statement), what="the open one in the database")
            first.kill()
        client.flushall()
        client.function_flush()
        # On another host: nothing but the database is shared.
        with supervisors.running(url, environment) as second:
            assert [event["session"] for event in second.events("session_restored")] == ["run-1"]
            assert int(fields(client, "run-1")["streamSessionId"]) == opened.target.stream_session_id
            assert run(url, "sessions", "resurrect", "done", "--json").json()["state"] == "closed"
            assert sessions.session("next", stream="rig").target.stream_session_id == 3
            assert opened.close().state == "closed"
            assert second.events("supervisor_started")[0]["catalogue"] == config.url
