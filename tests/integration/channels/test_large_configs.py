"""Configurations of thousands of channels, through a running supervisor: published in pieces, read in parts, lost with
Redis and back with their sessions.
"""

from collections.abc import Iterator

import pytest
import redis

from rta_wire import errors, keys, session
from rta_wire.channels import config_json
from rta_wire.control import messages
from rta_wire.pb import control_pb2
from tests.support import published_configs, supervisors
from tests.support.channel_lists import numbered
from tests.support.waiting import wait_until

LARGE_JSON = config_json.encode(numbered(10_000))
LARGE_ID = config_json.identifier(LARGE_JSON)
KEY = keys.Keys().config(LARGE_ID)


@pytest.fixture
def daemon(url: str) -> Iterator[supervisors.Supervisor]:
    with supervisors.running(url) as running:
        yield running


def test_ten_thousand_channels(client: redis.Redis, daemon: supervisors.Supervisor) -> None:
    """Some MiB arrive whole, nothing of their pieces is left, and a client reads them with and without Redis' copy;
    after Redis lost everything they are back with the session."""
    assert len(LARGE_JSON) > 2**20
    reply = published_configs.publish(client, LARGE_JSON)
    assert reply.identifier == LARGE_ID
    assert client.get(KEY) == LARGE_JSON
    wait_until(lambda: not list(client.scan_iter("rtas:payload*")), what="the pieces going")
    assert published_configs.read_parts(client, LARGE_ID) == LARGE_JSON
    open_bound(client, "run-1", LARGE_ID)
    # Whoever lists sessions has the catalogue written first.
    listed = control_pb2.ListSessions(request_id=messages.new_request_id())
    assert len(messages.unpack_page(published_configs.ask(client, listed)).sessions) == 1
    client.flushall()
    daemon.wait_for_event("redis_made_whole")
    assert client.get(KEY) == LARGE_JSON
    assert daemon.events("config_restored")[0]["config"] == LARGE_ID
    client.unlink(KEY)
    assert published_configs.read_parts(client, LARGE_ID) == LARGE_JSON


@pytest.mark.usefixtures("daemon")
def test_what_was_never_published(client: redis.Redis) -> None:
    """Nor can be: an identifier of another form is refused as well."""
    with pytest.raises(errors.UnknownConfig, match=LARGE_ID):
        published_configs.read_parts(client, LARGE_ID)
    with pytest.raises(errors.BadName):
        published_configs.read_parts(client, "x")
    part = control_pb2.GetConfig(request_id="p", identifier=LARGE_ID, offset=2**60)
    with pytest.raises(errors.UnknownConfig):
        messages.unpack_config_part(published_configs.ask(client, part))


def open_bound(client: redis.Redis, identity: str, identifier: str) -> None:
    text = session.dump(session.build(identity)).decode()
    request = control_pb2.OpenSession(
        request_id=messages.new_request_id(),
        identity=identity,
        stream="rig",
        session_json=text,
        config_identifier=identifier,
    )
    messages.unpack_reply(published_configs.ask(client, request))
