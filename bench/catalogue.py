"""How long a query of a catalogue of 100,000 sessions takes: in SQLite, and in PostgreSQL where it is installed."""

import atexit
import contextlib
import functools
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import anyio
import msgspec

from bench.measure import Case, constant
from rta_supervisor.catalogue import factory
from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import CatalogueRow, Query
from rta_supervisor.settings import settings
from rta_wire.control.totals import Totals
from rta_wire.session import State
from tests.support import postgres

SESSIONS = 100_000
QUICK_SESSIONS = 200
START_NS = 1_700_000_000 * 10**9
SESSION_NS = 60 * 10**9
LIMIT_MS = 200.0
SAVE_ROWS = 5000
PAGE_ROWS = 100

QUERIES = {
    "newest listed": Query(),
    "text that nobody has": Query(text="nowhere"),
    "two words that some have": Query(text="spa driver=novak"),
    "a detail": Query(details=(("Lap", "41"), ("Rig", "4"))),
    "state and stream": Query(states=(State.FAILED,), stream="rig-3"),
    "an hour long ago": Query(since_ns=START_NS, until_ns=START_NS + 60 * SESSION_NS),
}


def row(number: int) -> CatalogueRow:
    """A row as rigs make it, with about half a kilobyte of JSON."""
    start_ns = START_NS + number * SESSION_NS
    document = {
        "identity": f"run-{number * 7919 % 10**9:09}",
        "state": "closed",
        "timestamp": "2026-01-01T00:00:00Z",
        "identifier": f"Warm-up {number}",
        "timeRange": {"startTime": start_ns, "endTime": start_ns + SESSION_NS},
        "details": {
            "Rig": number % 9,
            "Driver": ("Novak", "Okafor", "Lindqvist")[number % 3],
            "Circuit": ("Silverstone", "Monza", "Spa", "Suzuka")[number % 4],
            "Event": f"Event {number % 1000}",
            "Lap": number % 70,
        },
        "configBindings": [{"identifier": f"configuration-{number % 20}", "channelOffset": 0}] * 3,
    }
    return CatalogueRow(
        identity=str(document["identity"]),
        stream=f"rig-{number % 10}",
        stream_session_id=number,
        principal="default",
        state=State.FAILED if number % 50 == 0 else State.CLOSED,
        json=msgspec.json.encode(document).decode(),
        totals=Totals(100, 10**6, 8 * 10**6, 4 * 10**6, start_ns, start_ns + SESSION_NS),
        version=3,
        opened_ms=start_ns // 10**6,
        updated_ms=start_ns // 10**6,
    )


@functools.cache
def filled(kind: str, count: int) -> settings.Settings:
    """Settings of a catalogue with so many sessions, which is removed when the process ends."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    if kind == "SQLite":
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="rtas-bench-"))
        catalogue_settings = settings.CatalogueSettings(path=str(Path(directory) / "c.sqlite"))
    else:
        catalogue_settings = stack.enter_context(stack.enter_context(postgres.running()).schema())
    config = settings.Settings(catalogue=catalogue_settings)

    async def fill(catalogue: Catalogue) -> None:
        for first in range(1, count + 1, SAVE_ROWS):
            await catalogue.save([row(number) for number in range(first, min(first + SAVE_ROWS, count + 1))])

    _run(config, fill)
    return config


def _run(config: settings.Settings, work: Callable[[Catalogue], Awaitable[None]]) -> None:
    async def main() -> None:
        catalogue = factory.create(config)
        try:
            await work(catalogue)
        finally:
            await catalogue.close()

    anyio.run(main)


def query_ms(kind: str, count: int, query: Query) -> float:
    """From the query to its rows, on an open connection."""
    took_ms = 0.0

    async def find(catalogue: Catalogue) -> None:
        nonlocal took_ms
        await catalogue.open()
        began_s = time.perf_counter()
        await catalogue.find(query, limit=PAGE_ROWS)
        took_ms = (time.perf_counter() - began_s) * 1000

    _run(filled(kind, count), find)
    return took_ms


def bench_find(quick: bool) -> Iterator[Case]:
    """The first page of each query."""
    count = QUICK_SESSIONS if quick else SESSIONS
    kinds = ["SQLite", *(["PostgreSQL"] if postgres.programs() is not None else [])]
    for kind in kinds:
        for name, query in QUERIES.items():
            yield Case(
                f"{kind}, {SESSIONS:,} sessions: {name}; reference: {LIMIT_MS:g} ms",
                "ms",
                functools.partial(query_ms, kind, count, query),
                constant(LIMIT_MS),
                bar=1,
                at_most=True,
            )
