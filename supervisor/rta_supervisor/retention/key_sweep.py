"""Goes over the keys that writers make, a part at a time: gives those without a lifetime one, and removes what is left
of sessions that have ended. What becomes of a key is decided in `key_sweep_rules`.

It is the only user of SCAN among the duties: nothing else knows of a key that a writer made up.
"""

from collections.abc import Sequence
from typing import Any, Final

import redis.exceptions

from rta_supervisor.diagnostics import log, loop_watch
from rta_supervisor.nodes import periodic
from rta_supervisor.retention import key_sweep_rules
from rta_supervisor.retention.key_sweep_rules import KeyFacts, SweepAction
from rta_supervisor.retention.other_producers import OtherSessionSweep
from rta_supervisor.settings import settings
from rta_supervisor.transport import scanning
from rta_supervisor.transport.commands import Command
from rta_supervisor.transport.link import Link

SWEEP_EVERY_S: Final = 1.0
SCAN_COUNT: Final = 1000
"""Keys that Redis looks at in one step: a million keys take a quarter of an hour, and a step a few hundred
microseconds."""

LOGGED_KEYS: Final = 3
LOGGED_KEY_MAX_CHARS: Final = 200


class KeySweep:
    """One pass after another over the keys of all servers."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        self._link = link
        self._config = config
        self._cursors: list[bytes] = []
        self._is_allowed = True
        self._other_sessions = OtherSessionSweep(link, config)
        self._to_remove: dict[str, str] = {}
        """Hashes of very many fields, and how the names of those to be removed begin."""
        self._log = log.get(duty="sweep")

    async def run(self, turns: periodic.DutyTurns = periodic.UNLEASED) -> None:
        """Sweep until cancelled."""
        await periodic.in_turns(turns, lambda: SWEEP_EVERY_S, self._sweep_in_turn, self._link.outage_log)

    def remove_later(self, key: str, prefix: str) -> None:
        """Have a hash of very many fields removed, or those of them whose names begin with `prefix`. It has a lifetime
        too: should this process end before, another one finds the key."""
        self._to_remove[key] = prefix

    async def _sweep_in_turn(self, until_ms: int | None) -> None:
        await self.remove_waiting()
        if until_ms is not None and self._is_allowed:
            await self.sweep()
            await self._other_sessions.sweep()

    async def remove_waiting(self) -> None:
        """Remove the hashes that wait for it, in parts. UNLINK alone would free a whole hash in another thread, which
        holds up the server where the allocator makes threads wait for each other."""
        while self._to_remove:
            key, prefix = next(iter(self._to_remove.items()))
            try:
                async for page in scanning.scan(self._link, scanning.Collection.HASH, key):
                    loop_watch.report_alive()
                    if fields := [field for field in page[::2] if field.startswith(prefix.encode())]:
                        await self._link.do("HDEL", _raw(key), *fields)
            except redis.exceptions.ResponseError as error:
                # It holds something else by now, or an older ACL does not allow it: its lifetime ends it.
                self._log.warning("hash_not_removed", key=key[:LOGGED_KEY_MAX_CHARS], error=str(error))
            del self._to_remove[key]

    async def sweep(self) -> bool:
        """Take one step on each server. Whether a pass over all keys has ended with it."""
        try:
            names = await self._next_names()
        except redis.exceptions.NoPermissionError:
            self._is_allowed = False
            scanning.note_missing_permission("SCAN")
            return True
        facts = await self._look_at([name for name in names if key_sweep_rules.is_of_writers(self._config.keys, name)])
        by_action: dict[SweepAction, list[str]] = {}
        for key in facts:
            by_action.setdefault(key_sweep_rules.decide(key, self._config.session.open_ttl_s), []).append(key.name)
        await self._act(by_action)
        await self._expire_replies([name for name in names if key_sweep_rules.is_reply(self._config.keys, name)])
        return all(cursor == b"0" for cursor in self._cursors)

    async def _next_names(self) -> list[str]:
        senders = await self._link.topology.senders()
        if len(senders) != len(self._cursors):
            self._cursors = [b"0"] * len(senders)
        match = key_sweep_rules.scan_pattern(self._config.keys)
        names: list[str] = []
        for number, send in enumerate(senders):
            [reply] = await send([("SCAN", self._cursors[number], "MATCH", match, "COUNT", SCAN_COUNT)])
            if isinstance(reply, Exception):
                raise reply
            self._cursors[number], page = reply
            names += [raw.decode(errors="surrogateescape") for raw in page]
        return names

    async def _look_at(self, names: Sequence[str]) -> list[KeyFacts]:
        gates = [key_sweep_rules.gate_of(self._config.keys, name) for name in names]
        commands: list[Command] = []
        for name, gate in zip(names, gates, strict=True):
            raw = _raw(name)
            commands += (("TTL", raw), ("MEMORY", "USAGE", raw), ("HLEN", raw))
            commands.append(("GET", gate) if gate else ("EXISTS", raw))
        replies = await self._link.try_all(commands)
        return [
            KeyFacts(
                name,
                ttl_s,
                used_bytes or 0,
                is_hash=isinstance(fields, int),
                gate=_gate_text(gate_reply) if gate else "",
                is_fence=key_sweep_rules.is_fence(self._config.keys, name),
            )
            for name, gate, ttl_s, used_bytes, fields, gate_reply in zip(
                names, gates, *(replies[at::4] for at in range(4)), strict=True
            )
            if isinstance(ttl_s, int) and not isinstance(used_bytes, Exception)
        ]

    async def _act(self, by_action: dict[SweepAction, list[str]]) -> None:
        ttl_s = self._config.session.open_ttl_s
        commands: list[Command] = [
            ("EXPIRE", _raw(name), ttl_s, "NX") for name in by_action.get(SweepAction.EXPIRE, ())
        ]
        commands += [("UNLINK", _raw(name)) for name in by_action.get(SweepAction.REMOVE, ())]
        await self._link.do_all(commands)
        for name in by_action.get(SweepAction.REMOVE_IN_PARTS, ()):
            self.remove_later(name, "")
        for action in (SweepAction.EXPIRE, SweepAction.REMOVE, SweepAction.REMOVE_IN_PARTS):
            if names := by_action.get(action):
                self._log_swept(action, names)

    async def _expire_replies(self, names: Sequence[str]) -> None:
        """Give replies without a lifetime that of a reply. There are very many replies: nothing else is looked at."""
        lifetimes_s = await self._link.do_all([("TTL", _raw(name)) for name in names])
        endless = [name for name, ttl_s in zip(names, lifetimes_s, strict=True) if ttl_s == key_sweep_rules.NO_TTL]
        ttl_s = self._config.control.reply_ttl_s
        await self._link.do_all([("EXPIRE", _raw(name), ttl_s, "NX") for name in endless])
        if endless:
            self._log_swept(SweepAction.EXPIRE, endless)

    def _log_swept(self, action: SweepAction, names: Sequence[str]) -> None:
        some = [_raw(name).decode(errors="replace")[:LOGGED_KEY_MAX_CHARS] for name in names[:LOGGED_KEYS]]
        self._log.info("keys_swept", action=action.value, count=len(names), some=some)


def _raw(name: str) -> bytes:
    """The bytes of a key: a writer may use any."""
    return name.encode(errors="surrogateescape")


def _gate_text(reply: Any) -> str:
    """The gate of a session; `other` where something else stands in its place."""
    if isinstance(reply, Exception):
        return "other"
    return "" if reply is None else str(reply.decode(errors="replace"))
