"""Reads summaries of sessions, streams, control streams, supervisors and the server from Redis. Writes nothing, caches
nothing, and never scans keys.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from rta_supervisor.nodes import registry
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe import stream_memory
from rta_supervisor.observe.summaries import (
    ControlStreamSummary,
    NodeSummary,
    ServerSummary,
    SessionSummary,
    StreamSummary,
)
from rta_supervisor.session import model as session_model
from rta_supervisor.settings import settings
from rta_supervisor.transport import paging, replies, scanning
from rta_supervisor.transport.failures import classify, is_key_specific
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict, parse_info
from rta_wire import day_streams, entry_ids, keys
from rta_wire.session import State
from rta_wire.stream import cold_index, source_cursor

INFOS_PER_CALL: Final = 20
"""Streams in one round trip: Redis replies with the first and the last entry of each, which writers choose."""

_SESSION_FIELDS: Final = (
    keys.STREAM_NAME,
    keys.STREAM_SESSION_ID,
    keys.PRINCIPAL,
    keys.STATE,
    keys.OPENED_MS,
    keys.LOST,
    keys.SPOILT,
    keys.VERSION,
    keys.TOTALS,
)


class RedisQueries:
    """Queries about one deployment. Each call reads anew."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        self._link = link
        self._config = config
        self._keys = config.keys

    async def identities(self) -> dict[str, int]:
        """Identities in the index of live sessions, each with the time in ms at which its writer was last heard of.
        The latest comes first."""
        scores = await scanning.read_sorted_set(self._link, self._keys.session_index())
        return {identity.decode(): int(float(score)) for identity, score in reversed(scores.items())}

    async def session(self, identity: str) -> SessionSummary | None:
        """One session, live or closed, as long as Redis has it."""
        fields, score = await self._link.do_all(
            [
                ("HMGET", self._keys.session_state(identity), *_SESSION_FIELDS),
                ("ZSCORE", self._keys.session_index(), identity),
            ]
        )
        if fields[0] is None:
            return None
        return _parse_session(identity, fields, None if score is None else int(float(score)))

    async def identities_of_external_id(self, external_id: str, principals: Sequence[str]) -> dict[str, str]:
        """Identities of the sessions in Redis that these principals gave an external id, by principal."""
        bound = await self._link.do_all([("GET", self._keys.external(name, external_id)) for name in principals])
        identities = {
            name: identity.decode() for name, identity in zip(principals, bound, strict=True) if identity is not None
        }
        rows = await self._link.do_all(
            [
                ("HMGET", self._keys.session_state(identity), keys.PRINCIPAL, keys.EXTERNAL_ID)
                for identity in identities.values()
            ]
        )
        # Verified, as an open is: a session of somebody else, or with another external id, is not meant.
        return {
            name: identity
            for (name, identity), (owner, noted) in zip(identities.items(), rows, strict=True)
            if owner == name.encode() and noted in (None, external_id.encode())
        }

    async def sessions(self) -> list[SessionSummary]:
        """All live sessions: open ones, and those that closed a moment ago. The one heard of last comes first."""
        heard_ms = await self.identities()
        return await self.sessions_of(heard_ms, heard_ms)

    async def sessions_of(self, identities: Iterable[str], heard_ms: Mapping[str, int]) -> list[SessionSummary]:
        """The sessions of these identities that Redis has, in their order. `heard_ms`: see `identities`."""
        sessions: list[SessionSummary] = []
        for page in paging.pages(list(identities), paging.PAGE_SIZE):
            field_lists = await self._link.try_all(
                [("HMGET", self._keys.session_state(identity), *_SESSION_FIELDS) for identity in page]
            )
            for identity, fields in zip(page, field_lists, strict=True):
                if isinstance(fields, Exception):
                    # Somebody has put something else in place of a state: `doctor` names it.
                    if not is_key_specific(fields):
                        raise classify(fields)
                elif fields[0] is not None:
                    sessions.append(_parse_session(identity, fields, heard_ms.get(identity)))
        return sessions

    async def used_streams(self) -> list[str]:
        """The names of all streams of data that sessions used."""
        return sorted(raw.decode() for raw in await scanning.read_sorted_set(self._link, self._keys.streams_used()))

    async def streams_of(self, source: str) -> list[str]:
        """The stream of that name and the days of a source, in the order in which they are read. Empty: none of them is
        known, live or cold."""
        days, used, is_live, cold = await self._link.do_all(
            [
                ("ZRANGE", self._keys.days(source), 0, -1),
                ("ZSCORE", self._keys.streams_used(), source),
                ("EXISTS", keys.stream(source)),
                ("HGET", self._keys.cold_index(), source),
            ]
        )
        streams = source_cursor.ordered_streams(source, (raw.decode() for raw in days))
        return streams if len(streams) > 1 or used is not None or is_live or cold is not None else []

    async def streams(self, sessions: Iterable[SessionSummary]) -> list[StreamSummary]:
        """All streams of data that sessions used, the largest first. `sessions`: live ones, to count those in each."""
        names = await self.used_streams()
        open_sessions: dict[str, int] = {}
        for session in sessions:
            if not session.state.is_closed:
                open_sessions[session.stream] = open_sessions.get(session.stream, 0) + 1
        infos = await paging.map_pages(names, self._read_infos, size=INFOS_PER_CALL)
        memory = await stream_memory.read(self._link, [keys.stream(name) for name in names])
        cold = await self._cold_extents()
        streams = [
            self._parse_stream(name, info, memory.get(keys.stream(name)), open_sessions.get(name, 0), cold.get(name))
            for name, info in zip(names, infos, strict=True)
        ]
        return sorted(streams, key=lambda stream: (-stream.total_bytes, stream.stream))

    async def _read_infos(self, names: Sequence[str]) -> list[Any]:
        return await self._link.try_all([replies.stream_info_command(keys.stream(name)) for name in names])

    async def _cold_extents(self) -> dict[str, cold_index.ColdExtent | None]:
        index = await scanning.read_hash(self._link, self._keys.cold_index())
        return {name.decode(): cold_index.parse(raw) for name, raw in index.items()}

    def _parse_stream(
        self, name: str, raw_info: Any, memory: int | None, open_sessions: int, cold: cold_index.ColdExtent | None
    ) -> StreamSummary:
        info = replies.parse_stream_info(raw_info) or {}
        last_id = cold.last_id if cold else None
        if info and (cold or info[b"length"]):
            last_id = replies.last_generated_id(info)
        return StreamSummary(
            stream=name,
            source=day_streams.source_of(name),
            day=None if (day := day_streams.parse(name)) is None else day.date.isoformat(),
            entries=info.get(b"length", 0),
            entries_added=info.get(b"entries-added", 0),
            memory_bytes=memory,
            first_ms=entry_ids.ms_of(cold.first_id) if cold else _first_entry_ms(info),
            last_ms=None if last_id is None else entry_ids.ms_of(last_id),
            open_sessions=open_sessions,
            max_entries=self._config.trim.limits_for(name).max_entries,
            cold_entries=cold.entries if cold else 0,
            cold_bytes=cold.size_bytes if cold else 0,
        )

    async def control_streams(self) -> list[ControlStreamSummary]:
        """The control streams of all principals in the settings: those of requests, then those of reports."""
        control = self._config.control
        streams = [("requests", principal, self._keys.requests(principal)) for principal in control.requesters]
        streams += [("reports", principal, self._keys.reports(principal)) for principal in control.principals]
        raw_replies = await self._link.try_all(
            [
                command
                for _, _, key in streams
                for command in (
                    replies.stream_info_command(key),
                    ("XINFO", "GROUPS", key),
                    ("HGET", self._keys.control_counters(key), keys.EVICTED),
                )
            ]
        )
        return [
            _parse_control_stream(*stream, info=info, groups=groups, evicted=evicted)
            for stream, info, groups, evicted in zip(
                streams, raw_replies[::3], raw_replies[1::3], raw_replies[2::3], strict=True
            )
        ]

    async def nodes(self) -> list[NodeSummary]:
        """Supervisors that are registered and alive."""
        nodes = await registry.running_nodes(self._link, self._keys)
        pending = await self._pending_by_consumer()
        return [_node_summary(node_id, node, pending.get(node_id, 0)) for node_id, node in nodes.items()]

    async def _pending_by_consumer(self) -> dict[str, int]:
        """Messages that each consumer of the control streams has read and not acknowledged."""
        streams = [stream for stream in await self.control_streams() if stream.is_read]
        raw_replies = await self._link.do_all([("XPENDING", stream.key, keys.CONTROL_GROUP) for stream in streams])
        pending: dict[str, int] = {}
        for name, count in (pair for *_, consumers in raw_replies for pair in consumers or ()):
            pending[name.decode()] = pending.get(name.decode(), 0) + int(count)
        return pending

    async def dead_letter_count(self) -> int:
        count: int = await self._link.do("XLEN", self._keys.dead_letters())
        return count

    async def latest_letter_sources(self, count: int) -> list[str]:
        """The keys that the latest dead letters came from."""
        entries = await self._link.do("XREVRANGE", self._keys.dead_letters(), "+", "-", "COUNT", count)
        return [pairs_to_dict(fields).get(keys.LETTER_SOURCE, b"?").decode(errors="replace") for _, fields in entries]

    async def server(self) -> ServerSummary:
        """The Redis server. Of a Cluster: the memory of all primaries, and the rest of the first one."""
        before_ns = time.time_ns()
        seconds, micros = await self._link.do("TIME")
        here_ms = (before_ns + time.time_ns()) // 2_000_000
        infos = [parse_info(raw) for raw in await self._link.do_on_primaries("INFO", "everything")]
        info = infos[0]
        is_valkey = "valkey_version" in info
        return ServerSummary(
            product="Valkey" if is_valkey else "Redis",
            version=info["valkey_version" if is_valkey else "redis_version"],
            role={"slave": "replica", "master": "primary"}.get(info.get("role", ""), info.get("role", "")),
            policy=info.get("maxmemory_policy", "noeviction"),
            used_bytes=sum(int(primary.get("used_memory", 0)) for primary in infos),
            max_bytes=sum(int(primary.get("maxmemory", 0)) for primary in infos),
            uptime_s=int(info.get("uptime_in_seconds", 0)),
            clock_ahead_ms=int(seconds) * 1000 + int(micros) // 1000 - here_ms,
        )


