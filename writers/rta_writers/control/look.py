"""Asks the supervisor for sessions: page by page, and part by part where a Session JSON is large."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from rta_wire import errors, name_checks
from rta_wire.control import messages
from rta_wire.pb import control_pb2
from rta_wire.session import State
from rta_writers.control.requests import RequestSender
from rta_writers.control.session_info import SessionInfo
from rta_writers.options import arguments

MAX_ATTEMPTS: Final = 10
"""How often a large session is read that changes between its parts."""

PAGE_MAX_SESSIONS: Final = 1000
"""Sessions of one request. The supervisor gives fewer, as many as it likes."""


def get(sender: RequestSender, identity: str, external_id: str) -> SessionInfo:
    """One session with all of its JSON."""
    for _ in range(MAX_ATTEMPTS):
        found = _get_part(sender, identity, external_id, 0)
        document = found.json
        while len(document) < found.json_bytes:
            part = _get_part(sender, found.identity, "", len(document))
            if _version(part) != _version(found):
                break
            document += part.json
        else:
            return SessionInfo.from_message(found, document)
    reason = "it changed each time while it was read. Ask again"
    raise errors.Unavailable(what=f"Session {identity or external_id!r}", reason=reason)


def identity_of(sender: RequestSender, external_id: str) -> str:
    """The identity of the session that an external id of the principal stands for, or stood for last."""
    return _get_part(sender, "", external_id, 0).identity


def _get_part(sender: RequestSender, identity: str, external_id: str, offset: int) -> control_pb2.FoundSession:
    [found] = sender.look_up(
        control_pb2.GetSession(
            request_id=messages.new_request_id(), identity=identity, external_id=external_id, json_offset=offset
        )
    ).sessions
    return found


def _version(found: control_pb2.FoundSession) -> tuple[int, int, int]:
    return found.stream_session_id, found.version, found.json_bytes


def build_query(
    *,
    state: str | Sequence[str],
    stream: str,
    text: str,
    since: str | datetime | int | None,
    until: str | datetime | int | None,
    details: Mapping[str, str],
) -> control_pb2.ListSessions:
    """A search from the arguments of a call, without the id of a request."""
    states = (
        [state] if isinstance(state, str) else list(arguments.iterable("state", state, "a state, or several in a list"))
    )
    query = control_pb2.ListSessions(
        text=arguments.text("text", text),
        states=[arguments.one_of("state", name, State) for name in states],
        stream=name_checks.check_stream_name(stream) if arguments.text("stream", stream) else "",
        details=_details(details),
    )
    if since is not None:
        query.since_ns = arguments.point_in_time_ns("since", since)
    if until is not None:
        query.until_ns = arguments.point_in_time_ns("until", until)
    return query


def _details(details: Any) -> dict[str, str]:
    if not isinstance(details, Mapping):
        raise arguments.refuse("details", details, "a dict of names and values")
    return {
        arguments.not_empty("details", name): arguments.text_or_number(f"details[{name!r}]", value)
        for name, value in details.items()
    }


def iter_sessions(
    sender: RequestSender,
    query: control_pb2.ListSessions,
    limit: int | None = None,
    *,
    page_sessions: int = PAGE_MAX_SESSIONS,
) -> Iterator[SessionInfo]:
    """The sessions that match, at most `limit` of them, the newest first. Each page is asked for when it is needed."""
    count = 0
    while True:
        query.request_id = messages.new_request_id()
        query.limit = page_sessions if limit is None else min(page_sessions, limit - count)
        page = sender.look_up(query)
        yield from (SessionInfo.from_message(found, found.json) for found in page.sessions)
        count += len(page.sessions)
        if not page.HasField("next") or count == limit:
            return
        query.after.CopyFrom(page.next)
