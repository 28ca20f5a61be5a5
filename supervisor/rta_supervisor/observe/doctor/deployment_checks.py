"""Checks of a deployment: its supervisors, control streams, dead letters, sessions, the archive, and keys that nobody
needs any more.
"""

import re
from collections import Counter
from typing import Final

from rta_supervisor.control.control_streams import FUTURE_MS
from rta_supervisor.diagnostics import principal_limits
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe import limit_record, summaries
from rta_supervisor.observe.doctor.findings import Finding, bad, name_some, ok, warn
from rta_supervisor.observe.doctor.key_scan import KeyScan
from rta_supervisor.observe.queries import RedisQueries
from rta_supervisor.retention.unarchived_session import UnarchivedSession
from rta_supervisor.settings import settings
from rta_supervisor.transport import scanning
from rta_supervisor.transport.link import Link
from rta_wire import __version__, entry_ids, errors, keys
from rta_wire.session import State

LETTERS_NAMED: Final = 20

LATELY_S: Final = 3600
"""How long the doctor names a principal that reached a limit."""

LIMIT_REMEDIES: Final = {
    "waiting_requests": "Its closes expect data that does not come: see its jobs, or end those sessions.",
    "requests_in_hand": "It sends requests faster than they are served, and waits for its turn: see its jobs.",
    "open_sessions": "It does not close what it opens: rta-supervisor sessions list --state open.",
    "session_units": "One of its sessions has more units than anybody writes on purpose: see its jobs.",
    principal_limits.SPOILT_KEYS: (
        "It spoils keys of its own sessions, which end nevertheless: see its jobs, and session_spoilt in the log."
    ),
    principal_limits.EVICTED: (
        "It sent more than a control stream holds while nobody read it, or trims that itself: see its jobs."
    ),
    "session_properties": "It invents new properties with its updates: see its jobs.",
    "payload_bytes": "It stores large Session JSON that no request names: see its jobs.",
    "configs": "It publishes another configuration for each session: see its jobs.",
    "config_bytes": "It publishes another configuration for each session: see its jobs.",
    "unread_reply_bytes": "It asks for sessions and does not read the replies: see its jobs, and the ACL of writers.",
    "webhook_deliveries": "Its sessions change faster than a webhook takes: see its jobs and rta-supervisor dlq list.",
    "webhooks.max_pending": "It has most of the deliveries that wait for a webhook: see its jobs and the receiver.",
    "control.dead_letters_max": "Its messages can't be applied, and its oldest dead letters are gone: see its jobs.",
}
"""What to do about a principal that reached a limit, by the name of the limit."""

WHAT_WAS_DONE: Final = {
    principal_limits.SPOILT_KEYS: "spoilt keys of its sessions",
    principal_limits.EVICTED: "lost messages that nobody had read",
}
"""What a principal did where no limit was reached that could be raised."""


