"""Streams and sessions of the RTA protocol that no supervisor opened: finds them, and removes sessions that are dead.

A stream is another producer's where it is listed in `streams` and no session of ours used it; a session where it has a
hash that readers read and no folded state. They are left alone unless `[other_producers]` says otherwise. Their streams
are trimmed by `trimmer`.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from rta_supervisor.diagnostics import log
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.retention import server_functions
from rta_supervisor.settings import settings
from rta_supervisor.transport import paging, replies, scanning
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, keys, redis_errors

SCAN_COUNT: Final = 1000
LOGGED_SESSIONS_MAX: Final = 3
_FIELDS: Final = (keys.STREAM_SESSION_ID, keys.STREAM_NAME, keys.LAST_UPDATED)


class OtherSession(msgspec.Struct, frozen=True):
    """A session that another producer wrote."""

    identity: str
    stream: str
    last_updated: str
    """As the hash has it: milliseconds since 1970, if its producer follows the protocol."""

    def is_dead(self, last_entry_ms: int, before_ms: float) -> bool:
        """Whether neither its hash nor its stream changed since a time. One that does not say when it changed may be
        alive."""
        is_plausible = self.last_updated.isascii() and self.last_updated.isdigit() and len(self.last_updated) < 20
        return is_plausible and int(self.last_updated) < before_ms and last_entry_ms < before_ms


async def read_streams(link: Link, names: keys.Keys) -> list[str]:
    """The names of all streams of other producers."""
    used = await scanning.read_sorted_set(link, names.streams_used())
    listed = await scanning.read_set(link, keys.STREAMS)
    return sorted(raw.decode(errors="replace") for raw in listed if raw not in used)


async def read_unlisted(link: Link, scanned: Sequence[str]) -> list[str]:
    """The names of those streams among these keys that `streams` does not list: whoever may append to a stream may make
    one that no session uses, and nobody trims it."""
    prefix, _, _ = keys.stream("\0").partition("\0")
    listed = {raw.decode(errors="replace") for raw in await scanning.read_set(link, keys.STREAMS)}
    names = (key.removeprefix(prefix) for key in scanned if key.startswith(prefix))
    return sorted(name for name in names if name not in listed)


async def read_sessions(link: Link, names: keys.Keys, session_keys: Sequence[str]) -> list[OtherSession]:
    """Those sessions of other producers whose hashes are among these keys."""

    async def read_page(page: Sequence[str]) -> list[Any]:
        return await link.try_all(
            [
                command
                for identity in page
                for command in (
                    ("EXISTS", names.session_state(identity)),
                    ("HMGET", names.session(identity), *_FIELDS),
                )
            ]
        )

    identities = [identity for key in session_keys if (identity := _identity_of(names, key)) is not None]
    raw_replies = await paging.map_pages(identities, read_page)
    return [
        OtherSession(identity, stream.decode(errors="replace"), (updated or b"").decode(errors="replace"))
        for identity, is_ours, fields in zip(identities, raw_replies[::2], raw_replies[1::2], strict=True)
        if is_ours == 0 and not isinstance(fields, Exception)
        for number, stream, updated in [fields]
        if number is not None and stream is not None
    ]


def _identity_of(names: keys.Keys, session_key: str) -> str | None:
    """The identity in the name of a session's hash; None where it is the name of something else."""
    before, after = names.session("\0").split("\0")
    if not (session_key.startswith(before) and session_key.endswith(after)):
        return None
    return session_key[len(before) : len(session_key) - len(after)] or None


class OtherSessionSweep:
    """Removes dead sessions of other producers, where the settings say so: a part of the keys at a time."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        self._link = link
        self._config = config
        self._cursors: list[bytes] = []
        self._log = log.get(duty="sweep")

    async def sweep(self) -> None:
        """Take one step over the keys of each server."""
        after_s = self._config.other_producers.remove_sessions_after_s
        if not after_s:
            return
        names = self._config.keys
        sessions = await read_sessions(self._link, names, await self._next_keys())
        ends = await paging.map_pages(sessions, self._read_ends)
        before_ms = now_ms() - after_s * 1000
        dead = [session for session, end in zip(sessions, ends, strict=True) if session.is_dead(end, before_ms)]
        outcomes = await self._link.try_all(
            [server_functions.remove_other_session(names, session.identity, session.last_updated) for session in dead]
        )
        if removed := [session.identity for session, outcome in zip(dead, outcomes, strict=True) if outcome == 1]:
            self._log.info("other_sessions_removed", count=len(removed), some=removed[:LOGGED_SESSIONS_MAX])

    async def _read_ends(self, page: Sequence[OtherSession]) -> list[int]:
        """When the last entry of the stream of each session was added; now where that can't be read."""
        infos = await self._link.try_all([replies.stream_info_command(keys.stream(session.stream)) for session in page])
        return [_last_entry_ms(info) for info in infos]

    async def _next_keys(self) -> list[str]:
        senders = await self._link.topology.senders()
        if len(senders) != len(self._cursors):
            self._cursors = [b"0"] * len(senders)
        found: list[str] = []
        for number, send in enumerate(senders):
            match = self._config.keys.session("*")
            [reply] = await send([("SCAN", self._cursors[number], "MATCH", match, "COUNT", SCAN_COUNT)])
            if isinstance(reply, Exception):
                raise reply
            self._cursors[number], page = reply
            # A name that is no text is no identity of the protocol.
            found += [name for raw in page if "\ufffd" not in (name := raw.decode(errors="replace"))]
        return found


def _last_entry_ms(info: Any) -> int:
    if isinstance(info, Exception) and not redis_errors.is_no_such_key(info):
        return now_ms()
    return entry_ids.ms_of(replies.last_generated_id(replies.parse_stream_info(info)))
