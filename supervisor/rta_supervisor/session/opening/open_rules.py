"""Whether an open may be given a session that is there, and what an external id stands for. Pure: decided from what
Redis holds about the session and about the id.
"""

import enum

import msgspec

from rta_supervisor.session.model import SessionRecord
from rta_wire import day_streams, errors
from rta_wire.pb import control_pb2


class Binding(msgspec.Struct, frozen=True):
    """Which session an external id of a principal is bound to."""

    identity: str
    stream_session_id: int | None
    """None until the session is known to have been created."""


class BindingState(enum.Enum):
    """What the session of a binding is to the principal of the external id."""

    UNFINISHED = "unfinished"
    """Nobody has created it yet: an open is being served, or was interrupted."""

    LIVE = "live"
    """It is the principal's own, and open."""

    ENDED = "ended"
    """It was the principal's own, and is closed. Redis may not have it any more."""

    VOID = "void"
    """It belongs to somebody else: an open that was refused has left the binding."""


def binding_state(binding: Binding, record: SessionRecord | None, *, principal: str, external_id: str) -> BindingState:
    """`record`: the session that Redis has under the identity of the binding, whose ever it is."""
    is_created = binding.stream_session_id is not None
    if is_created and (record is None or record.ref.stream_session_id != binding.stream_session_id):
        return BindingState.ENDED
    if record is None:
        return BindingState.UNFINISHED
    if not owns(record, principal, external_id):
        return BindingState.VOID
    return BindingState.ENDED if record.state.is_closed else BindingState.LIVE


def owns(record: SessionRecord, principal: str, external_id: str) -> bool:
    """Whether a session may be bound to an external id: it is the principal's, and was not opened with another one."""
    return record.principal == principal and record.external_id in ("", external_id)


def check_same(record: SessionRecord, principal: str, request: control_pb2.OpenSession) -> None:
    """Refuse an open whose identity belongs to another session."""
    identity = request.identity
    if record.principal != principal:
        raise errors.SessionConflict(identity=identity, what="the principal", theirs=record.principal, ours=principal)
    if not day_streams.is_stream_of(record.ref.stream, request.stream):
        raise errors.SessionConflict(
            identity=identity, what="the stream", theirs=record.ref.stream, ours=request.stream
        )
    if record.state.is_closed:
        raise errors.SessionClosed(identity=identity, state=record.state.value)


def check_same_external_id(identity: str, theirs: str, ours: str) -> None:
    """Refuse an open whose identity belongs to a session with another external id. A session has one at most."""
    if theirs not in ("", ours):
        raise errors.SessionConflict(identity=identity, what="the external id", theirs=theirs, ours=ours)
