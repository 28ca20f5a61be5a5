"""Each attack of one principal on all others, small: what becomes of it is right. How fast the others are meanwhile is
measured by `make chaos`.

All tests share one host, whose limits are low. Each attack has a principal of its own, and all others have one victim.
"""

import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis

import rta_writers
from rta_supervisor.control.payloads import payload_store
from rta_wire import errors, keys, limits
from rta_wire.control.totals import Totals
from tests.chaos.attacks import attackers, measured
from tests.chaos.attacks import host as attacked_host
from tests.chaos.attacks.attackers import Attacker
from tests.chaos.attacks.host import VICTIM, Host
from tests.support import control, http_client
from tests.support.waiting import wait_until

WAITING = 50
IN_HAND = 40
UNITS = 200
PROPERTIES = 50
DELIVERIES = 50
GRACE_S = 2
PAYLOADS = limits.MIB // payload_store.PIECE_MIN_BYTES

SETTINGS = {
    "RTA_LIMITS__WAITING_REQUESTS": str(WAITING),
    "RTA_LIMITS__REQUESTS_IN_HAND": str(IN_HAND),
    "RTA_LIMITS__SESSION_UNITS": str(UNITS),
    "RTA_LIMITS__SESSION_PROPERTIES": str(PROPERTIES),
    "RTA_LIMITS__WEBHOOK_DELIVERIES": str(DELIVERIES),
    "RTA_LIMITS__PAYLOAD_BYTES": str(limits.MIB),
    "RTA_SESSION__CLOSE_GRACE_S": str(GRACE_S),
    "RTA_HTTP__HEADER_TIMEOUT_S": "1",
    "RTA_CONTROL__RETRY_S": "30",
}
SAMPLES = 20
DAY_NS = 86_400 * 10**9
QUOTED_MAX = 1000
MOMENT_S = 0.3
MOMENTS = 3
CONNECTIONS = 100
CANCELS = 1000


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with attacked_host.running(SETTINGS) as running:
        yield running
        assert running.supervisor.process.poll() is None, "one supervisor served all of it"


@pytest.fixture
def admin(host: Host) -> Iterator[redis.Redis]:
    with host.admin() as client:
        yield client


def attacker(host: Host, number: int) -> Attacker:
    return Attacker(host.writer_url(f"attacker-{number}"), f"attacker-{number}", host.http_address, timeout_s=20)


def serve(host: Host, admin: redis.Redis) -> int:
    """A session of the victim from its beginning to its end, with all samples. Gives its number."""
    sessions = host.sessions(VICTIM)
    identity = f"{VICTIM}-{time.monotonic_ns()}"
    session = sessions.open(identity, stream=f"{VICTIM}.a")
    session.update(comment="x")
    times_ns = [time.time_ns() + n for n in range(SAMPLES)]
    with rta_writers.BurstWriter(session.options, unit="u") as writer:
        writer.samples([1] * SAMPLES, times_ns, [0.0] * SAMPLES)
    ended = session.close(expected=Totals(samples=SAMPLES))
    assert (ended.state, ended.totals.samples) == ("closed", SAMPLES)
    assert control.fields(admin, identity)["tEnd"] == str(times_ns[-1])
    return session.target.stream_session_id


def is_named(host: Host, number: int) -> None:
    """Log and doctor name the principal."""
    who = f"attacker-{number}"
    wait_until(lambda: [event for event in host.events("limit_reached") if event["principal"] == who], what="an event")
    wait_until(lambda: host.doctor_naming(who), what="a line of the doctor")


def is_settled(admin: redis.Redis, number: int) -> None:
    wait_until(
        lambda: not measured.backlog(admin, f"attacker-{number}"),
        timeout_s=20,
        what=f"messages of attacker-{number}, settled",
    )


def test_closes_from_the_future_wait_no_longer_than_others(host: Host, admin: redis.Redis) -> None:
    """Their time is never later than the server's. Past the limit they are refused, and the operator is served."""
    own = attacker(host, 1).open("own")
    attackers.future_closes(attacker(host, 1), 3 * WAITING)
    serve(host, admin)
    assert host.command("sessions", "abandon", own.identity, "--yes", "--timeout-s", "20").code == 0
    is_settled(admin, 1)
    is_named(host, 1)
    serve(host, admin)


