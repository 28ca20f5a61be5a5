"""A change of state as a note that is kept with a session, and as the body of a post."""

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.session.model import SessionRecord
from rta_supervisor.webhooks import change as changes
from rta_supervisor.webhooks.change import StateChange
from rta_wire import session
from rta_wire.control.totals import Totals
from rta_wire.session import State
from tests.support.session_values import session_record


def record(document: bytes = b"{}", unqueued: dict[str, str] | None = None) -> SessionRecord:
    return session_record(
        stream_session_id=7, document=document, totals=Totals(1, 2, 3, 4, 10, 20), unqueued_changes=unqueued or {}
    )


def document(identifier: str) -> bytes:
    return session.dump(session.build("run-1", identifier=identifier))


@given(st.integers(1, 2**53), st.sampled_from(State), st.none() | st.sampled_from(State), st.integers(0, 2**53))
def test_a_note_reads_back(version: int, state: State, previous: State | None, at_ms: int) -> None:
    """With the version under which it is kept, it holds all of a change."""
    change = StateChange(version, state, previous, at_ms)
    assert StateChange.from_note(str(version), change.to_note()) == change


def test_pending_changes_are_in_the_order_of_their_versions() -> None:
    """As numbers: version 10 comes after version 9."""
    unqueued = {"10": "closed open 5", "9": "open - 4"}
    assert changes.pending_changes(record(unqueued=unqueued)) == [
        StateChange(9, State.OPEN, None, 4),
        StateChange(10, State.CLOSED, State.OPEN, 5),
    ]


def test_the_id_of_a_payload_belongs_to_the_change() -> None:
    """The same for the same change, whatever the session has become since; another one for another change."""
    change = StateChange(2, State.OPEN, None, 5)
    payload = changes.WebhookPayload.build(record(document("Run 1")), change)
    assert payload.id == changes.WebhookPayload.build(record(document("Run 2")), change).id
    assert payload.id != changes.WebhookPayload.build(record(), StateChange(3, State.OPEN, None, 5)).id
    assert (payload.identifier, payload.time_range) == ("Run 1", ("10", "20"))
    assert changes.WebhookPayload.build(record(b"no JSON"), change).identifier == ""
