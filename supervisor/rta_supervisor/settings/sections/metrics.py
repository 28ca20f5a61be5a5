"""Section `[metrics]`: what is counted and how often Redis is observed."""

import msgspec

from rta_supervisor.settings.sections import checks


class MetricsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rhythm of the sampler, and whether history is written to Redis."""

    survey_s: float = 10.0
    slots: bool = True

    def check(self) -> None:
        checks.refuse_first([("metrics.survey_s", self.survey_s <= 0, checks.NOT_ABOVE_0)])
