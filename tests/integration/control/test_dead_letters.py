"""Messages that nobody could read, as an operator sees them and sends them again."""

import json
from collections import Counter
from typing import Any

import pytest
import redis

import rta_writers
from rta_supervisor.cli.commands import dlq
from rta_supervisor.control import server_functions as control_functions
from rta_supervisor.control.dead_letters import MESSAGE_MAX_BYTES, DeadLetter, DeadLetterContents, ResentLetter
from rta_wire import keys, quoting
from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from tests.support import samples, supervisors
from tests.support.commands import convert, refused, run
from tests.support.control import dead_letters, folded, send
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until

NOWHERE = "unix:///nonexistent/socket"


def entries_added(client: redis.Redis, key: str) -> int:
    info: Any = client.xinfo_stream(key)
    return int(info["entries-added"])


def test_a_dead_letter_is_sent_again_once(client: redis.Redis, url: str, sessions: rta_writers.SessionClient) -> None:
    """A report that came before its session counts when it is sent again; after a crash it is not sent twice."""
    report = control_pb2.Progress(
        identity="run-1",
        stream_session_id=1,
        unit="u",
        totals=Totals(2, 7, 10, 10, samples.START_NS, samples.START_NS + 1).to_message(),
    )
    send(client, report)
    wait_until(lambda: dead_letters(client), what="the dead letter")
    listing = run(url, "dlq", "list", "--json").json()
    [letter] = convert(listing["letters"], list[DeadLetter])
    assert (letter.code, letter.kind, letter.session) == ("UnknownSession", "Progress", "run-1")
    contents = convert(run(url, "dlq", "show", letter.letter, "--json").json(), DeadLetterContents)
    assert contents.message["totals"]["samples"] == "7"
    assert "There is no session 'run-1'" in run(url, "dlq", "list").out
    assert '"samples": "7"' in run(url, "dlq", "show", letter.letter).out
    opened = sessions.open("run-1", stream="rig")
    assert opened.target.stream_session_id == 1

    added = entries_added(client, "rtas:ctl:default")
    raw = dead_letters(client)[0][b"m"]
    resend = control_functions.resend_letter(keys.Keys(), "rtas:ctl:default", letter.letter, raw, ttl_s=60)
    client.execute_command(*resend)  # an operator's command that was killed before it removed the letter
    output = run(url, "dlq", "retry", letter.letter, "--json").json()
    assert convert(output["sent"], list[ResentLetter]) == [ResentLetter(letter.letter, "rtas:ctl:default", "")]
    assert entries_added(client, "rtas:ctl:default") == added + 1
    wait_until(lambda: folded(client, "run-1").samples == 7, what="the report")
    assert dead_letters(client) == []
    refused(run(url, "dlq", "retry", letter.letter), 66, "There is no dead letter")


def test_a_request_is_sent_again_with_another_id(
    client: redis.Redis, url: str, sessions: rta_writers.SessionClient
) -> None:
    """It was answered with an error, and an answer is final: under its old id nothing would happen."""
    request = control_pb2.OpenSession(
        request_id="first", identity="run-1", stream="rig",
        session_json='{"identity":"run-1","identifier":"Run 1","state":"open","timestamp":"2026-01-01T00:00:00Z"}',
    )  # fmt: skip
    client.xadd("rtas:req:default", {"m": messages.pack(request)}, id="1000-1")  # sent in 1970, so it is too late
    wait_until(lambda: dead_letters(client), what="the dead letter")
    output = run(url, "dlq", "retry", "--all", "--yes")
    assert "sent to rtas:req:default" in output.out
    wait_until(lambda: client.exists("sessions:run-1"), what="the session")
    assert sessions.open("run-1", stream="rig").identity == "run-1"


def test_what_cannot_be_sent_again_stays(client: redis.Redis, url: str, supervisor: Supervisor) -> None:
    """Nonsense and letters from control streams that nobody reads; they can be dropped."""
    client.xadd("rtas:ctl:default", {"m": b"nonsense"})
    wait_until(lambda: dead_letters(client), what="the dead letter")
    client.xadd("rtas:dlq", {"source": "lastStreamSessionId", "entry": "1-1", "code": "X", "reason": "?", "m": b""})
    entries: Any = client.xrange("rtas:dlq")
    ids = [entry.decode() for entry, _ in entries]
    refused(run(url, "dlq", "retry", ids[0]), 65, "it is not a Control message")
    refused(run(url, "dlq", "retry", ids[1]), 65, "which no supervisor reads")
    unsendable = run(url, "dlq", "retry", "--all", "--yes", "--json").json()["left"]
    assert [letter.letter for letter in convert(unsendable, list[dlq.UnsendableLetter])] == ids
    assert "6e6f6e73656e7365" in run(url, "dlq", "show", ids[0]).out
    refused(run(url, "dlq", "retry"), 64, "--all")
    refused(run(url, "dlq", "drop", ids[0]), 64, "say --yes")
    refused(run(url, "dlq", "drop", ids[0], "1-1", "--yes"), 66, "'1-1'")
    assert run(url, "dlq", "drop", ids[0], "--yes", "--json").json() == {"dropped": [ids[0]]}
    assert "1 removed" in run(url, "dlq", "drop", "--all", "--yes").out
    assert "no dead letters" in run(url, "dlq", "list").out
    assert supervisor.process.poll() is None


