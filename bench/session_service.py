"""A Session Service that takes every call and keeps nothing, in a process of its own: what it costs is not ours.

`python -m bench.session_service` prints its port, and ends with its standard input.
"""

import asyncio
import sys
from typing import Any

import grpc

from rta_supervisor.publish import worker

METHODS = {
    "rta.toolkit.api.session_service.SessionStore": "CreateOrUpdateSession",
    "rta.toolkit.api.config_service.ConfigStore": "HasConfig",
}


async def take(_request: bytes, _context: Any) -> bytes:
    """Empty, and True where a BoolValue is asked for would be more: sessions here have no configurations."""
    return b""


async def main() -> None:
    worker.lower_priority()  # it stands for a service on another host, and takes no processor from us
    server = grpc.aio.server()
    for service, method in METHODS.items():
        handlers = {method: grpc.unary_unary_rpc_method_handler(take)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(None)


if __name__ == "__main__":
    asyncio.run(main())
