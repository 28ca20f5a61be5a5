"""One POST: which responses count as success."""

import socket
import threading

import pytest

from rta_supervisor.webhooks import http_post


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", None),
        (b"HTTP/1.0 204\r\n\r\n", None),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", "it answered 302"),
        (b"220 mail.example ESMTP\r\n", "not HTTP"),
        (b"x" * 5000, "not HTTP"),
        (b"", "hung up"),
    ],
)
async def test_only_2xx_is_a_success(response: bytes, problem: str | None) -> None:
    """Anything else is an error with its reason, and no response is read without end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(response)

        threading.Thread(target=serve, daemon=True).start()
        posting = http_post.post(f"http://127.0.0.1:{port}/", b"{}", {}, timeout_s=10)
        if problem is None:
            await posting
        else:
            with pytest.raises(http_post.PostFailed, match=problem):
                await posting
