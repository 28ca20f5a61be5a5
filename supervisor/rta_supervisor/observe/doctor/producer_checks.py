"""The check for streams and sessions of the RTA protocol that no supervisor opened: another library wrote them."""

from typing import Final

from rta_supervisor.observe import stream_memory
from rta_supervisor.observe.doctor import findings
from rta_supervisor.observe.doctor.findings import Finding, name_some
from rta_supervisor.observe.doctor.key_scan import KeyScan
from rta_supervisor.retention import other_producers
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import keys

NAME: Final = "other producers"
MEASURED_STREAMS_MAX: Final = 10_000
MIB: Final = 1024 * 1024


class ProducerChecks:
    """Lists what other producers have in Redis. That is no fault: it says what becomes of it."""

    def __init__(self, link: Link, config: settings.Settings, scan: KeyScan) -> None:
        self._link = link
        self._config = config
        self._scan = scan

    async def other_producers(self) -> Finding:
        """Streams and sessions that no supervisor opened, the largest streams first."""
        streams = await other_producers.read_streams(self._link, self._config.keys)
        sessions = await other_producers.read_sessions(self._link, self._config.keys, await self._scan.names())
        unlisted = await other_producers.read_unlisted(self._link, await self._scan.names())
        scanned = await self._scan.describe()
        if not streams and not sessions and not unlisted:
            return findings.ok(NAME, f"none; {scanned}")
        found = [
            await self._describe_streams("streams", streams),
            await self._describe_streams("streams that `streams` does not list", unlisted),
            f"{len(sessions):,} sessions: {name_some([session.identity for session in sessions])}" if sessions else "",
        ]
        remedy = [self._remedy() if streams or sessions else "", _unlisted_remedy(unlisted)]
        return Finding(NAME, findings.OK, "; ".join([*filter(None, found), scanned]), " ".join(filter(None, remedy)))

    async def _describe_streams(self, what: str, streams: list[str]) -> str:
        """How many streams there are, their memory, and the names of the largest."""
        if not streams:
            return ""
        measured = [keys.stream(stream) for stream in streams[:MEASURED_STREAMS_MAX]]
        sizes = await stream_memory.read(self._link, measured)
        streams.sort(key=lambda stream: -sizes.get(keys.stream(stream), 0))
        return f"{len(streams):,} {what}, {sum(sizes.values()) / MIB:,.1f} MiB: {name_some(streams)}"

    def _remedy(self) -> str:
        config = self._config.other_producers
        trimmed = "trimmed as [trim] says" if config.trim_streams else "left alone (other_producers.trim_streams)"
        removed = "left alone (other_producers.remove_sessions_after_s)"
        if config.remove_sessions_after_s:
            removed = f"removed once nothing changed for {config.remove_sessions_after_s:,.0f} s"
        return f"No supervisor opened them. Their streams are {trimmed}, their sessions {removed}."


def _unlisted_remedy(streams: list[str]) -> str:
    if not streams:
        return ""
    key = keys.stream(streams[0])
    return f"Nobody trims what is not listed. Once nobody appends to it: rta-supervisor doctor --repair '{key}'"
