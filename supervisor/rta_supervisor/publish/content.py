"""What a Session Service is told of a session: the operations of one call, made from its Session JSON. Pure.

A description is always told as a whole, with what is absent cleared: it comes out the same whatever the service had.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Annotated, Final

import msgspec
from google.protobuf import empty_pb2, wrappers_pb2

from rta_supervisor.catalogue.publications.model import NOTHING_DELIVERED, DuePublication
from rta_wire import errors, limits
from rta_wire.pb import session_service_pb2 as pb

DETAILS: Final = ""
"""The category that `details` of the Session JSON are told as; those of `extDetails` have the names of their groups."""

NO_DETAILS: Final = "{}"
_NULL: Final = b"null"

_EMPTY: Final = empty_pb2.Empty()
_HEARTBEAT: Final = pb.SessionUpdate(update_heartbeat=_EMPTY)


class _Binding(msgspec.Struct):
    identifier: str
    channelOffset: Annotated[int, msgspec.Meta(ge=0, le=limits.CHANNEL_ID_MAX)] = 0  # noqa: N815 - a name of the wire


class _Document(msgspec.Struct):
    """The properties of Session JSON that are told. Details are passed on as they are written."""

    timestamp: str
    identifier: str
    details: msgspec.Raw = msgspec.Raw(_NULL)
    extDetails: dict[str, msgspec.Raw] | None = None  # noqa: N815 - a name of the wire
    type: str | None = None
    group: str | None = None
    version: str | int | None = None
    quality: float | None = None
    configBindings: list[_Binding] | None = None  # noqa: N815 - a name of the wire


class Description(msgspec.Struct, frozen=True):
    """Everything that is told of a session, parsed from its Session JSON."""

    document: _Document
    digest: str

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories of details that the session has, besides `DETAILS`."""
        return tuple(sorted(self.document.extDetails or ()))

    @property
    def configs(self) -> tuple[str, ...]:
        """Identifiers of the configurations that the session is bound to."""
        return tuple(binding.identifier for binding in self.document.configBindings or ())


def digest(json: str) -> str:
    """Tells two Session JSON documents apart."""
    return hashlib.blake2b(json.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def parse(json: str) -> Description:
    """Session JSON of the catalogue. Raises `BadSessionJson` where it can't be told to anybody."""
    try:
        document = msgspec.json.decode(json, type=_Document)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise errors.BadSessionJson(where="$", reason=str(error)) from error
    return Description(document, digest(json))


def described(due: DuePublication, description: Description) -> pb.CreateOrUpdateSessionRequest:
    """The call that tells everything of a session: in whatever state the service has it, it is as the catalogue says
    afterwards. Raises `BadSessionJson` for values that the call has no room for."""
    document = description.document
    try:
        return pb.CreateOrUpdateSessionRequest(
            identity=due.identity,
            create_if_not_exists=pb.NewSession(
                state=due.state.number, timestamp=document.timestamp, identifier=document.identifier
            ),
            # The range first, and the state last: one that is shown as closed has its whole range.
            updates=[
                *_range_updates(due),
                pb.SessionUpdate(set_timestamp=document.timestamp),
                pb.SessionUpdate(set_identifier=document.identifier),
                *_property_updates(document),
                *_detail_updates(description, sorted(due.categories)),
                _binding_update(document),
                pb.SessionUpdate(set_state=due.state.number),
            ],
        )
    except ValueError as error:
        raise errors.BadSessionJson(where="$", reason=str(error)) from error


def refreshed(due: DuePublication) -> pb.CreateOrUpdateSessionRequest:
    """The call about a session whose description the service has: its time range where that grew, else a heartbeat."""
    update = pb.SessionUpdate(extend_time_range=_range(due)) if due.has_grown else _HEARTBEAT
    return pb.CreateOrUpdateSessionRequest(identity=due.identity, updates=[update])


def _range(due: DuePublication) -> pb.TimeRange:
    return pb.TimeRange(start_time=due.start_ns, end_time=due.end_ns)


def _range_updates(due: DuePublication) -> Iterator[pb.SessionUpdate]:
    is_known = due.start_ns is not None and due.end_ns is not None
    if due.told_version > NOTHING_DELIVERED:
        if is_known:
            yield pb.SessionUpdate(extend_time_range=_range(due))
    elif is_known:
        # The service may have a range of an earlier session of this identity.
        yield pb.SessionUpdate(set_time_range=_range(due))
    else:
        yield pb.SessionUpdate(clear_time_range=_EMPTY)


def _property_updates(document: _Document) -> Iterator[pb.SessionUpdate]:
    if document.type is None:
        yield pb.SessionUpdate(clear_type=_EMPTY)
    else:
        yield pb.SessionUpdate(set_type=wrappers_pb2.StringValue(value=document.type))
    if document.quality is None:
        yield pb.SessionUpdate(clear_quality=_EMPTY)
    else:
        yield pb.SessionUpdate(set_quality=document.quality)
    if document.group is None:
        yield pb.SessionUpdate(clear_group=_EMPTY)
    else:
        yield pb.SessionUpdate(set_group=document.group)
    if document.version is None:
        yield pb.SessionUpdate(clear_version=_EMPTY)
    else:
        yield pb.SessionUpdate(set_version=str(document.version))


def _detail_updates(description: Description, told: Iterable[str]) -> Iterator[pb.SessionUpdate]:
    """Details of every category, and none in those that the service may have and the session does not."""
    groups = description.document.extDetails or {}
    # A group without a name would take the place of the details.
    by_category = {**groups, DETAILS: description.document.details}
    for category in dict.fromkeys((*by_category, *told)):
        raw = bytes(by_category.get(category, msgspec.Raw(_NULL)))
        json = NO_DETAILS if raw.strip() == _NULL else raw.decode()
        yield pb.SessionUpdate(set_details_json=pb.JsonDetails(category=category, json=json))


def _binding_update(document: _Document) -> pb.SessionUpdate:
    bindings = [
        pb.ConfigBinding(identifier=binding.identifier, channel_offset=binding.channelOffset)
        for binding in document.configBindings or ()
    ]
    return pb.SessionUpdate(set_config_bindings=pb.ConfigBindings(bindings=bindings))
