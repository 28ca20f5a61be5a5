"""The redirect that removes a token from the address."""

from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

from hypothesis import example, given
from hypothesis import strategies as st
from starlette.responses import RedirectResponse

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
