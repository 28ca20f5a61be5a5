"""What the doctor says about publishing."""

from typing import Any

import msgspec
import pytest

from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe.doctor import checklist, findings
from rta_supervisor.observe.doctor.publishing_checks import PublishingChecks
from rta_supervisor.publish import status
from rta_supervisor.publish.status import PublishStatus
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link

CONFIG = settings.Settings(publish=settings.PublishSettings(session_address="127.0.0.1:2652"))
GOOD = PublishStatus(node="n", at_ms=0, period_s=5.0, waiting=2, oldest_s=3.0, refused=0, problem="")


async def test_nobody_publishes(link: Link) -> None:
    """Nothing is wrong where nothing is set up."""
    assert (await PublishingChecks(link, settings.Settings()).publishing()).found == "not set up"
    finding = await PublishingChecks(link, CONFIG).publishing()
    assert (finding.level, finding.found) == (findings.BAD, "nobody publishes")


async def test_a_key_that_somebody_has_spoilt(link: Link) -> None:
    """A check that finds something else than it should is a finding, and the checks after it are made."""
    await link.do("SET", CONFIG.keys.publishing(), "somebody's", "EX", 60)
    found = {finding.check: finding for finding in await checklist.run_checks(link, CONFIG, scan_keys=0)}
    assert found["publishing"].level == findings.BAD
    assert "WRONGTYPE" in found["publishing"].found
    assert list(found).index("publishing") < len(found) - 1


@pytest.mark.parametrize(
    ("changes", "level", "found"),
    [
        ({}, findings.OK, "2 sessions wait, the oldest for 3.0 s"),
        ({"at_ms": -60_000}, findings.BAD, "nobody publishes"),
        ({"problem": "UNAVAILABLE: away"}, findings.BAD, "UNAVAILABLE: away"),
        ({"refused": 1}, findings.WARN, "refuses 1"),
        ({"oldest_s": 301.0}, findings.WARN, "the oldest for 301.0 s"),
        ({"period_s": 12.0}, findings.WARN, "every 12 s"),
    ],
)
async def test_how_publishing_goes(link: Link, changes: dict[str, Any], level: str, found: str) -> None:
    """What is wrong is named, with what to do about it."""
    at_ms = now_ms() + int(changes.get("at_ms", 0))
    current = msgspec.structs.replace(GOOD, **changes | {"at_ms": at_ms})
    await link.do(*status.write(CONFIG.keys, current))
    finding = await PublishingChecks(link, CONFIG).publishing()
    assert finding.level == level
    assert found in finding.found
    assert bool(finding.remedy) is (level != findings.OK)
