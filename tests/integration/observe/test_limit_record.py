"""Limits that principals reached: recorded by all supervisors, read by the doctor."""

import pytest

from rta_supervisor.diagnostics import counters, principal_limits
from rta_supervisor.observe import limit_record
from rta_supervisor.observe.doctor import findings
from rta_supervisor.observe.doctor.deployment_checks import DeploymentChecks
from rta_supervisor.observe.doctor.key_scan import KeyScan
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import keys

NAMES = keys.Keys()


async def test_supervisors_add_to_one_record(link: Link) -> None:
    """What each counts is added once, and the latest comes first."""
    at_ms = 1000
    nodes = [counters.Counts(), counters.Counts()]
    recorders = [limit_record.LimitRecorder(link, NAMES, counts, lambda: at_ms) for counts in nodes]
    for counts, recorder in zip(nodes, recorders, strict=True):
        counts.limits_reached["rig-4", "open_sessions"] += 2
        await recorder.flush()
        await recorder.flush()
    at_ms = 2000
    nodes[0].limits_reached["rig-5", "waiting_requests"] += 7
    await recorders[0].flush()
    assert await limit_record.read_reached(link, NAMES) == [
        limit_record.ReachedLimit("rig-5", "waiting_requests", 7, 2000),
        limit_record.ReachedLimit("rig-4", "open_sessions", 4, 1000),
    ]
    assert 0 < await link.do("TTL", NAMES.limits_reached()) <= limit_record.TTL_S


async def test_the_doctor_names_who_reached_a_limit_lately(link: Link) -> None:
    """A principal is named with its limit and what to do, and no longer than an hour."""
    checks = DeploymentChecks(link, settings.Settings(), KeyScan(link, 0))
    assert (await checks.principals()).level == findings.OK
    counts = counters.Counts()
    counts.limits_reached["rig-4", "open_sessions"] += 1234
    now_ms = int((await link.do("TIME"))[0]) * 1000
    long_ago_ms = now_ms - 2 * limit_record.TTL_S * 1000
    await limit_record.LimitRecorder(link, NAMES, counts, lambda: long_ago_ms).flush()
    assert (await checks.principals()).level == findings.OK
    await limit_record.LimitRecorder(link, NAMES, counts, lambda: now_ms).flush()
    finding = await checks.principals()
    assert finding.level == findings.WARN
    assert "rig-4 reached limits.open_sessions 2,468 times" in finding.found
    assert finding.remedy.endswith("--state open. Raise the limit if they are right.")


@pytest.mark.parametrize(
    ("what", "found", "remedy"),
    [
        (principal_limits.SPOILT_KEYS, "spoilt keys of its sessions", "session_spoilt in the log."),
        (principal_limits.EVICTED, "lost messages that nobody had read", "or trims that itself: see its jobs."),
    ],
)
async def test_what_is_no_limit_is_none_to_be_raised(link: Link, what: str, found: str, remedy: str) -> None:
    """The doctor says what a principal did, and where to look."""
    counts = counters.Counts()
    counts.limits_reached["rig-4", what] += 1
    await limit_record.LimitRecorder(link, NAMES, counts).flush()
    finding = await DeploymentChecks(link, settings.Settings(), KeyScan(link, 0)).principals()
    assert finding.found.startswith(f"rig-4 {found} 1 times")
    assert finding.remedy.endswith(remedy)
