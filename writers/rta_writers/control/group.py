"""Many sessions of one job: those that its rows name. Tasks open them; the driver keeps them alive and closes them."""

import threading
import uuid
from types import TracebackType
from typing import Any, Self, cast

import msgspec

from rta_wire import errors, keys
from rta_wire.pb import control_pb2
from rta_wire.session import State
from rta_writers.connection import redis_client, retry
from rta_writers.control import client, session


class SessionGroup:
    """As a context manager it closes every session that was opened in it, as failed if the block raised."""

    def __init__(self, sessions: client.SessionClient, *, stream: str, key_prefix: str, **properties: Any) -> None:
        self.name = uuid.uuid4().hex
        self.ended: dict[str, session.ClosedSession] = {}
        self._sessions = sessions
        self._stream = keys.check_stream_name(stream)
        self._keys = keys.Keys(prefix=key_prefix)
        self._properties = properties
        self._redis = redis_client.connect(sessions.url)
        self._over = threading.Event()
        name = f"rta-heartbeats-{stream}"
        self._heartbeat_thread = threading.Thread(target=self._send_heartbeats, name=name, daemon=True)
        self._heartbeat_thread.start()

    @property
    def options(self) -> dict[str, str]:
        """For `.options(**group.options)` of a Spark writer whose frame has a column `session`."""
        return {
            "redisUrl": self._sessions.url,
            "stream": self._stream,
            "principal": self._sessions.principal,
            "keyPrefix": self._keys.prefix,
            "group": self.name,
            "sessionProperties": msgspec.json.encode(self._properties).decode(),
        }

    def identities(self) -> list[str]:
        """Sessions that were seen so far."""
        found = cast("set[bytes]", self._redis.smembers(self._keys.members(self.name)))
        return sorted(name.decode() for name in found)

    def close(self, *, state: str = State.CLOSED) -> dict[str, session.ClosedSession]:
        """End all of them. Repeating it changes nothing."""
        if not self._over.is_set():
            for identity in self.identities():
                self.ended[identity] = self._sessions.close(identity, state=state)
            self._over.set()
            self._heartbeat_thread.join()
            self._redis.unlink(self._keys.members(self.name))
            self._redis.close()
        return self.ended

    def _send_heartbeats(self) -> None:
        while not self._over.wait(session.HEARTBEAT_S):
            try:
                for identity in self.identities():
                    number = self._redis.hget(self._keys.session_state(identity), keys.STREAM_SESSION_ID)
                    if number is not None:
                        self._sessions.report(
                            control_pb2.Heartbeat(identity=identity, stream_session_id=int(cast("bytes", number)))
                        )
            except retry.REDIS_ERRORS as error:
                # The next one may get through; silence is what the supervisor watches for.
                retry.log.warning(
                    "no heartbeats of group %s: %s", self.name, retry.to_rta_error(self._sessions.url, error)
                )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(state=State.CLOSED if kind is None else State.FAILED)


def sessions(sessions: client.SessionClient, *, stream: str, **properties: Any) -> SessionGroup:
    """Sessions that rows name, in one stream. `properties` go into the JSON of each."""
    if "identifier" in properties:
        raise errors.Usage(reason="Each session of a group is called what its rows call it: leave 'identifier' out")
    prefix: str = sessions._keys.prefix  # noqa: SLF001 - a client has no other reason to show it
    return SessionGroup(sessions, stream=stream, key_prefix=prefix, **properties)