def test_a_close_that_waits_costs_nothing_meanwhile(host: Host, admin: redis.Redis) -> None:
    """Closes that wait for data are not served again and again, and all of them end with the grace period."""
    serve(host, admin)
    attackers.waiting_closes(attacker(host, 2), WAITING - 10)
    wait_until(lambda: _pending(admin, "attacker-2") == WAITING - 10, what="closes that wait")
    assert _reads_in_a_moment(admin) < WAITING - 10
    serve(host, admin)
    is_settled(admin, 2)


def _reads_in_a_moment(admin: redis.Redis) -> int:
    """How often a Session JSON was read within a moment, the quietest of some: whoever serves a close reads it."""
    counts = []
    for _ in range(MOMENTS + 1):
        stats: Any = admin.info("commandstats")
        counts.append(int(stats.get("cmdstat_hget", {"calls": 0})["calls"]))
        time.sleep(MOMENT_S)
    return min(later - earlier for earlier, later in itertools.pairwise(counts))


def _pending(admin: redis.Redis, principal: str) -> int:
    groups: Any = admin.xinfo_groups(f"rtas:req:{principal}")
    return sum(int(group["pending"]) for group in groups)


def test_marks_past_the_limit(host: Host, admin: redis.Redis) -> None:
    """Marks that nobody reported are not folded past the limit of units; the session is ended all the same."""
    attackers.many_marks(attacker(host, 3), 5 * UNITS)
    serve(host, admin)
    is_settled(admin, 3)
    is_named(host, 3)
    _is_ended(host, admin, "attacker-3-marks")
    assert _fields(admin, "attacker-3-marks", "u:") <= UNITS


def test_units_past_the_limit(host: Host, admin: redis.Redis) -> None:
    """Reports of more units than a session may have are not counted; updates of that session are served."""
    attackers.many_units(attacker(host, 4), 2 * UNITS)
    is_settled(admin, 4)
    is_named(host, 4)
    assert _fields(admin, "attacker-4-units", "u:") <= UNITS
    serve(host, admin)


def test_properties_past_the_limit(host: Host, admin: redis.Redis) -> None:
    """Properties that are set and removed leave their names behind: no more than the limit."""
    attackers.many_properties(attacker(host, 4), 200)
    is_settled(admin, 4)
    assert _fields(admin, "attacker-4-properties", "p:") <= PROPERTIES
    wait_until(
        lambda: [event for event in host.events("limit_reached") if event["limit"] == "limits.session_properties"],
        what="an event",
    )
    serve(host, admin)


def _identity(admin: redis.Redis, start: str) -> str:
    """The latest session whose name begins like this."""
    names: Any = admin.keys(f"sessions:{start}*")
    identities: list[str] = [name.decode().removeprefix("sessions:") for name in names]
    return max(identities, key=lambda identity: int(control.fields(admin, identity)["streamSessionId"]))


def _fields(admin: redis.Redis, start: str, prefix: str) -> int:
    names: Any = admin.hkeys(f"rtas:st:{{sessions:{_identity(admin, start)}}}")
    return sum(name.startswith(prefix.encode()) for name in names)


def _is_ended(host: Host, admin: redis.Redis, start: str) -> None:
    """By its owner's close, or at last by an operator."""
    identity = _identity(admin, start)
    assert host.command("sessions", "abandon", identity, "--yes", "--timeout-s", "20").code == 0
    assert control.document(admin, identity)["state"] not in {"open", "waiting"}


def test_large_request_ids_are_cut(host: Host, admin: redis.Redis) -> None:
    """The reason of a dead letter quotes some of it, and so does the log."""
    attackers.large_request_ids(attacker(host, 5), 5)
    wait_until(lambda: len(_letters(admin, "attacker-5")) == 5, what="dead letters")
    assert max(len(letter[b"reason"]) for letter in _letters(admin, "attacker-5")) < QUOTED_MAX
    assert max(len(json.dumps(event)) for event in host.events()) < 10 * QUOTED_MAX
    serve(host, admin)


def _letters(admin: redis.Redis, principal: str) -> list[dict[bytes, bytes]]:
    return [letter for letter in control.dead_letters(admin) if letter[b"source"] == f"rtas:req:{principal}".encode()]


