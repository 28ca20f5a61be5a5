"""Has the channels of sessions published: each list once, with the ids that a session or its stream has already."""

from rta_wire import errors, keys
from rta_wire.channels import model
from rta_wire.session import Json
from rta_writers.control import channels as control_channels
from rta_writers.control import configs, look
from rta_writers.control.channels import Channels
from rta_writers.control.requests import RequestSender

SESSIONS_LOOKED_AT = 10
"""Sessions of a stream, the newest first, among which one with channels is looked for."""


class ConfigPublisher:
    """Publishes lists of channels in the name of one principal."""

    def __init__(self, sender: RequestSender, url: str, names: keys.Keys, principal: str) -> None:
        self._sender = sender
        self._url = url
        self._keys = names
        self._principal = principal
        self._published: set[str] = set()

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
        """The channels of the newest session in a stream that has any."""
        query = look.build_query(state=(), stream=stream, text="", since=None, until=None, details={})
        for info in look.list_sessions(self._sender, query, SESSIONS_LOOKED_AT):
            document = info.json if info.json is not None else look.get(self._sender, info.identity, "").json
            if (known := self._bound(document)) is not None:
                return known
        return None

    def _of_session(self, identity: str, external_id: str) -> model.ChannelList | None:
        try:
            info = look.get(self._sender, "" if external_id else identity, external_id)
        except errors.UnknownSession:
            return None
        return None if info.state.is_closed else self._bound(info.json)

    def _bound(self, document: Json | None) -> model.ChannelList | None:
        """The channels that a Session JSON binds without an offset; None where it binds none that are known."""
        lists = []
        for binding in configs.bindings_in(document):
            if not binding.offset:
                try:
                    lists.append(configs.channel_list(self._url, self._keys, binding.identifier, self._principal))
                except errors.UnknownConfig:
                    continue  # set by hand, for a viewer that finds it elsewhere
        return model.merge(lists) if lists else None
