"""Deadlines: silent writers, late closes, expired messages, and times that are not believed."""

from rta_supervisor.control import deadlines
from rta_supervisor.settings import settings


def test_silence_counts_from_when_every_report_is_read() -> None:
    """A writer is gone after the limit, but not because its reports were not read."""
    config = settings.SessionSettings(writer_silent_s=90)
    silence = deadlines.Silence(reported_ms=1_000, listening_since_ms=0)
    assert not deadlines.is_abandoned(silence, 90_999, config)
    assert deadlines.is_abandoned(silence, 91_000, config)
    assert not deadlines.is_abandoned(deadlines.Silence(1_000, 50_000), 91_000, config)


def test_a_close_waits_for_its_grace() -> None:
    """From when it was requested, to the millisecond."""
    config = settings.SessionSettings(close_grace_s=5)
    assert deadlines.is_within_close_grace(1_000, 5_999, config)
    assert not deadlines.is_within_close_grace(1_000, 6_000, config)


def test_late_requests_and_their_limits() -> None:
    """One that nobody picked up is refused early, one that waits for something later."""
    config = settings.ControlSettings(pickup_s=2, expire_s=10, retry_s=1)
    refusals = [
        deadlines.expired_request(0, now_ms, is_first_delivery=is_first_delivery, config=config)
        for is_first_delivery in (True, False)
        for now_ms in (1_999, 2_000, 9_999, 10_000)
    ]
    assert [refusal is None for refusal in refusals] == [True, False, False, False, True, True, True, False]
    facts = [refusal.facts for refusal in refusals if refusal is not None]
    assert facts == [
        {"waited_s": 2, "limit_s": 2},
        {"waited_s": 9, "limit_s": 2},
        {"waited_s": 10, "limit_s": 2},
        {"waited_s": 10, "limit_s": 10},
    ]


def test_a_report_that_was_read_before_expires() -> None:
    """Once it could not be handled for as long as a request may wait."""
    config = settings.ControlSettings(pickup_s=2, expire_s=10, retry_s=1)
    assert deadlines.expired_report(0, 9_999, config) is None
    assert "10 s" in str(deadlines.expired_report(0, 10_000, config))


def test_times_that_are_not_believed() -> None:
    """Before 1970 or more than a day ahead, unless configured."""
    config = settings.SessionSettings()
    now_ms = 1_700_000_000_000
    day_ns = 86_400 * 10**9
    now_ns = now_ms * 10**6
    assert deadlines.plausible_ns(now_ms, config) == (0, now_ns + day_ns)
    wide = settings.SessionSettings(allow_before_1970=True, max_ahead_s=1)
    assert deadlines.plausible_ns(now_ms, wide) == (-(2**63), now_ns + 10**9)
