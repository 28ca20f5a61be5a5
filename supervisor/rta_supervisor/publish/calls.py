"""The calls of one round, each made from what is due of a session, and what came of them. Pure."""

from rta_supervisor.catalogue.publications.model import Delivery, DuePublication, RefusedPublication, categories_line
from rta_supervisor.publish import content


class SessionCall:
    """One call that is to be made, once it has a sequence."""

    __slots__ = ("categories", "configs", "digest", "due", "is_description", "new_categories", "request")

    def __init__(self, due: DuePublication) -> None:
        """Raises `BadSessionJson` where the session can't be told."""
        self.due = due
        self.configs: tuple[str, ...] = ()
        self.categories = due.told_categories
        self.new_categories = ""
        """The line to be saved before the call: until its reply comes it is not known whether the service has them."""
        self.digest = due.told_digest
        self.is_description = not due.is_described or (bool(due.json) and content.digest(due.json) != due.told_digest)
        if not self.is_description:
            self.request = content.refreshed(due)
            return
        description = content.parse(due.json)
        self.request = content.described(due, description)
        self.configs, self.digest = description.configs, description.digest
        self.categories = categories_line(description.categories)
        if not due.categories.issuperset(description.categories):
            self.new_categories = self.categories

    @property
    def kind(self) -> str:
        """What is told, as a label of metrics."""
        if self.is_description:
            return "described"
        return "extended" if self.request.updates[0].HasField("extend_time_range") else "heartbeat"

    def delivered(self, at_ms: int) -> Delivery:
        """What the service took with the call."""
        told_categories = self.due.told_categories + self.new_categories
        sequence = self.request.sequence.value
        return Delivery(self.due, sequence, self.digest, told_categories, self.categories, at_ms)


class RoundOutcome:
    """What came of the calls of one round."""

    def __init__(self, at_ms: int) -> None:
        """`at_ms`: when what the calls tell was read. Periods begin then: how long calls take does not add to them."""
        self.at_ms = at_ms
        self.deliveries: list[Delivery] = []
        self.refusals: list[RefusedPublication] = []
        self.lost: list[str] = []
        self.is_cut = False
        """Whether the round was over before every call was made."""
