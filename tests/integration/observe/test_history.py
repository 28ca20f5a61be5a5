"""Counts per span of time in Redis: what was counted comes back, in its span, and goes by itself."""

import json
import subprocess
import sys
from typing import Any

import redis

from rta_supervisor.cli.commands.stats import BARS
from rta_supervisor.diagnostics import counters
from rta_supervisor.observe import history
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import keys

NAMES = keys.Keys()
START_MS = 1_800_000_000_000


async def test_two_supervisors_share_their_slots(link: Link) -> None:
    """Both add; each scale holds the whole, in slots of its length."""
    at_ms = START_MS
    both = [counters.Counts(), counters.Counts()]
    recorders = [history.HistoryRecorder(link, NAMES, counts, lambda: at_ms) for counts in both]
    for step in range(10):
        for number, counts in enumerate(both):
            counts.reports += step + number
            counts.add_reported(f"rig-{number}", (1, 10, 100, 50))
        at_ms = START_MS + step * 5000
        for recorder in recorders:
            await recorder.flush()
    for scale in history.SCALES.values():
        past = await history.read_history(link, NAMES, scale, at_ms)
        assert {len(column) for column in past.counts.values()} == {scale.slots}
        assert sum(past.counts["reports"]) == 2 * 45 + 10
        assert sum(past.counts["samples"]) == 200
        assert sum(past.counts["bytes"]) == 1000
    recent = await history.read_history(link, NAMES, history.SCALES["5m"], at_ms)
    assert recent.counts["reports"][-10:] == [2 * step + 1 for step in range(10)]
    assert recent.counts["reports"][:-10] == [0] * 50
    assert recent.first_ms == START_MS + 45_000 - 59 * 5000


async def test_slots_expire_by_themselves(link: Link, client: redis.Redis) -> None:
    """Each kept for its scale and the slot that is being filled, no longer."""
    counts = counters.Counts()
    recorder = history.HistoryRecorder(link, NAMES, counts)
    counts.reports += 1
    await recorder.flush()
    made: Any = client.keys("rtas:slot:*")
    ttls: dict[int, Any] = {int(key.split(b":")[2]): client.ttl(key) for key in made}
    assert ttls.keys() == {5, 100, 1000}
    assert 300 < ttls[5] <= 305
    assert 7200 < ttls[100] <= 7300
    assert 86_400 < ttls[1000] <= 87_400
    await recorder.flush()
    short: Any = client.keys("rtas:slot:5:*")
    assert client.hget(short[0], "reports") == b"1", "what was recorded is not added again"


async def test_an_outage_loses_no_count(link: Link) -> None:
    """What could not be added is added later."""
    counts = counters.Counts()
    away = Link(settings.RedisSettings(url="unix:///nonexistent/socket"))
    recorder = history.HistoryRecorder(away, NAMES, counts)
    counts.reports += 5
    await recorder.flush()
    recorder._link = link
    counts.reports += 2
    await recorder.flush()
    past = await history.read_history(link, NAMES, history.SCALES["5m"])
    assert sum(past.counts["reports"]) == 7
    await away.close()


async def test_stats_shows_them(link: Link, url: str) -> None:
    """As bars for people and as numbers for scripts."""
    counts = counters.Counts()
    recorder = history.HistoryRecorder(link, NAMES, counts)
    counts.reports += 1234
    await recorder.flush()
    command = [sys.executable, "-m", "rta_supervisor", "stats", "--redis-url", url]
    done = subprocess.run([*command, "--last", "24h", "--json"], capture_output=True, text=True, check=True)  # noqa: ASYNC221
    found = json.loads(done.stdout)
    assert (found["slot_s"], len(found["counts"]["reports"]), sum(found["counts"]["reports"])) == (1000, 87, 1234)
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: ASYNC221
    [line] = [line for line in table.splitlines() if line.startswith("reports")]
    assert "1,234" in line
    assert BARS[-1] in line
    assert "\x1b[" not in table
