"""SIGSTOP in the middle of a write: another supervisor takes over, and the one that wakes up changes nothing."""

import contextlib
import os
import random
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

import rta_writers
from rta_wire.control.totals import Totals
from tests.support import samples, supervisors
from tests.support.control import document, fields, write
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until

FREEZES = int(os.environ.get("RTA_FREEZES", "100" if os.environ.get("RTA_SOAK") else "6"))
SEED = int(os.environ.get("RTA_SEED", "6"))
EFFECTS_OF_A_LIFE = 30
BEATS_AWAKE = 20
OWN_KEYS = re.compile(rb"rtas:(node|nodes|alive|lease|beat|slot|ctl|req)(:.*)?|lastStreamSessionId")
"""What says which supervisors there are and what they have done, the control streams, which are empty when they are
done, and the counter of ids: one that was taken and not used is skipped."""

LIVELY = {
    "RTA_NODE__LEASE_S": "0.5",
    "RTA_NODE__BEAT_S": "0.05",
    "RTA_TRIM__EVERY_S": "0.3",
    "RTA_SESSION__WRITER_SILENT_S": "3600",
}


def everything(client: redis.Redis) -> dict[bytes, Any]:
    """All data, without lifetimes and the times at which idle sessions were last looked at."""
    values: dict[bytes, Any] = {}
    for key in client.scan_iter(count=1000):
        if OWN_KEYS.fullmatch(key):
            continue
        kind: Any = client.type(key)
        if kind == b"hash":
            value: Any = client.hgetall(key)
            value.pop(b"lastUpdated", None)
        elif kind == b"stream":
            value = client.xrange(key)
        elif kind == b"list":
            value = client.lrange(key, 0, -1)
        elif kind == b"set":
            value = client.smembers(key)
        elif kind == b"zset":
            value = client.zrange(key, 0, -1, withscores=True)
        else:
            value = client.get(key)
        values[key] = value
    return values


class Frozen:
    """A supervisor that freezes when it is told to, and another one that takes over."""

    def __init__(self, url: str, client: redis.Redis, first: Supervisor, second: Supervisor, order: Path) -> None:
        self.url = url
        self.client = client
        self.first = first
        self.second = second
        self.order = order

    def is_frozen(self) -> bool:
        stat = Path(f"/proc/{self.first.process.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    def beats(self) -> int:
        [node] = {str(event["node"]) for event in self.first.events("supervisor_started")}
        return int(self.client.get(f"rtas:beat:{node}") or 0)

    def pending(self) -> int:
        summaries: Any = [self.client.xpending(f"rtas:{kind}:default", "supervisors") for kind in ("req", "ctl")]
        return sum(summary["pending"] for summary in summaries)

    def is_quiet(self, identity: str) -> bool:
        return self.pending() == 0 and self.client.zscore("rtas:idx", identity) is None


@contextlib.contextmanager
def pair(url: str, client: redis.Redis, directory: Path) -> Iterator[Frozen]:
    order = directory / "freeze"
    freezing = {**LIVELY, "RTA_TEST_FREEZE": str(order)}
    with (
        supervisors.running(url, freezing, "tests.chaos.freezable_supervisor") as first,
        supervisors.running(url, LIVELY) as second,
    ):
        both = Frozen(url, client, first, second, order)
        try:
            yield both
        finally:
            for supervisor in (first, second):
                supervisor.process.send_signal(signal.SIGCONT)


def live(url: str, client: redis.Redis, identity: str, ended: list[rta_writers.control.session.ClosedSession]) -> None:
    """A whole life, as a driver leads it."""
    sessions = rta_writers.SessionClient(url, timeout_s=60)
    session = sessions.session(identity, stream="rig", details={"Rig": 4}, external_id=f"job-{identity}")
    write(client, session, 3)
    session.update(group="g")
    session.pause()
    session.resume()
    write(client, session, 2, unit="v")
    session.update(group="h")
    ended.append(session.close(expected=Totals(bursts=5, samples=5)))


def freeze_once(both: Frozen, chance: random.Random, number: int) -> bool:
    """One life in which the first supervisor freezes. Whether it did."""
    identity = f"run-{number}"
    when = chance.randint(1, EFFECTS_OF_A_LIFE), chance.choice([0.0, chance.random(), 1.0])
    both.second.process.send_signal(signal.SIGSTOP)
    # In one step: the supervisor reads it whenever it writes.
    written = both.order.with_suffix(".new")
    written.write_text("{} {}".format(*when))
    written.replace(both.order)
    ended: list[rta_writers.control.session.ClosedSession] = []
    driver = threading.Thread(target=live, args=(both.url, both.client, identity, ended))
    driver.start()
    while driver.is_alive() and not both.is_frozen():
        driver.join(0.005)
    was_frozen = both.is_frozen()
    both.order.unlink(missing_ok=True)
    both.second.process.send_signal(signal.SIGCONT)
    driver.join(60)
    description = f"seed {SEED}, life {number}, effect {when[0]}, {when[1]:.2f} of its bytes"
    assert [session.state for session in ended] == ["closed"], description
    wait_until(lambda: both.is_quiet(identity), what=f"the other one being done ({description})")
    before = everything(both.client)
    if was_frozen:
        beats = both.beats()
        both.first.process.send_signal(signal.SIGCONT)
        wait_until(
            lambda: both.beats() > beats + BEATS_AWAKE and both.pending() == 0, what="the frozen one being awake"
        )
        assert everything(both.client) == before, f"it changed something when it woke up ({description})"
    check(both.client, identity, description)
    return was_frozen


def check(client: redis.Redis, identity: str, description: str) -> None:
    """The session is as if nobody had stood still."""
    properties = document(client, identity)
    assert (properties["state"], properties["group"]) == ("closed", "h"), description
    number = int(fields(client, identity)["streamSessionId"])
    items = [message.data[0] for owner, message in samples.messages(client, "rig") if owner == number]
    kinds = [item.WhichOneof("data") for item in items]
    assert (kinds[0], kinds[-1]) == ("session_json", "session_json"), description
    assert kinds.count("timestamped_data") == 5, description
    assert items[-1].session_json == fields(client, identity)["json"], description
    time_ranges = [
        (item.time_range.start_time, item.time_range.end_time) for item in items if item.HasField("time_range")
    ]
    widest = sorted(time_ranges, key=lambda time_range: (-time_range[0], time_range[1]))
    assert time_ranges == widest, f"a time range became narrower ({description})"


@pytest.mark.timeout(1800)
def test_a_frozen_supervisor_that_wakes_up_changes_nothing(url: str, client: redis.Redis, tmp_path: Path) -> None:
    """At any effect, before, between or after its bytes; the other one has brought the session to its end by then."""
    chance = random.Random(SEED)  # noqa: S311 - it has to be repeatable
    print(f"seed {SEED}, {FREEZES} freezes")
    frozen = lives = 0
    with pair(url, client, tmp_path) as both:
        sessions = rta_writers.SessionClient(url)
        sessions.session("idle", stream="rig")  # held by nobody: its heart does not beat into the comparison
        while frozen < FREEZES:
            lives += 1
            frozen += freeze_once(both, chance, lives)
            assert lives < 10 + 3 * FREEZES, "the freezes do not hit"
        sessions.close("idle")
    print(f"{frozen} freezes in {lives} lives")
