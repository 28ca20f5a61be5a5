"""Who may look, over HTTP and over WebSockets."""

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
import redis
from cryptography.hazmat.primitives.asymmetric import ec
from websockets.exceptions import InvalidStatus

from tests.support import gateways
from tests.support.gateways import Gateway, HandmadeSession, PythonViewer
from tests.support.waiting import wait_until

WALL = "0123456789abcdef-wall"
RIG = "0123456789abcdef-rig"


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"# who\nwall {WALL} *\n\nrig {RIG} rig-4. car\n")
    return path


@pytest.fixture
def gateway(url: str, token_file: Path) -> Iterator[Gateway]:
    with gateways.running(url, {"RTA_GATEWAY__TOKEN_FILE": str(token_file)}) as running:
        yield running


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def refused_status(gateway: Gateway, **options: Any) -> int:
    with pytest.raises(InvalidStatus) as refused:
        PythonViewer(gateway, "s", **options)
    return refused.value.response.status_code


def test_without_tokens_only_names_of_this_host_are_served(url: str) -> None:
    """A page elsewhere can make a browser ask a loopback address under a name of its own, or open a WebSocket to it."""
    with gateways.running(url, {"RTA_GATEWAY__ORIGINS": '["https://wall.example"]'}) as gateway:
        assert gateway.get("/rta/v2/info", {"Host": "evil.example"})[0] == 421
        assert gateway.get("/rta/v2/info")[0] == 200
        for foreign in ("http://evil.example", "null", "http://["):
            assert refused_status(gateway, origin=foreign) == 403
        assert refused_status(gateway, additional_headers={"Host": "evil.example"}) in (400, 421)
        for origin in (None, f"http://127.0.0.1:{gateway.port}", "https://wall.example"):
            assert PythonViewer(gateway, "s", origin=origin).read_to_close() == 1000


def test_everything_but_info_needs_a_token(gateway: Gateway) -> None:
    """`info` says that one is needed; everything else, WebSockets too, is refused without."""
    status, _, body = gateway.get("/rta/v2/info")
    assert status == 200
    assert json.loads(body)["authenticationRequired"] is True
    for path in ("/", "/health", "/metrics", "/viewers", "/rta/v2/sessions", "/nothing"):
        assert gateway.get(path)[0] == 401, path
        assert gateway.get(path, bearer("wrong"))[0] == 401
    assert refused_status(gateway) == 401
    assert refused_status(gateway, additional_headers=bearer("wrong")) == 401
    # Before Redis was asked for the first time nobody knows whether it is there.
    wait_until(lambda: gateway.get("/health", bearer(WALL))[0] == 200, what="an answer of Redis")


def test_a_session_that_a_token_may_not_see_does_not_exist(client: redis.Redis, gateway: Gateway) -> None:
    """Its WebSocket is closed as that of an unknown session, byte for byte."""
    for identity, stream, number in (("mine", "rig-4.a", 1), ("theirs", "rig-5.a", 2)):
        HandmadeSession(client, identity, stream, number).open()
    seen = {}
    for identity in ("mine", "theirs", "nobody"):
        viewer = PythonViewer(gateway, identity, additional_headers=bearer(RIG))
        viewer.read(1.0)
        seen[identity] = len(viewer.bursts)
        if identity != "mine":
            assert viewer.read_to_close() == 1000
        viewer.close()
    assert seen == {"mine": 1, "theirs": 0, "nobody": 0}
    whole = PythonViewer(gateway, "theirs", additional_headers=bearer(WALL))
    assert whole.read() is not None
    for path in ("", "/data", "/data/timestamped/-", "/data/events"):
        # There is no catalogue beside this gateway: both are answered with that.
        hidden, unknown = (gateway.get(f"/rta/v2/sessions/{name}{path}", bearer(RIG)) for name in ("theirs", "nobody"))
        assert (hidden[0], hidden[2].replace(b"theirs", b"nobody")) == (unknown[0], unknown[2])
    lines = json.loads(gateway.get("/viewers", bearer(RIG))[2])["viewers"]
    assert all(line["stream"].startswith("rig-4.") for line in lines)
    assert [line["token"] for line in json.loads(gateway.get("/viewers", bearer(WALL))[2])["viewers"]] == ["wall"]
    whole.close()


def test_a_token_in_the_address_becomes_a_cookie(gateway: Gateway) -> None:
    """HttpOnly and SameSite, taken on an upgrade from pages of the gateway alone."""
    status, headers, _ = gateway.get(f"/rta/v2/sessions?x=1&token={WALL}")
    assert (status, headers["location"]) == (303, "/rta/v2/sessions?x=1")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert gateway.get(f"/rta/v2/sessions/a%2Fb%20c?token={WALL}")[1]["location"] == "/rta/v2/sessions/a%2Fb%20c"
    sent = {"Cookie": cookie.partition(";")[0]}
    assert gateway.get("/health", sent)[0] == 200
    assert refused_status(gateway, additional_headers=sent, origin="http://evil.example") == 403
    own = PythonViewer(gateway, "s", additional_headers=sent, origin=f"http://127.0.0.1:{gateway.port}")
    assert own.read_to_close() == 1000
    assert gateway.get("/health?token=wrong")[0] == 401