class DeploymentChecks:
    """One method for each check of the deployment."""

    def __init__(self, link: Link, config: settings.Settings, scan: KeyScan) -> None:
        self._link = link
        self._config = config
        self._keys = config.keys
        self._queries = RedisQueries(link, config)
        self._scan = scan

    async def supervisors(self) -> Finding:
        """Whether supervisors run, and all with this version."""
        nodes = await self._queries.nodes()
        if not nodes:
            remedy = "Start one: systemctl start rta-supervisor, or rta-supervisor run."
            return bad("supervisors", "none is running", remedy, errors.NoSupervisor.exit_code)
        versions = sorted({node.version for node in nodes})
        found = f"{len(nodes)} running, version {' and '.join(versions)}"
        if versions != [__version__]:
            return warn("supervisors", found, f"This is {__version__}: upgrade the others, one by one.")
        return ok("supervisors", found)

    async def control_streams(self) -> Finding:
        """Whether supervisors read all control streams, and are fast enough."""
        streams = await self._queries.control_streams()
        age_s = summaries.oldest_age_s(streams, now_ms())
        waiting = sum(stream.waiting + stream.unacknowledged for stream in streams)
        found = f"{waiting:,} messages waiting, the oldest for {age_s:.1f} s"
        unread = [stream.key for stream in streams if not stream.is_read]
        if unread:
            remedy = "Start a supervisor that has their principals in control.principals or control.operators."
            return bad("control streams", f"nobody reads {name_some(unread)}", remedy)
        if exhausted := [stream.key for stream in streams if stream.is_exhausted]:
            remedy = (
                f"A client of that principal appended an entry with the highest id: redis-cli UNLINK "
                f"{' '.join(exhausted)}. Supervisors create it again; messages in it are lost."
            )
            return bad("control streams", f"nothing can be appended to {name_some(exhausted)}", remedy)
        if age_s > self._config.control.retry_s:
            oldest = summaries.oldest_stream(streams)
            remedy = (
                "Either it waits for data, or supervisors are too slow or stuck: look at the jobs of that principal, "
                "at the logs of supervisors and at rta-supervisor nodes."
            )
            where = "" if oldest is None else f" in {oldest.key}"
            return bad("control streams", found + where, remedy, errors.Unavailable.exit_code)
        if evicted := sum(stream.evicted for stream in streams):
            remedy = "Totals were counted again from the marks. Run supervisors without long pauses."
            return warn("control streams", f"{found}; {evicted:,} were evicted unread so far", remedy)
        latest_ms = now_ms() + FUTURE_MS
        if future := [stream.key for stream in streams if entry_ids.ms_of(stream.last_id) > latest_ms]:
            remedy = (
                "Clients of those principals choose entry ids instead of leaving them to Redis: see their jobs. Their "
                "messages count as sent when they are read."
            )
            return warn("control streams", f"{found}; ids from the future in {name_some(future)}", remedy)
        return ok("control streams", found)

    async def principals(self) -> Finding:
        """Whether a principal reached a limit lately."""
        at_ms = now_ms()
        reached = [
            row
            for row in await limit_record.read_reached(self._link, self._keys)
            if at_ms - row.last_ms < LATELY_S * 1000
        ]
        if not reached:
            return ok("principals", "none reached a limit within the last hour")
        rows = [
            f"{row.principal} {_what_was_reached(row.limit)} {row.times:,} times, "
            f"last {max(0, at_ms - row.last_ms) / 1000:.0f} s ago"
            for row in reached
        ]
        remedies = dict.fromkeys(LIMIT_REMEDIES.get(row.limit, "See its jobs.") for row in reached)
        if any(row.limit not in WHAT_WAS_DONE for row in reached):
            remedies["Raise the limit if they are right."] = None
        return warn("principals", name_some(rows), " ".join(remedies))

    async def dead_letters(self) -> Finding:
        """Whether there are dead letters, and whose the latest are."""
        count = await self._queries.dead_letter_count()
        if count:
            sources = Counter(await self._queries.latest_letter_sources(LETTERS_NAMED))
            rows = [f"{times:,} from {source}" for source, times in sources.most_common()]
            found = f"{count:,}; of the latest {sources.total():,}: {name_some(rows)}"
            return warn("dead letters", found, "Look at them with: rta-supervisor dlq list")
        return ok("dead letters", "none")

    async def sessions(self) -> Finding:
        """Whether a session has a principal that no supervisor reads, lost data, or has a writer that is silent."""
        sessions = await self._queries.sessions()
        counts = ", ".join(f"{count:,} {state}" for state, count in summaries.count_by_state(sessions).items())
        principals = set(self._config.control.principals)
        unread = [
            session.identity
            for session in sessions
            if session.principal not in principals and not session.state.is_closed
        ]
        if unread:
            remedy = "Their principals are not in control.principals: nobody reads what their writers report."
            return bad("sessions", f"unknown principals of {name_some(unread)}", remedy)
        if lost := [session.identity for session in sessions if session.lost_data]:
            remedy = "Redis lost data of them: they end as truncated. See docs/troubleshooting.md."
            return warn("sessions", f"{counts}; data lost of {name_some(lost)}", remedy)
        limit_ms = now_ms() - int(self._config.session.writer_silent_s * 1000)
        live = (State.OPEN, State.WAITING)
        silent = [
            session.identity for session in sessions if session.state in live and (session.heard_ms or 0) < limit_ms
        ]
        if silent:
            remedy = "Their writers are gone: the watchdog ends them, or: rta-supervisor sessions abandon."
            return warn("sessions", f"{counts}; nothing was heard of {name_some(silent)}", remedy)
        return ok("sessions", counts)

    async def archive(self) -> Finding:
        """How many sessions wait for the archive, and whether their streams are near the size at which they are trimmed
        nevertheless."""
        config = self._config.archive
        members = await scanning.read_sorted_set(self._link, self._keys.unarchived())
        waiting = [session for session in map(UnarchivedSession.parse, members) if session.needs_entries]
        found = f"{len(waiting):,} sessions are not in it"
        if not config.required:
            return ok("archive", f"not required; {found}")
        streams = sorted({session.stream for session in waiting}) if config.max_bytes else []
        sizes = await self._link.do_all([("MEMORY", "USAGE", keys.stream(stream)) for stream in streams])
        shares = {stream: (size or 0) / config.max_bytes for stream, size in zip(streams, sizes, strict=True)}
        remedy = "Run rta-supervisor archive, and more often; or raise archive.max_bytes."
        if over := [stream for stream, share in shares.items() if share >= 1]:
            found = f"{found}; {name_some(over)} loses entries that are not"
            return bad("archive", found, remedy, errors.Unavailable.exit_code)
        if near := [stream for stream, share in shares.items() if share >= config.alarm_at]:
            return warn("archive", f"{found}; {name_some(near)} is near archive.max_bytes", remedy)
        return ok("archive", found)

    async def orphaned_keys(self) -> Finding:
        """Whether there are states without a session, or keys with the prefix of supervisors that never expire.

        Looks at the keys that the scan has.
        """
        names = await self._scan.names()
        pattern = re.compile(re.escape(self._keys.session_state("\0")).replace("\0", "(.+)"))
        states = [(name, match[1]) for name in names if (match := pattern.fullmatch(name))]
        have_session = await self._link.do_all([("EXISTS", self._keys.session(identity)) for _, identity in states])
        orphans = [name for (name, _), has_session in zip(states, have_session, strict=True) if not has_session]
        expiring = [name for name in names if name.startswith(self._keys.prefix) and not self._is_permanent(name)]
        ttls_s = await self._link.do_all([("TTL", name) for name in expiring])
        orphans += [name for name, ttl_s in zip(expiring, ttls_s, strict=True) if ttl_s == -1]
        scanned = await self._scan.describe()
        if orphans:
            remedy = f"Supervisors give them a lifetime. To remove one: rta-supervisor doctor --repair '{orphans[0]}'"
            return warn("orphaned keys", f"{len(orphans):,}: {name_some(orphans)}; {scanned}", remedy)
        return ok("orphaned keys", f"none; {scanned}")

    def _is_permanent(self, name: str) -> bool:
        """Whether a key has no TTL because it is bounded in another way."""
        single = {self._keys.session_index(), self._keys.dead_letters(), self._keys.nodes(), self._keys.streams_used()}
        single |= {
            self._keys.cold_index(),
            self._keys.cold_pause(),
            self._keys.unarchived(),
            self._keys.publish_retries(),
        }
        counters = self._keys.control_counters("").partition("{")[0]
        prefixes = (self._keys.requests(""), self._keys.reports(""), counters, self._keys.dead_letter_ids(""))
        return name in single or name.startswith(prefixes)


def _what_was_reached(limit: str) -> str:
    """What a principal did, by the name of the limit."""
    return WHAT_WAS_DONE.get(limit) or f"reached {principal_limits.setting_of(limit)}"
