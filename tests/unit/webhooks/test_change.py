"""A change of state as a webhook: its record beside the session, and its signature."""

import hashlib
import hmac

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.webhooks import change as webhooks_change
from rta_supervisor.webhooks.change import StateChange
from rta_wire.session import State


@given(st.integers(1, 2**53), st.sampled_from(State), st.none() | st.sampled_from(State), st.integers(0, 2**53))
def test_a_note_reads_back(version: int, state: State, previous: State | None, at_ms: int) -> None:
    """What is kept with a session says the same afterwards."""
    note = StateChange(version, state, previous, at_ms)
    field, text = note.to_field()
    assert StateChange.from_field(field.removeprefix("t:"), text) == note


@given(st.binary(min_size=1), st.binary(), st.integers(0, 2**40))
def test_the_signature_covers_time_and_body(secret: bytes, body: bytes, at_s: int) -> None:
    """Made again from its definition."""
    right = hmac.new(secret, str(at_s).encode() + b"." + body, hashlib.sha256).hexdigest()
    assert webhooks_change.sign(secret, body, at_s) == f"t={at_s},v1={right}"
