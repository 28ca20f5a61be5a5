"""The time index of long sessions: made once, in the background, kept over restarts, and true after trimming."""

import functools
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import redis

from rta_supervisor.settings import settings
from rta_wire import keys
from rta_wire.codec import encode
from tests.support import rest_gateway
from tests.support.gateways import HandmadeSession
from tests.support.rest_gateway import RestAnswer, RestGateway
from tests.support.waiting import wait_until

S = 10**9
START_NS = 1_700_000_000 * S
ENTRIES = 12_000
DOCUMENT = b'{"identity":"run","state":"closed","timestamp":"2026-01-01T00:00:00Z","identifier":"run"}'


@pytest.fixture
def config(url: str, tmp_path: Path) -> settings.Settings:
    """A gateway with a cache, without a catalogue."""
    return settings.Settings(
        redis=settings.RedisSettings(url=url),
        catalogue=settings.CatalogueSettings(path=str(tmp_path / "none.sqlite")),
        gateway=msgspec.structs.replace(settings.GatewaySettings(), cache_path=str(tmp_path / "cache")),
    )


@functools.cache
def bursts() -> list[bytes]:
    """Ten samples of two channels for each second."""
    encoder = encode.Encoder()
    channels = np.repeat(np.array([1, 2], np.uint32), 10)
    data = []
    for second in range(ENTRIES):
        times = np.tile(START_NS + second * S + np.arange(10) * (S // 10), 2)
        values = np.concatenate([np.full(10, float(second)), np.full(10, -float(second))])
        [burst] = encoder.rows(channels, times, values)
        data.append(burst.data)
    return data


@pytest.fixture
def written(client: redis.Redis) -> None:
    """A closed session of another producer, with an entry for each second."""
    fields: Any = {"json": DOCUMENT, "streamName": "rig", "streamSessionId": 7, "streamPosition": "0-0"}
    client.hset(keys.Keys().session("run"), mapping=fields)
    client.expire(keys.Keys().session("run"), 600)
    with client.pipeline(transaction=False) as pipeline:
        for second, data in enumerate([*bursts(), encode.session_json(DOCUMENT)]):
            pipeline.execute_command("XADD", keys.stream("rig"), f"{second + 1}-0", "id", 7, "data", data)
        pipeline.execute()


def minute(gateway: RestGateway, second: int = ENTRIES // 2) -> RestAnswer:
    start_ns = START_NS + second * S
    return gateway.get(f"/sessions/run/data?channels=1&start={start_ns}&end={start_ns + 60 * S - 1}&format=csv")


def overview(gateway: RestGateway) -> list[tuple[int, float, float, int]]:
    """Channel, extremes and number of samples of each step of an envelope of the whole session."""
    lines = gateway.get("/sessions/run/data?resolution=50&format=csv").body.splitlines()[1:]
    rows = [line.decode().split(",") for line in lines]
    return [(int(row[0]), float(row[2]), float(row[3]), int(row[5])) for row in rows]


def pages_read(client: redis.Redis) -> int:
    """How often entries were asked for since the counts of the server were reset."""
    counts: Any = client.info("commandstats")
    return int(counts.get("cmdstat_xrange", {}).get("calls", 0))


@pytest.mark.usefixtures("written")
def test_a_long_session_is_read_once(config: settings.Settings, client: redis.Redis) -> None:
    """A request that takes too long is answered so; what it began goes on, and a gateway that starts again has it."""
    hasty = msgspec.structs.replace(config.gateway, request_timeout_s=0.02)
    with rest_gateway.running(msgspec.structs.replace(config, gateway=hasty)) as gateway:
        answer = minute(gateway)
        assert (answer.status, answer.headers.get("retry-after")) == (503, "2")
        assert "try again" in answer.json()["detail"].lower()

        def rows_of_a_minute() -> list[bytes]:
            answer = minute(gateway)
            return answer.body.splitlines() if answer.status == 200 else []

        rows = wait_until(rows_of_a_minute, what="the index")
        assert len(rows) == 601
    with rest_gateway.running(config) as gateway:
        steps = overview(gateway)
        assert sum(row[-1] for row in steps) == 20 * ENTRIES
        wait_until(lambda: list(Path(config.gateway.cache_path).glob("*.index")), what="the cache")
    client.config_resetstat()
    with rest_gateway.running(config) as gateway:
        assert minute(gateway).body.splitlines() == rows
        assert overview(gateway) == steps
        assert pages_read(client) < 10
    for path in Path(config.gateway.cache_path).glob("*.index"):
        path.write_bytes(path.read_bytes()[:-7])
    with rest_gateway.running(config) as gateway:
        assert minute(gateway).body.splitlines() == rows


@pytest.mark.usefixtures("written")
def test_what_was_trimmed_is_not_in_an_envelope(config: settings.Settings, client: redis.Redis) -> None:
    """Samples that were summed up and are gone now are left out."""
    with rest_gateway.running(config) as gateway:
        assert sum(row[-1] for row in overview(gateway)) == 20 * ENTRIES
        client.xtrim(keys.stream("rig"), minid="5001-0", approximate=False)
        steps = overview(gateway)
        assert sum(row[-1] for row in steps) == 20 * (ENTRIES - 5000)
        assert min(low for channel, low, _, _ in steps if channel == 1) == 5000


@pytest.mark.parametrize("is_later", [True, False])
def test_a_session_that_is_made_again(config: settings.Settings, client: redis.Redis, is_later: bool) -> None:
    """In a Redis that was emptied, under the same name and number: what was known of the first one does not count."""

    def write(bursts: int, first_ms: int) -> None:
        session = HandmadeSession(client, "again", "rig", 1)
        session.next_id_ms = first_ms
        session.open()
        session.time_range(session.time_ns, session.time_ns + bursts * 1_000_000)
        for _ in range(bursts):
            session.data([1], samples=1)
        session.close()

    with rest_gateway.running(config) as gateway:
        write(bursts=40, first_ms=1000)
        first = gateway.get("/sessions/again/data?format=csv")
        assert len(first.body.splitlines()) == 41
        client.delete(keys.stream("rig"), keys.Keys().session("again"))
        write(bursts=30, first_ms=5000 if is_later else 10)
        second = gateway.get("/sessions/again/data?format=csv", If_None_Match=first.headers["etag"])
        assert (second.status, len(second.body.splitlines())) == (200, 31)


@pytest.mark.usefixtures("written")
def test_steps_of_neighbours_fit_together(config: settings.Settings) -> None:
    """Envelopes of ranges side by side have each sample once, whatever part of them has samples."""
    span_ns = 2**40
    first = START_NS // span_ns * span_ns
    with rest_gateway.running(config) as gateway:
        total = 0
        for number in range(13):
            start = first + number * span_ns
            path = f"/sessions/run/data?channels=2&resolution=512&format=csv&start={start}&end={start + span_ns - 1}"
            rows = [line.decode().split(",") for line in gateway.get(path).body.splitlines()[1:]]
            assert all(start <= int(row[1]) < start + span_ns and int(row[1]) % 2**31 == 0 for row in rows)
            total += sum(int(row[-1]) for row in rows)
        assert total == 10 * ENTRIES
