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

_OPTIONS: Final = (
    # The publisher repeats calls itself; the library would keep each one for that. It takes a tenth of a call's time.
    ("grpc.enable_retries", 0),
    # A service that was away is found within a second.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1000),
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
        self._timeout_s = config.timeout_s
        token = config.bearer_token()
        self._metadata = (("authorization", f"Bearer {token}"),) if token else None
        credentials = config.root_certificates()
        addresses = dict.fromkeys(address for address in (config.session_address, config.config_address) if address)
        self._channels: dict[str, Any] = {
            address: grpc.aio.insecure_channel(address, options=_OPTIONS)
            if not config.tls
            else grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(credentials), options=_OPTIONS)
            for address in addresses
        }
        sessions = self._channels[config.session_address]
        self._update = sessions.unary_unary(
            f"/{SESSION_SERVICE}/CreateOrUpdateSession",
            request_serializer=session_service_pb2.CreateOrUpdateSessionRequest.SerializeToString,
            response_deserializer=empty_pb2.Empty.FromString,
        )
        self.has_config_service = bool(config.config_address)
        if self.has_config_service:
            self._prepare_config_calls(self._channels[config.config_address])

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
            raise _meaning(error.code().name, error.details() or "") from error

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()


def _meaning(code: str, details: str) -> Exception:
    reason = f"{code}: {quoting.cut(details)}" if details else code
    if code in NEVER:
        return CallRefused(reason)
    return SessionMissing(reason) if code == "NOT_FOUND" else CallFailed(reason)


async def _pieces(identifier: str, data: bytes) -> AsyncIterator[config_service_pb2.PutConfigStreamRequest]:
    info = config_service_pb2.ConfigInfo(identifier=identifier, content_type=CONTENT_TYPE)
    yield config_service_pb2.PutConfigStreamRequest(info=info)
    view: Sequence[int] = memoryview(data)
    for start in range(0, len(data), PIECE_BYTES):
        yield config_service_pb2.PutConfigStreamRequest(piece=bytes(view[start : start + PIECE_BYTES]))
