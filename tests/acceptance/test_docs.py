"""The documentation is true: every command in it is run, and what it shows is what comes out.

Links, paths and the map of packages are checked in `tests/unit/test_docs.py`.
"""

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import redis

import rta_writers
from rta_wire import keys
from rta_wire.channels import config_json, model
from rta_wire.channels.model import Channel
from rta_wire.codec import encode
from rta_writers.connection import redis_client
from tests.support import doc_pages, gateways, samples


def wire_names(url: str) -> dict[str, Any]:
    """Arrays, batches and a stream with a few entries."""
    count = 10
    times = np.arange(count, dtype=np.int64) + samples.START_NS
    client = redis_client.connect(url)
    bursts = encode.encode_doubles(np.ones(count, np.uint32), times, np.arange(count, dtype=np.float64))
    entries = [{b"data": burst.data} for burst in bursts]
    for entry in entries:
        client.xadd("stream:rig", {"id": 1, "data": entry[b"data"]})
    return {
        "batches": [pa.record_batch({"channel": [17] * count, "time": times, "value": [1.0] * count})],
        "channels": np.ones(count, np.uint32),
        "times": times,
        "values": np.arange(count, dtype=np.float64),
        "speeds": np.arange(count, dtype=np.float64),
        "torques": np.arange(count, dtype=np.float64),
        "time_ns": samples.START_NS,
        "entries": entries,
        "client": client,
        "name": "stream:rig",
        "stream_position": "0-0",
    }


def write_watched_session(url: str) -> None:
    """The session `run-1` that pages about the gateway look at, with two channels."""
    channels = model.build([Channel(id=1, name="rpm"), Channel(id=2, name="speed")])
    document = config_json.encode(channels)
    identifier = config_json.identifier(document)
    redis_client.connect(url).set(keys.Keys().config(identifier), document, ex=600)
    bindings = [{"identifier": identifier, "channelOffset": 0}]
    sessions = rta_writers.SessionClient(url, timeout_s=20)
    with (
        sessions.session("run-1", stream="rig", details={"Lap": 3}, configBindings=bindings) as session,
        rta_writers.BurstWriter(session.options) as writer,
    ):
        times = samples.START_NS + np.arange(100, dtype=np.int64) * 10**7
        writer.samples(np.repeat([1, 2], 100), np.tile(times, 2), np.arange(200, dtype=np.float64))


@pytest.mark.parametrize("page", [page for page in doc_pages.NAMES if not doc_pages.wants_spark(page)])
def test_every_command_of_a_page_works(page: str, tmp_path: Path) -> None:
    """Blocks in their order, against a server and a supervisor that are the page's own."""
    if not doc_pages.wants_deployment(page):
        doc_pages.run_all(page, "", tmp_path, {})
        return
    with doc_pages.deployment() as url:
        if doc_pages.wants_gateway(page):
            if shutil.which("curl") is None:
                pytest.skip("curl is not installed")
            write_watched_session(url)
            with gateways.running(url) as gateway:
                doc_pages.run_all(page, url, tmp_path, {}, f"127.0.0.1:{gateway.port}")
            return
        doc_pages.run_all(page, url, tmp_path, wire_names(url) if page == "docs/wire.md" else {"url": url})


def test_the_runner_notices(tmp_path: Path) -> None:
    """A page that shows something else, a command that fails, an instead that fails: each is an error."""
    runner = doc_pages.Runner("unix:///nonexistent/socket", tmp_path, {})
    for language, text, excuse, instead in (
        ("console", "$ echo one\ntwo\n", "", ""),
        ("console", "$ false\n", "", ""),
        ("console", "$ rta-supervisor status\n", "", ""),
        ("bash", "false\ntrue\n", "", ""),
        ("python", "assert False\n", "", ""),
        ("console", "$ systemctl\n", "needs root", "test -f gone"),
    ):
        with pytest.raises(AssertionError):
            runner.run(doc_pages.Block("page", 1, language, text, excuse, instead))
    runner.run(doc_pages.Block("page", 1, "console", "$ echo 12 KiB vm\n99 MiB … \n$ echo one  # says\none\n", "", ""))
    runner.run(
        doc_pages.Block(
            "page", 1, "console", "$ rta-supervisor status\nrta-supervisor: No Redis answers at …\n", "", ""
        )
    )


@pytest.mark.parametrize(
    ("channels", "hz", "flush_s", "sessions"),
    [(100, 100, 1.0, 1), (20, 10, 1.0, 5), (500, 50, 0.5, 2), (10, 10, 0.1, 1)],
)
def test_the_formula_for_memory_holds(
    client: redis.Redis, channels: int, hz: int, flush_s: float, sessions: int
) -> None:
    """What the operating guide says a stream takes, against one that is filled like that and trimmed to the entry."""
    max_entries = 500
    noise = np.random.default_rng(1)
    per_burst = round(hz * flush_s)
    rows = np.tile(np.arange(per_burst) * (10**9 // hz), channels)
    encoder = encode.Encoder()
    start_ns = samples.START_NS
    while int(client.xlen("stream:rig")) < max_entries * 1.1:
        for number in range(sessions):
            values = noise.normal(size=len(rows))
            entries = [burst.data for burst in encoder.rows(_channels(channels, per_burst), rows + start_ns, values)]
            with client.pipeline(transaction=False) as pipe:
                for data in (*entries, encode.time_range(samples.START_NS, start_ns)):
                    pipe.xadd("stream:rig", {"id": number, "data": data})
                pipe.execute()
        start_ns += round(flush_s * 1e9)
    client.xtrim("stream:rig", maxlen=max_entries, approximate=False)
    text = (doc_pages.ROOT / "docs" / "operating.md").read_text()
    names: dict[str, Any] = {}
    exec(re.search(r"```python\n(import math.+?)```", text, re.DOTALL)[1], names)  # type: ignore[index]  # noqa: S102
    expected = names["stream_bytes"](
        channels, hz, flush_s, sessions=sessions, max_entries=max_entries, entry_s=0, min_retention_s=0
    )
    measured = client.memory_usage("stream:rig", samples=0)
    assert measured == pytest.approx(expected, rel=0.15)


def _channels(count: int, each: int) -> Any:
    return np.repeat(np.arange(count, dtype=np.uint32), each)
