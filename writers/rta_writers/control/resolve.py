"""Sessions as a task finds them: the one of its options, or those that its rows name, opened on first sight."""

from typing import Any

import redis

from rta_wire import errors, keys, session
from rta_wire.control import messages
from rta_wire.pb import control_pb2
from rta_writers.connection import redis_client as connection_redis_client
from rta_writers.connection import retry
from rta_writers.control import client
from rta_writers.options.target import Target
from rta_writers.options.write import WriteOptions

MEMBERS_TTL_S = 7 * 24 * 3600


class SessionResolver:
    """Opening is idempotent: many tasks may see a session first."""

    def __init__(self, options: WriteOptions, job: str) -> None:
        self._options = options
        self._job = job
        self._redis: redis.Redis | None = None
        self._asker: client.SessionClient | None = None

    def resolve(self, identity: str) -> Target:
        options = self._options
        if options.session is not None and options.stream_session_id is not None:
            return options.target(options.session, options.stream_session_id)
        reply = self._ask(identity)
        self._add_to_group(identity)
        return options.target(identity, reply.stream_session_id, reply.stream)

    def close(self) -> None:
        if self._redis is not None:
            self._redis.close()

    def _ask(self, identity: str) -> control_pb2.SessionReply:
        keys.check_identity(identity)
        if self._asker is None:
            options = self._options
            self._asker = client.SessionClient(
                options.redis_url, principal=options.principal, key_prefix=options.key_prefix
            )
        properties = {"identifier": identity, **self._options.session_properties}
        document = session.dump(session.build(identity, **properties))
        return self._asker.ask(
            control_pb2.OpenSession(
                request_id=messages.new_request_id(),
                identity=identity,
                stream=self._options.stream,
                session_json=document.decode(),
            )
        )

    def _add_to_group(self, identity: str) -> None:
        """Tell the driver of this run, which keeps the session alive and closes it, and commits of later runs."""
        self._redis = self._redis or connection_redis_client.connect(self._options.redis_url)
        for name in {self._job, self._options.group or self._job}:
            pipe = self._redis.pipeline(transaction=True)
            pipe.sadd(self._options.keys.members(name), identity)
            pipe.expire(self._options.keys.members(name), MEMBERS_TTL_S)
            pipe.execute()


def check_open(options: WriteOptions) -> None:
    """On the driver, before any task: Redis answers, and the session is open."""
    try:
        redis_client = connection_redis_client.shared_client(options.redis_url)
        if options.session is None or options.stream_session_id is None:
            redis_client.ping()
            return
        target = options.target(options.session, options.stream_session_id)
        state: Any = redis_client.get(target.keys.gate(target.stream, target.stream_session_id))
    except retry.REDIS_ERRORS as error:
        connection_redis_client.shared_client.cache_clear()  # a password may be another one by now
        raise retry.to_rta_error(options.redis_url, error) from error
    check_gate(state, target)


def check_gate(state: bytes | None, target: Target) -> None:
    """Refuse to write to a session that is unknown or closed."""
    if state is None:
        raise errors.UnknownSession(identity=target.identity)
    if state != b"open":
        raise errors.SessionClosed(identity=target.identity, state="closed")
