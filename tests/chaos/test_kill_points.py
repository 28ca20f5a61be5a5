"""Kill -9 between any two effects: another supervisor takes over and the session is right."""

import itertools
import threading

import pytest
import redis

import rta_writers
from rta_wire.control.totals import Totals
from tests.support import samples, supervisors
from tests.support.control import document, fields, write

QUIET = {"RTA_SESSION__IDLE_REFRESH_S": "3600", "RTA_CATALOGUE__FLUSH_S": "3600", "RTA_TRIM__EVERY_S": "3600"}
"""Only what the life of a session needs, so that the n-th effect is the same each time."""


def live(url: str, client: redis.Redis, ended: list[rta_writers.control.session.ClosedSession]) -> None:
    """A whole life, as a driver leads it."""
    sessions = rta_writers.SessionClient(url, timeout_s=60)
    session = sessions.session("run-1", stream="rig", details={"Rig": 4}, external_id="job")
    write(client, session, 3)
    session.update(group="g")
    session.pause()
    write(client, session, 2, unit="v")
    ended.append(session.close(expected=Totals(bursts=5, samples=5)))


@pytest.mark.timeout(600)
def test_a_supervisor_killed_at_any_effect_is_replaced(url: str, client: redis.Redis) -> None:
    """For every n: the first supervisor dies before its n-th effect, the second one brings the session to its end."""
    for point in itertools.count(1):
        client.flushall()
        ended: list[rta_writers.control.session.ClosedSession] = []
        killing = {**QUIET, "RTA_TEST_KILL_AT": str(point)}
        with supervisors.running(url, killing, "tests.support.killable_supervisor") as first:
            driver = threading.Thread(target=live, args=(url, client, ended))
            driver.start()
            while driver.is_alive() and first.process.poll() is None:
                driver.join(0.01)
            survived = first.process.poll() is None
            if not survived:
                with supervisors.running(url, {"RTA_CONTROL__RETRY_S": "0.1"}) as second:
                    driver.join(60)
                    second.kill()
        assert [session.state for session in ended] == ["closed"], f"killed before effect {point}"
        check(client, ended[0], f"killed before effect {point}")
        if survived:
            break
    assert point > 15, f"only {point - 1} kill points: the kills do not hit"


def check(client: redis.Redis, ended: rta_writers.control.session.ClosedSession, when: str) -> None:
    """The session is as if nobody had died."""
    assert ended.totals.samples == 5, when
    properties = document(client, "run-1")
    assert (properties["state"], properties["group"], properties["details"]) == ("closed", "g", {"Rig": 4}), when
    number = int(fields(client, "run-1")["streamSessionId"])
    order = samples.kinds(client, "rig", number)
    assert (order[0], order[-1]) == ("session_json", "session_json"), when
    assert order.count("timestamped_data") == 5, when
    last = samples.messages(client, "rig")[-1][1].data[0].session_json
    assert last == fields(client, "run-1")["json"], when
    assert fields(client, "run-1")["tEnd"] == str(samples.START_NS + 2), when
    assert client.smembers("streams") == {b"rig"}, when
    assert client.get("rtas:gate:{stream:rig}:" + str(number)) == b"finished", when
