"""Section `[other_producers]`: what is done with streams and sessions of the RTA protocol that no supervisor opened."""

import msgspec

from rta_supervisor.settings.sections import checks


class OtherProducersSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """By default they are left alone."""

    trim_streams: bool = False
    remove_sessions_after_s: float = 0

    def check(self) -> None:
        name = "other_producers.remove_sessions_after_s"
        checks.refuse_first([(name, self.remove_sessions_after_s < 0, checks.BELOW_0)])
