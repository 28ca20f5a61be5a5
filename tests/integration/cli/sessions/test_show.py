"""`sessions show`: a session in Redis, one that only the catalogue has, and one without a catalogue."""

from pathlib import Path

import pytest
import redis

import rta_writers
from rta_supervisor.cli.sessions import show as sessions_show
from rta_supervisor.settings import settings
from rta_wire import keys
from rta_wire.stream import cold_index
from tests.support import supervisors
from tests.support.commands import refused, run
from tests.support.control import document, folded, write
from tests.support.waiting import wait_until


def test_show_prints_the_document_and_the_units(
    client: redis.Redis, url: str, sessions: rta_writers.SessionClient
) -> None:
    """Session JSON as readers have it, totals of each unit, and no character that controls a terminal."""
    session = sessions.open("run-1", stream="rig", identifier="Run \x1b[31m1\u202e", details={"Rig": 4})
    write(client, session, 2, unit="left")
    write(client, session, 3, unit="right")
    wait_until(lambda: folded(client, "run-1").samples == 5, what="the totals")
    printed = run(url, "sessions", "show", "run-1", "--json").json()
    assert printed.keys() == set(sessions_show.SessionDetails.__struct_fields__)
    assert printed["document"] == document(client, "run-1")
    assert {unit: totals["samples"] for unit, totals in printed["units"].items()} == {"left": 2, "right": 3}
    page = run(url, "sessions", "show", "run-1").out
    assert "Run \\x1b[31m1\\u202e" in page
    assert not any(char in page for char in "\x1b\u202e")
    session.close()
    wait_until(lambda: client.zscore("rtas:idx", "run-1") is None, what="the end of the session")
    assert run(url, "sessions", "show", "run-1", "--json").json()["session"]["heard_ms"] is None
    assert "put away" in run(url, "sessions", "show", "run-1").out


def test_show_says_where_the_data_is(url: str, client: redis.Redis, catalogue: settings.CatalogueSettings) -> None:
    """A session that only the catalogue has: its data in the live stream, in the cold one and in files."""
    client.xadd("stream:rig", {"id": 1, "data": b"x"}, id="7-1")
    cold = cold_index.ColdExtent("1-1", "6-1", 5, 1, 5, 100, 200, 300, 1, 8)
    client.hset(keys.Keys().cold_index(), "rig", cold_index.dump(cold))
    printed = run(url, "sessions", "show", "run-1", "--json").json()
    assert [(place["kind"], place["location"], place["last_id"]) for place in printed["places"]] == [
        ("cold", "cold:rig", "6-1"),
        ("live", "stream:rig", "7-1"),
        ("files", "cold:rig", "9-0"),
    ]
    assert (printed["expires_s"], printed["catalogue_error"]) == (None, "")
    assert printed["document"]["identifier"] == "Run 1"
    page = run(url, "sessions", "show", "run-1").out
    assert "cold, live, files" in page
    assert "sessions resurrect brings it back" in page
    assert "nowhere any more" in run(url, "sessions", "show", "run-2").out
    client.delete(keys.Keys().cold_index())
    assert "live, files" in run(url, "sessions", "show", "run-1").out, "what the catalogue noted is gone since"
    client.delete("stream:rig")
    refused(run(url, "sessions", "show", "nobody"), 66, "There is no session 'nobody'")
    assert catalogue.schema


def test_show_without_a_catalogue(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Redis has is printed with the reason why the catalogue is missing."""
    with supervisors.running(url):
        rta_writers.SessionClient(url, timeout_s=20).session("run-1", stream="rig")
        monkeypatch.setenv("RTA_CATALOGUE__PATH", str(tmp_path / "none.sqlite"))
        assert "there is no such file" in run(url, "sessions", "show", "run-1").out
