"""Which requests are accepted, and the redirect that removes a token from the address."""

from collections.abc import MutableMapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.responses import RedirectResponse
from starlette.types import Receive, Scope, Send

from rta_supervisor.http import auth

ORIGIN = "http://supervisor.example:8630/"
PARTS = st.lists(
    st.sampled_from(["/", "\\", "evil.example", "http:", "ui", "@", "%2f", "%5c", "\t", "\n", ".", "..", "?"])
)


def followed(location: str) -> str:
    """The host and port that a browser goes to: it drops tabs and line ends, and takes a backslash for a slash."""
    browsers = location.translate({ord(char): None for char in "\t\r\n"}).strip().replace("\\", "/")
    return urlsplit(urljoin(ORIGIN, browsers)).netloc


@given(path=PARTS.map("".join) | st.text(), query=st.lists(st.tuples(st.text(), st.text())))
@example(path="//evil.example", query=[])
@example(path="/\\evil.example", query=[])
@example(path="/\t/evil.example", query=[])
@example(path="http://evil.example/", query=[("token", "x")])
def test_a_redirect_stays_on_its_host(path: str, query: list[tuple[str, str]]) -> None:
    """Whatever path was asked for, also in the header as it is sent; the rest of the query is kept, the token not."""
    pairs = [(name.encode(errors="replace").decode(), value.encode(errors="replace").decode()) for name, value in query]
    location = auth.location_without_token(path, urlencode([*pairs, (auth.QUERY, "secret")]))
    header = RedirectResponse(location, 303).headers["location"]
    assert header == location
    assert followed(header) == urlsplit(ORIGIN).netloc
    kept = [(name, value) for name, value in pairs if name != auth.QUERY and value]
    assert parse_qsl(urlsplit(header).query) == kept


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(("header", "status"), [(b"", 401), (b"Bearer wrong", 401), (b"Bearer 0123456789abcdef", None)])
async def test_every_scope_needs_the_token(kind: str, header: bytes, status: int | None) -> None:
    """Upgrades to WebSocket are refused as requests are, and never reach the application."""
    reached: list[str] = []
    sent: list[MutableMapping[str, Any]] = []

    async def application(scope: Scope, _: Receive, __: Send) -> None:
        reached.append(scope["type"])

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        raise AssertionError("nothing is read before it is decided")

    scope: Scope = {
        "type": kind,
        "path": "/ui",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"authorization", header)],
        "extensions": {"websocket.http.response": {}},
    }
    await auth.AuthMiddleware(application, "0123456789abcdef")(scope, receive, send)
    assert reached == ([kind] if status is None else [])
    assert [message["status"] for message in sent if "status" in message] == ([] if status is None else [status])
