"""Section `[session]`: how long sessions are kept, how often they are published, and when a writer counts as silent."""

import msgspec

from rta_supervisor.settings.sections import checks
from rta_wire import day_streams


class SessionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Times of a session's life."""

    open_ttl_s: int = 7 * day_streams.DAY_S
    closed_ttl_s: int = day_streams.DAY_S
    refresh_ms: int = 100
    idle_refresh_s: float = 5.0
    close_grace_s: float = 30.0
    writer_silent_s: float = 90.0
    external_id_ttl_s: int = 2 * day_streams.DAY_S
    max_ahead_s: float = day_streams.DAY_S
    allow_before_1970: bool = False

    def check(self) -> None:
        expires_first = "it is less than two session.idle_refresh_s"
        checks.refuse_first(
            [
                ("session.open_ttl_s", self.open_ttl_s < 1, checks.NOT_ABOVE_0),
                ("session.closed_ttl_s", self.closed_ttl_s < 1, checks.NOT_ABOVE_0),
                ("session.external_id_ttl_s", self.external_id_ttl_s < 1, checks.NOT_ABOVE_0),
                ("session.refresh_ms", self.refresh_ms < 1, checks.NOT_ABOVE_0),
                ("session.idle_refresh_s", self.idle_refresh_s <= 0, checks.NOT_ABOVE_0),
                ("session.open_ttl_s", self.open_ttl_s < self.idle_refresh_s * 2, expires_first),
                ("session.writer_silent_s", self.writer_silent_s <= 0, checks.NOT_ABOVE_0),
                ("session.max_ahead_s", self.max_ahead_s < 0, checks.BELOW_0),
            ]
        )
