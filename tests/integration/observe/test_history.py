"""The history of counts in Redis: counts are read back in their slots, and slots expire."""

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
    """Both add to them, and each scale has all counts in slots of its length."""
    at_ms = START_MS
    nodes = [counters.Counts(), counters.Counts()]
    recorders = [history.HistoryRecorder(link, NAMES, counts, lambda: at_ms) for counts in nodes]
    for step in range(10):
        for number, counts in enumerate(nodes):
            counts.reports += step + number
            counts.add_reported(f"rig-{number}", (1, 10, 100, 50))
        at_ms = START_MS + step * 5000
        for recorder in recorders:
            await recorder.flush()
    for scale in history.SCALES.values():
        recorded = await history.read_history(link, NAMES, scale, at_ms)
        assert {len(column) for column in recorded.counts.values()} == {scale.slots}
        assert sum(recorded.counts["reports"]) == 2 * 45 + 10
        assert sum(recorded.counts["samples"]) == 200
        assert sum(recorded.counts["bytes"]) == 1000
    recent = await history.read_history(link, NAMES, history.SCALES["5m"], at_ms)
    assert recent.counts["reports"][-10:] == [2 * step + 1 for step in range(10)]
    assert recent.counts["reports"][:-10] == [0] * 50
    assert recent.first_ms == START_MS + 45_000 - 59 * 5000


async def test_slots_expire(link: Link, client: redis.Redis) -> None:
    """A slot is kept for the range of its scale and the slot that is being filled, and no longer."""
    counts = counters.Counts()
    recorder = history.HistoryRecorder(link, NAMES, counts)
    counts.reports += 1
    await recorder.flush()
    slots: Any = client.keys("rtas:slot:*")
    ttls_s: dict[int, Any] = {int(key.split(b":")[2]): client.ttl(key) for key in slots}
    assert ttls_s.keys() == {5, 100, 1000}
    assert 300 < ttls_s[5] <= 305
    assert 7200 < ttls_s[100] <= 7300
    assert 86_400 < ttls_s[1000] <= 87_400
    await recorder.flush()
    short_slots: Any = client.keys("rtas:slot:5:*")
    assert client.hget(short_slots[0], "reports") == b"1", "what was recorded is not added again"


async def test_counts_that_redis_cant_hold_stay_at_the_highest(link: Link) -> None:
    """Writers say how much they wrote: whatever that comes to, it is recorded, and the counts beside it are right."""
    counts = counters.Counts()
    recorder = history.HistoryRecorder(link, NAMES, counts, lambda: START_MS)
    for grown in (2**62, 2**62, 2**70, 5):
        counts.add_reported("rig", (1, grown, 1, 1))
        await recorder.flush()
    recorded = await history.read_history(link, NAMES, history.SCALES["5m"], START_MS)
    assert (recorded.counts["samples"][-1], recorded.counts["bytes"][-1]) == (2**63 - 1, 4)


async def test_an_outage_loses_no_count(link: Link) -> None:
    """Counts that could not be added are added after the outage."""
    counts = counters.Counts()
    broken_link = Link(settings.RedisSettings(url="unix:///nonexistent/socket"))
    recorder = history.HistoryRecorder(broken_link, NAMES, counts)
    counts.reports += 5
    await recorder.flush()
    recorder._link = link
    counts.reports += 2
    await recorder.flush()
    recorded = await history.read_history(link, NAMES, history.SCALES["5m"])
    assert sum(recorded.counts["reports"]) == 7
    await broken_link.close()


async def test_stats_prints_the_history(link: Link, url: str) -> None:
    """`rta-supervisor stats` prints bars for people and numbers for scripts."""
    counts = counters.Counts()
    recorder = history.HistoryRecorder(link, NAMES, counts)
    counts.reports += 1234
    await recorder.flush()
    command = [sys.executable, "-m", "rta_supervisor", "stats", "--redis-url", url]
    done = subprocess.run([*command, "--last", "24h", "--json"], capture_output=True, text=True, check=True)  # noqa: ASYNC221
    printed = json.loads(done.stdout)
    reports = printed["counts"]["reports"]
    assert (printed["slot_s"], len(reports), sum(reports)) == (1000, 87, 1234)
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: ASYNC221
    [row] = [row for row in table.splitlines() if row.startswith("reports")]
    assert "1,234" in row
    assert BARS[-1] in row
    assert "\x1b[" not in table
