"""Reads the index of live sessions: those that are open, and those that closed a moment ago."""

from rta_supervisor.transport import scanning
from rta_supervisor.transport.link import Link
from rta_wire import keys


async def live_identities(link: Link, names: keys.Keys) -> list[str]:
    """Identities of all live sessions, the one that was silent for longest first."""
    return [raw.decode() for raw in await scanning.read_sorted_set(link, names.session_index())]
