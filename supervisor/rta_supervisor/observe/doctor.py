"""Looks for what is wrong with a deployment, and says what to do about it. Only reads."""

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import anyio
import msgspec
import redis.exceptions

from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe import queries
from rta_supervisor.retention.archive_queue import UnarchivedSession
from rta_supervisor.settings import settings
from rta_supervisor.transport import failures, server_check
from rta_supervisor.transport import functions as transport_functions
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict, parse_info
from rta_wire import __version__, errors, keys, redis_url
from rta_wire.session import State

OK: Final = "ok"
WARN: Final = "warn"
BAD: Final = "bad"

SKEW_WARN_MS: Final = 1000
SKEW_BAD_MS: Final = 30_000
MEMORY_WARN: Final = 0.8
ROUND_TRIP_WARN_MS: Final = 50
SCAN_PAGE: Final = 1000
NAMED_MAX: Final = 3


class Finding(msgspec.Struct, frozen=True):
    """One line of the page."""

    check: str
    level: str
    found: str
    remedy: str = ""
    exit_code: int = 0
    """What the command ends with where this is bad."""


Check = Callable[[], Awaitable[Finding]]


def bad(check: str, found: str, remedy: str, code: int = errors.BadConfiguration.exit_code) -> Finding:
    return Finding(check, BAD, found, remedy, code)