def test_opens_take_turns(host: Host, admin: redis.Redis) -> None:
    """A victim's open, sent after 240 of another principal, is not the last that is served."""
    first = serve(host, admin)
    attackers.many_opens(attacker(host, 6), 6 * IN_HAND)
    assert serve(host, admin) - first < 3 * IN_HAND
    is_settled(admin, 6)
    is_named(host, 6)


def test_cancels_are_logged_as_one(host: Host, admin: redis.Redis) -> None:
    """Cancellations of what nobody sent are refused, and fill no log."""
    before = len(host.events())
    attackers.many_cancels(attacker(host, 6), CANCELS)
    serve(host, admin)
    is_settled(admin, 6)
    assert len(host.events()) - before < CANCELS / 4


def test_a_control_stream_that_its_principal_trims_is_no_loss_of_data(host: Host, admin: redis.Redis) -> None:
    """Requests that are gone while they are served have Redis neither suspected nor restored, and others are served."""
    before = len(host.events("redis_lost_data"))
    for _ in range(5):
        attackers.trimmed_requests(attacker(host, 6), IN_HAND)
    serve(host, admin)
    assert len(host.events("redis_lost_data")) == before


def test_webhooks_take_turns(host: Host, admin: redis.Redis) -> None:
    """The news of a victim's failure overtakes what another principal has waiting, and is not dropped for it."""
    host.webhook.answer = "hang"
    attackers.many_pauses(attacker(host, 7), 4 * DELIVERIES)
    is_settled(admin, 7)
    host.sessions(VICTIM).open("victim-fails", stream=f"{VICTIM}.a").close(state="failed")
    before = len(host.webhook.posts)
    host.webhook.answer = 204
    host.webhook.released.set()
    wait_until(lambda: ("victim-fails", "failed") in host.webhook.states(), timeout_s=30, what="news of the failure")
    others = [name for name, _ in host.webhook.states()[before:] if name.startswith("attacker-7")]
    assert len(others) <= DELIVERIES / 2
    is_named(host, 7)
    limits = {event["limit"] for event in host.events("limit_reached") if event["principal"] == "attacker-7"}
    assert "limits.webhook_deliveries" in limits


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("by", ["owner", "operator"])
def test_a_spoilt_session_can_be_ended(host: Host, admin: redis.Redis, number: int, by: str) -> None:
    """Whether its marks are no hash (0) or its stream has the highest id (1), by its owner and by an operator."""
    own = attacker(host, 8)
    session = own.open(f"spoilt-{number}-{by}")
    attackers.spoil(own, session, number)
    if by == "owner":
        session.close()
    else:
        assert host.command("sessions", "abandon", session.identity, "--yes", "--timeout-s", "20").code == 0
    assert control.document(admin, session.identity)["state"] not in {"open", "waiting"}
    assert host.events_naming("attacker-8")
    serve(host, admin)


def test_an_external_id_gives_nobody_the_session_of_another(host: Host) -> None:
    """Refused with a taken identity, the same external id gives a session of one's own, not that of the other."""
    taken = host.sessions(VICTIM).open("victim-taken", stream=f"{VICTIM}.a")
    sessions = host.sessions("attacker-9")
    with pytest.raises(errors.SessionConflict):
        sessions.open("victim-taken", stream="attacker-9.a", external_id="job-17")
    own = sessions.open("attacker-9-own", stream="attacker-9.a", external_id="job-17")
    assert (own.identity, own.target.stream) == ("attacker-9-own", "attacker-9.a")
    assert own.target.stream_session_id != taken.target.stream_session_id
    with rta_writers.BurstWriter(own.options, unit="u") as writer:
        writer.samples([1] * SAMPLES, [time.time_ns()] * SAMPLES, [0.0] * SAMPLES)
    assert taken.close().totals.samples == 0
    assert own.close(expected=Totals(samples=SAMPLES)).totals.samples == SAMPLES


