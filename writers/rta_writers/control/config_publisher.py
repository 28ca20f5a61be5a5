"""Has the channels of sessions published: each list once, with the ids that a session or its stream has already."""

import contextlib
import logging
from typing import Final

import msgspec

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
        return self.with_stream_ids(channels, stream) if known is None else channels.extended(known)

    def with_stream_ids(self, channels: Channels, stream: str) -> Channels:
        """The list with all channels of a stream; of columns alone where one list has no room for all. One with ids of
        its own stays as it is."""
        known = None if channels.has_own_ids else self.of_stream(stream)
        if known is None:
            return channels
        if channels.given is not None:
            known = _merge_newest(stream, [channels.given, known])
        try:
            return channels.extended(known)
        except errors.BadChannels as error:
            _warn(stream, error)
            # With the highest id, after which new ones get theirs.
            wanted = {*channels.list.by_name, *(channel.name for channel in known.channels[-1:])}
            own = tuple(channel for channel in known.channels if channel.name in wanted)
            return channels.extended(msgspec.structs.replace(known, channels=own))

    def of_stream(self, stream: str) -> model.ChannelList | None:
        """The channels that sessions of the principal in a stream have had; of two with one name or id the newer one.

        What can't be read of earlier sessions keeps no session from being opened: the log says what it was.
        """
        query = look.build_query(state=(), stream=stream, text="", since=None, until=None, details={})
        sessions = look.iter_sessions(self._sender, query, SESSIONS_MAX, page_sessions=SESSIONS_LOOKED_AT)
        seen: set[str] = set()
        lists: list[model.ChannelList] = []
        large = 0
        try:
            for count, info in enumerate(sessions, 1):
                document = info.json
                if document is None and (not lists or large < LISTS_LOOKED_AT):
                    large += 1
                    document = self._whole_json(info.identity)
                # Of the bindings of a session the last one counts before the others.
                for binding in reversed(_bound_here(document)):
                    if binding.identifier not in seen:
                        seen.add(binding.identifier)
                        lists += self._earlier_list(stream, binding.identifier)
                if lists and (count >= SESSIONS_LOOKED_AT or len(lists) >= LISTS_LOOKED_AT):
                    break
        except errors.CatalogueUnavailable as error:
            log.warning("Earlier sessions in stream %s can't be looked at for the ids of channels: %s", stream, error)
        return _merge_newest(stream, lists) if lists else None

    def _whole_json(self, identity: str) -> Json | None:
        try:
            return look.get(self._sender, identity, "").json
        except errors.UnknownSession:
            return None  # it was removed since it was listed

    def _earlier_list(self, stream: str, identifier: str) -> list[model.ChannelList]:
        """The channels of a configuration that a session was bound to; none where they can't be read."""
        try:
            return [self._list(identifier)]
        except errors.UnknownConfig:
            return []  # set by hand, for a viewer that finds it elsewhere
        except errors.BadChannels as error:
            _warn(stream, error)  # a later version published it, or somebody spoilt it
            return []

    def _of_session(self, identity: str, external_id: str) -> model.ChannelList | None:
        """The channels of a session that is open."""
        try:
            info = look.get(self._sender, "" if external_id else identity, external_id)
        except (errors.UnknownSession, errors.CatalogueUnavailable):
            return None  # Redis has all that are open, and is looked at first
        if info.state.is_closed:
            return None
        lists = []
        for binding in _bound_here(info.json):
            with contextlib.suppress(errors.UnknownConfig):  # set by hand, for a viewer that finds it elsewhere
                lists.append(self._list(binding.identifier))
        return model.merge(lists) if lists else None

    def _list(self, identifier: str) -> model.ChannelList:
        return configs.channel_list(self._url, self._keys, identifier, self._principal)


def _bound_here(document: Json | None) -> list[configs.ChannelBinding]:
    """The bindings of a Session JSON without an offset to configurations that may have been published here."""
    return [binding for binding in configs.bindings_in(document) if not binding.offset]


def _merge_newest(stream: str, lists: list[model.ChannelList]) -> model.ChannelList:
    """One list of one or several, the newest first: of as many as one list has room for."""
    for count in range(len(lists), 1, -1):
        try:
            return model.merge(reversed(lists[:count]))
        except errors.BadChannels as error:
            _warn(stream, error)
    return lists[0]


def _warn(stream: str, error: errors.RtaError) -> None:
    log.warning("Not all channels of earlier sessions in stream %s keep their ids: %s", stream, error)
