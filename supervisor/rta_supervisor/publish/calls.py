"""The calls of one round, each made from what is due of a session, and what came of them. Pure."""

from rta_supervisor.catalogue.publications.model import Delivery, DuePublication, RefusedPublication
from rta_supervisor.publish import content


class SessionCall:
    """One call that is to be made."""

    __slots__ = ("categories", "configs", "digest", "due", "is_description", "request", "told_categories")

    def __init__(self, due: DuePublication, sequence: int) -> None:
        """Raises `BadSessionJson` where the session can't be told."""
        self.due = due
        self.configs: tuple[str, ...] = ()
        self.categories = self.told_categories = due.categories
        self.digest = due.told_digest
        self.is_description = not due.is_described or (bool(due.json) and content.digest(due.json) != due.told_digest)
        if not self.is_description:
            self.request = content.refreshed(due, sequence)
            return
        description = content.parse(due.json)
        self.request = content.described(due, description, sequence)
        self.configs, self.digest = description.configs, description.digest
        # Until its reply comes it is not known whether the call has arrived: the service may have those of both.
        self.told_categories = description.categories
        self.categories = tuple(sorted({*due.categories, *description.categories}))

    @property
    def kind(self) -> str:
        """What is told, as a label of metrics."""
        if self.is_description:
            return "described"
        return "extended" if self.request.updates[0].HasField("extend_time_range") else "heartbeat"


class RoundOutcome:
    """What came of the calls of one round."""

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        self.deliveries: list[Delivery] = []
        self.refusals: list[RefusedPublication] = []
        self.lost: list[str] = []
        self.is_cut = False
        """Whether the round was over before every call was made."""
