"""What stands in Redis now, for people and scripts: sessions, streams, lanes, nodes. Only reads, and never scans.

Holds nothing: each call looks anew. Fields are named as `--json` prints them, with their units.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from rta_supervisor.nodes import registry
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.session import model as session_model
from rta_supervisor.settings import settings
from rta_supervisor.transport import paging, replies
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict, parse_info
from rta_wire import day_streams, entry_ids, keys
from rta_wire.session import State
from rta_wire.stream import cold_index

SLICE: Final = 500
"""Sessions that are asked for in one round trip."""


class SessionSummary(msgspec.Struct, frozen=True):
    """One session in a list."""

    identity: str
    state: State
    stream: str
    stream_session_id: int
    principal: str
    opened_ms: int
    heard_ms: int | None
    """When its writer was last heard of; None for a session that is put away."""
    bursts: int
    samples: int
    raw_bytes: int
    stored_bytes: int
    start_ns: int | None
    end_ns: int | None
    lost_data: bool


class StreamSummary(msgspec.Struct, frozen=True):
    """One stream."""

    stream: str
    source: str
    day: str | None
    """The day that it is called after, as YYYY-MM-DD."""
    entries: int
    entries_added: int
    memory_bytes: int | None
    first_ms: int | None
    last_ms: int | None
    open_sessions: int
    max_entries: int
    cold_entries: int = 0
    cold_bytes: int = 0
    """What is cold of it, which comes before what is live."""

    @property
    def removed(self) -> int:
        """Entries that nobody can read any more."""
        return max(self.entries_added - self.entries - self.cold_entries, 0)


class ControlStreamSummary(msgspec.Struct, frozen=True):
    """One control stream."""

    key: str
    principal: str
    lane: str
    waiting: int
    """Messages that no supervisor has read yet."""
    unacknowledged: int
    oldest_ms: int | None
    evicted: int
    is_read: bool
    """Whether supervisors know it."""


class NodeSummary(msgspec.Struct, frozen=True):
    """One running supervisor."""

    node: str
    host: str
    pid: int
    version: str
    seen_ms: int
    unacknowledged: int


class ServerSummary(msgspec.Struct, frozen=True):
    """What Redis says of itself."""

    product: str
    version: str
    role: str
    policy: str
    used_bytes: int
    max_bytes: int
    uptime_s: int
    clock_ahead_ms: int
    """By how much its clock is ahead of ours."""


_FIELDS: Final = (
    keys.STREAM_NAME,
    keys.STREAM_SESSION_ID,
    keys.PRINCIPAL,
    keys.STATE,
    keys.OPENED_MS,
    keys.LOST,
    keys.TOTALS,
)


class RedisQueries:
    """Everything that can be seen of one deployment."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        self._link = link
        self._config = config
        self._keys = config.keys

    async def identities(self) -> dict[str, int]:
        """Live sessions with the time at which they were last heard of, newest first."""
        flat = await self._link.do("ZRANGE", self._keys.session_index(), 0, -1, "REV", "WITHSCORES")
        return {identity.decode(): int(float(score)) for identity, score in pairs_to_dict(flat).items()}

    async def session(self, identity: str) -> SessionSummary | None:
        """One of them, also after it has left the list of live ones and until it expires."""
        fields, score = await self._link.do_all(
            [("HMGET", self._keys.session_state(identity), *_FIELDS), ("ZSCORE", self._keys.session_index(), identity)]
        )
        if fields[0] is None:
            return None
        return _session(identity, fields, None if score is None else int(float(score)))

    async def sessions(self) -> list[SessionSummary]:
        """Live ones: open, and closed a moment ago. The one that was heard of last comes first."""
        heard = await self.identities()
        return await self.some_sessions(heard, heard)

    async def some_sessions(self, identities: Iterable[str], heard: Mapping[str, int]) -> list[SessionSummary]:
        """Those of them that there are."""
        wanted = list(identities)
        lines: list[SessionSummary] = []
        for part in paging.pages(wanted, SLICE):
            answers = await self._link.do_all(
                [("HMGET", self._keys.session_state(identity), *_FIELDS) for identity in part]
            )
            found = zip(part, answers, strict=True)
            lines += [_session(one, fields, heard.get(one)) for one, fields in found if fields[0] is not None]
        return lines

    async def streams(self, sessions: Iterable[SessionSummary]) -> list[StreamSummary]:
        """Streams that sessions of ours used, the largest first."""
        names = sorted(raw.decode() for raw in await self._link.do("ZRANGE", self._keys.streams_used(), 0, -1))
        busy: dict[str, int] = {}
        for one in sessions:
            if not one.state.is_closed:
                busy[one.stream] = busy.get(one.stream, 0) + 1
        answers = await self._link.try_all(
            [
                call
                for name in names
                for call in (replies.stream_info_command(keys.stream(name)), ("MEMORY", "USAGE", keys.stream(name)))
            ]
        )
        cold = await self._cold()
        lines = [
            self._stream(name, info, memory, busy.get(name, 0), cold.get(name))
            for name, info, memory in zip(names, answers[::2], answers[1::2], strict=True)
        ]
        return sorted(lines, key=lambda line: (-(line.memory_bytes or 0) - line.cold_bytes, line.stream))

    async def _cold(self) -> dict[str, cold_index.ColdExtent | None]:
        found = pairs_to_dict(await self._link.do("HGETALL", self._keys.cold_index()))
        return {name.decode(): cold_index.parse(raw) for name, raw in found.items()}

    def _stream(
        self, name: str, info: Any, memory: Any, open_sessions: int, cold: cold_index.ColdExtent | None
    ) -> StreamSummary:
        found = replies.parse_stream_info(info) or {}
        first = found.get(b"first-entry")
        return StreamSummary(
            stream=name,
            source=day_streams.source_of(name),
            day=None if (day := day_streams.parse(name)) is None else day.date.isoformat(),
            entries=found.get(b"length", 0),
            entries_added=found.get(b"entries-added", 0),
            memory_bytes=memory if isinstance(memory, int) else None,
            first_ms=entry_ids.ms_of(cold.first_id) if cold else entry_ids.ms_of(first[0].decode()) if first else None,
            last_ms=entry_ids.ms_of(replies.last_generated_id(found)) if found.get(b"length") or cold else None,
            open_sessions=open_sessions,
            max_entries=self._config.trim.limits_for(name).max_entries,
            cold_entries=cold.entries if cold else 0,
            cold_bytes=cold.size_bytes if cold else 0,
        )

    async def control_streams(self) -> list[ControlStreamSummary]:
        """Every control stream of a principal in the settings: requests first."""
        control = self._config.control
        wanted = [(self._keys.requests(one), one, "requests") for one in control.requesters]
        wanted += [(self._keys.reports(one), one, "reports") for one in control.principals]
        answers = await self._link.try_all(
            [
                call
                for key, _, _ in wanted
                for call in (
                    replies.stream_info_command(key),
                    ("XINFO", "GROUPS", key),
                    ("HGET", self._keys.control_counters(key), keys.EVICTED),
                )
            ]
        )
        found = zip(wanted, answers[::3], answers[1::3], answers[2::3], strict=True)
        return [_lane(place, info, groups, evicted) for place, info, groups, evicted in found]

    async def nodes(self) -> list[NodeSummary]:
        """Supervisors that are registered and alive."""
        nodes = await registry.running_nodes(self._link, self._keys)
        pending = await self._pending_by_consumer()
        return [_node(node_id, node, pending.get(node_id, 0)) for node_id, node in nodes.items()]

    async def _pending_by_consumer(self) -> dict[str, int]:
        lanes = [lane for lane in await self.control_streams() if lane.is_read]
        answers = await self._link.do_all([("XPENDING", lane.key, keys.CONTROL_GROUP) for lane in lanes])
        found: dict[str, int] = {}
        for name, count in (pair for *_, consumers in answers for pair in consumers or ()):
            found[name.decode()] = found.get(name.decode(), 0) + int(count)
        return found

    async def dead_letter_count(self) -> int:
        count: int = await self._link.do("XLEN", self._keys.dead_letters())
        return count

    async def server(self) -> ServerSummary:
        """Of a Cluster: memory of all primaries, the rest of the first."""
        before_ns = time.time_ns()
        seconds, micros = await self._link.do("TIME")
        ours_ms = (before_ns + time.time_ns()) // 2_000_000
        infos = [parse_info(raw) for raw in await self._link.do_on_primaries("INFO", "everything")]
        info = infos[0]
        is_valkey = "valkey_version" in info
        return ServerSummary(
            product="Valkey" if is_valkey else "Redis",
            version=info["valkey_version" if is_valkey else "redis_version"],
            role={"slave": "replica", "master": "primary"}.get(info.get("role", ""), info.get("role", "")),
            policy=info.get("maxmemory_policy", "noeviction"),
            used_bytes=sum(int(one.get("used_memory", 0)) for one in infos),
            max_bytes=sum(int(one.get("maxmemory", 0)) for one in infos),
            uptime_s=int(info.get("uptime_in_seconds", 0)),
            clock_ahead_ms=int(seconds) * 1000 + int(micros) // 1000 - ours_ms,
        )


