"""What a gateway without a catalogue knows of archived sessions: by the folder that supervisors registered."""

from pathlib import Path

import numpy as np
import pytest
import redis

import rta_writers
from rta_supervisor.archive import spark_process
from rta_supervisor.settings import settings
from rta_wire import keys
from rta_wire.channels import config_json, model
from rta_wire.channels.model import Channel
from rta_wire.codec import encode
from rta_wire.codec.layout import Kind, Layout, Plan, SampleType
from tests.support import archive_job_without_spark, chunk_reader, commands, rest_gateway
from tests.support.archives import waiting
from tests.support.waiting import wait_until

NAMES = keys.Keys()
START_NS = 1_700_000_000 * 10**9
MS = 10**6
ENGINE = model.build(
    [
        Channel(id=1, name="rpm", type=SampleType.FLOAT),
        Channel(id=2, name="gear", type=SampleType.INT8, kind=Kind.PERIODIC, interval_ns=10 * MS),
    ]
)
COUNT = 2000


def write(client: redis.Redis, layouts: Plan) -> list[tuple[int, int, float]]:
    """Samples of channels 1 and 2 in the session `run`; gives them back."""
    number = int(client.hget(NAMES.session("run"), "streamSessionId") or 0)
    rows = [(channel, START_NS + n * 10 * MS, float(n % 100)) for channel in (1, 2) for n in range(COUNT)]
    for burst in encode.Encoder(layouts).rows(*(np.array(column) for column in zip(*rows, strict=True))):
        client.xadd(keys.stream("rig"), {"id": number, "data": burst.data})
    return rows


def archive(client: redis.Redis, url: str, folder: Path, *arguments: str) -> None:
    """The session `run` in the archive and not in its stream, and the folder as supervisors register theirs."""
    wait_until(lambda: waiting(client), what="the session on the list")
    result = commands.run(url, "archive", "--path", str(folder), *arguments)
    assert result.code == 0, result
    client.delete(keys.stream("rig"))
    client.hset(NAMES.last_registration(), keys.NODE_ARCHIVE.decode(), str(folder))


@pytest.fixture
def without_catalogue(url: str, tmp_path: Path) -> settings.Settings:
    return settings.Settings(
        redis=settings.RedisSettings(url=url),
        catalogue=settings.CatalogueSettings(path=str(tmp_path / "none.sqlite")),
    )


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job of the archive runs in this process."""
    monkeypatch.setattr(spark_process, "run_job", archive_job_without_spark.run_job)


def test_configurations_come_from_the_archive(
    sessions: rta_writers.SessionClient,
    client: redis.Redis,
    url: str,
    tmp_path: Path,
    without_catalogue: settings.Settings,
) -> None:
    """Names, types and kinds are those of the configuration that was archived, when nobody else has it any more."""
    document = config_json.encode(ENGINE)
    identifier = config_json.identifier(document)
    client.set(NAMES.config(identifier), document, ex=600)
    with sessions.session("run", stream="rig", configBindings=[{"identifier": identifier, "channelOffset": 0}]):
        rows = write(client, ENGINE.layouts())
    archive(client, url, tmp_path)
    client.delete(NAMES.config(identifier))
    with rest_gateway.running(without_catalogue) as gateway:
        for kind, channel, code in (("timestamped", 1, "f"), ("periodic", 2, "b")):
            body = gateway.get(f"/sessions/run/data/{kind}/-").body
            expected = sorted(row for row in rows if row[0] == channel)
            assert sorted(chunk_reader.checked_samples(body, kind, {channel: code})) == expected
        table = gateway.get("/sessions/run/data?names=rpm&resolution=10&format=csv").body.splitlines()
        assert sum(int(line.split(b",")[-1]) for line in table[1:]) == COUNT


def test_types_come_from_the_archive(
    sessions: rta_writers.SessionClient,
    client: redis.Redis,
    url: str,
    tmp_path: Path,
    without_catalogue: settings.Settings,
) -> None:
    """Without any configuration samples have the types that the archive was told, and are timestamped."""
    with sessions.session("run", stream="rig"):
        layouts = Plan([(1, Layout(SampleType.FLOAT)), (2, Layout(SampleType.INT16, Kind.PERIODIC, 10 * MS))])
        rows = write(client, layouts)
    config = tmp_path / "supervisor.toml"
    config.write_text('[archive.sources."rig"]\nsample_type = "1=float, 2=int16, *=double"\n')
    archive(client, url, tmp_path / "archive", "--config", str(config))
    with rest_gateway.running(without_catalogue) as gateway:
        body = gateway.get("/sessions/run/data/timestamped/-").body
        assert sorted(chunk_reader.checked_samples(body, "timestamped", {1: "f", 2: "h"})) == sorted(rows)
