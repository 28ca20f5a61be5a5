"""Many sessions of one job, named by its rows. Tasks open them; the driver keeps them alive and closes them."""

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, NoReturn, Self, cast

import msgspec

from rta_wire import errors, keys, session
from rta_wire.pb import control_pb2
from rta_wire.session import FINAL_STATES, State
from rta_writers.connection import redis_client, retry
from rta_writers.control import channels as control_channels
from rta_writers.control import client
from rta_writers.control import session as control_session
from rta_writers.control.channels import Channels
from rta_writers.options import arguments, stream_template


class SessionGroup:
    """All sessions that the rows of a job name.

    As a context manager it closes every session that was opened in the block, as failed if the block raised.
    """

    def __init__(
        self,
        sessions: client.SessionClient,
        stream: str,
        properties: Mapping[str, Any],
        channels: Channels | None = None,
    ) -> None:
        self.name = uuid.uuid4().hex
        self.ended: dict[str, control_session.ClosedSession] = {}
        self._sessions = sessions
        self._stream = stream_template.StreamTemplate.parse(arguments.text("stream", stream)).text
        self._keys = sessions.registered_keys()
        self._properties = properties
        self._config = "" if channels is None else self._publish(channels)
        self._stream_session_ids: dict[str, int] = {}
        self._redis = redis_client.connect(sessions.url)
        self._heartbeats = control_session.HeartbeatThread(
            sessions,
            self._open_sessions,
            label=f"heartbeats of group {self.name}",
            thread_name=f"rta-heartbeats-{stream}",
        )

    def __reduce__(self) -> NoReturn:
        raise errors.Usage(reason="A SessionGroup stays on the driver: pass its options to tasks, group.options")

    def __repr__(self) -> str:
        state = f"{len(self.ended)} sessions ended" if self._heartbeats.is_stopping else "open"
        return f"SessionGroup({self.name!r}, stream={self._stream!r}, {state})"

    @property
    def options(self) -> dict[str, str]:
        """For `.options(**group.options)` of a Spark writer whose frame has a column `session`."""
        options = {
            "redisUrl": self._sessions.url,
            "stream": self._stream,
            "principal": self._sessions.principal,
            "keyPrefix": self._keys.prefix,
            "sessionTemplate": self._keys.session_template,
            "group": self.name,
            "timeoutS": str(self._sessions.timeout_s),
            "sessionProperties": msgspec.json.encode(self._properties).decode(),
        }
        return {**options, "config": self._config} if self._config else options

    def _publish(self, channels: Channels) -> str:
        """Publish the channels of all sessions of the group; where one stream has them all, with the ids it has."""
        control_channels.check(channels)
        publisher = self._sessions.configs
        if not stream_template.StreamTemplate.parse(self._stream).columns:
            channels = publisher.with_stream_ids(channels, self._stream)
        return publisher.publish(channels)

    def identities(self) -> list[str]:
        """Names of the sessions that tasks have opened so far."""
        return retry.ride_out(self._sessions.url, self._read_identities)

    def _read_identities(self) -> list[str]:
        members = cast("set[bytes]", self._redis.smembers(self._keys.members(self.name)))
        return sorted(member.decode() for member in members)

    def close(self, *, state: str = State.CLOSED) -> dict[str, control_session.ClosedSession]:
        """End all sessions of the group. Calling it again returns the same results."""
        arguments.one_of("state", state, sorted(FINAL_STATES))
        if not self._heartbeats.is_stopping:
            outcomes = self._sessions.close_all(self.identities(), state=state)
            self.ended |= {
                identity: outcome
                for identity, outcome in outcomes.items()
                if isinstance(outcome, control_session.ClosedSession)
            }
            for outcome in outcomes.values():
                if isinstance(outcome, errors.RtaError):
                    raise outcome
            self._heartbeats.stop()
            with contextlib.suppress(*retry.REDIS_ERRORS):  # it expires
                self._redis.unlink(self._keys.members(self.name))
            self._redis.close()
        return self.ended

    def _open_sessions(self) -> Iterator[control_pb2.Heartbeat]:
        new = [identity for identity in self._read_identities() if identity not in self._stream_session_ids]
        states = [("HGET", self._keys.session_state(identity), keys.STREAM_SESSION_ID) for identity in new]
        for identity, number in zip(new, redis_client.execute_all(self._redis, states), strict=True):
            if number is not None:
                self._stream_session_ids[identity] = int(number)
        for identity, stream_session_id in self._stream_session_ids.items():
            yield control_pb2.Heartbeat(identity=identity, stream_session_id=stream_session_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(state=State.CLOSED if kind is None else State.FAILED)


def sessions(
    sessions: client.SessionClient,
    *,
    stream: str = stream_template.BY_COLUMN.text,
    channels: Channels | None = None,
    **properties: Any,
) -> SessionGroup:
    """Sessions that rows name. `properties` go into the JSON of each, `channels` says what the channels of all are.

    `stream` is the stream of all, or has columns in braces: `{topic}-{partition}`. Without it each row names the stream
    of its session in the column `stream`.
    """
    if not isinstance(sessions, client.SessionClient):
        raise arguments.refuse("sessions", sessions, "a SessionClient")
    for name in ("identifier", "identity"):
        if name in properties:
            raise errors.Usage(reason=f"Each session of a group is called what its rows call it: leave {name!r} out")
    document = arguments.json_object(properties)
    session.dump(session.build("an identity", **document))
    return SessionGroup(sessions, stream, document, channels)
