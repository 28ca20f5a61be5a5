"""Control messages and replies to bytes and back. Checks versions, names and numbers of messages that were received."""

import re
import uuid
from collections.abc import Mapping
from typing import Final

from google.protobuf.message import DecodeError

from rta_wire import entry_ids, errors, limits, name_checks, quoting
from rta_wire.control import payload
from rta_wire.pb import control_pb2
from rta_wire.session import FINAL_STATES, State

VERSION: Final = 1

_CHECKSUM: Final = re.compile(r"[0-9a-f]{64}")
_STATES: Final = frozenset(State)
_INTEGER_MAX: Final = 2**63 - 1
_ARCHIVED_NUMBERS: Final = ("stream_session_id", "version", "entries", "size_bytes", "added")

SessionRequest = (
    control_pb2.OpenSession
    | control_pb2.UpdateSession
    | control_pb2.CloseSession
    | control_pb2.ResurrectSession
    | control_pb2.NoteArchived
)
LookUp = control_pb2.GetSession | control_pb2.ListSessions
"""Requests that change nothing, and are answered with a page of sessions."""

ConfigRequest = control_pb2.PublishConfig | control_pb2.GetConfig

Request = (
    SessionRequest
    | LookUp
    | ConfigRequest
    | control_pb2.StorePiece
    | control_pb2.TrimStream
    | control_pb2.CancelRequest
)
Report = control_pb2.Progress | control_pb2.Heartbeat
Message = Request | Report
ReplyBody = (
    control_pb2.SessionReply
    | control_pb2.SessionPage
    | control_pb2.TrimReply
    | control_pb2.ConfigReply
    | control_pb2.ConfigPart
)

_FIELD: Final = {
    control_pb2.OpenSession: "open",
    control_pb2.UpdateSession: "update",
    control_pb2.CloseSession: "close",
    control_pb2.CancelRequest: "cancel",
    control_pb2.ResurrectSession: "resurrect",
    control_pb2.NoteArchived: "archived",
    control_pb2.GetSession: "get",
    control_pb2.ListSessions: "list",
    control_pb2.StorePiece: "piece",
    control_pb2.TrimStream: "trim",
    control_pb2.PublishConfig: "publish_config",
    control_pb2.GetConfig: "get_config",
    control_pb2.Progress: "progress",
    control_pb2.Heartbeat: "heartbeat",
}


def new_request_id() -> str:
    return uuid.uuid4().hex


def pack(message: Message) -> bytes:
    """The field `m` of an entry in a control stream."""
    control = control_pb2.Control(version=VERSION)
    getattr(control, _FIELD[type(message)]).CopyFrom(message)
    raw = control.SerializeToString()
    if len(raw) > limits.CONTROL_MAX_BYTES:
        raise errors.BadMessage(reason=f"it has {len(raw)} bytes, more than {limits.CONTROL_MAX_BYTES}")
    return raw


def unpack(raw: bytes | None) -> Message:
    """A message of a known version and kind. The id of a request is checked here, since the key of its reply is made of
    it; other names, and numbers, are checked by `check`."""
    if raw is None:
        raise errors.BadMessage(reason="the entry has no field 'm'")
    if len(raw) > limits.CONTROL_MAX_BYTES:
        raise errors.BadMessage(reason=f"it has {len(raw)} bytes, more than {limits.CONTROL_MAX_BYTES}")
    try:
        control = control_pb2.Control.FromString(raw)
    except DecodeError as error:
        raise errors.BadMessage(reason="it is not a Control message") from error
    if control.version != VERSION:
        raise errors.BadMessage(reason=f"its version is {control.version}, not {VERSION}")
    kind = control.WhichOneof("body")
    if kind is None:
        raise errors.BadMessage(reason="it has no body that this version knows")
    message: Message = getattr(control, kind)
    if isinstance(message, Request):
        name_checks.check_request_id(message.request_id)
    return message


_WITHOUT_SESSION = (
    control_pb2.CancelRequest
    | control_pb2.ListSessions
    | control_pb2.StorePiece
    | control_pb2.TrimStream
    | ConfigRequest
)


