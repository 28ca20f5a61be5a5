"""Requests and reports that are too old to be handled."""

from rta_supervisor.control import expiry
from rta_supervisor.settings import settings


def test_late_requests_and_their_limits() -> None:
    """One that nobody picked up is refused early, one that waits for something later."""
    config = settings.ControlSettings(pickup_s=2, expire_s=10, retry_s=1)
    refusals = [
        expiry.expired_request(0, now_ms, is_first_delivery=is_first_delivery, config=config)
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
    assert expiry.expired_report(0, 9_999, config) is None
    assert "10 s" in str(expiry.expired_report(0, 10_000, config))
