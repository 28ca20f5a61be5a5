"""Processes that write to one catalogue at once, and one that is killed."""

import contextlib
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec

from rta_supervisor.settings import settings
from tests.integration.catalogue import backends

ROOT = Path(__file__).parents[3]

WRITER = """
import sys, anyio, msgspec
from rta_supervisor.catalogue import factory
from rta_supervisor.settings import settings
from tests.support.catalogue_rows import numbered_row
async def main(config, first, count):
    catalogue_settings = msgspec.json.decode(config, type=settings.CatalogueSettings)
    backend = factory.create(settings.Settings(catalogue=catalogue_settings))
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(first, first + count):
        # Two rows of one version: else the transaction was cut.
        await backend.save([numbered_row(2 * number + n, version=number) for n in (0, 1)])
        print(number, flush=True)
    await backend.close()
anyio.run(main, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
"""


def writer(config: settings.CatalogueSettings, first: int, count: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, msgspec.json.encode(config).decode(), str(first), str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def wait_until_ready(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def start_writing(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


async def test_two_processes_write_at_once(catalogue_settings: settings.CatalogueSettings) -> None:
    """Both create the tables and fill them at the same time, and every row of both is there."""
    with writer(catalogue_settings, 1, 50) as first, writer(catalogue_settings, 1001, 50) as second:
        for process in (first, second):
            wait_until_ready(process)
        for process in (first, second):
            start_writing(process)
        for process in (first, second):
            process.communicate()
    assert (first.returncode, second.returncode) == (0, 0)
    backend = backends.create(catalogue_settings)
    assert len(await backend.unfinished()) == 200
    assert await backend.highest_id() == 2 * 1050 + 1
    await backend.close()


async def test_kill_9_during_writes(catalogue_settings: settings.CatalogueSettings) -> None:
    """The file is sound, what was acknowledged is there, and no transaction is there in part."""
    for number in range(3):
        with writer(catalogue_settings, 1 + number * 10_000, 10_000) as process:
            assert process.stdout is not None
            wait_until_ready(process)
            start_writing(process)
            lines = [process.stdout.readline() for _ in range(20)]
            process.kill()
            lines += process.stdout.readlines()
        acknowledged = max(int(line) for line in lines if line.endswith("\n"))
        if catalogue_settings.path:
            with contextlib.closing(sqlite3.connect(catalogue_settings.path)) as raw:
                assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        backend = backends.create(catalogue_settings)
        rows = {row.stream_session_id: row for row in await backend.unfinished()}
        await backend.close()
        assert 2 * acknowledged + 1 in rows
        assert all(number ^ 1 in rows and rows[number ^ 1].version == row.version for number, row in rows.items())