def session_of(message: Message) -> str:
    """The identity of the session that a message names; empty where it names none by its identity."""
    if isinstance(message, _WITHOUT_SESSION):
        return ""
    return message.identity


def check(message: Message) -> Message:
    """The message itself, if every name and number in it is valid."""
    if isinstance(message, control_pb2.CancelRequest):
        name_checks.check_request_id(message.target_request_id, "Target request id")
    elif isinstance(message, control_pb2.ListSessions):
        _check_list(message)
    elif isinstance(message, control_pb2.StorePiece):
        payload.check_piece(message)
    elif isinstance(message, control_pb2.TrimStream):
        _check_trim(message)
    elif isinstance(message, control_pb2.PublishConfig):
        _check_publish(message)
    elif isinstance(message, control_pb2.GetConfig):
        name_checks.check_config_identifier(message.identifier)
    else:
        _check_session_message(message)
    return message


def _check_session_message(message: SessionRequest | control_pb2.GetSession | Report) -> None:
    if not (isinstance(message, control_pb2.UpdateSession | control_pb2.GetSession) and message.external_id):
        name_checks.check_identity(message.identity)
    if isinstance(message, control_pb2.OpenSession):
        name_checks.check_stream_name(message.stream)
        if message.external_id:
            name_checks.check_external_id(message.external_id)
        _check_payload(message, message.session_json)
        _check_config_identifier(message)
    elif isinstance(message, control_pb2.UpdateSession):
        _check_update(message)
    elif isinstance(message, control_pb2.GetSession):
        _check_external_id(message)
    elif isinstance(message, control_pb2.CloseSession):
        if message.state not in FINAL_STATES:
            raise errors.BadMessage(reason=f"a session can't be closed as {_quoted(message.state)}")
    elif isinstance(message, control_pb2.NoteArchived):
        if not _CHECKSUM.fullmatch(message.checksum):
            raise errors.BadMessage(reason=f"the checksum {_quoted(message.checksum)} is not one")
        if message.until and not entry_ids.is_valid(message.until):
            raise errors.BadMessage(reason=f"{_quoted(message.until)} is no id of an entry")
        _check_integers({name: getattr(message, name) for name in _ARCHIVED_NUMBERS})
    elif isinstance(message, control_pb2.Progress):
        _check_progress(message)


def _check_update(message: control_pb2.UpdateSession) -> None:
    if message.state not in ("", State.WAITING, State.OPEN):
        raise errors.BadMessage(reason=f"a session can't be updated to be {_quoted(message.state)}")
    _check_external_id(message)
    _check_payload(message, message.properties_json)
    _check_config_identifier(message)


def _check_external_id(message: control_pb2.UpdateSession | control_pb2.GetSession) -> None:
    if message.external_id:
        name_checks.check_external_id(message.external_id)
        if message.identity:
            raise errors.BadMessage(reason="it names a session both by its identity and by an external id")


def _check_config_identifier(message: control_pb2.OpenSession | control_pb2.UpdateSession) -> None:
    if message.config_identifier:
        name_checks.check_config_identifier(message.config_identifier)


def _check_publish(message: control_pb2.PublishConfig) -> None:
    _check_payload(message, message.config_json, max_pieces=limits.CONFIG_MAX_PIECES)
    if not message.HasField("payload") and not message.config_json:
        raise errors.BadMessage(reason="it has neither a configuration JSON nor a payload")


def _check_payload(
    message: control_pb2.OpenSession | control_pb2.UpdateSession | control_pb2.PublishConfig,
    text: str,
    max_pieces: int = limits.PAYLOAD_MAX_PIECES,
) -> None:
    if message.HasField("payload"):
        payload.check(message.payload, max_pieces)
        if text:
            raise errors.BadMessage(reason="it has its JSON both in itself and in a payload")


