"""The calls of a Session Service and a Config Service over gRPC, and what their errors mean.

`grpcio` is imported when a connection is made: most supervisors publish nowhere and need not have it.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from google.protobuf import empty_pb2, wrappers_pb2

from rta_supervisor.settings.sections.publish import PublishSettings
from rta_wire import quoting
from rta_wire.pb import config_service_pb2, session_service_pb2

SESSION_SERVICE: Final = "rta.toolkit.api.session_service.SessionStore"
CONFIG_SERVICE: Final = "rta.toolkit.api.config_service.ConfigStore"
CONTENT_TYPE: Final = "application/vnd.mat.config+json"

MESSAGE_LIMIT_BYTES: Final = 4 * 1024 * 1024
"""What a service takes in one message. A configuration needs a little room beside its bytes."""

MESSAGE_ROOM_BYTES: Final = 4096
PIECE_BYTES: Final = 1024 * 1024

NEVER: Final = frozenset({"INVALID_ARGUMENT", "OUT_OF_RANGE"})
"""Status codes of a call that would fail however often it is repeated."""

TOO_LATE: Final = "DEADLINE_EXCEEDED"
"""The status code of a call without an answer."""

CLOSE_ROOM_S: Final = 1.0

_OPTIONS: Final = (
    # The publisher repeats calls itself; the library would keep each one for that. It takes a tenth of a call's time.
    ("grpc.enable_retries", 0),
    # A service that was away is found within a second.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Another channel has connections of its own.
    ("grpc.use_local_subchannel_pool", 1),
)


class CallFailed(Exception):
    """A call that may work later. Its text is the reason."""


class CallRefused(Exception):
    """A call that will never work. Its text is the reason."""


class SessionMissing(Exception):
    """The service does not have the session that a call changes."""


class ToolkitClient:
    """Connections to both services. To be used inside of an event loop of asyncio."""

    def __init__(self, config: PublishSettings) -> None:
        import grpc.aio  # noqa: PLC0415 - the extra `publish`

        self._error: type[grpc.aio.AioRpcError] = grpc.aio.AioRpcError
        self._config = config
        self._timeout_s = config.timeout_s
        token = config.bearer_token()
        self._metadata = (("authorization", f"Bearer {token}"),) if token else None
        self._credentials = grpc.ssl_channel_credentials(config.root_certificates()) if config.tls else None
        self.has_config_service = bool(config.config_address)
        self._is_stuck = False
        self._channels: dict[str, Any] = {}
        self._connect()

    def _connect(self) -> None:
        """Make new channels, which connect at the next calls."""
        import grpc.aio  # noqa: PLC0415 - the extra `publish`

        addresses = (self._config.session_address, self._config.config_address)
        self._channels = {
            address: grpc.aio.insecure_channel(address, options=_OPTIONS)
            if self._credentials is None
            else grpc.aio.secure_channel(address, self._credentials, options=_OPTIONS)
            for address in dict.fromkeys(addresses)
            if address
        }
        sessions = self._channels[self._config.session_address]
        self._update = sessions.unary_unary(
            f"/{SESSION_SERVICE}/CreateOrUpdateSession",
            request_serializer=session_service_pb2.CreateOrUpdateSessionRequest.SerializeToString,
            response_deserializer=empty_pb2.Empty.FromString,
        )
        if self.has_config_service:
            self._prepare_config_calls(self._channels[self._config.config_address])

    def _prepare_config_calls(self, channel: Any) -> None:
        self._has = channel.unary_unary(
            f"/{CONFIG_SERVICE}/HasConfig",
            request_serializer=config_service_pb2.HasConfigRequest.SerializeToString,
            response_deserializer=wrappers_pb2.BoolValue.FromString,
        )
        self._put = channel.unary_unary(
            f"/{CONFIG_SERVICE}/PutConfig",
            request_serializer=config_service_pb2.PutConfigRequest.SerializeToString,
            response_deserializer=empty_pb2.Empty.FromString,
        )
        self._put_stream = channel.stream_unary(
            f"/{CONFIG_SERVICE}/PutConfigStream",
            request_serializer=config_service_pb2.PutConfigStreamRequest.SerializeToString,
            response_deserializer=empty_pb2.Empty.FromString,
        )

    async def update_session(self, request: session_service_pb2.CreateOrUpdateSessionRequest) -> None:
        """Tell the Session Service of a session."""
        await self._call(self._update, request)

    async def has_config(self, identifier: str) -> bool:
        """Whether the Config Service has a configuration."""
        reply = await self._call(self._has, config_service_pb2.HasConfigRequest(identifier=identifier))
        return bool(reply.value)

    async def put_config(self, identifier: str, data: bytes) -> None:
        """Store a configuration, in one message or in many."""
        if len(data) + MESSAGE_ROOM_BYTES <= MESSAGE_LIMIT_BYTES:
            request = config_service_pb2.PutConfigRequest(identifier=identifier, content_type=CONTENT_TYPE, data=data)
            await self._call(self._put, request)
        else:
            await self._call(self._put_stream, _pieces(identifier, data))

    async def _call(self, method: Any, request: Any) -> Any:
        try:
            return await method(request, timeout=self._timeout_s, metadata=self._metadata)
        except self._error as error:
            self._is_stuck |= error.code().name == TOO_LATE
            raise _meaning(error.code().name, error.details() or "") from error

    async def reconnect_if_stuck(self) -> None:
        """Connect anew where a call got no answer in time: what is between us and the service may have forgotten the
        connection, which this host would not notice for a quarter of an hour, or ever."""
        if not self._is_stuck:
            return
        self._is_stuck = False
        old = self._channels
        self._connect()
        for channel in old.values():
            # A call that another task makes meanwhile ends at its own deadline.
            await channel.close(self._timeout_s + CLOSE_ROOM_S)

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()


def _meaning(code: str, details: str) -> Exception:
    # A database takes no NUL in a text, and a terminal should not take other control characters.
    reason = f"{code}: {quoting.printable(quoting.cut(details))}" if details else code
    if code in NEVER:
        return CallRefused(reason)
    return SessionMissing(reason) if code == "NOT_FOUND" else CallFailed(reason)


async def _pieces(identifier: str, data: bytes) -> AsyncIterator[config_service_pb2.PutConfigStreamRequest]:
    info = config_service_pb2.ConfigInfo(identifier=identifier, content_type=CONTENT_TYPE)
    yield config_service_pb2.PutConfigStreamRequest(info=info)
    view: Sequence[int] = memoryview(data)
    for start in range(0, len(data), PIECE_BYTES):
        yield config_service_pb2.PutConfigStreamRequest(piece=bytes(view[start : start + PIECE_BYTES]))
