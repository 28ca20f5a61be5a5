"""Tells the printer of `tail` what the channels of each session are: by its JSON in Redis at first, then by what the
stream says about it.
"""

from rta_supervisor.channels.session_channels import ChannelReader, SessionChannels
from rta_supervisor.channels.store import ConfigStore
from rta_supervisor.cli import entry_printer
from rta_supervisor.cli.entry_printer import EntryPrinter
from rta_supervisor.settings import settings
from rta_supervisor.transport.failures import OUTAGE_ERRORS, REFUSAL_ERRORS
from rta_supervisor.transport.link import Link
from rta_wire import keys


class TailChannels:
    """What is known of the channels of sessions while they are followed."""

    def __init__(self, link: Link, config: settings.Settings, store: ConfigStore, printer: EntryPrinter) -> None:
        self._link = link
        self._keys = config.keys
        self._reader = ChannelReader(store)
        self._printer = printer
        self._described: dict[int, tuple[str, ...]] = {}
        """The configurations of each session that the printer was told of, and what was wrong with them."""
        self._reported: set[str] = set()

    async def describe_session(self, stream_session_id: int, identity: str | None) -> SessionChannels:
        """Describe a session by its JSON in Redis. `identity`: None where it is not known."""
        raw = None if identity is None else await self._link.do("HGET", self._keys.session(identity), keys.JSON)
        return await self._describe(stream_session_id, raw or b"")

    async def describe_first(self, stream_session_id: int, identity: str | None) -> None:
        """Describe a session of which an entry comes, unless that was done before."""
        if stream_session_id not in self._described:
            await self.describe_session(stream_session_id, identity)

    async def describe_documents(self, stream_session_id: int, documents: list[str]) -> None:
        """Describe a session by what its stream says about it. JSON without bindings takes none away: the session was
        bound later, and what is in Redis is newer."""
        for document in documents:
            if "configBindings" in document:
                await self._describe(stream_session_id, document)

    async def _describe(self, stream_session_id: int, document: bytes | str) -> SessionChannels:
        try:
            channels = await self._reader.read(document)
        except (*OUTAGE_ERRORS, *REFUSAL_ERRORS) as error:
            channels = SessionChannels(problems=(f"Redis does not answer: {error}",))
        for problem in channels.problems:
            if problem not in self._reported:
                self._reported.add(problem)
                which = "some channels" if channels.channel_list.channels else "channels"
                entry_printer.warn(f"{which} are shown by their numbers: {problem}")
        described = (*channels.identifiers, *channels.problems)
        if self._described.get(stream_session_id) != described:
            self._described[stream_session_id] = described
            self._printer.describe(stream_session_id, channels.channel_list)
        return channels