def by_state(sessions: Iterable[SessionSummary]) -> dict[str, int]:
    """How many there are in each state, open ones first."""
    found = {State.OPEN.value: 0, State.WAITING.value: 0}
    for one in sessions:
        found[one.state.value] = found.get(one.state.value, 0) + 1
    return found


def _session(identity: str, fields: Sequence[bytes | None], heard_ms: int | None) -> SessionSummary:
    stream, number, principal, state, opened_ms, lost = ("" if raw is None else raw.decode() for raw in fields[:-1])
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
    )


def _lane(place: tuple[str, str, str], info: Any, groups: Any, evicted: Any) -> ControlStreamSummary:
    key, principal, lane = place
    stream = replies.parse_stream_info(info) or {}
    length, first = stream.get(b"length", 0), stream.get(b"first-entry")
    known = [] if isinstance(groups, Exception) else [pairs_to_dict(flat) for flat in groups]
    ours = [group for group in known if group[b"name"] == keys.CONTROL_GROUP.encode()]
    unacknowledged = sum(int(group[b"pending"]) for group in ours)
    return ControlStreamSummary(
        key=key,
        principal=principal,
        lane=lane,
        # Handled messages are deleted: what is there is being handled or waits.
        waiting=max(length - unacknowledged, 0),
        unacknowledged=unacknowledged,
        oldest_ms=entry_ids.ms_of(first[0].decode()) if first else None,
        evicted=int(evicted or 0),
        is_read=bool(ours),
    )


def _node(node_id: str, node: registry.RunningNode, unacknowledged: int) -> NodeSummary:
    return NodeSummary(
        node=node_id,
        host=node.host,
        pid=node.pid,
        version=node.version,
        seen_ms=node.seen_ms,
        unacknowledged=unacknowledged,
    )


def oldest_age_s(lanes: Iterable[ControlStreamSummary], at_ms: int | None = None) -> float:
    """How long the oldest message has been waiting, in any lane."""
    at_ms = now_ms() if at_ms is None else at_ms
    return max(((at_ms - lane.oldest_ms) / 1000 for lane in lanes if lane.oldest_ms is not None), default=0.0)
