"""Replies of Redis as values."""

import pytest
import redis.exceptions

from rta_supervisor.transport import failures, replies
from rta_wire import entry_ids


def test_info_of_a_stream() -> None:
    """The fields of XINFO by name; a stream that does not exist has none and ends at the lowest id."""
    info = replies.parse_stream_info([b"length", 2, b"last-generated-id", b"5-1"])
    assert info == {b"length": 2, b"last-generated-id": b"5-1"}
    assert replies.last_generated_id(info) == "5-1"
    missing = replies.parse_stream_info(redis.exceptions.ResponseError("ERR no such key"))
    assert missing is None
    assert replies.last_generated_id(missing) == entry_ids.MIN


def test_other_errors_about_a_stream_are_raised() -> None:
    """An error that passes is raised as such, a permanent one as it is."""
    with pytest.raises(failures.TemporaryRefusal):
        replies.parse_stream_info(redis.exceptions.ResponseError("CLUSTERDOWN The cluster is down"))
    with pytest.raises(redis.exceptions.ResponseError, match="WRONGTYPE"):
        replies.parse_stream_info(redis.exceptions.ResponseError("WRONGTYPE Operation against a key"))


def test_info_of_a_server() -> None:
    """Names and values of all sections; headings and empty lines are left out."""
    raw = b"# Server\r\nredis_version:7.0.15\r\n\r\n# Memory\r\nmaxmemory_policy:noeviction\r\n"
    assert replies.parse_info(raw) == {"redis_version": "7.0.15", "maxmemory_policy": "noeviction"}
