"""A Session Service and a Config Service over gRPC that keep state as their documents say, and can be made to fail.

Shares nothing with the publisher but the generated messages.
"""

import collections
import concurrent.futures
import contextlib
import copy
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import grpc
from google.protobuf import empty_pb2, wrappers_pb2

from rta_wire.pb import config_service_pb2, session_service_pb2

SESSION_SERVICE = "rta.toolkit.api.session_service.SessionStore"
CONFIG_SERVICE = "rta.toolkit.api.config_service.ConfigStore"
CONFIG_LIMIT_BYTES = 4 * 1024 * 1024
HANG_MAX_S = 30.0


class Refused(Exception):
    """A request that is wrong in itself."""


class StoredSession:
    """A session as the service has it."""

    def __init__(self, new: session_service_pb2.NewSession) -> None:
        if not new.timestamp or not new.identifier:
            raise Refused("a new session needs a timestamp and an identifier")
        self.state = new.state
        self.timestamp = new.timestamp
        self.identifier = new.identifier
        self.time_range: tuple[int, int] | None = None
        self.type: str | None = None
        self.quality: float | None = None
        self.group: str | None = None
        self.version: str | None = None
        self.details: dict[str, dict[str, Any]] = {}
        self.bindings: dict[str, int] = {}
        self.heartbeats = 0

    def apply(self, update: session_service_pb2.SessionUpdate) -> None:  # noqa: C901, PLR0912 - a table of operations
        name = update.WhichOneof("operation")
        value: Any = getattr(update, name) if name else None
        if name == "update_heartbeat":
            self.heartbeats += 1
        elif name == "set_time_range":
            self.time_range = _checked_range(value)
        elif name == "extend_time_range":
            start, end = _checked_range(value)
            if self.time_range is not None:
                start, end = min(start, self.time_range[0]), max(end, self.time_range[1])
            self.time_range = start, end
        elif name == "set_details":
            self.details[value.category] = dict(value.details)
        elif name == "update_details":
            self.details.setdefault(value.category, {}).update(value.details)
        elif name == "set_details_json":
            self.details[value.category] = _checked_object(value.json)
        elif name == "update_details_json":
            self.details.setdefault(value.category, {}).update(_checked_object(value.json))
        elif name == "delete_details":
            for key in value.keys:
                self.details.get(value.category, {}).pop(key, None)
        elif name == "set_type":
            self.type = value.value
        elif name == "set_config_bindings":
            self.bindings = {binding.identifier: binding.channel_offset for binding in value.bindings}
        elif name == "update_config_bindings":
            self.bindings |= {binding.identifier: binding.channel_offset for binding in value.bindings}
        elif name == "delete_config_bindings":
            for identifier in value.identifiers:
                self.bindings.pop(identifier, None)
        elif name in ("set_state", "set_timestamp", "set_identifier", "set_quality", "set_group", "set_version"):
            setattr(self, name.removeprefix("set_"), value)
        elif name in ("clear_time_range", "clear_type", "clear_quality", "clear_group", "clear_version"):
            setattr(self, name.removeprefix("clear_"), None)
        else:
            raise Refused("an update without an operation")

    def shown(self) -> dict[str, Any]:
        """What a viewer would see; categories without details are not shown."""
        fields = {name: value for name, value in vars(self).items() if name not in ("heartbeats", "details")}
        return {**fields, "details": {name: values for name, values in self.details.items() if values}}


def _checked_range(value: session_service_pb2.TimeRange) -> tuple[int, int]:
    if value.start_time > value.end_time:
        raise Refused("a time range ends before it starts")
    return value.start_time, value.end_time


def _checked_object(text: str) -> dict[str, Any]:
    document = json.loads(text)
    if not isinstance(document, dict):
        raise Refused("details are no object")
    return document


class Fault:
    """What becomes of one call."""

    def __init__(
        self,
        code: grpc.StatusCode | None = None,
        *,
        is_applied: bool = False,
        waits_for: threading.Event | None = None,
        takes_s: float = 0.0,
        details: str = "as the test wants it",
    ) -> None:
        """`code`: of the answer; None for a good one. `is_applied`: whether the call has its effect. `waits_for`: what
        has to happen before both. `takes_s`: how long the service takes."""
        self.code = code
        self.is_applied = is_applied
        self.waits_for = waits_for
        self.takes_s = takes_s
        self.details = details