class Doctor:
    """Every check, in an order in which a later one may rely on the earlier ones."""

    def __init__(self, link: Link, config: settings.Settings, *, scan_keys: int) -> None:
        self._link = link
        self._config = config
        self._keys = config.keys
        self._view = queries.RedisQueries(link, config)
        self._scan_keys = scan_keys

    async def run(self) -> list[Finding]:
        """Findings. Where Redis does not answer, nothing else can be looked at."""
        found = [await self._reachable()]
        if found[0].level == BAD:
            return found
        checks: dict[str, Check] = {
            "server": self._server,
            "memory": self._memory,
            "persistence": self._persistence,
            "functions": self._functions,
            "permissions": self._permissions,
            "clock": self._clock,
            "supervisors": self._supervisors,
            "control streams": self._lanes,
            "dead letters": self._letters,
            "sessions": self._sessions,
            "archive": self._archive,
            "orphaned keys": self._orphans,
        }
        for name, check in checks.items():
            try:
                found.append(await check())
            except redis.exceptions.NoPermissionError as error:
                remedy = "Sign in as a user that may look at this, or leave it to somebody who is."
                found.append(Finding(name, WARN, f"can't be looked at: {_first_line(error)}", remedy))
        return found

    async def _reachable(self) -> Finding:
        check, url = "reachable", redis_url.redact(self._config.redis.url)
        began_s = anyio.current_time()
        try:
            await self._link.do("PING")
            began_s = anyio.current_time()  # the first one connects
            await self._link.do("PING")
        except (*failures.RETRIABLE_ERRORS, redis.exceptions.RedisError) as error:
            problem = failures.to_rta_error(self._config.redis.url, error)
            if isinstance(problem, errors.RedisRefused):
                return bad(check, str(problem), "Check user and password in the settings of redis.", problem.exit_code)
            remedy = "Start Redis there, or name another one with --redis-url, RTA_REDIS__URL or redis.url."
            return bad(check, f"{url}: {problem.facts['reason']}", remedy, problem.exit_code)
        took_ms = (anyio.current_time() - began_s) * 1000
        if took_ms > ROUND_TRIP_WARN_MS:
            remedy = "Look for slow commands (SLOWLOG GET) and at the network in between."
            return Finding(check, WARN, f"{url}, but a round trip takes {took_ms:.0f} ms", remedy)
        return Finding(check, OK, f"{url}, round trip {took_ms:.1f} ms")

    async def _server(self) -> Finding:
        infos = [parse_info(raw) for raw in await self._link.do_on_primaries("INFO", "everything")]
        server = await self._view.server()
        what = f"{server.product} {server.version}, {server.role}, maxmemory-policy {server.policy}"
        problems = [server_check.find_problem(info, self._config.redis) for info in infos]
        for problem in (one for one in problems if one is not None and not isinstance(one, errors.RedisFull)):
            return bad("server", what, f"{problem.facts['reason']}.")
        if server.policy != "noeviction":
            return Finding(
                "server", WARN, what, "Sessions are dropped silently: CONFIG SET maxmemory-policy noeviction."
            )
        return Finding("server", OK, what)

    async def _memory(self) -> Finding:
        server = await self._view.server()
        if not server.max_bytes:
            remedy = "Set maxmemory below the host's memory: without it the kernel ends Redis, and with it its data."
            return Finding("memory", WARN, f"{server.used_bytes:,} bytes used, no maxmemory", remedy)
        share = server.used_bytes / server.max_bytes
        found = f"{server.used_bytes:,} of {server.max_bytes:,} bytes used, {share:.0%}"
        remedy = "Raise maxmemory, or lower trim.max_entries; see the formula in docs/operating.md."
        if share >= 1:
            return bad("memory", found, remedy, errors.RedisFull.exit_code)
        return Finding("memory", WARN, found, remedy) if share > MEMORY_WARN else Finding("memory", OK, found)

    async def _persistence(self) -> Finding:
        info = parse_info(await self._link.do("INFO", "persistence"))
        failing = [name for name in ("rdb_last_bgsave_status", "aof_last_write_status") if info.get(name) == "err"]
        if failing:
            remedy = "Look at the log and the disk of Redis."
            return bad("persistence", f"the last write failed: {', '.join(failing)}", remedy, 69)
        if info.get("aof_enabled") == "1":
            return Finding("persistence", OK, "append-only file")
        remedy = "Set appendonly yes; else a restart of Redis loses data. Losses are reported either way."
        return Finding("persistence", WARN, "no append-only file", remedy)

    async def _functions(self) -> Finding:
        ours = {transport_functions.library_name(code): code for code in transport_functions.libraries()}
        absent: set[str] = set()
        other: set[str] = set()
        for answer in await self._link.do_on_primaries("FUNCTION", "LIST", "LIBRARYNAME", "rtas_*", "WITHCODE"):
            there = {one[b"library_name"].decode(): one[b"library_code"].decode() for one in map(pairs_to_dict, answer)}
            absent |= ours.keys() - there.keys()
            other |= {name for name in ours.keys() & there.keys() if there[name] != ours[name]}
        if absent:
            remedy = "Start a supervisor: it loads them."
            return bad("functions", f"not loaded: {', '.join(sorted(absent))}", remedy, errors.Unavailable.exit_code)
        if other:
            remedy = "Let all supervisors and this command have one version; restart the supervisors."
            return Finding("functions", WARN, f"other code than in {__version__}: {', '.join(sorted(other))}", remedy)
        return Finding("functions", OK, f"{len(ours)} libraries loaded")

    async def _permissions(self) -> Finding:
        """What this user may do, tried without doing it."""
        user = (await self._link.do("ACL", "WHOAMI")).decode()
        operator = self._config.control.operators[0] if self._config.control.operators else keys.DEFAULT_OPERATOR
        needed: list[tuple[str, ...]] = [
            ("XADD", self._keys.requests(operator), "*", keys.CONTROL_FIELD.decode(), "x"),
            ("HGETALL", self._keys.session_state("x")),
            ("HGETALL", self._keys.session("x")),
            ("ZRANGE", self._keys.session_index(), "0", "-1"),
            ("XRANGE", keys.stream("x"), "-", "+"),
            ("XRANGE", self._keys.dead_letters(), "-", "+"),
            ("XDEL", self._keys.dead_letters(), "0-1"),
        ]
        answers = await self._link.do_all([("ACL", "DRYRUN", user, *words) for words in needed])
        refused = [f"{words[0]} {words[1]}" for words, answer in zip(needed, answers, strict=True) if answer != b"OK"]
        if refused:
            remedy = "Some commands won't work as this user: use one with the role of an operator or a supervisor."
            return Finding("permissions", WARN, f"{user} may not: {', '.join(refused)}", remedy)
        if user == "default" and not _is_local(self._config.redis.url):
            remedy = "Give supervisors, writers and readers users of their own."
            return Finding("permissions", WARN, f"signed in as {user}, over the network", remedy)
        return Finding("permissions", OK, f"signed in as {user}, who may do everything that an operator needs")

    async def _clock(self) -> Finding:
        ahead_ms = (await self._view.server()).clock_ahead_ms
        where = "ahead of" if ahead_ms >= 0 else "behind"
        found = f"Redis is {abs(ahead_ms):,} ms {where} this host"
        remedy = "Synchronise the clocks (chrony, systemd-timesyncd): ages and deadlines are off by this much."
        if abs(ahead_ms) >= SKEW_BAD_MS:
            return bad("clock", found, remedy)
        return Finding("clock", WARN, found, remedy) if abs(ahead_ms) >= SKEW_WARN_MS else Finding("clock", OK, found)

    async def _supervisors(self) -> Finding:
        nodes = await self._view.nodes()
        if not nodes:
            remedy = "Start one: systemctl start rta-supervisor, or rta-supervisor run."
            return bad("supervisors", "none is running", remedy, errors.NoSupervisor.exit_code)
        versions = sorted({node.version for node in nodes})
        found = f"{len(nodes)} running, version {' and '.join(versions)}"
        if versions != [__version__]:
            return Finding("supervisors", WARN, found, f"This is {__version__}: upgrade the others, one by one.")
        return Finding("supervisors", OK, found)

    async def _lanes(self) -> Finding:
        lanes = await self._view.control_streams()
        age_s = queries.oldest_age_s(lanes, now_ms())
        waiting = sum(lane.waiting + lane.unacknowledged for lane in lanes)
        found = f"{waiting:,} messages waiting, the oldest for {age_s:.1f} s"
        unread = [lane.key for lane in lanes if not lane.is_read]
        if unread:
            remedy = "Start a supervisor that has their principals in control.principals or control.operators."
            return bad("control streams", f"nobody reads {_some(unread)}", remedy)
        if age_s > self._config.control.retry_s:
            remedy = (
                "Supervisors are too slow or stuck: look at their logs and at rta-supervisor nodes; add another one."
            )
            return bad("control streams", found, remedy, errors.Unavailable.exit_code)
        if evicted := sum(lane.evicted for lane in lanes):
            remedy = "Totals were counted again from the marks. Run supervisors without long pauses."
            return Finding("control streams", WARN, f"{found}; {evicted:,} were evicted unread so far", remedy)
        return Finding("control streams", OK, found)

    async def _letters(self) -> Finding:
        count = await self._view.dead_letter_count()
        if count:
            return Finding("dead letters", WARN, f"{count:,}", "Look at them with: rta-supervisor dlq list")
        return Finding("dead letters", OK, "none")

    async def _sessions(self) -> Finding:
        sessions = await self._view.sessions()
        counts = ", ".join(f"{count:,} {state}" for state, count in queries.by_state(sessions).items())
        known = set(self._config.control.principals)
        strangers = [one.identity for one in sessions if one.principal not in known and not one.state.is_closed]
        if strangers:
            remedy = "Their principals are not in control.principals: nobody reads what their writers report."
            return bad("sessions", f"unknown principals of {_some(strangers)}", remedy)
        if lost := [one.identity for one in sessions if one.lost_data]:
            remedy = "Redis lost data of them: they end as truncated. See docs/troubleshooting.md."
            return Finding("sessions", WARN, f"{counts}; data lost of {_some(lost)}", remedy)
        limit_ms = now_ms() - int(self._config.session.writer_silent_s * 1000)
        live = (State.OPEN, State.WAITING)
        silent = [one.identity for one in sessions if one.state in live and (one.heard_ms or 0) < limit_ms]
        if silent:
            remedy = "Their writers are gone: the watchdog ends them, or: rta-supervisor sessions abandon."
            return Finding("sessions", WARN, f"{counts}; nothing was heard of {_some(silent)}", remedy)
        return Finding("sessions", OK, counts)

    async def _archive(self) -> Finding:
        """How much waits for it, and how near the streams are to where waiting ends."""
        config = self._config.archive
        members = await self._link.do("ZRANGE", self._keys.unarchived(), 0, -1)
        waiting = [one for one in map(UnarchivedSession.parse, members) if one.holds_data]
        found = f"{len(waiting):,} sessions are not in it"
        if not config.required:
            return Finding("archive", OK, f"not required; {found}")
        streams = sorted({one.stream for one in waiting}) if config.max_bytes else []
        sizes = await self._link.do_all([("MEMORY", "USAGE", keys.stream(name)) for name in streams])
        shares = {name: (size or 0) / config.max_bytes for name, size in zip(streams, sizes, strict=True)}
        remedy = "Run rta-supervisor archive, and more often; or raise archive.max_bytes."
        if over := [name for name, share in shares.items() if share >= 1]:
            return bad(
                "archive", f"{found}; {_some(over)} loses entries that are not", remedy, errors.Unavailable.exit_code
            )
        if near := [name for name, share in shares.items() if share >= config.alarm_at]:
            return Finding("archive", WARN, f"{found}; {_some(near)} is near archive.max_bytes", remedy)
        return Finding("archive", OK, found)

    async def _orphans(self) -> Finding:
        """Scans, a bounded part of all keys: the only command that does."""
        names, is_all = await self._scan()
        pattern = re.compile(re.escape(self._keys.session_state("\0")).replace("\0", "(.+)"))
        states = [(name, match[1]) for name in names if (match := pattern.fullmatch(name))]
        there = await self._link.do_all([("EXISTS", self._keys.session(identity)) for _, identity in states])
        orphans = [name for (name, _), is_there in zip(states, there, strict=True) if not is_there]
        ours = [name for name in names if name.startswith(self._keys.prefix) and not self._may_stay(name)]
        ttls = await self._link.do_all([("TTL", name) for name in ours])
        orphans += [name for name, ttl_s in zip(ours, ttls, strict=True) if ttl_s == -1]
        looked = f"looked at {len(names):,} keys" + ("" if is_all else ", not at all of them (--scan-keys)")
        if orphans:
            remedy = "Remove them with UNLINK once no supervisor of another version needs them."
            return Finding("orphaned keys", WARN, f"{len(orphans):,}: {_some(orphans)}; {looked}", remedy)
        return Finding("orphaned keys", OK, f"none; {looked}")

    async def _scan(self) -> tuple[list[str], bool]:
        names: list[str] = []
        for send in await self._link.topology.senders():
            cursor = b""
            while cursor != b"0":
                if len(names) >= self._scan_keys:
                    return names, False
                [answer] = await send([("SCAN", cursor or b"0", "COUNT", SCAN_PAGE)])
                if isinstance(answer, Exception):
                    raise answer
                cursor, page = answer
                names += [raw.decode(errors="replace") for raw in page]
        return names, True

    def _may_stay(self, name: str) -> bool:
        """Keys that have no TTL because they are bounded in another way."""
        single = {self._keys.session_index(), self._keys.dead_letters(), self._keys.nodes(), self._keys.streams_used()}
        single |= {self._keys.cold_index(), self._keys.cold_pause(), self._keys.unarchived()}
        lanes = (self._keys.requests(""), self._keys.reports(""), self._keys.control_counters("").partition("{")[0])
        return name in single or name.startswith(lanes)


def worst(findings: Iterable[Finding]) -> int:
    """The exit code: of the first that is bad, else 0."""
    return next((one.exit_code for one in findings if one.level == BAD), 0)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more


def _is_local(url: str) -> bool:
    return url.startswith("unix:") or any(f"{host}" in url for host in ("127.0.0.1", "localhost", "[::1]"))


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
