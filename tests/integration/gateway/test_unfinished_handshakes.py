"""Connections that never finish their TLS handshake: real sockets, more of them than may be open."""

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

from tests.support import gateways
from tests.support.certificates import make_certificate
from tests.support.gateways import Gateway
from tests.support.sockets import is_closed
from tests.support.waiting import wait_until

CLIENT_HELLO_START = bytes.fromhex("1603010200010001fc0303")
"""A record of 512 bytes is announced, and five of them are sent."""


@contextlib.contextmanager
def serving(url: str, folder: Path, environment: dict[str, str]) -> Iterator[tuple[Gateway, ssl.SSLContext]]:
    """A gateway with a certificate, and a context that trusts it."""
    make_certificate(folder, "gateway")
    files = {f"RTA_GATEWAY__{name}_FILE": str(folder / f"{name.lower()}.pem") for name in ("CERT", "KEY")}
    with gateways.running(url, files | environment) as gateway:
        yield gateway, ssl.create_default_context(cafile=str(folder / "cert.pem"))


def ask(gateway: Gateway, context: ssl.SSLContext, path: str = "/rta/v2/info") -> bytes:
    """The whole response to a request that is sent as soon as the handshake is done."""
    with (
        socket.create_connection(("127.0.0.1", gateway.port), 10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as client,
    ):
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        response = b""
        while part := client.recv(65536):
            response += part
    return response


def closed_connections(gateway: Gateway, context: ssl.SSLContext, reason: str) -> float:
    lines = ask(gateway, context, "/metrics").decode().splitlines()
    counts = [
        line.split()[-1] for line in lines if line.startswith(f'rta_http_connections_closed_total{{reason="{reason}"')
    ]
    return float(counts[0]) if counts else 0.0


def test_the_oldest_unfinished_handshake_makes_room(url: str, tmp_path: Path) -> None:
    """40 connections of one address hold its ten places: the oldest of them is closed for each new one, who asks
    meanwhile is served, and the log names the address. They do not hold up the end either."""
    limits = {"RTA_GATEWAY__CONNECTIONS": "20", "RTA_GATEWAY__CONNECTIONS_PER_ADDRESS": "10"}
    with serving(url, tmp_path, limits) as (gateway, context), contextlib.ExitStack() as stack:
        clients = []
        for number in range(40):
            clients.append(stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port), 10)))
            clients[-1].sendall(CLIENT_HELLO_START if number % 2 else b"")
        wait_until(lambda: sum(map(is_closed, clients)) == 30, what="connections that are closed")
        assert all(map(is_closed, clients[:30])), "the oldest ones"
        assert ask(gateway, context).startswith(b"HTTP/1.1 200 ")
        assert is_closed(clients[30])
        assert not is_closed(clients[-1])
        assert closed_connections(gateway, context, "made_room") >= 31
        event = gateway.events("http_connections_limited")[0]
        assert (event["address"], event["limit"]) == ("127.0.0.1", "gateway.connections_per_address")
        assert gateway.stop() == 0


def test_a_handshake_has_a_time_limit(url: str, tmp_path: Path) -> None:
    """It is closed and counted, and its place is free again; so is that of a client that does not speak TLS."""
    limits = {"RTA_GATEWAY__CONNECTIONS": "4", "RTA_GATEWAY__HEADER_TIMEOUT_S": "0.3"}
    with serving(url, tmp_path, limits) as (gateway, context), contextlib.ExitStack() as stack:
        for start in (b"", b"GET / HTTP/1.1\r\n\r\n"):
            clients = [stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port), 10)) for _ in range(4)]
            for client in clients:
                client.sendall(start)
            wait_until(lambda clients=clients: all(map(is_closed, clients)), what="closed connections")  # type: ignore[misc]
        assert ask(gateway, context).startswith(b"HTTP/1.1 200 ")
        assert closed_connections(gateway, context, "handshake_timeout") == 4
        assert closed_connections(gateway, context, "made_room") == 0
        assert gateway.events("http_connections_limited") == []
