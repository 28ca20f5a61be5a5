"""Silent writers, late closes, and times of samples that are not believed."""

from rta_supervisor.session import time_limits
from rta_supervisor.settings import settings


def test_silence_counts_from_when_every_report_is_read() -> None:
    """A writer is gone after the limit, but not because its reports were not read."""
    config = settings.SessionSettings(writer_silent_s=90)
    silence = time_limits.Silence(reported_ms=1_000, listening_since_ms=0)
    assert not time_limits.is_abandoned(silence, 90_999, config)
    assert time_limits.is_abandoned(silence, 91_000, config)
    assert not time_limits.is_abandoned(time_limits.Silence(1_000, 50_000), 91_000, config)


def test_a_close_waits_for_its_grace() -> None:
    """From when it was requested, to the millisecond."""
    config = settings.SessionSettings(close_grace_s=5)
    assert time_limits.is_within_close_grace(1_000, 5_999, config)
    assert not time_limits.is_within_close_grace(1_000, 6_000, config)


def test_times_that_are_not_believed() -> None:
    """Before 1970 or more than a day ahead, unless configured."""
    config = settings.SessionSettings()
    now_ms = 1_700_000_000_000
    day_ns = 86_400 * 10**9
    now_ns = now_ms * 10**6
    assert time_limits.plausible_ns(now_ms, config) == (0, now_ns + day_ns)
    wide = settings.SessionSettings(allow_before_1970=True, max_ahead_s=1)
    assert time_limits.plausible_ns(now_ms, wide) == (-(2**63), now_ns + 10**9)
