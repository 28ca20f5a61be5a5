"""Mends one key that a client spoilt, where that is safe: nothing that anybody still reads or writes is removed.

`plan` looks at the key and says what would be done, or why nothing is; `carry_out` does it.
"""

import re
from typing import Any, Final

import msgspec

from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe.doctor import key_checks
from rta_supervisor.observe.queries import RedisQueries
from rta_supervisor.observe.summaries import SessionSummary
from rta_supervisor.retention import key_sweep_rules, other_producers
from rta_supervisor.settings import settings
from rta_supervisor.transport import replies
from rta_supervisor.transport.commands import Command
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, errors, keys

QUIET_S: Final = 3600
"""A stream that no session uses, and to which nothing was appended for so long, is nobody's."""

OPEN_GATES: Final = ("open", "sealed", "other")


class RepairPlan(msgspec.Struct, frozen=True):
    """What is wrong with a key, and what is done about it."""

    key: str
    found: str
    action: str
    commands: tuple[Command, ...]


class Repair:
    """Repairs of single keys."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        self._link = link
        self._config = config
        self._keys = config.keys
        self._queries = RedisQueries(link, config)

    async def plan(self, key: str) -> RepairPlan:
        """What to do about a key. Raises `NotRepairable` where nothing is to be done, or it would not be safe."""
        raw_type, ttl_s = await self._link.do_all([("TYPE", key), ("TTL", key)])
        type_ = raw_type.decode()
        if type_ == key_checks.NO_KEY:
            raise _refusal(key, "there is no such key")
        if key_sweep_rules.is_of_writers(self._keys, key):
            return await self._plan_key_of_writers(key, type_, ttl_s)
        if (identity := _part(self._keys.session_state("\0"), key)) is not None:
            return await self._plan_state(key, identity, type_)
        if (stream := _part(keys.stream("\0"), key)) is not None:
            return await self._plan_stream(key, stream, type_)
        if key.startswith((self._keys.requests(""), self._keys.reports(""))):
            return await self._plan_control_stream(key, type_)
        for name in (self._keys.gate, self._keys.published):
            if match := re.fullmatch(_pattern(name("\0", 0), r"(\d+)"), key):
                return await self._plan_text(key, match[1], int(match[2]), type_, ttl_s)
        if (identity := _part(self._keys.session("\0"), key)) is not None:
            return await self._plan_session(key, identity, type_)
        raise _refusal(key, "no writer can spoil it, so it needs no repair")

    async def carry_out(self, plan: RepairPlan) -> None:
        """Do what a plan says."""
        await self._link.do_in_order(plan.commands)

    async def _plan_key_of_writers(self, key: str, type_: str, ttl_s: int) -> RepairPlan:
        gate = key_sweep_rules.gate_of(self._keys, key)
        if gate:
            [reply] = await self._link.try_all([("GET", gate)])
            text = "other" if isinstance(reply, Exception) else (reply or b"").decode()
            if text in OPEN_GATES:
                raise _refusal(key, "its session is not closed. End it first: rta-supervisor sessions abandon IDENTITY")
        is_fence = key_sweep_rules.is_fence(self._keys, key)
        if type_ not in _types_of_writers(self._keys, key, is_fence=is_fence):
            return _removal(key, f"holds a {type_}, and belongs to no open session")
        if ttl_s == key_sweep_rules.NO_TTL:
            return _removal(key, "has no lifetime, and belongs to no open session")
        raise _refusal(key, f"nothing is wrong with it, and it expires in {ttl_s} s")

    async def _plan_state(self, key: str, identity: str, type_: str) -> RepairPlan:
        session = self._keys.session(identity)
        if type_ != "hash":
            action = (
                f"remove it and {session}; rta-supervisor sessions resurrect {identity} brings the session back from "
                "the catalogue"
            )
            return RepairPlan(key, f"holds a {type_}", action, (("UNLINK", key), ("UNLINK", session)))
        exists, score = await self._link.do_all([("EXISTS", session), ("ZSCORE", self._keys.session_index(), identity)])
        if not exists and score is None:
            return _removal(key, "is the state of a session that is gone")
        raise _refusal(key, "it is the state of a session")

    async def _plan_session(self, key: str, identity: str, type_: str) -> RepairPlan:
        if type_ == "hash":
            raise _refusal(key, "it is the hash of a session, for its readers")
        if await self._link.do("EXISTS", self._keys.session_state(identity)):
            raise _refusal(
                key, "the supervisor that serves the session replaces it within seconds. See that one is running"
            )
        return _removal(key, f"holds a {type_}, and there is no such session")

    async def _plan_text(self, key: str, stream: str, number: int, type_: str, ttl_s: int) -> RepairPlan:
        live = await self._live(stream)
        if owner := next((session for session in live if session.stream_session_id == number), None):
            raise _refusal(
                key, f"it is replaced when its session ends: rta-supervisor sessions abandon {owner.identity}"
            )
        if type_ == "string" and ttl_s != key_sweep_rules.NO_TTL:
            raise _refusal(key, f"nothing is wrong with it, and it expires in {ttl_s} s")
        return _removal(key, "belongs to no live session")

    async def _plan_stream(self, key: str, stream: str, type_: str) -> RepairPlan:
        if live := await self._live(stream):
            raise _refusal(
                key, f"session {live[0].identity!r} is open in it. End it first: rta-supervisor sessions abandon"
            )
        if type_ != "stream":
            return _removal(key, f"holds a {type_}, and no session is open in it")
        info = await replies.read_stream_info(self._link, key)
        if not key_checks.is_ahead(info):
            return await self._plan_unlisted(key, info)
        bound = entry_ids.format_id(now_ms() + key_checks.AHEAD_MAX_MS)
        if await self._link.do("XRANGE", key, "-", bound, "COUNT", 1):
            # Redis lets no stream go back to lower ids, unless all of its entries are removed.
            reason = "its entries would be lost with it. Use another stream: it is removed after trim.idle_stream_s"
            raise _refusal(key, reason)
        return _removal(key, "has used up its ids, and has no entries but those of the future")

    async def _plan_unlisted(self, key: str, info: dict[bytes, Any] | None) -> RepairPlan:
        """A stream that no session ever used is trimmed by nobody."""
        if not await other_producers.read_unlisted(self._link, [key]):
            raise _refusal(key, "its ids are not used up")
        quiet_s = (now_ms() - entry_ids.ms_of(replies.last_generated_id(info))) // 1000
        if quiet_s < QUIET_S:
            raise _refusal(key, f"something was appended to it {quiet_s} s ago. Try again when it is quiet for an hour")
        return _removal(key, f"is not listed in `streams`, and nothing was appended to it for {quiet_s} s")

    async def _plan_control_stream(self, key: str, type_: str) -> RepairPlan:
        if type_ != "stream":
            return _removal(key, f"holds a {type_}; supervisors make it anew")
        info = await replies.read_stream_info(self._link, key)
        if not key_checks.is_ahead(info) or info is None:
            raise _refusal(key, "its ids are not used up")
        groups = [replies.pairs_to_dict(flat) for flat in await self._link.do("XINFO", "GROUPS", key)]
        if waiting := max([info[b"length"], *(group[b"pending"] for group in groups)]):
            raise _refusal(key, f"{waiting} messages in it are not handled yet. Try again when they are")
        return _removal(key, "has used up its ids, and is empty; supervisors make it anew")

    async def _live(self, stream: str) -> list[SessionSummary]:
        sessions = await self._queries.sessions()
        return [session for session in sessions if session.stream == stream and not session.state.is_closed]


def _types_of_writers(names: keys.Keys, key: str, *, is_fence: bool) -> tuple[str, ...]:
    """The types that a key of writers may have."""
    if is_fence or key.startswith(names.staging_manifest("", 0, "", 0).partition("{")[0]):
        return ("string",)
    return ("set",) if key.startswith(names.members("")) else ("hash",)


def _removal(key: str, found: str) -> RepairPlan:
    return RepairPlan(key, found, "remove it", (("UNLINK", key),))


def _part(pattern: str, key: str) -> str | None:
    """What stands in a key in place of the NUL in the pattern; None where the key is another one."""
    match: Any = re.fullmatch(_pattern(pattern), key)
    return None if match is None else match[1]


def _pattern(pattern: str, number: str = "") -> str:
    escaped = re.escape(pattern).replace("\0", "(.+)")
    return escaped[:-1] + number if number else escaped


def _refusal(key: str, reason: str) -> errors.NotRepairable:
    return errors.NotRepairable(key=key, reason=reason)
