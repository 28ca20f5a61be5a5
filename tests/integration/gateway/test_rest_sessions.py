"""Sessions over REST, beside a supervisor: from Redis while they are live, from the catalogue after that."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import pyarrow as pa
import pytest
import redis

import rta_writers
from rta_supervisor.settings import settings
from rta_wire import keys
from tests.support import rest_gateway
from tests.support.rest_gateway import RestGateway
from tests.support.waiting import wait_until

NAMES = keys.Keys()
ODD = "run/1 50% größer?#&"


def identities(gateway: RestGateway, path: str = "/sessions") -> list[str]:
    return [session["identity"] for session in gateway.get(path).json()["sessions"]]


def states(gateway: RestGateway) -> dict[str, str]:
    return {session["identity"]: session["state"] for session in gateway.get("/sessions").json()["sessions"]}


def test_live_and_ended_sessions_are_listed_once_newest_first(
    gateway: RestGateway, sessions: rta_writers.SessionClient, client: redis.Redis
) -> None:
    """A session is in the list while it is open, when it has closed, and when Redis has forgotten it."""
    for number in range(3):
        sessions.open(
            f"run-{number}", stream="rig", timestamp=f"2026-01-0{number + 1}T00:00:00Z", details={"Lap": number}
        )
    assert identities(gateway) == ["run-2", "run-1", "run-0"]
    sessions.close("run-1")
    wait_until(lambda: gateway.get("/sessions/run-1").json()["state"] == "closed", what="the state")
    wait_until(lambda: client.zscore(NAMES.session_index(), "run-1") is None, what="the catalogue to have it")
    client.delete(NAMES.session("run-1"), NAMES.session_state("run-1"))
    expected = {"run-0": "open", "run-1": "closed", "run-2": "open"}
    wait_until(lambda: states(gateway) == expected, what="the catalogue to be read")
    assert gateway.get("/sessions/run-1").json()["details"] == {"Lap": 1}
    assert identities(gateway) == ["run-2", "run-1", "run-0"]
    assert identities(gateway, "/sessions?pageSize=2&pageIndex=1") == ["run-0"]
    assert identities(gateway, "/sessions?sort=details.Lap:asc&sort=nothing:desc") == ["run-0", "run-1", "run-2"]
    assert identities(gateway, "/sessions?folder=elsewhere") == []


def test_a_query_is_posted_as_a_form(gateway: RestGateway, sessions: rta_writers.SessionClient) -> None:
    """`query` and `prop` come in a form; extDetails are shown where they are asked for."""
    extensions = {"Car": {"Fuel": 12.5, "Tyre": "soft"}, "Track": {"Name": "Spa"}}
    sessions.open("run-a", stream="rig", identifier="Warm-up", extDetails=extensions)
    sessions.open("run-b", stream="rig", identifier="Race")
    query = json.dumps({"extDetails.Car.Fuel": {"$gt": 12}, "state": {"$in": ["open"]}})
    [found] = gateway.search(urlencode({"query": query}))
    assert found["identity"] == "run-a"
    assert "extDetails" not in found
    [found] = gateway.search(
        urlencode([("query", query), ("prop", "extDetails.Car.Fuel"), ("prop", "extDetails.Track")])
    )
    assert found["extDetails"] == {"Car": {"Fuel": 12.5}, "Track": {"Name": "Spa"}}
    assert gateway.get("/sessions/run-a").json()["extDetails"] == extensions
    assert len(gateway.search("")) == 2
    model = gateway.get("/session-metamodel").json()
    assert model["extDetails"]["Car"]["properties"]["Tyre"]["constraints"]["values"] == ["soft"]
    assert "open" in model["state"]["constraints"]["values"]
    assert gateway.get("/session-metamodel/properties?query=fuel").json() == [
        {"id": "extDetails.Car.Fuel", "label": "Fuel", "description": ""}
    ]
    assert gateway.get("/session-folders/").json() == []


def test_the_time_range_of_an_open_session_is_the_present_one(
    gateway: RestGateway, sessions: rta_writers.SessionClient
) -> None:
    """What a list says about times follows what is written."""
    with sessions.session("run", stream="rig") as session, rta_writers.BurstWriter(session.options) as writer:
        for end_ns in (1_700_000_000 * 10**9, 1_700_000_005 * 10**9):
            writer.samples(pa.array([1], pa.int64()), pa.array([end_ns]), pa.array([1.5]))
            writer.flush()
            wait_until(
                lambda: gateway.get("/sessions").json()["sessions"][0].get("timeRange", {}).get("endTime") == end_ns,  # noqa: B023
                what="the time range",
            )


def test_a_session_says_how_many_samples_it_has(gateway: RestGateway, sessions: rta_writers.SessionClient) -> None:
    """In lists and by identity, while it is open and after that, with the time of the count; queries find it."""

    def counted() -> list[tuple[int | None, int]]:
        rows = [*gateway.get("/sessions").json()["sessions"], gateway.get("/sessions/run").json()]
        return [(row.get("rtaSamples"), len(row.get("rtaSamplesTime", ""))) for row in rows]

    with sessions.session("run", stream="rig") as session, rta_writers.BurstWriter(session.options) as writer:
        writer.samples(pa.array([1] * 5, pa.int64()), pa.array(range(5), pa.int64()), pa.array([1.5] * 5))
        writer.flush()
        wait_until(lambda: counted() == [(5, 30)] * 2, what="the number of samples")
    assert len(gateway.search(urlencode({"query": '{"rtaSamples": 5}'}))) == 1
    assert gateway.search(urlencode({"query": '{"rtaSamples": {"$gt": 5}}'})) == []


def test_an_identity_may_be_anything(gateway: RestGateway, sessions: rta_writers.SessionClient) -> None:
    """Slashes, percent signs, blanks and letters of any alphabet arrive percent-encoded."""
    sessions.open(ODD, stream="rig")
    answer = gateway.get(f"/sessions/{quote(ODD, safe='')}")
    assert (answer.status, answer.json()["identity"]) == (200, ODD)
    assert gateway.get("/sessions/run%2F1").status == 404
    assert gateway.get("/sessions/%FF").status == 404


@pytest.mark.parametrize("identity", ["a/stream", "a/data", "a/data/events", "two\nlines"])
def test_an_identity_may_end_as_an_endpoint_does(gateway: RestGateway, client: redis.Redis, identity: str) -> None:
    """And has line breaks where another producer wrote it."""
    fields: Any = {"json": json.dumps({"identity": identity}), "streamName": "rig", "streamSessionId": 1}
    client.hset(NAMES.session(identity), mapping=fields)
    client.expire(NAMES.session(identity), 600)
    path = f"/sessions/{quote(identity, safe='')}"
    answer = gateway.get(path)
    assert (answer.status, answer.json()["identity"]) == (200, identity)
    assert gateway.get(f"{path}/data").status == 200
    assert gateway.get(f"{path}/stream").status == 400


SPOILT: dict[str, dict[str, Any]] = {
    "time ranges": {"tStart": "soon", "tEnd": "9"},
    "long numbers": {"tStart": "1" * 5000, "tEnd": "1" * 5000, "streamPosition": "1" * 5000 + "-0"},
    "far times": {"tStart": "9" * 20, "tEnd": "9" * 20},
    "positions": {"streamPosition": "here"},
    "high positions": {"streamPosition": "9" * 20 + "-0"},
    "deep documents": {"json": '{"details": ' + "[" * 2000 + "]" * 2000 + "}"},
    "lists": {"json": "[]"},
    "states": {"json": '{"identity": "states", "state": {}, "timestamp": []}'},
    "bytes": {"json": b"\xff", "streamName": b"\xff"},
    "numbers": {"streamSessionId": "1" * 5000},
}
"""Hashes that somebody has spoilt."""


def test_a_spoilt_session_hides_no_other(
    gateway: RestGateway, sessions: rta_writers.SessionClient, client: redis.Redis
) -> None:
    """What of it can be shown is, and all other sessions are listed, searched and sorted as ever."""
    sessions.open("ours", stream="rig")
    for identity, fields in SPOILT.items():
        document = json.dumps({"identity": identity, "state": "open"})
        spoilt: Any = {"json": document, "streamName": "lab", "streamSessionId": 1} | fields
        client.hset(NAMES.session(identity), mapping=spoilt)
        client.expire(NAMES.session(identity), 600)
    wait_until(lambda: len(identities(gateway)) == len(SPOILT), what="all but the one without a number")
    for sort in ("state", "timeRange.startTime", "timestamp", "details"):
        assert "ours" in [found["identity"] for found in gateway.search(urlencode({"sort": sort}))]
    assert gateway.get("/session-metamodel").status == 200
    for identity in SPOILT:
        status = 404 if identity == "numbers" else 200
        for path in ("", "/data", "/data/events", "/data/timestamped/-"):
            assert gateway.get(f"/sessions/{quote(identity)}{path}").status == status, (identity, path)


def test_children_and_alternates_are_not_in_the_list(gateway: RestGateway, sessions: rta_writers.SessionClient) -> None:
    """They are found by their identity."""
    for identity in ("child", "other"):
        sessions.open(identity, stream="rig")
    sessions.open("parent", stream="rig", children=[{"identity": "child"}], alternates=["other"])
    assert identities(gateway) == ["parent"]
    assert gateway.get("/sessions/child").status == 200


def test_a_reused_identity_is_the_newest_session(
    gateway: RestGateway, sessions: rta_writers.SessionClient, client: redis.Redis
) -> None:
    """Where an identity was used twice, there is one session of it."""
    sessions.open("run", stream="rig", identifier="first")
    sessions.close("run")
    wait_until(lambda: client.zscore(NAMES.session_index(), "run") is None, what="the catalogue to have it")
    assert [s["identifier"] for s in gateway.search("")] == ["first"]
    client.delete(NAMES.session("run"), NAMES.session_state("run"))
    sessions.open("run", stream="rig", identifier="second")
    wait_until(lambda: [s["identifier"] for s in gateway.search("")] == ["second"], what="the newest")
    assert gateway.get("/sessions/run").json()["identifier"] == "second"


def test_sessions_of_other_producers_are_listed(
    gateway: RestGateway, sessions: rta_writers.SessionClient, client: redis.Redis
) -> None:
    """A hash that no supervisor wrote is a session, once, found by queries, until it is gone."""
    sessions.open("ours", stream="rig")
    document = {"identity": "theirs", "identifier": "Theirs", "state": "open", "timestamp": "2026-01-01T00:00:00Z"}
    fields: Any = {"json": json.dumps(document), "streamName": "lab", "streamSessionId": 900, "tStart": 5, "tEnd": 9}
    client.hset(NAMES.session("theirs"), mapping=fields)
    client.hset("elsewhere:theirs", mapping=fields)
    for key in (NAMES.session("theirs"), "elsewhere:theirs"):
        client.expire(key, 600)
    wait_until(lambda: sorted(identities(gateway)) == ["ours", "theirs"], what="both sessions")
    [found] = gateway.search(urlencode({"query": '{"stream": "lab", "timeRange.endTime": {"$gt": 8}}'}))
    assert found["timeRange"] == {"startTime": 5, "endTime": 9}
    client.delete(NAMES.session("theirs"))
    wait_until(lambda: identities(gateway) == ["ours"], what="it to be gone")


def test_a_token_sees_its_streams_only(
    url: str, catalogue_path: str, sessions: rta_writers.SessionClient, tmp_path: Path
) -> None:
    """A session of another stream is like one that does not exist."""
    sessions.open("mine", stream="rig-1")
    # Were its child missing in a list of rigs alone, that would tell of it.
    sessions.open("theirs", stream="lab-1", children=["mine"])
    tokens = tmp_path / "tokens"
    tokens.write_text(f"rigs {'r' * 40} rig-\nall {'a' * 40} *\n")
    config = settings.Settings(
        redis=settings.RedisSettings(url=url),
        catalogue=settings.CatalogueSettings(path=catalogue_path),
        gateway=msgspec.structs.replace(settings.GatewaySettings(), token_file=str(tokens)),
    )
    with rest_gateway.running(config) as gateway:
        rigs, everything = ({"Authorization": f"Bearer {letter * 40}"} for letter in "ra")
        assert gateway.get("/sessions").status == 401
        assert [s["identity"] for s in gateway.get("/sessions", **rigs).json()["sessions"]] == ["mine"]
        assert [s["identity"] for s in gateway.get("/sessions", **everything).json()["sessions"]] == ["theirs"]
        hidden, unknown = (gateway.get(f"/sessions/{name}", **rigs) for name in ("theirs", "nobody"))
        assert (hidden.status, unknown.status) == (404, 404)
        assert hidden.body.replace(b"theirs", b"nobody") == unknown.body
        assert gateway.get("/sessions/theirs", **everything).status == 200


@pytest.mark.parametrize(
    "path", ["/sessions?pageSize=0", "/sessions?pageIndex=-1", "/sessions?pageIndex=x", "/sessions?sort=a:up"]
)
def test_a_mistake_in_a_request_is_named(gateway: RestGateway, path: str) -> None:
    """Status 400, with the parameter in the sentence."""
    answer = gateway.get(path)
    assert (answer.status, answer.headers["content-type"]) == (400, "application/problem+json")
    assert path.partition("?")[2].partition("=")[0] in answer.json()["detail"]


def test_requests_are_conditional_and_compressed(gateway: RestGateway, sessions: rta_writers.SessionClient) -> None:
    """What the client has is not sent again; HEAD has the headers alone; gzip comes where it is asked for."""
    sessions.open("run", stream="rig", details={f"Detail {n}": "x" * 50 for n in range(50)})
    wait_until(lambda: "rtaSamples" in gateway.get("/sessions/run").json(), what="the catalogue to have it")
    plain = gateway.get("/sessions/run")
    assert gateway.get("/sessions/run", If_None_Match=plain.headers["etag"]).status == 304
    packed = gateway.get("/sessions/run", Accept_Encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert len(packed.body) < len(plain.body) / 5
    head = gateway.ask("/rta/v2/sessions/run", "HEAD")
    assert (head.status, head.body, head.headers["etag"]) == (200, b"", plain.headers["etag"])
    assert gateway.ask("/rta/v2/sessions/run", "DELETE").status == 405
    assert gateway.ask("/rta/v2/info", "PUT").status == 405
    assert gateway.get("/nowhere").status == 404
