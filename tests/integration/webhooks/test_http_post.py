"""One POST: which answers are taken."""

import socket
import threading

import pytest

from rta_supervisor.webhooks import http_post


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", None),
        (b"HTTP/1.0 204\r\n\r\n", None),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", "it answered 302"),
        (b"220 mail.example ESMTP\r\n", "not HTTP"),
        (b"x" * 5000, "not HTTP"),
        (b"", "hung up"),
    ],
)
async def test_answers_of_all_kinds(answer: bytes, says: str | None) -> None:
    """Only 2xx is taken; nothing of a wrong answer is read without end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        posting = http_post.post(f"http://127.0.0.1:{port}/", b"{}", {}, timeout_s=10)
        if says is None:
            await posting
        else:
            with pytest.raises(http_post.PostFailed, match=says):
                await posting
