"""Serves requests of operators to trim a stream: a bounded part of it at a time, and never what trimming protects."""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from rta_supervisor.control.entry import ControlEntry
from rta_supervisor.diagnostics import counters, log
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.retention import server_functions
from rta_supervisor.retention.trim_requests import rules
from rta_supervisor.retention.trimmer import Trimmer
from rta_supervisor.settings import settings
from rta_supervisor.transport import replies
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, errors, keys
from rta_wire.pb import control_pb2
from rta_wire.stream import cold_index

REQUEST_MAX_S: Final = 2.0
"""How long one request works. What is left then is asked for again."""

ColdTrim = Callable[[str, settings.TrimLimits, int, float], Awaitable[bool]]
"""Trims the cold part of a stream to limits, with ages as of a time in ms, until a time of the event loop. Gives
whether it came to the end."""


class TrimService:
    """Trims streams on request."""

    def __init__(self, link: Link, config: settings.Settings, trimmer: Trimmer, trim_cold: ColdTrim) -> None:
        self._link = link
        self._keys = config.keys
        self._config = config
        self._trimmer = trimmer
        self._trim_cold = trim_cold
        self._log = log.get()

    async def trim(self, entry: ControlEntry, request: control_pb2.TrimStream) -> control_pb2.TrimReply:
        """Serve one request. The oldest entries go first, so the cold part before the live one."""
        if entry.principal not in self._config.control.operators:
            raise errors.OperatorsOnly(principal=entry.principal, what="a stream to be trimmed")
        stream = request.stream
        length, first_id, extent = await self._look_at(stream)
        if first_id is None and extent is None and not await self._is_known(stream):
            raise errors.UnknownStream(stream=stream)
        until_s = anyio.current_time() + REQUEST_MAX_S
        protection = await self._trimmer.protection(stream)
        is_done = True
        if extent is not None:
            at_ms = now_ms()
            is_done = await self._trim_cold(stream, rules.cold_limits(request, at_ms), at_ms, until_s)
        removed = 0
        if is_done:
            removed, is_done = await self._trim_live(request, protection, length, until_s)
        return await self._reply(request, protection, removed, extent, is_done=is_done)

    async def _trim_live(
        self, request: control_pb2.TrimStream, protection: rules.Protection, length: int, until_s: float
    ) -> tuple[int, bool]:
        """How many live entries were removed, and whether that was all."""
        below = min(rules.boundary(request), protection.below, key=entry_ids.parse)
        memory_bytes = await self._link.do("MEMORY", "USAGE", keys.stream(request.stream)) or 0
        most = rules.entries_per_call(length, memory_bytes, server_functions.CALL_MAX_ENTRIES)
        command = server_functions.trim(request.stream, rules.live_limits(request), below, most=most)
        removed = 0
        while count := await self._link.do(*command):
            removed += count
            if anyio.current_time() >= until_s:
                return removed, False
        return removed, True

    async def _reply(
        self,
        request: control_pb2.TrimStream,
        protection: rules.Protection,
        removed: int,
        extent: cold_index.ColdExtent | None,
        *,
        is_done: bool,
    ) -> control_pb2.TrimReply:
        """`removed`: live entries; `extent`: the cold part before the removal."""
        length, first_id, left = await self._look_at(request.stream)
        cold_entries = 0 if left is None else left.entries
        removed += max((0 if extent is None else extent.entries) - cold_entries, 0)
        if removed:
            counters.counts.of_stream(request.stream).trimmed += removed
            self._log.info("stream_trimmed_on_request", stream=request.stream, entries=removed)
        reason = rules.kept_because(
            request,
            protection,
            entries=length + cold_entries,
            cold_entries=cold_entries,
            first_id=first_id if left is None else left.first_id,
        )
        return control_pb2.TrimReply(
            stream=request.stream,
            removed_entries=removed,
            entries=length + cold_entries,
            is_partial=not is_done,
            kept_because=reason if is_done else rules.FOR_TURN if not removed else "",
        )

    async def _look_at(self, stream: str) -> tuple[int, str | None, cold_index.ColdExtent | None]:
        """The number of live entries, the id of the first of them, and what is cold."""
        info = await replies.read_stream_info(self._link, keys.stream(stream))
        extent = cold_index.parse(await self._link.do("HGET", self._keys.cold_index(), stream))
        if info is None:
            return 0, None, extent
        first = info[b"first-entry"]
        return info[b"length"], first[0].decode() if first else None, extent

    async def _is_known(self, stream: str) -> bool:
        """Whether a stream without entries is one: a session used it, or it is listed."""
        used, exists = await self._link.do_all(
            [("ZSCORE", self._keys.streams_used(), stream), ("EXISTS", keys.stream(stream))]
        )
        return used is not None or bool(exists)
