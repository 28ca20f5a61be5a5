"""Publishing a configuration of 10,000 channels: checked, hashed, kept in Redis and in the catalogue; against a program
that parses and prints the same JSON, hashes and compresses it, and stores it in the same two places without a check.
"""

import atexit
import contextlib
import functools
import hashlib
import json
import sqlite3
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import anyio
import redis

from bench.measure import Case
from rta_supervisor.catalogue import config_table
from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.channels.publishing import ConfigService
from rta_supervisor.channels.store import ConfigStore
from rta_supervisor.control.entry import ControlEntry
from rta_supervisor.diagnostics import log
from rta_supervisor.embedded import server
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections.limits import LimitsSettings
from rta_supervisor.transport import function_loader
from rta_supervisor.transport.link import Link
from rta_wire import keys
from rta_wire.channels import config_json, model
from rta_wire.pb import control_pb2

CHANNELS = 10_000
QUICK_CHANNELS = 100
GROUPS = 50
TTL_S = 600


@functools.cache
def redis_url() -> str:
    """A server for this module, which ends with the process."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(server.running()).url


class Publisher:
    """Publishes one new configuration after the other."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._number = 0
        self._folder = Path(tempfile.mkdtemp(prefix="rtas-bench-configs-"))

    def _next(self) -> bytes:
        """A configuration that nobody has published."""
        self._number += 1
        channels = [
            model.Channel(
                id=number,
                name=f"channel_{number}",
                unit="bar",
                description=f"Sensor {number} of rig {self._number}",
                min=0.0,
                max=float(number),
                group=("rig", f"group {number % GROUPS}"),
            )
            for number in range(1, self._count + 1)
        ]
        return config_json.encode(model.build(channels))

    def supervisor_per_s(self) -> float:
        """Channels a second, as a supervisor publishes them."""
        text = self._next().decode()
        return self._count / anyio.run(self._publish, text)

    async def _publish(self, text: str) -> float:
        log.configure(settings.LogSettings(level="error"), [])
        config = settings.Settings(
            redis=settings.RedisSettings(url=redis_url()), limits=LimitsSettings(configs=10**6, config_bytes=2**40)
        )
        link = Link(config.redis)
        catalogue = SqliteCatalogue(self._folder / "ours.sqlite")
        try:
            await function_loader.load(link)
            await catalogue.open()
            service = ConfigService(link, config, ConfigStore(link, config.keys, catalogue), catalogue)
            entry = ControlEntry(config.keys.requests("bench"), "bench", "1-0", raw=None, is_first_delivery=True)
            began_s = time.perf_counter()
            await service.publish(entry, control_pb2.PublishConfig(request_id="x", config_json=text))
            return time.perf_counter() - began_s
        finally:
            await catalogue.close()
            await link.close()

    def unchecked_per_s(self) -> float:
        """Channels a second of a program that checks nothing."""
        text = self._next().decode()
        path = self._folder / "reference.sqlite"
        with redis.Redis.from_url(redis_url()) as client, contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            database.execute("CREATE TABLE IF NOT EXISTS configs (identifier TEXT PRIMARY KEY, data BLOB)")
            database.commit()
            client.ping()
            began_s = time.perf_counter()
            data = json.dumps(json.loads(text), separators=(",", ":")).encode()
            identifier = hashlib.sha256(data).hexdigest()
            client.set(keys.Keys().config(identifier), data, ex=TTL_S)
            packed = zlib.compress(data, config_table.COMPRESSION_LEVEL)
            database.execute("INSERT INTO configs VALUES (?, ?)", (identifier, packed))
            database.commit()
            return self._count / (time.perf_counter() - began_s)


def bench_publishing(quick: bool) -> Iterator[Case]:
    count = QUICK_CHANNELS if quick else CHANNELS
    publisher = Publisher(count)
    yield Case(
        f"configuration of {count:,} channels published, against storing its JSON unchecked",
        "channels/s",
        publisher.supervisor_per_s,
        publisher.unchecked_per_s,
        bar=0.0 if quick else 0.4,
    )
