"""What time decides about sessions: silent writers, late closes, implausible times of samples. Pure."""

import msgspec

from rta_supervisor.settings import settings
from rta_wire import limits


class Silence(msgspec.Struct, frozen=True):
    """Since when a writer is silent, as far as this supervisor can tell. Times in ms since the Unix epoch."""

    reported_ms: int
    """The last report of the session: data or a heartbeat."""

    listening_since_ms: int
    """Since when every report that is sent is read: before that, a report may have been missed."""


def is_abandoned(silence: Silence, now_ms: int, config: settings.SessionSettings) -> bool:
    """Whether a writer has been silent for so long that it counts as gone."""
    return now_ms - max(silence.reported_ms, silence.listening_since_ms) >= config.writer_silent_s * 1000


def is_within_close_grace(requested_ms: int, now_ms: int, config: settings.SessionSettings) -> bool:
    """Whether a close goes on waiting for data that is expected."""
    return now_ms < close_grace_ends_ms(requested_ms, config)


def close_grace_ends_ms(requested_ms: int, config: settings.SessionSettings) -> int:
    """When a close that was requested at a time waits no longer for data that is expected."""
    return requested_ms + int(config.close_grace_s * 1000)


def plausible_ns(now_ms: int, config: settings.SessionSettings) -> tuple[int, int]:
    """Between which times samples can have been taken. A time range never shrinks, so a doubtful time stays out."""
    latest_ns = (now_ms + int(config.max_ahead_s * 1000)) * 1_000_000
    return limits.TIME_NS_MIN if config.allow_before_1970 else 0, latest_ns
