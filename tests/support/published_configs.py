"""Publishes configurations and reads them back as a client does, by control messages alone."""

import redis

from rta_wire import keys, limits
from rta_wire.control import messages, payload
from rta_wire.pb import control_pb2


def ask(client: redis.Redis, request: messages.Request, principal: str = keys.DEFAULT_PRINCIPAL) -> bytes:
    """The reply to a request, as bytes."""
    client.xadd(keys.Keys().requests(principal), {keys.CONTROL_FIELD: messages.pack(request)})
    reply = client.blpop([keys.Keys().reply(request.request_id)], timeout=30)
    assert isinstance(reply, list | tuple), f"no reply to {request.DESCRIPTOR.name}"
    assert isinstance(reply[1], bytes)
    return reply[1]


def publish(client: redis.Redis, data: bytes, principal: str = keys.DEFAULT_PRINCIPAL) -> control_pb2.ConfigReply:
    """Publish a configuration in pieces, however small it is."""
    named, pieces = payload.split(messages.new_request_id(), data, limits.CONFIG_MAX_PIECES)
    for piece in pieces:
        piece.request_id = messages.new_request_id()
        messages.unpack_reply(ask(client, piece, principal))
    request = control_pb2.PublishConfig(request_id=messages.new_request_id(), payload=named)
    return messages.unpack_config(ask(client, request, principal))


def read_parts(client: redis.Redis, identifier: str) -> bytes:
    """A configuration from the supervisor, part by part."""
    data = b""
    while True:
        request = control_pb2.GetConfig(request_id=messages.new_request_id(), identifier=identifier, offset=len(data))
        part = messages.unpack_config_part(ask(client, request))
        data += part.data
        if len(data) >= part.size_bytes:
            return data
        assert part.data, "an empty part before the end"
