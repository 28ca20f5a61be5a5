"""What time does to sessions and messages. Pure: a snapshot and a time go in, a decision comes out."""

import enum

import msgspec

from rta_supervisor.settings import settings
from rta_wire import limits


class Silence(msgspec.Struct, frozen=True):
    """When somebody was last heard of. All in ms since the Unix epoch."""

    heard_ms: int
    """Last report of the session: data or a heartbeat."""

    listening_since_ms: int
    """Since when we could have heard anything: before that, silence is ours and not the writer's."""


class RequestDecision(enum.Enum):
    """What to do with a message."""

    SERVE = enum.auto()
    TOO_LATE = enum.auto()


def is_abandoned(silence: Silence, now_ms: int, config: settings.SessionSettings) -> bool:
    """Whether a writer has been silent for so long that it counts as gone."""
    return now_ms - max(silence.heard_ms, silence.listening_since_ms) >= config.writer_silent_s * 1000


def is_within_close_grace(asked_ms: int, now_ms: int, config: settings.SessionSettings) -> bool:
    """Whether a close goes on waiting for data that it expects."""
    return now_ms < asked_ms + config.close_grace_s * 1000


def decide_request(
    sent_ms: int, now_ms: int, *, was_delivered_before: bool, config: settings.ControlSettings
) -> RequestDecision:
    """Whether to serve a request. One that nobody picked up in time belongs to a client that is gone by now."""
    limit_s = config.expire_s if was_delivered_before else config.pickup_s
    return RequestDecision.TOO_LATE if now_ms - sent_ms >= limit_s * 1000 else RequestDecision.SERVE


def plausible_ns(now_ms: int, config: settings.SessionSettings) -> tuple[int, int]:
    """Between which times samples can have been taken. A range can't be undone, so the doubtful stays out."""
    latest_ns = (now_ms + int(config.max_ahead_s * 1000)) * 1_000_000
    return limits.TIME_NS_MIN if config.allow_before_1970 else 0, latest_ns
