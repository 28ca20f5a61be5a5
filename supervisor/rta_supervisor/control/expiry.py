"""Which messages are too old to be handled. Pure: ages and settings go in, the error for the message comes out."""

from rta_supervisor.settings import settings
from rta_wire import errors


def expired_request(
    sent_ms: int, now_ms: int, *, is_first_delivery: bool, config: settings.ControlSettings
) -> errors.RequestExpired | None:
    """Why a request is not served any more; None where it is served.

    A request that nobody picked up in time comes from a client that is gone by now. One that was picked up may have to
    wait for something, and has more time.
    """
    limit_s = config.pickup_s if is_first_delivery else config.expire_s
    if now_ms - sent_ms < limit_s * 1000:
        return None
    return errors.RequestExpired(waited_s=(now_ms - sent_ms) // 1000, limit_s=limit_s)


def expired_report(sent_ms: int, now_ms: int, config: settings.ControlSettings) -> errors.BadMessage | None:
    """Why a report that was read before is not folded any more; None where it is. An unread one never expires."""
    if now_ms - sent_ms < config.expire_s * 1000:
        return None
    return errors.BadMessage(reason=f"it could not be handled for {config.expire_s} s")