class ToolkitServices:
    """Both services in one server. `fault` may say what becomes of a call, by its method and request."""

    def __init__(self) -> None:
        self.sessions: dict[str, StoredSession] = {}
        self.sequences: dict[str, int] = {}
        self.history: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
        """Every state of a session that anybody could see, in order."""
        self.configs: dict[str, bytes] = {}
        self.calls: collections.Counter[str] = collections.Counter()
        self.requests: list[tuple[str, Any]] = []
        self.metadata: list[dict[str, str]] = []
        self.ignored = 0
        """Calls whose sequence was not greater than the last."""
        self.fault: Callable[[str, Any], Fault | None] = lambda _method, _request: None
        self.address = ""
        self._lock = threading.Lock()

    def _served(self, method: str, request: Any, context: grpc.ServicerContext, apply: Callable[[], Any]) -> Any:
        with self._lock:
            self.calls[method] += 1
            self.requests.append((method, request))
            self.metadata.append({name: str(value) for name, value in context.invocation_metadata()})
            fault = self.fault(method, request)
        if fault is not None:
            time.sleep(fault.takes_s)
        if fault is not None and fault.waits_for is not None:
            fault.waits_for.wait(HANG_MAX_S)
        if fault is not None and fault.code is not None and not fault.is_applied:
            context.abort(fault.code, fault.details)
        try:
            with self._lock:
                reply = apply()
        except (Refused, ValueError) as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except KeyError as error:
            context.abort(grpc.StatusCode.NOT_FOUND, str(error))
        if fault is not None and fault.code is not None:
            context.abort(fault.code, fault.details)
        return reply

    def update(self, request: Any, context: grpc.ServicerContext) -> Any:
        return self._served("CreateOrUpdateSession", request, context, lambda: self._update(request))

    def _update(self, request: session_service_pb2.CreateOrUpdateSessionRequest) -> empty_pb2.Empty:
        identity = request.identity
        has_sequence = request.HasField("sequence")
        if has_sequence and request.sequence.value <= self.sequences.get(identity, -1):
            self.ignored += 1
            return empty_pb2.Empty()
        if identity in self.sessions:
            changed = copy.deepcopy(self.sessions[identity])
        elif request.HasField("create_if_not_exists"):
            changed = StoredSession(request.create_if_not_exists)
        else:
            raise KeyError(identity)
        for update in request.updates:
            changed.apply(update)
        if has_sequence:
            self.sequences[identity] = request.sequence.value
        self.sessions[identity] = changed
        self.history[identity].append(changed.shown())
        return empty_pb2.Empty()

    def has_config(self, request: Any, context: grpc.ServicerContext) -> Any:
        return self._served(
            "HasConfig", request, context, lambda: wrappers_pb2.BoolValue(value=request.identifier in self.configs)
        )

    def put_config(self, request: Any, context: grpc.ServicerContext) -> Any:
        def put() -> empty_pb2.Empty:
            if not request.identifier or not request.content_type:
                raise Refused("a configuration needs an identifier and a type")
            self.configs.setdefault(request.identifier, request.data)
            return empty_pb2.Empty()

        return self._served("PutConfig", request, context, put)

    def put_config_stream(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
        messages = list(requests)

        def put() -> empty_pb2.Empty:
            if not messages or messages[0].WhichOneof("body") != "info":
                raise Refused("a stream begins with its info")
            if any(message.WhichOneof("body") != "piece" for message in messages[1:]):
                raise Refused("after its info a stream has pieces")
            data = b"".join(message.piece for message in messages[1:])
            self.configs.setdefault(messages[0].info.identifier, data)
            return empty_pb2.Empty()

        return self._served("PutConfigStream", messages, context, put)

    def handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """The methods of both services as the library takes them."""
        pb = config_service_pb2
        empty = empty_pb2.Empty.SerializeToString
        return (
            grpc.method_handlers_generic_handler(
                SESSION_SERVICE,
                {
                    "CreateOrUpdateSession": grpc.unary_unary_rpc_method_handler(
                        self.update, session_service_pb2.CreateOrUpdateSessionRequest.FromString, empty
                    )
                },
            ),
            grpc.method_handlers_generic_handler(
                CONFIG_SERVICE,
                {
                    "HasConfig": grpc.unary_unary_rpc_method_handler(
                        self.has_config, pb.HasConfigRequest.FromString, wrappers_pb2.BoolValue.SerializeToString
                    ),
                    "PutConfig": grpc.unary_unary_rpc_method_handler(
                        self.put_config, pb.PutConfigRequest.FromString, empty
                    ),
                    "PutConfigStream": grpc.stream_unary_rpc_method_handler(
                        self.put_config_stream, pb.PutConfigStreamRequest.FromString, empty
                    ),
                },
            ),
        )

    @contextlib.contextmanager
    def running(
        self, address: str = "127.0.0.1:0", credentials: grpc.ServerCredentials | None = None
    ) -> Iterator[None]:
        """Serve within the block; what is stored stays for another block, on the same port if that is named."""
        server = grpc.server(
            concurrent.futures.ThreadPoolExecutor(32),
            handlers=self.handlers(),
            options=(("grpc.so_reuseport", 0),),
        )
        add = server.add_insecure_port if credentials is None else lambda at: server.add_secure_port(at, credentials)
        port = add(address)
        self.address = f"{address.rpartition(':')[0]}:{port}"
        server.start()
        try:
            yield
        finally:
            server.stop(None).wait()


def unreachable(*_: Any) -> NoReturn:
    """For a source that must not be asked."""
    raise AssertionError