def _parse_session(identity: str, fields: Sequence[bytes | None], heard_ms: int | None) -> SessionSummary:
    """`fields`: the values of `_SESSION_FIELDS`."""
    stream, number, principal, state, opened_ms, lost, spoilt, version = (
        "" if raw is None else raw.decode() for raw in fields[:-1]
    )
    return SessionSummary(
        identity=identity,
        state=State(state),
        stream=stream,
        stream_session_id=int(number),
        principal=principal,
        opened_ms=int(opened_ms),
        heard_ms=heard_ms,
        **msgspec.structs.asdict(session_model.parse_totals(fields[-1])),
        lost_data=bool(lost),
        spoilt=spoilt,
        version=int(version or 0),
    )


def _parse_control_stream(
    kind: str, principal: str, key: str, *, info: Any, groups: Any, evicted: Any
) -> ControlStreamSummary:
    """`info`, `groups`, `evicted`: replies to XINFO STREAM, XINFO GROUPS and HGET, which may be errors."""
    fields = replies.parse_stream_info(info) or {}
    parsed_groups = [] if isinstance(groups, Exception) else [pairs_to_dict(flat) for flat in groups]
    control_groups = [group for group in parsed_groups if group[b"name"] == keys.CONTROL_GROUP.encode()]
    unacknowledged = sum(int(group[b"pending"]) for group in control_groups)
    oldest_ms = _first_entry_ms(fields)
    return ControlStreamSummary(
        key=key,
        principal=principal,
        lane=kind,
        # Handled messages are deleted: what is there is being handled or waits.
        waiting=max(fields.get(b"length", 0) - unacknowledged, 0),
        unacknowledged=unacknowledged,
        oldest_ms=None if oldest_ms is None else min(oldest_ms, now_ms()),
        evicted=int(evicted or 0),
        is_read=bool(control_groups),
        last_id=replies.last_generated_id(fields or None),
    )


def _first_entry_ms(info: Mapping[bytes, Any]) -> int | None:
    """When the first entry of a stream was added, by its XINFO; None if it has no entries."""
    first_entry = info.get(b"first-entry")
    return entry_ids.ms_of(first_entry[0].decode()) if first_entry else None


def _node_summary(node_id: str, node: registry.RunningNode, unacknowledged: int) -> NodeSummary:
    return NodeSummary(
        node=node_id,
        host=node.host,
        pid=node.pid,
        version=node.version,
        seen_ms=node.seen_ms,
        unacknowledged=unacknowledged,
    )