def _check_list(message: control_pb2.ListSessions) -> None:
    details = (len(name) + len(value) for name, value in message.details.items())
    if len(message.text) + sum(details) > limits.SEARCH_TEXT_MAX_CHARS:
        raise errors.BadMessage(reason=f"it searches for more than {limits.SEARCH_TEXT_MAX_CHARS} characters")
    if len(message.details) > limits.SEARCH_MAX_DETAILS:
        raise errors.BadMessage(reason=f"it searches for more than {limits.SEARCH_MAX_DETAILS} details")
    for state in message.states:
        if state not in _STATES:
            raise errors.BadMessage(reason=f"{_quoted(state)} is no state of a session")
    if message.stream:
        name_checks.check_stream_name(message.stream)
    if message.HasField("after"):
        name_checks.check_identity(message.after.identity)
        _check_integers({"after.stream_session_id": message.after.stream_session_id})


def _check_trim(message: control_pb2.TrimStream) -> None:
    name_checks.check_stream_name(message.stream)
    if message.WhichOneof("extent") is None:
        raise errors.BadMessage(reason="it says neither how many entries stay nor from which time on")
    if message.HasField("keep_entries") and not 1 <= message.keep_entries <= limits.TRIM_KEEP_MAX_ENTRIES:
        raise errors.BadMessage(
            reason=f"{message.keep_entries} entries can't be kept: 1 to {limits.TRIM_KEEP_MAX_ENTRIES} can"
        )


def _check_integers(numbers: Mapping[str, int]) -> None:
    """Refuse numbers that no database holds."""
    for name, number in numbers.items():
        if number > _INTEGER_MAX:
            raise errors.BadMessage(reason=f"{name} is {number}, more than {_INTEGER_MAX}")


def _quoted(value: str) -> str:
    return repr(quoting.cut(value, quoting.NAME_MAX_CHARS))


def _check_progress(message: control_pb2.Progress) -> None:
    name_checks.check_unit(message.unit)
    totals = message.totals
    if totals.start_time > totals.end_time and totals.HasField("start_time") and totals.HasField("end_time"):
        raise errors.BadMessage(reason="the time range ends before it starts")


_REPLY_FIELD: Final = {
    control_pb2.SessionReply: "session",
    control_pb2.SessionPage: "page",
    control_pb2.TrimReply: "trim",
    control_pb2.ConfigReply: "config",
    control_pb2.ConfigPart: "config_part",
}


def pack_reply(request_id: str, outcome: ReplyBody | errors.RtaError) -> bytes:
    """A reply with what a request has as its outcome, or with an error by the name of its class."""
    reply = control_pb2.Reply(version=VERSION, request_id=request_id)
    if isinstance(outcome, errors.RtaError):
        reply.error.code = type(outcome).__name__
        reply.error.message = str(outcome)
        reply.error.retriable = outcome.retriable
    else:
        getattr(reply, _REPLY_FIELD[type(outcome)]).CopyFrom(outcome)
    return reply.SerializeToString()


def unpack_reply(raw: bytes) -> control_pb2.SessionReply:
    """The session in a reply; an error in a reply is raised."""
    return _unpack_reply(raw).session


def unpack_page(raw: bytes) -> control_pb2.SessionPage:
    """The page in a reply to a look-up; an error in a reply is raised."""
    return _unpack_reply(raw).page


def unpack_trim(raw: bytes) -> control_pb2.TrimReply:
    """What a request to trim did; an error in a reply is raised."""
    return _unpack_reply(raw).trim


def unpack_config(raw: bytes) -> control_pb2.ConfigReply:
    """The identifier of a configuration that was published; an error in a reply is raised."""
    return _unpack_reply(raw).config


def unpack_config_part(raw: bytes) -> control_pb2.ConfigPart:
    """A part of a configuration; an error in a reply is raised."""
    return _unpack_reply(raw).config_part


def _unpack_reply(raw: bytes) -> control_pb2.Reply:
    try:
        reply = control_pb2.Reply.FromString(raw)
    except DecodeError as error:
        raise errors.BadMessage(reason="it is not a Reply message") from error
    if reply.HasField("error"):
        raise errors.from_reply(reply.error.code, reply.error.message, retriable=reply.error.retriable)
    return reply
