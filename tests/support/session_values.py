"""Values that a supervisor passes around, with what a test does not care about filled in."""

from typing import Any

from rta_supervisor.control.entry import ControlEntry
from rta_supervisor.session.model import SessionRecord, SessionRef
from rta_wire import entry_ids, keys
from rta_wire.session import State


def control_entry(
    principal: str = keys.DEFAULT_PRINCIPAL, entry_id: str = "1-0", *, sent_ms: int | None = None
) -> ControlEntry:
    """An entry of a principal's control stream, without its message. `sent_ms`: in place of an entry id."""
    entry_id = entry_id if sent_ms is None else entry_ids.format_id(sent_ms)
    return ControlEntry(keys.Keys().requests(principal), principal, entry_id, raw=None, is_first_delivery=True)


def session_record(
    identity: str = "run", *, stream: str = "rig", stream_session_id: int = 1, **fields: Any
) -> SessionRecord:
    """An open session of `p` without data, in its first version."""
    ref = SessionRef(identity, stream, stream_session_id)
    defaults = {"state": State.OPEN, "principal": "p", "version": 1, "opened_ms": 1, "document": b"{}"}
    return SessionRecord(ref, **{**defaults, **fields})
