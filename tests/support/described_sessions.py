"""A session with a configuration, and samples of its channels in its stream."""

from typing import Any

import numpy as np
import redis

from rta_wire import session as session_json
from rta_wire.channels import config_json, model
from rta_wire.codec import encode
from rta_wire.control import messages
from rta_wire.pb import control_pb2
from rta_writers.options.target import Target
from tests.support import published_configs
from tests.support.samples import START_NS


def open_described(
    client: redis.Redis,
    url: str,
    identity: str,
    channels: model.ChannelList,
    *,
    stream: str = "rig",
    **properties: Any,
) -> Target:
    """Publish a configuration and open a session that is bound to it. `properties` go into its JSON."""
    identifier = published_configs.publish(client, config_json.encode(channels)).identifier
    request = control_pb2.OpenSession(
        request_id=messages.new_request_id(),
        identity=identity,
        stream=stream,
        session_json=session_json.dump(session_json.build(identity, **properties)).decode(),
        config_identifier=identifier,
    )
    reply = messages.unpack_reply(published_configs.ask(client, request))
    return Target(url, identity, reply.stream, reply.stream_session_id)


def append(
    client: redis.Redis, target: Target, channels: model.ChannelList, samples: list[tuple[int, int, float]]
) -> None:
    """Append samples as the configuration stores them: channel, nanoseconds after `START_NS`, value."""
    ids, times, values = zip(*samples, strict=True)
    columns = (np.array(ids, np.uint32), np.array(times, np.int64) + START_NS, np.array(values))
    for burst in encode.Encoder(channels.layouts()).rows(*columns):
        client.xadd(f"stream:{target.stream}", {"id": target.stream_session_id, "data": burst.data})
