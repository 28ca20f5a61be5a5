"""Deadlines: silent writers, late requests, and times that are not believed."""

from rta_supervisor.control import deadlines
from rta_supervisor.settings import settings


def test_silence_counts_from_when_we_could_hear() -> None:
    """A writer is gone after the limit, but not because we were away ourselves."""
    config = settings.SessionSettings(writer_silent_s=90)
    silent = deadlines.Silence(heard_ms=1_000, listening_since_ms=0)
    assert not deadlines.is_abandoned(silent, 90_999, config)
    assert deadlines.is_abandoned(silent, 91_000, config)
    assert not deadlines.is_abandoned(deadlines.Silence(1_000, 50_000), 91_000, config)


def test_late_requests_and_their_limits() -> None:
    """One that nobody picked up is refused early, one that waits for something later."""
    config = settings.ControlSettings(pickup_s=2, expire_s=10, retry_s=1)
    verdicts = [
        deadlines.decide_request(0, now_ms, was_delivered_before=waited, config=config)
        for waited in (False, True)
        for now_ms in (1_999, 2_000, 9_999, 10_000)
    ]
    serve, late = deadlines.RequestDecision.SERVE, deadlines.RequestDecision.TOO_LATE
    assert verdicts == [serve, late, late, late, serve, serve, serve, late]


def test_times_that_are_not_believed() -> None:
    """Before 1970 or more than a day ahead, unless configured."""
    config = settings.SessionSettings()
    now_ms = 1_700_000_000_000
    day_ns = 86_400 * 10**9
    now_ns = now_ms * 10**6
    assert deadlines.plausible_ns(now_ms, config) == (0, now_ns + day_ns)
    wide = settings.SessionSettings(allow_before_1970=True, max_ahead_s=1)
    assert deadlines.plausible_ns(now_ms, wide) == (-(2**63), now_ns + 10**9)