def test_a_close_does_not_believe_wrong_times(host: Host, admin: redis.Redis) -> None:
    """Samples of 30 days ahead and of 1938: the report is refused, and the close does not believe the marks either."""
    attackers.wrong_times(attacker(host, 10), 2)
    is_settled(admin, 10)
    for start in ("attacker-10-times0", "attacker-10-times1"):
        fields = control.fields(admin, _identity(admin, start))
        for name in ("tStart", "tEnd"):
            assert 0 <= int(fields.get(name) or 0) <= time.time_ns() + DAY_NS, f"{start}: {name}"


@pytest.mark.parametrize(
    "named",
    [{"epoch": 1.5}, {"epoch": -1}, {"epoch": 2**70}, {"unit": b"u"}, {"unit": ""}],
    ids=["fraction", "negative", "huge", "bytes", "empty"],
)
def test_epoch_and_unit_are_checked_before_anything_is_written(
    host: Host, admin: redis.Redis, named: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    """The writer is refused, no mark is there, and other units of the session can be written and closed."""
    with host.sessions("attacker-11").open(
        f"attacker-11-{request.node.callspec.id}", stream="attacker-11.a"
    ) as session:
        with (
            pytest.raises(errors.RtaError),
            rta_writers.BurstWriter(session.options, **{"unit": "u", **named}) as writer,
        ):
            writer.samples([1], [time.time_ns()], [0.0])
        assert not admin.exists(f"rtas:dd:{{stream:attacker-11.a}}:{session.target.stream_session_id}")
        with rta_writers.BurstWriter(session.options, unit="right") as writer:
            writer.samples([1] * SAMPLES, [time.time_ns()] * SAMPLES, [0.0] * SAMPLES)
    assert session.ended is not None
    assert session.ended.totals.samples == SAMPLES


def test_reports_about_nothing_are_refused(host: Host, admin: redis.Redis) -> None:
    """Each is a dead letter of its principal; a victim's reports are folded as before."""
    attackers.unknown_sessions(attacker(host, 9), 300)
    serve(host, admin)
    is_settled(admin, 9)
    assert len([letter for letter in control.dead_letters(admin) if letter[b"source"] == b"rtas:ctl:attacker-9"]) == 300
    assert host.events_naming("attacker-9")


def test_large_entries_without_a_message_are_refused(host: Host, admin: redis.Redis) -> None:
    """In the control stream of requests and in that of reports; nothing of them is kept."""
    attackers.entries_without_message(attacker(host, 9), 5)
    serve(host, admin)
    is_settled(admin, 9)
    assert max(len(letter.get(b"m", b"")) for letter in _letters(admin, "attacker-9")) == 0


def test_payloads_that_no_request_names_are_limited(host: Host, admin: redis.Redis) -> None:
    """Small pieces count as larger ones, so their number is limited too."""
    attackers.unfinished_payloads(attacker(host, 9), PAYLOADS + 20)
    serve(host, admin)
    is_settled(admin, 9)
    is_named(host, 9)
    assert int(str(admin.hlen(keys.Keys().payloads("attacker-9")))) == PAYLOADS


def test_searches_take_turns(host: Host, admin: redis.Redis) -> None:
    """They are answered one after another, and a victim is served meanwhile."""
    attackers.many_searches(attacker(host, 9), IN_HAND)
    serve(host, admin)
    is_settled(admin, 9)


def test_sessions_in_streams_of_their_own_take_turns(host: Host, admin: redis.Redis) -> None:
    """Each with an external id: all are opened and closed, and a victim is served meanwhile."""
    attackers.many_streams(attacker(host, 9), 4 * IN_HAND)
    serve(host, admin)
    is_settled(admin, 9)
    names: Any = admin.keys("sessions:attacker-9-*")
    states = [control.document(admin, name.decode().removeprefix("sessions:"))["state"] for name in names]
    assert len(states) >= 4 * IN_HAND
    assert "open" not in states


def test_half_requests_are_not_held_for_ever(host: Host) -> None:
    """Connections that send half a request line are closed, and others are answered meanwhile."""
    own = attacker(host, 12)
    with attackers.half_open(own, CONNECTIONS) as connections:
        assert http_client.get(host.http_address, "/health").status == 200
        wait_until(
            lambda: all(attackers.is_closed(connection) for connection in connections),
            timeout_s=20,
            what="connections that the supervisor closed",
        )
    assert http_client.get(host.http_address, "/health").status == 200
