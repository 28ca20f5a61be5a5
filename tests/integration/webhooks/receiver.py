"""A real HTTP server on loopback that accepts posts, refuses them, hangs or closes the connection."""

import contextlib
import hashlib
import hmac
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.support.waiting import wait_until

SECRET = "a secret of the tests"  # noqa: S105 - of nothing else


class Post(NamedTuple):
    """A post that was received."""

    headers: dict[str, str]
    body: bytes

    @property
    def change(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.body)
        return body

    def is_signed(self, secret: str = SECRET) -> bool:
        """Whether the signature is right, by the definition in docs/webhooks.md and without our code."""
        time_part, _, digest_part = self.headers["rta-signature"].partition(",")
        signed = time_part.removeprefix("t=").encode() + b"." + self.body
        return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest() == digest_part.removeprefix("v1=")


class Receiver:
    """Keeps all posts. `answer`: the status of the response, "hang" (until `released` is set) or "hang up"."""

    def __init__(self) -> None:
        self.posts: list[Post] = []
        self.answer: int | str = 204
        self.released = threading.Event()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.posts.append(Post({name.lower(): value for name, value in self.headers.items()}, body))
                if receiver.answer == "hang":
                    receiver.released.wait(60)
                if isinstance(receiver.answer, str):
                    self.connection.close()
                    return
                self.send_response(receiver.answer)
                if 300 <= receiver.answer < 400:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
                """Tests look at `posts`."""

            def handle_one_request(self) -> None:
                with contextlib.suppress(OSError, ValueError):  # the other end may be gone by the time of the answer
                    super().handle_one_request()

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/sessions?for=tests"

    def wait_for_another(self) -> None:
        count = len(self.posts)
        wait_until(lambda: len(self.posts) > count, what="another post")

    def states(self) -> list[tuple[str, str]]:
        return [(post.change["identity"], post.change["state"]) for post in self.posts]

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.close()
