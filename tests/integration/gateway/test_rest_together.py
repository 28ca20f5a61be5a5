"""Gateways in other company: with PostgreSQL, side by side, without a catalogue, under an older ACL file."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
import redis

import rta_writers
from rta_supervisor.settings import settings
from rta_wire import keys
from tests.support import acl, postgres, rest_gateway, supervisors
from tests.support.rest_gateway import RestGateway
from tests.support.waiting import wait_until

NAMES = keys.Keys()


def identities(gateway: RestGateway) -> list[str]:
    return [session["identity"] for session in gateway.get("/sessions").json()["sessions"]]


def write_one(session: rta_writers.Session) -> None:
    with rta_writers.BurstWriter(session.options) as writer:
        writer.samples(pa.array([1, 2], pa.int64()), pa.array([5, 6], pa.int64()), pa.array([0.5, 1.5]))


@contextlib.contextmanager
def two_gateways(config: settings.Settings) -> Iterator[tuple[RestGateway, RestGateway]]:
    with rest_gateway.running(config) as first, rest_gateway.running(config) as second:
        yield first, second


def test_two_gateways_share_a_postgres(
    url: str, client: redis.Redis, shared_postgres: postgres.Server, tmp_path: Path
) -> None:
    """Both list the same sessions, of Redis and of the catalogue, and send the same bytes of them."""
    with shared_postgres.schema() as catalogue:
        environment = {
            "RTA_CATALOGUE__URL": catalogue.url,
            "RTA_CATALOGUE__SCHEMA": catalogue.schema,
        }
        config = settings.Settings(
            redis=settings.RedisSettings(url=url),
            catalogue=catalogue,
            gateway=msgspec.structs.replace(settings.GatewaySettings(), cache_path=str(tmp_path)),
        )
        with supervisors.running(url, environment), two_gateways(config) as gateways:
            sessions = rta_writers.SessionClient(url, timeout_s=20)
            for identity in ("gone", "open"):
                write_one(sessions.open(identity, stream="rig"))
            sessions.close("gone")
            wait_until(lambda: client.zscore(NAMES.session_index(), "gone") is None, what="the catalogue to have it")
            client.delete(NAMES.session("gone"), NAMES.session_state("gone"))
            for gateway in gateways:
                wait_until(lambda: sorted(identities(gateway)) == ["gone", "open"], what="both sessions")  # noqa: B023
                wait_until(
                    lambda: gateway.get("/sessions/gone").json().get("rtaSamples") == 2,  # noqa: B023
                    what="the number of samples",
                )
            first, second = (gateway.get("/sessions/gone/data/timestamped/-") for gateway in gateways)
            assert len(first.body) > 50
            assert (first.body, first.headers["etag"]) == (second.body, second.headers["etag"])


def test_without_a_catalogue_and_under_an_older_acl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sessions in the index are served; those of others are found where the ACL has SCAN, else the log names it."""
    with acl.running() as own, redis.Redis(unix_socket_path=str(own.socket_path)) as client:
        for identity in ("indexed", "theirs"):
            document = json.dumps({"identity": identity, "state": "open", "timestamp": "2026-01-01T00:00:00Z"})
            fields: Any = {"json": document, "streamName": "rig", "streamSessionId": 1}
            client.hset(NAMES.session(identity), mapping=fields)
        client.zadd(NAMES.session_index(), {"indexed": 1})
        password = tmp_path / "password"
        password.write_text(acl.PASSWORD)
        config = settings.Settings(
            redis=settings.RedisSettings(url=f"unix://gateway@{own.socket_path}", password_file=str(password)),
            catalogue=settings.CatalogueSettings(path=str(tmp_path / "none.sqlite")),
        )
        with rest_gateway.running(config) as gateway:
            assert sorted(identities(gateway)) == ["indexed", "theirs"]
            assert gateway.get("/sessions/theirs/data").status == 200
        client.execute_command("ACL", "SETUSER", "gateway", "-scan")
        with rest_gateway.running(config) as gateway:
            assert identities(gateway) == ["indexed"]
        assert "+scan" in capsys.readouterr().out