FLOOD = 100
LONG_TEXT = "x" * 200_000


def test_a_flood_of_long_messages_costs_little_and_evicts_nobody_else(
    url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Letters are cut and counted for each principal: others' letters stay, and memory is bounded. The principal that
    floods is named, and a letter that was cut is not sent again."""
    monkeypatch.setenv("RTA_CONTROL__PRINCIPALS", '["rig-4", "rig-5"]')
    with supervisors.running(url, {"RTA_CONTROL__DEAD_LETTERS_MAX": "20"}) as supervisor:
        client.xadd("rtas:ctl:rig-4", {"m": messages.pack(control_pb2.Heartbeat(identity="honest"))})
        wait_until(lambda: dead_letters(client), what="the letter of the other principal")
        for _ in range(FLOOD):
            request = control_pb2.CancelRequest(request_id=LONG_TEXT, target_request_id="t")
            client.xadd("rtas:req:rig-5", {"m": messages.pack(request)})
        wait_until(lambda: client.xlen("rtas:req:rig-5") == 0, what="an end of the flood")
        letters = convert(run(url, "dlq", "list", "--json").json()["letters"], list[DeadLetter])
        assert Counter(letter.lane for letter in letters) == {"rtas:ctl:rig-4": 1, "rtas:req:rig-5": 20}
        assert {(letter.code, letter.is_cut) for letter in letters[:-1]} == {("BadName", True)}
        assert all(letter.size_bytes > len(LONG_TEXT) for letter in letters[:-1])
        usage: Any = [client.memory_usage(key, samples=0) for key in client.scan_iter(match="rtas:dlq*")]
        assert sum(usage) < 21 * 2 * MESSAGE_MAX_BYTES
        assert list(client.scan_iter(match="rtas:reply:*")) == []
        listed = run(url, "dlq", "list").out
        assert "Request id 'xxx" in listed
        assert len(listed) < 21 * 2 * quoting.TEXT_MAX_CHARS
        newest = letters[0].letter
        refused(run(url, "dlq", "retry", newest), 65, f"only the first {MESSAGE_MAX_BYTES} of its 200")
        assert "the rest was not kept" in run(url, "dlq", "show", newest).out
        left = run(url, "dlq", "retry", "--all", "--yes", "--json").json()["left"]
        assert len(convert(left, list[dlq.UnsendableLetter])) == 20
        wait_until(lambda: client.exists("rtas:limits"), what="the record of limits")
        examined = run(url, "doctor").out
        assert "rig-5 reached control.dead_letters_max" in examined
        assert "dlqof" not in examined
        assert supervisor.stop() == 0
        log = supervisor.log_path.read_text()
    assert max(map(len, log.splitlines())) < 2 * quoting.TEXT_MAX_CHARS
    assert {event["principal"] for event in supervisor_events(log, "limit_reached")} == {"rig-5"}


def supervisor_events(log: str, name: str) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in log.splitlines()]
    return [event for event in events if event["event"] == name]


def test_letters_that_an_operator_removed_make_no_room_beyond_the_newest(client: redis.Redis, url: str) -> None:
    """Of each principal the newest letters are kept, whichever of them are removed meanwhile."""
    names = keys.Keys()
    with supervisors.running(url):
        wait_until(lambda: client.function_list(library="rtas_letter_limit_1"), what="server functions")

    def add(owner: str, number: int) -> int:
        command = control_functions.add_dead_letter(names, owner, {b"entry": f"{owner}{number}"}, max_entries=3)
        removed: Any = client.execute_command(*command)
        return int(removed)

    assert [add("a", number) for number in range(5)] == [0, 0, 0, 1, 1]
    assert [add("b", number) for number in range(2)] == [0, 0]
    entries: Any = client.xrange("rtas:dlq")
    client.xdel("rtas:dlq", entries[0][0])
    assert [add("a", number) for number in range(5, 7)] == [0, 1]
    kept = [letter[b"entry"] for letter in dead_letters(client)]
    assert kept == [b"a4", b"b0", b"b1", b"a5", b"a6"]
