"""Checks the keys that clients can spoil: those of live sessions, and the control streams. Each has to hold what it
should, and no stream may have run out of ids.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe.doctor.findings import Finding, bad, name_some, ok
from rta_supervisor.observe.queries import RedisQueries
from rta_supervisor.observe.summaries import SessionSummary
from rta_supervisor.settings import settings
from rta_supervisor.transport import paging, replies
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, errors, keys

AHEAD_MAX_MS: Final = 24 * 3600 * 1000
"""How far ahead of the clock the last id of a stream may be. Ids never go back, so one that is far ahead stays."""

NO_KEY: Final = "none"


class KeyChecks:
    """The check of the keys of sessions."""

    def __init__(self, link: Link, config: settings.Settings, *, max_keys: int) -> None:
        self._link = link
        self._config = config
        self._keys = config.keys
        self._queries = RedisQueries(link, config)
        self._max_keys = max_keys

    async def spoilt_keys(self) -> Finding:
        """Whether a key of a live session holds something else than it should, or a stream has used up its ids."""
        sessions = [session for session in await self._queries.sessions() if not session.state.is_closed]
        expected = [pair for session in sessions for pair in self._types(session)][: self._max_keys]
        spoilt = await self._of_wrong_type(expected)
        control = self._config.control
        streams = [self._keys.requests(principal) for principal in control.requesters]
        streams += [self._keys.reports(principal) for principal in control.principals]
        streams += [keys.stream(name) for name in dict.fromkeys(session.stream for session in sessions)]
        spoilt += await self._ahead([key for key in streams if key not in spoilt][: self._max_keys])
        if spoilt:
            remedy = f"End the sessions that use it, then: rta-supervisor doctor --repair '{spoilt[0]}'"
            found = f"{len(spoilt):,} spoilt: {name_some(spoilt)}"
            return bad("spoilt keys", found, remedy, errors.Unavailable.exit_code)
        if unread := [f"{session.identity} ({session.spoilt})" for session in sessions if session.spoilt]:
            remedy = "They end as truncated, because not everything of them can be counted. See who writes them."
            return bad("spoilt keys", f"not read whole: {name_some(unread)}", remedy, errors.Unavailable.exit_code)
        return ok("spoilt keys", f"none of {len(expected):,}")

    def _types(self, session: SessionSummary) -> Iterable[tuple[str, str]]:
        """The keys of a session with their types."""
        stream, number = session.stream, session.stream_session_id
        yield self._keys.session(session.identity), "hash"
        yield self._keys.session_state(session.identity), "hash"
        yield keys.stream(stream), "stream"
        yield self._keys.gate(stream, number), "string"
        yield self._keys.published(stream, number), "string"
        yield self._keys.marks(stream, number), "hash"

    async def _of_wrong_type(self, expected: Sequence[tuple[str, str]]) -> list[str]:
        wrong: dict[str, None] = {}
        for page in paging.pages(expected, paging.PAGE_SIZE):
            types: list[Any] = await self._link.do_all([("TYPE", key) for key, _ in page])
            for (key, type_), raw in zip(page, types, strict=True):
                if raw.decode() not in (type_, NO_KEY):
                    wrong[key] = None
        return list(wrong)

    async def _ahead(self, streams: Sequence[str]) -> list[str]:
        """Streams whose last id is so far ahead that hardly any are left."""
        infos = await self._link.try_all([replies.stream_info_command(key) for key in streams])
        return [key for key, info in zip(streams, infos, strict=True) if is_ahead(replies.parse_stream_info(info))]


def is_ahead(info: dict[bytes, Any] | None) -> bool:
    """Whether the last id of a stream is far ahead of the clock."""
    return entry_ids.ms_of(replies.last_generated_id(info)) > now_ms() + AHEAD_MAX_MS