def test_a_token_that_is_taken_away_ends_its_viewers(client: redis.Redis, gateway: Gateway, token_file: Path) -> None:
    """The file is read again; a mistake in it changes nothing. Also where another token has its name and its streams:
    the one before may be in other hands."""
    HandmadeSession(client, "s", "rig-4.a", 1).open()
    viewer, other = (PythonViewer(gateway, "s", additional_headers=bearer(token)) for token in (RIG, WALL))
    viewer.read()
    token_file.write_text("wall short *\n")
    wait_until(lambda: gateway.get("/health", bearer(WALL))[0] == 200 and gateway.events("gateway_tokens_refused"))
    token_file.write_text(f"wall {WALL} *\nrig {RIG}-2 rig-4. car\n")
    assert viewer.read_to_close(15) == 1008
    assert other.read() is not None
    assert gateway.get("/health", bearer(RIG))[0] == 401
    assert gateway.get("/health", bearer(f"{RIG}-2"))[0] == 200
    other.close()


def test_signed_tokens(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """A JWT of the issuer for this audience is taken; of anybody else, for others, or too old it is not. Keys that
    change count at once, and a mistake in their file changes nothing."""
    key, other = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    (tmp_path / "jwks").write_text(json.dumps({"keys": [public | {"kid": "1", "alg": "ES256"}]}))
    environment = {
        "RTA_GATEWAY__JWKS_FILE": str(tmp_path / "jwks"),
        "RTA_GATEWAY__JWT_ISSUER": "https://id.example",
        "RTA_GATEWAY__JWT_AUDIENCE": "rta",
    }
    in_an_hour = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    claims = {"iss": "https://id.example", "aud": "rta", "sub": "ada", "exp": in_an_hour, "rta_streams": ["rig-4."]}

    def sign(signer: Any = key, **changes: Any) -> dict[str, str]:
        return bearer(jwt.encode(claims | changes, signer, "ES256", {"kid": "1"}))

    HandmadeSession(client, "s", "rig-4.a", 1).open()
    HandmadeSession(client, "t", "rig-5.a", 2).open()
    with gateways.running(url, environment) as gateway:
        assert gateway.get("/viewers", sign())[0] == 200
        seen = PythonViewer(gateway, "s", additional_headers=sign())
        assert seen.read() is not None
        assert PythonViewer(gateway, "t", additional_headers=sign()).read_to_close() == 1000
        for wrong in (
            sign(other),
            sign(aud="other"),
            sign(iss="https://evil.example"),
            sign(exp=in_an_hour - datetime.timedelta(hours=2)),
            sign(rta_streams=None),
            bearer(jwt.encode(claims, "0" * 32, "HS256", {"kid": "1"})),
            bearer("a.b.c"),
        ):
            assert gateway.get("/viewers", wrong)[0] == 401
        (tmp_path / "jwks").write_text("no keys")
        wait_until(lambda: gateway.get("/viewers", sign())[0] == 200 and gateway.events("gateway_keys_refused"))
        renewed = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(other.public_key()))
        (tmp_path / "jwks").write_text(json.dumps({"keys": [renewed | {"kid": "1", "alg": "ES256"}]}))
        wait_until(lambda: gateway.get("/viewers", sign(other))[0] == 200, what="the new keys")
        assert gateway.get("/viewers", sign())[0] == 401
        assert seen.read_to_close(15) == 1008, "the key of its token is gone"
        # Clocks differ: a token that has just ended is still taken, and then not taken away at once.
        ending = PythonViewer(gateway, "s", additional_headers=sign(other, exp=datetime.datetime.now(datetime.UTC)))
        ending.read()
        assert ending.read(4.0) is None
        assert ending.close_code is None
        ending.close()


@pytest.mark.parametrize(
    ("environment", "statuses"),
    [
        ({"RTA_GATEWAY__VIEWERS": "2"}, 503),
        ({"RTA_GATEWAY__TOKEN_VIEWERS": "2"}, 429),
        ({"RTA_GATEWAY__ADDRESS_VIEWERS": "2"}, 429),
    ],
)
def test_viewers_past_a_limit_are_refused(
    client: redis.Redis, url: str, environment: dict[str, str], statuses: int
) -> None:
    """And there is room again when one has left."""
    HandmadeSession(client, "s", "rig", 1).open()
    with gateways.running(url, environment) as gateway:
        viewers = [PythonViewer(gateway, "s") for _ in range(2)]
        assert refused_status(gateway) == statuses
        viewers.pop().close()
        wait_until(lambda: "rta_gateway_viewers 1.0" in gateway.metrics(), what="room")
        PythonViewer(gateway, "s").close()
        viewers.pop().close()
