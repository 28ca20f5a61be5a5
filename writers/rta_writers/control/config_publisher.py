"""Has the channels of sessions published: each list once, with the ids that a session or its stream has already."""

import logging
from collections.abc import Iterator
from typing import Final

from rta_wire import errors, keys
from rta_wire.channels import model
from rta_wire.session import Json
from rta_writers.control import channels as control_channels
from rta_writers.control import configs, look
from rta_writers.control.channels import Channels
from rta_writers.control.requests import RequestSender

log: Final = logging.getLogger("rta_writers")

SESSIONS_LOOKED_AT: Final = 100
"""Sessions of a stream, the newest first, whose channels a new one goes by."""

SESSIONS_MAX: Final = 1_000
"""So many, where those have none."""

LISTS_LOOKED_AT: Final = 10
"""Of so many different lists among them, the newest first."""


class ConfigPublisher:
    """Publishes lists of channels in the name of one principal."""

    def __init__(self, sender: RequestSender, url: str, names: keys.Keys, principal: str) -> None:
        self._sender = sender
        self._url = url
        self._keys = names
        self._principal = principal
        self._published: set[str] = set()

    def __repr__(self) -> str:
        return f"ConfigPublisher(principal={self._principal!r}, {len(self._published)} lists of channels published)"

    def publish(self, channels: Channels, *, again: bool = False) -> str:
        """The identifier of a list, which is sent unless that was done before."""
        control_channels.check(channels)
        if again or channels.identifier not in self._published:
            reply = configs.publish(self._sender, channels.data)
            if reply.identifier != channels.identifier:
                raise errors.BadChannels(
                    where=f"configuration {channels.identifier}",
                    reason=f"the supervisor calls it {reply.identifier}: it has another version of this program",
                )
            control_channels.log_warnings(list(reply.warnings))
            self._published.add(channels.identifier)
        return channels.identifier

    def for_session(self, channels: Channels, *, identity: str, external_id: str, stream: str) -> Channels:
        """The list for a session: with what it has already while it is open, or else with the ids of its stream."""
        control_channels.check(channels)
        known = self._of_session(identity, external_id)
        if known is None and not channels.has_own_ids:
            known = self.of_stream(stream)
        return channels if known is None else channels.extended(known)

    def of_stream(self, stream: str) -> model.ChannelList | None:
        """The channels that sessions of the principal in a stream have had; of two with one name or id the newer one.

        While the supervisor has no catalogue, nothing is known of them: that keeps no session from being opened.
        """
        query = look.build_query(state=(), stream=stream, text="", since=None, until=None, details={})
        sessions = look.iter_sessions(self._sender, query, SESSIONS_MAX, page_sessions=SESSIONS_LOOKED_AT)
        lists: dict[str, model.ChannelList] = {}
        try:
            for count, info in enumerate(sessions, 1):
                if info.json is not None or not lists:
                    document = info.json if info.json is not None else look.get(self._sender, info.identity, "").json
                    lists |= {name: known for name, known in self._bound(document) if name not in lists}
                if lists and (count >= SESSIONS_LOOKED_AT or len(lists) >= LISTS_LOOKED_AT):
                    break
        except errors.CatalogueUnavailable as error:
            log.warning("Earlier sessions in stream %s can't be looked at for the ids of channels: %s", stream, error)
        return model.merge(reversed(lists.values())) if lists else None

    def _of_session(self, identity: str, external_id: str) -> model.ChannelList | None:
        """The channels of a session that is open."""
        try:
            info = look.get(self._sender, "" if external_id else identity, external_id)
        except (errors.UnknownSession, errors.CatalogueUnavailable):
            return None  # Redis has all that are open, and is looked at first
        if info.state.is_closed:
            return None
        lists = [known for _, known in self._bound(info.json)]
        return model.merge(lists) if lists else None

    def _bound(self, document: Json | None) -> Iterator[tuple[str, model.ChannelList]]:
        """The configurations that a Session JSON binds without an offset, as far as they are known."""
        for binding in configs.bindings_in(document):
            if not binding.offset:
                try:
                    known = configs.channel_list(self._url, self._keys, binding.identifier, self._principal)
                except errors.UnknownConfig:
                    continue  # set by hand, for a viewer that finds it elsewhere
                yield binding.identifier, known
