"""Checks of the Redis server: that it answers, is configured as sessions need it, has our functions, and lets this user
do its work.
"""

from typing import Final

import anyio
import redis.exceptions

from rta_supervisor.observe.doctor.findings import Finding, bad, ok, warn
from rta_supervisor.observe.queries import RedisQueries
from rta_supervisor.settings import settings
from rta_supervisor.transport import failures, server_check
from rta_supervisor.transport import function_loader as transport_functions
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict, parse_info
from rta_wire import __version__, errors, keys, redis_url

SKEW_WARN_MS: Final = 1000
SKEW_BAD_MS: Final = 30_000
MEMORY_WARN: Final = 0.8
ROUND_TRIP_WARN_MS: Final = 50


class ServerChecks:
    """One method for each check of the server."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        self._link = link
        self._config = config
        self._keys = config.keys
        self._queries = RedisQueries(link, config)

    async def reachable(self) -> Finding:
        """Whether Redis answers, and how fast."""
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
            return warn(check, f"{url}, but a round trip takes {took_ms:.0f} ms", remedy)
        return ok(check, f"{url}, round trip {took_ms:.1f} ms")

    async def server(self) -> Finding:
        """Whether version, role and eviction policy suit. How full the memory is, is another check."""
        infos = [parse_info(raw) for raw in await self._link.do_on_primaries("INFO", "everything")]
        server = await self._queries.server()
        found = f"{server.product} {server.version}, {server.role}, maxmemory-policy {server.policy}"
        for info in infos:
            problem = server_check.find_problem(info, self._config.redis)
            if problem is not None and not isinstance(problem, errors.RedisFull):
                return bad("server", found, f"{problem.facts['reason']}.")
        if server.policy != "noeviction":
            remedy = "Sessions are dropped silently: CONFIG SET maxmemory-policy noeviction."
            return warn("server", found, remedy)
        return ok("server", found)

    async def memory(self) -> Finding:
        """How full the memory is."""
        server = await self._queries.server()
        if not server.max_bytes:
            remedy = "Set maxmemory below the host's memory: without it the kernel ends Redis, and with it its data."
            return warn("memory", f"{server.used_bytes:,} bytes used, no maxmemory", remedy)
        share = server.used_bytes / server.max_bytes
        found = f"{server.used_bytes:,} of {server.max_bytes:,} bytes used, {share:.0%}"
        remedy = "Raise maxmemory, or lower trim.max_entries; see the formula in docs/operating.md."
        if share >= 1:
            return bad("memory", found, remedy, errors.RedisFull.exit_code)
        return warn("memory", found, remedy) if share > MEMORY_WARN else ok("memory", found)

    async def persistence(self) -> Finding:
        """Whether a restart of Redis keeps its data."""
        info = parse_info(await self._link.do("INFO", "persistence"))
        failing = [name for name in ("rdb_last_bgsave_status", "aof_last_write_status") if info.get(name) == "err"]
        if failing:
            remedy = "Look at the log and the disk of Redis."
            return bad("persistence", f"the last write failed: {', '.join(failing)}", remedy, 69)
        if info.get("aof_enabled") == "1":
            return ok("persistence", "append-only file")
        remedy = "Set appendonly yes; else a restart of Redis loses data. Losses are reported either way."
        return warn("persistence", "no append-only file", remedy)

    async def functions(self) -> Finding:
        """Whether every primary has our server functions, with the code of this version."""
        ours = {transport_functions.library_name(code): code for code in transport_functions.libraries()}
        absent: set[str] = set()
        different: set[str] = set()
        for reply in await self._link.do_on_primaries("FUNCTION", "LIST", "LIBRARYNAME", "rtas_*", "WITHCODE"):
            libraries = [pairs_to_dict(flat) for flat in reply]
            loaded = {fields[b"library_name"].decode(): fields[b"library_code"].decode() for fields in libraries}
            absent |= ours.keys() - loaded.keys()
            different |= {name for name in ours.keys() & loaded.keys() if loaded[name] != ours[name]}
        if absent:
            remedy = "Start a supervisor: it loads them."
            return bad("functions", f"not loaded: {', '.join(sorted(absent))}", remedy, errors.Unavailable.exit_code)
        if different:
            remedy = "Let all supervisors and this command have one version; restart the supervisors."
            return warn("functions", f"other code than in {__version__}: {', '.join(sorted(different))}", remedy)
        return ok("functions", f"{len(ours)} libraries loaded")

    async def permissions(self) -> Finding:
        """Whether this user may do what an operator needs. Tried with ACL DRYRUN, which changes nothing."""
        user = (await self._link.do("ACL", "WHOAMI")).decode()
        operator = self._config.control.operators[0] if self._config.control.operators else keys.DEFAULT_OPERATOR
        needed: list[tuple[str, ...]] = [
            ("XADD", self._keys.requests(operator), "*", keys.CONTROL_FIELD.decode(), "x"),
            ("HSCAN", self._keys.session_state("x"), "0"),
            ("HGETALL", self._keys.session("x")),
            ("ZSCAN", self._keys.session_index(), "0"),
            ("TYPE", self._keys.marks("x", 1)),
            ("UNLINK", self._keys.marks("x", 1)),
            ("XRANGE", keys.stream("x"), "-", "+"),
            ("XRANGE", self._keys.dead_letters(), "-", "+"),
            ("XDEL", self._keys.dead_letters(), "0-1"),
        ]
        replies = await self._link.do_all([("ACL", "DRYRUN", user, *command) for command in needed])
        refused = [f"{name} {key}" for (name, key, *_), reply in zip(needed, replies, strict=True) if reply != b"OK"]
        if refused:
            remedy = "Some commands won't work as this user: use one with the role of an operator or a supervisor."
            return warn("permissions", f"{user} may not: {', '.join(refused)}", remedy)
        if user == "default" and not _is_local(self._config.redis.url):
            remedy = "Give supervisors, writers and readers users of their own."
            return warn("permissions", f"signed in as {user}, over the network", remedy)
        return ok("permissions", f"signed in as {user}, who may do everything that an operator needs")

    async def clock(self) -> Finding:
        """Whether the clocks of Redis and of this host agree."""
        ahead_ms = (await self._queries.server()).clock_ahead_ms
        direction = "ahead of" if ahead_ms >= 0 else "behind"
        found = f"Redis is {abs(ahead_ms):,} ms {direction} this host"
        remedy = "Synchronise the clocks (chrony, systemd-timesyncd): ages and deadlines are off by this much."
        if abs(ahead_ms) >= SKEW_BAD_MS:
            return bad("clock", found, remedy)
        return warn("clock", found, remedy) if abs(ahead_ms) >= SKEW_WARN_MS else ok("clock", found)


def _is_local(url: str) -> bool:
    return url.startswith("unix:") or any(host in url for host in ("127.0.0.1", "localhost", "[::1]"))
