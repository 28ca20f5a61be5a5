"""Configurations: published, found for a session or a stream, and fetched once in each process.

A configuration never changes, so what was fetched stays valid. It is read from Redis; where the ACL of a writer is
older or Redis has lost it, the supervisor is asked.
"""

import functools
from typing import Any, Final

import msgspec
import redis
import redis.exceptions

from rta_wire import errors, keys, name_checks
from rta_wire.channels import config_json, model
from rta_wire.control import messages
from rta_wire.pb import control_pb2
from rta_wire.session import Json
from rta_writers.connection import redis_client, retry
from rta_writers.control.requests import RequestSender
from rta_writers.options import channel_layouts
from rta_writers.options.write import WriteOptions

TIMEOUT_S: Final = 60.0
KEPT: Final = 16
"""Lists of channels that a process has in memory."""


class ChannelBinding(msgspec.Struct, frozen=True):
    """A configuration of a session, and what is added to the ids of its channels."""

    identifier: str
    offset: int = 0
    folder: str = ""
    """The folder of an archived session that has a copy of it: Redis may have forgotten both."""


def bindings_in(document: Json | None) -> tuple[ChannelBinding, ...]:
    """The bindings in a Session JSON to configurations that may have been published here."""
    bindings: Any = (document or {}).get("configBindings")
    return tuple(
        ChannelBinding(binding["identifier"], binding.get("channelOffset", 0))
        for binding in bindings or ()
        if name_checks.is_config_identifier(binding["identifier"])
    )


def publish(sender: RequestSender, data: bytes) -> control_pb2.ConfigReply:
    """Send a configuration to the supervisor, which keeps it."""
    request = control_pb2.PublishConfig(request_id=messages.new_request_id(), config_json=data.decode())
    return sender.publish(request)


def fetch(client: redis.Redis, names: keys.Keys, identifier: str, sender: RequestSender | None = None) -> bytes:
    """The JSON of a configuration: from Redis, else from the supervisor where there is a sender to ask it by.

    The supervisor is asked too where somebody spoilt what Redis has: the catalogue has it as it was published.
    """
    refused: redis.exceptions.NoPermissionError | None = None
    raw: Any = None
    try:
        raw = client.get(names.config(identifier))
    except redis.exceptions.NoPermissionError as error:
        refused = error
    is_right = raw is not None and config_json.identifier(bytes(raw)) == identifier
    if not is_right and sender is not None:
        raw = sender.get_config(identifier)
    if raw is None and refused is not None:
        pattern = names.config("*")
        raise errors.RedisRefused(
            f"The ACL of this user lacks (%R~{pattern} +get): configuration {identifier} can't be read.",
            url="",
            reason=str(refused),
        )
    if raw is None:
        raise errors.UnknownConfig(identifier=identifier)
    data = bytes(raw)
    if config_json.identifier(data) != identifier:
        raise errors.BadChannels(where=f"configuration {identifier}", reason="its JSON is not what was published")
    return data


@functools.lru_cache(maxsize=KEPT)
def channel_list(url: str, names: keys.Keys, identifier: str, principal: str | None = None) -> model.ChannelList:
    """The channels of a configuration, fetched once in a process. `principal`: who asks the supervisor for it."""
    client = redis_client.shared_client(url)
    sender = None if principal is None else RequestSender(client, url, names, principal, timeout_s=TIMEOUT_S)
    try:
        return config_json.decode(fetch(client, names, identifier, sender))
    except retry.REDIS_ERRORS as error:
        redis_client.shared_client.cache_clear()  # the next try reads the password again
        raise retry.to_rta_error(url, error) from error


def with_channels(options: WriteOptions) -> WriteOptions:
    """The options of a writer with the channels of their configuration, if they name one. A difference between the two
    is an error."""
    if options.config is None:
        return options
    listed = channel_list(options.redis_url, options.keys, options.config, options.principal)
    return channel_layouts.apply(options, listed)
