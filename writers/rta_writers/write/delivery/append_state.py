"""What an exactly-once appender knows of its unit and decides from it, without a connection."""

import enum
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Self

from rta_wire.control.totals import Mark
from rta_writers.control import session_resolver
from rta_writers.write import fingerprint
from rta_writers.write.delivery import appender


class AppendState(enum.Enum):
    """What an appender knows of the mark of its unit."""

    UNREAD = "the mark has to be read"
    WATCHED = "the mark is known, and the keys are watched from the moment that it was read"
    SENT = "a transaction and the next read of the mark are under way"


class AppendEvent(enum.Enum):
    """What changes the state of an appender."""

    MARK_READ = "the keys were watched and the mark was read"
    TRANSACTION_SENT = "a transaction is sent, and the next read of the mark behind it"
    REPLIES_READ = "the replies to both were read, whether the transaction took place or not"
    CONNECTION_CLOSED = "the connection is closed: only the mark can say what became of a transaction"


TRANSITIONS: Final[dict[tuple[AppendState, AppendEvent], AppendState]] = {
    (AppendState.UNREAD, AppendEvent.MARK_READ): AppendState.WATCHED,
    (AppendState.WATCHED, AppendEvent.TRANSACTION_SENT): AppendState.SENT,
    (AppendState.SENT, AppendEvent.REPLIES_READ): AppendState.WATCHED,
    (AppendState.UNREAD, AppendEvent.CONNECTION_CLOSED): AppendState.UNREAD,
    (AppendState.WATCHED, AppendEvent.CONNECTION_CLOSED): AppendState.UNREAD,
    (AppendState.SENT, AppendEvent.CONNECTION_CLOSED): AppendState.UNREAD,
}


class GroupDecision(enum.Enum):
    """What is done with a group of rows once the mark is known."""

    FINISH = "all of its rows are in the stream"
    SEND = "its rows are missing, or the last ones are"
    REFUSE_CHANGED = "other rows are in the stream in their place"
    REFUSE_CLOSED = "the session takes no bursts"
    REFUSE_GAP = "rows before it are missing"


class WatchedUnit(NamedTuple):
    """What Redis says of a unit."""

    gate: bytes | None
    mark: Mark
    rows: int
    """Rows of the epoch that are in the stream."""
    fingerprint: int | None
    """The fingerprint of these rows, None where it is unknown."""

    @classmethod
    def from_replies(cls, replies: Sequence[Any], epoch: int) -> Self:
        """From the replies to the commands that watch a unit."""
        _, gate, raw_mark, raw_fence = replies
        mark = Mark() if raw_mark is None else Mark.from_text(raw_mark.decode())
        fence = (raw_fence or b"").split()
        stored = int(fence[2]) if len(fence) > 2 and int(fence[0]) == epoch else None
        return cls(gate, mark, mark.rows_done(epoch), stored)

    def texts(self) -> tuple[bytes, bytes]:
        """Mark and fence as Redis keeps them."""
        fence = b"%d %d" % (self.mark.epoch, self.mark.rows)
        return self.mark.text().encode(), fence if self.fingerprint is None else b"%b %d" % (fence, self.fingerprint)


def decide(unit: WatchedUnit, group: appender.RowGroup, first_row: int, fingerprint_before: int) -> GroupDecision:
    """What to do with a group that begins at `first_row` of the epoch, after rows with `fingerprint_before`."""
    written = unit.rows - first_row
    if unit.fingerprint is not None and 0 < written <= group.rows:
        own_fingerprint = (fingerprint_before + group.fingerprint_rows(written)) & fingerprint.BITS
        if own_fingerprint != unit.fingerprint:
            return GroupDecision.REFUSE_CHANGED
    if written >= group.rows:
        return GroupDecision.FINISH
    if unit.gate != session_resolver.GATE_OPEN:
        return GroupDecision.REFUSE_CLOSED
    return GroupDecision.SEND if written >= 0 else GroupDecision.REFUSE_GAP
