"""`sessions list`: live sessions against the keys in Redis, and searches of the catalogue without Redis."""

import msgspec
import pytest
import redis

import rta_writers
from rta_supervisor.cli import catalogue_access
from rta_supervisor.observe import summaries
from tests.support import samples
from tests.support.commands import NO_REDIS_URL, convert, refused, run
from tests.support.control import folded, write
from tests.support.waiting import wait_until


def test_live_sessions_are_listed_as_redis_has_them(
    client: redis.Redis, url: str, sessions: rta_writers.SessionClient
) -> None:
    """Totals, the time of the last report and the id of each, chosen by state and stream, and cut by --limit."""
    opened = [sessions.open(f"run-{number}", stream="rig") for number in (1, 2, 3)]
    write(client, opened[0], 5)
    wait_until(lambda: folded(client, "run-1").samples == 5, what="the totals")
    printed = run(url, "sessions", "list", "--json").json()
    assert printed["total"] == 3
    listed = convert(printed["sessions"], list[summaries.SessionSummary])
    by_identity = {summary.identity: summary for summary in listed}
    assert by_identity.keys() == {"run-1", "run-2", "run-3"}
    first = by_identity["run-1"]
    assert (first.samples, first.start_ns, first.end_ns) == (5, samples.START_NS, samples.START_NS + 4)
    assert first.heard_ms == client.zscore("rtas:idx", "run-1")
    assert str(first.stream_session_id).encode() == client.hget("sessions:run-1", "streamSessionId")
    table = run(url, "sessions", "list", "--limit", "1")
    assert "2 more: --limit 0 shows all" in table.out
    assert run(url, "sessions", "list", "--state", "waiting", "--json").json()["total"] == 0
    assert run(url, "sessions", "list", "--stream", "rig", "--json").json()["total"] == 3


@pytest.mark.parametrize(
    ("options", "identities"),
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
def test_the_catalogue_is_searched_without_redis(options: str, identities: list[str]) -> None:
    """`sessions --all` and `sessions list --all` find the same sessions, in a table and as JSON."""
    for command in (["sessions"], ["sessions", "list"]):
        printed = run(NO_REDIS_URL, *command, "--all", *options.split(), "--json").json()
        assert [line["identity"] for line in printed["sessions"]] == identities
        assert len(msgspec.convert(printed["sessions"], list[catalogue_access.CatalogueLine])) == len(identities)
        assert printed["next_before"] == (3 if options == "--limit 2" else None)
    page = run(NO_REDIS_URL, "sessions", "--all", *options.split()).out
    assert all(identity in page for identity in identities)
    assert ("There are more: --before 3" in page) == (options == "--limit 2")
    assert "=1+1" not in page or "\\n" in page, "a name does not break a line"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--text x", "say --all"),
        ("--before 3", "say --all"),
        ("--all --since yesterday", "is no time"),
        ("--all --since 99999999999999999999", "is no time"),
        ("--all --until 2026-13-01", "is no time"),
        ("--all --detail Rig", "is no detail"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: str, sentence: str) -> None:
    """Ends with 64 and says what to write instead."""
    refused(run(NO_REDIS_URL, "sessions", "list", *options.split()), 64, sentence)
