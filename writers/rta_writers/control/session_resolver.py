"""Finds the session that rows go to: the one of the options, or the one that they name, opened when first seen."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import redis

from rta_wire import errors, name_checks, session
from rta_wire.control import messages
from rta_wire.pb import control_pb2
from rta_writers.connection import redis_client, retry
from rta_writers.control import client, supervisors
from rta_writers.options.target import Target
from rta_writers.options.write import WriteOptions

MEMBERS_TTL_S: Final = 7 * 24 * 3600

GATE_OPEN: Final = b"open"
"""The gate of a session that takes bursts."""


class SessionResolver:
    """Opens the sessions that a task writes to. Opening is idempotent: many tasks may name a session first."""

    def __init__(self, options: WriteOptions, job: str) -> None:
        self._options = options
        self._job = job
        self._redis: redis.Redis | None = None
        self._sessions: client.SessionClient | None = None

    def resolve_all(self, streams: Mapping[str, str]) -> list[Target]:
        """The sessions to write to: that of the options where they have one, else those of these names, each in its
        stream, opened in few round trips. Raises the first error where one can't be opened."""
        options = self._options
        if options.session is not None and options.stream_session_id is not None:
            return [options.target(options.session, options.stream_session_id)]
        requests_ = [self._open_request(identity, stream) for identity, stream in streams.items()]
        replies = self._client().ask_all(requests_)
        opened = [
            (identity, reply)
            for identity, reply in zip(streams, replies, strict=True)
            if not isinstance(reply, errors.RtaError)
        ]
        self._add_to_group([identity for identity, _ in opened])
        for reply in replies:
            if isinstance(reply, errors.RtaError):
                raise reply
        return [self._options.target(identity, reply.stream_session_id, reply.stream) for identity, reply in opened]

    def close(self) -> None:
        if self._redis is not None:
            self._redis.close()

    def _client(self) -> client.SessionClient:
        options = self._options
        self._sessions = self._sessions or client.SessionClient(
            options.redis_url,
            principal=options.principal,
            key_prefix=options.key_prefix,
            timeout_s=options.timeout_s,
        )
        return self._sessions

    def _open_request(self, identity: str, stream: str) -> control_pb2.OpenSession:
        name_checks.check_identity(identity)
        properties = {"identifier": identity, **self._options.session_properties}
        return control_pb2.OpenSession(
            request_id=messages.new_request_id(),
            identity=identity,
            stream=stream,
            session_json=session.dump(session.build(identity, **properties)).decode(),
            config_identifier=self._options.config or "",
        )

    def _add_to_group(self, identities: Sequence[str]) -> None:
        """Name sessions to the driver of this run, which closes them, and to the commits of later runs of the job."""
        if not identities:
            return
        self._redis = self._redis or redis_client.connect(self._options.redis_url)
        for group in {self._job, self._options.group or self._job}:
            members = self._options.keys.members(group)
            add = functools.partial(_add_members, self._redis, members, identities)
            retry.ride_out(self._options.redis_url, add)


def _add_members(client: redis.Redis, key: str, identities: Sequence[str]) -> None:
    pipe = client.pipeline(transaction=True)
    pipe.sadd(key, *identities)
    pipe.expire(key, MEMBERS_TTL_S)
    pipe.execute()


def check_open(options: WriteOptions) -> WriteOptions:
    """Check on the driver, before any task, that Redis answers and that the session of the options is open.

    Gives the options with the template of session keys that supervisors registered.
    """
    try:
        shared = redis_client.shared_client(options.redis_url)
        options = msgspec.structs.replace(
            options, session_template=supervisors.registered_template(shared, options.keys)
        )
        if options.session is None or options.stream_session_id is None:
            return options
        target = options.target(options.session, options.stream_session_id)
        gate: Any = shared.get(target.keys.gate(target.stream, target.stream_session_id))
    except retry.REDIS_ERRORS as error:
        redis_client.shared_client.cache_clear()  # the next try reads the password again
        raise retry.to_rta_error(options.redis_url, error) from error
    if gate != GATE_OPEN:
        raise closed_error(gate, target)
    return options


def closed_error(gate: bytes | None, target: Target) -> errors.RtaError:
    """The error for a session whose gate is not open: there is no such session, or it is closed."""
    if gate is None:
        return errors.UnknownSession(identity=target.identity)
    return errors.SessionClosed(identity=target.identity, state="closed")
