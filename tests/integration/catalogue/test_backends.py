"""The catalogue in SQLite and in PostgreSQL: one interface and one behaviour, also where a writer is killed."""

import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import LiteralString

import anyio
import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from psycopg import sql

from rta_supervisor.catalogue import factory
from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import CatalogueExternalId, CatalogueRow, ConfigInfo, ConfigRow, Query
from rta_supervisor.settings import settings
from rta_wire import errors
from rta_wire.control.totals import Totals
from rta_wire.session import State
from tests.support import postgres
from tests.support.catalogue_rows import LOCATION, ROW, numbered_row

ROOT = Path(__file__).parents[3]

int64 = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 2**63 - 1)
small = st.integers(0, 3)
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@st.composite
def totals(draw: st.DrawFn) -> Totals:
    span = draw(st.none() | st.tuples(int64, int64).map(sorted))
    return Totals(draw(counts), draw(counts), draw(counts), draw(counts), *(span or (None, None)))


any_row = st.builds(
    CatalogueRow,
    identity=text,
    stream=text,
    stream_session_id=counts,
    principal=text,
    state=st.sampled_from(State),
    json=text,
    totals=totals(),
    version=counts,
    opened_ms=counts,
    updated_ms=counts,
)
row_of_one_session = st.builds(
    CatalogueRow,
    identity=st.just("run"),
    stream=st.sampled_from(["a", "b"]),
    stream_session_id=st.just(1),
    principal=st.sampled_from(["p", "q"]),
    state=st.sampled_from(State),
    json=st.sampled_from(["{}", "[]", "é", "\U0001f3ce", "\uffff"]),
    totals=totals(),
    version=small,
    opened_ms=small,
    updated_ms=small,
    position=st.sampled_from(["0-0", "5-1"]),
)


@pytest.fixture
async def catalogue(catalogue_settings: settings.CatalogueSettings) -> AsyncIterator[Catalogue]:
    catalogue = create(catalogue_settings)
    yield catalogue
    await catalogue.close()


def create(config: settings.CatalogueSettings) -> Catalogue:
    return factory.create(settings.Settings(catalogue=config))


def run_on_empty(config: settings.CatalogueSettings, work: object) -> None:
    """Run a function with an empty catalogue. For hypothesis, which uses one fixture for all of its examples."""
    if config.url:
        postgres.empty(config)
    else:
        Path(config.path).unlink(missing_ok=True)

    async def main() -> None:
        catalogue = create(config)
        try:
            await work(catalogue)  # type: ignore[operator]
        finally:
            await catalogue.close()

    anyio.run(main)


def examples(max_examples: int) -> hypothesis_settings:
    return hypothesis_settings(
        max_examples=max_examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )


@examples(40)
@given(rows=st.lists(any_row, max_size=8, unique_by=lambda row: row.key))
def test_rows_read_back(catalogue_settings: settings.CatalogueSettings, rows: list[CatalogueRow]) -> None:
    """Any text, any number of 64 bits and any state; queries see all rows."""

    async def work(catalogue: Catalogue) -> None:
        await catalogue.save(rows)
        assert await catalogue.highest_id() == max((row.stream_session_id for row in rows), default=0)
        unfinished = await catalogue.unfinished()
        assert sorted(unfinished, key=_key) == sorted((row for row in rows if not row.state.is_closed), key=_key)
        for identity in {row.identity for row in rows}:
            newest = max((row for row in rows if row.identity == identity), key=lambda row: row.stream_session_id)
            assert await catalogue.get(identity) == newest

    run_on_empty(catalogue_settings, work)


def _key(row: CatalogueRow) -> tuple[str, int]:
    return row.key


@examples(80)
@given(rows=st.lists(row_of_one_session, min_size=1, max_size=6), order=st.randoms(use_true_random=False))
def test_rows_of_one_session_are_merged_in_any_order(
    catalogue_settings: settings.CatalogueSettings, rows: list[CatalogueRow], order: st.DataObject
) -> None:
    """SQL and Python merge alike, and shuffled and repeated rows give the same."""
    expected = rows[0]
    for row in rows:
        expected = expected.merged_with(row)
    shuffled = [*rows, *order.choices(rows, k=2)]  # type: ignore[attr-defined]
    order.shuffle(shuffled)  # type: ignore[attr-defined]

    async def work(catalogue: Catalogue) -> None:
        half = len(shuffled) // 2
        await catalogue.save(shuffled[:half])
        await catalogue.save(shuffled[half:])
        assert await catalogue.get("run") == expected

    run_on_empty(catalogue_settings, work)


@examples(40)
@given(row=row_of_one_session, progress=st.lists(totals(), max_size=4))
def test_progress_is_merged_like_rows(
    catalogue_settings: settings.CatalogueSettings, row: CatalogueRow, progress: list[Totals]
) -> None:
    """Totals as text have the effect of totals in a row, and no other row changes."""
    expected = row
    for step in progress:
        expected = expected.merged_with(msgspec.structs.replace(row, totals=step, updated_ms=5))

    async def work(catalogue: Catalogue) -> None:
        other = msgspec.structs.replace(row, identity="other")
        await catalogue.save([row, other])
        progress_rows = [("run", 1, " ".join(step.to_strings()).encode()) for step in progress]
        await catalogue.save_progress([*progress_rows, ("nobody", 1, b"1 1 1 1 1 1")], at_ms=5)
        assert [await catalogue.get(identity) for identity in ("other", "run")] == [other, expected]

    run_on_empty(catalogue_settings, work)


async def test_versions_and_closed_states(catalogue: Catalogue) -> None:
    """A row of a lower version changes nothing but totals, and a closed session never opens again."""
    await catalogue.save([msgspec.structs.replace(ROW, version=3, json='{"v":3}')])
    await catalogue.save([msgspec.structs.replace(ROW, version=2, json='{"v":2}', totals=Totals(bursts=9))])
    row = await catalogue.get("run-1")
    assert row is not None
    assert (row.version, row.json, row.totals) == (3, '{"v":3}', Totals(9, 2, 3, 4, 10, 20))
    closed = msgspec.structs.replace(ROW, version=4, state=State.TRUNCATED)
    await catalogue.save([closed, msgspec.structs.replace(ROW, version=5, state=State.OPEN)])
    row = await catalogue.get("run-1")
    assert row is not None
    assert row.state is State.TRUNCATED
    assert await catalogue.unfinished() == []
    renamed = msgspec.structs.replace(closed, version=6, json='{"identifier":"new"}')
    await catalogue.save([renamed])
    row = await catalogue.get("run-1")
    assert row is not None
    assert row.json == renamed.json, "metadata may change after closing"


async def test_another_session_of_an_identity_is_another_row(catalogue: Catalogue) -> None:
    """An identity that Redis has lost may be used again with a new id; `get` returns the newest."""
    await catalogue.save([ROW, msgspec.structs.replace(ROW, stream_session_id=7, version=0)])
    row = await catalogue.get("run-1")
    assert row is not None
    assert row.stream_session_id == 7
    assert len(await catalogue.unfinished()) == 2
    assert await catalogue.get("nobody") is None
    await catalogue.save([numbered_row(3)])
    assert await catalogue.closed(["run-1", "run-3", "nobody"]) == []
    closed = msgspec.structs.replace(ROW, version=4, state=State.FAILED)
    await catalogue.save([closed])
    assert await catalogue.closed(["run-1", "run-3", "nobody"]) == [closed]
    assert await catalogue.closed(["run-3"]) == await catalogue.closed([]) == []


async def test_counts_beyond_64_bits_saturate(catalogue: Catalogue) -> None:
    """A count that a writer made up keeps no other row from being saved."""
    await catalogue.save([numbered_row(1, totals=Totals(bursts=2**64 - 1)), numbered_row(2)])
    row = await catalogue.get("run-1")
    assert row is not None
    assert row.totals.bursts == 2**63 - 1
    assert await catalogue.get("run-2") == numbered_row(2)
    await catalogue.save_progress([("run-2", 2, b"18446744073709551615 9 9 9 - -")], at_ms=1)
    row = await catalogue.get("run-2")
    assert row is not None
    assert (row.totals.bursts, row.totals.samples) == (2**63 - 1, 9)


async def test_the_latest_are_those_with_the_highest_ids(catalogue: Catalogue) -> None:
    """Newest first, in whichever order they were saved."""
    await catalogue.save([numbered_row(number) for number in (3, 1, 5, 2, 4)])
    assert await catalogue.latest(2) == ["run-5", "run-4"]
    assert len(await catalogue.latest(100)) == 5


async def test_locations_are_saved_by_stream_session_and_kind(catalogue: Catalogue) -> None:
    """A location is replaced by the next one, and may be deleted more than once."""
    of_one_session = msgspec.structs.replace(LOCATION, stream_session_id=3, kind="files", location="/archive/rig/3")
    await catalogue.save_locations([of_one_session, LOCATION, msgspec.structs.replace(LOCATION, stream="other")])
    moved = msgspec.structs.replace(LOCATION, location="cold:moved", entries=10)
    await catalogue.save_locations([moved])
    assert await catalogue.locations("rig") == [moved, of_one_session]
    await catalogue.delete_locations([LOCATION, of_one_session])
    await catalogue.delete_locations([LOCATION])
    assert await catalogue.locations("rig") == []
    assert len(await catalogue.locations("other")) == 1
    await catalogue.save_locations([])
    await catalogue.delete_locations([])


WRITER = """
import sys, anyio, msgspec
from rta_supervisor.catalogue import factory
from rta_supervisor.settings import settings
from tests.support.catalogue_rows import numbered_row
async def main(config, first, count):
    catalogue_settings = msgspec.json.decode(config, type=settings.CatalogueSettings)
    catalogue = factory.create(settings.Settings(catalogue=catalogue_settings))
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(first, first + count):
        # Two rows of one version: else the transaction was cut.
        await catalogue.save([numbered_row(2 * number + n, version=number) for n in (0, 1)])
        print(number, flush=True)
    await catalogue.close()
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
    catalogue = create(catalogue_settings)
    assert len(await catalogue.unfinished()) == 200
    assert await catalogue.highest_id() == 2 * 1050 + 1
    await catalogue.close()


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
        catalogue = create(catalogue_settings)
        rows = {row.stream_session_id: row for row in await catalogue.unfinished()}
        await catalogue.close()
        assert 2 * acknowledged + 1 in rows
        assert all(number ^ 1 in rows and rows[number ^ 1].version == row.version for number, row in rows.items())


RIG = """{"identity":"x","identifier":"Warm-up Ä","state":"open","details":{"Rig":4,"Driver":"A. Novak","Wet":true},
    "extDetails":{"car":{"Wing":"low\\u0000er"}},"group":"Testing"}"""


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        (Query(), [4, 3, 2, 1]),
        (Query(text="warm-UP ä"), [2]),
        (Query(text="novak rig=4"), [2]),
        (Query(text="novak nobody"), []),
        (Query(text="run-"), [4, 3, 2, 1]),
        (Query(text="100%_"), []),
        (Query(details=(("Rig", "4"),)), [2]),
        (Query(details=(("rig", "4"), ("Wet", "true"))), [2]),
        (Query(details=(("Driver", "A. Nova"),)), []),
        (Query(details=(("car.Wing", "low er"),)), [2]),
        (Query(text="testing"), [2]),
        (Query(states=(State.CLOSED, State.FAILED)), [3]),
        (Query(stream="rig"), [3, 2]),
        (Query(stream="rig.20260101"), [3]),
        (Query(stream="ri"), []),
        (Query(since_ns=10**18), [4, 3]),
        (Query(until_ns=10**18), [3, 2, 1]),
        (Query(since_ns=10**18 + 5, until_ns=10**18 + 6), [3]),
        (Query(since_ns=2 * 10**18), [4]),
        (Query(text="run", states=(State.OPEN,), stream="other", until_ns=30), [1]),
    ],
)
async def test_what_a_query_finds(catalogue: Catalogue, query: Query, numbers: list[int]) -> None:
    """By text, details, state, stream or source, and time; newest first."""
    await catalogue.save(
        [
            numbered_row(1, stream="other"),
            numbered_row(2, json=RIG),
            numbered_row(3, state=State.CLOSED, stream="rig.20260101", totals=Totals(1, 1, 1, 1, 10**18, 10**18 + 9)),
            # Without data, the time of its opening counts.
            numbered_row(4, stream="other", totals=Totals(), opened_ms=3 * 10**12),
        ]
    )
    assert [row.stream_session_id for row in await catalogue.find(query, limit=10)] == numbers


async def test_pages_of_a_query(catalogue: Catalogue) -> None:
    """Every session once, whatever the size of a page, also where two have one id."""
    rows = [numbered_row(number) for number in range(1, 20)] + [
        msgspec.structs.replace(numbered_row(7), identity="twin")
    ]
    await catalogue.save(rows)
    for limit in (1, 3, 100):
        read: list[CatalogueRow] = []
        while page := await catalogue.find(Query(), limit=limit, before=read[-1].page_cursor if read else None):
            read += page
        assert sorted(read, key=_key) == sorted(rows, key=_key)
        assert [row.stream_session_id for row in read] == sorted((row.stream_session_id for row in rows), reverse=True)


async def test_a_session_is_found_by_its_newest_json(catalogue: Catalogue) -> None:
    """And not by an older one, whichever row was saved last."""
    for version, name in ((2, "older"), (3, "newest"), (1, "oldest")):
        await catalogue.save([numbered_row(1, version=version, json=f'{{"identifier":"{name}"}}')])
    assert await catalogue.find(Query(text="old"), limit=1) == []
    assert len(await catalogue.find(Query(text="newest"), limit=1)) == 1


async def test_a_read_only_catalogue(catalogue: Catalogue, catalogue_settings: settings.CatalogueSettings) -> None:
    """It creates nothing, changes nothing and sees what others write."""
    reader = factory.create_read_only(settings.Settings(catalogue=catalogue_settings))
    with pytest.raises(errors.CatalogueUnavailable, match="there is no"):
        await reader.find(Query(), limit=1)
    await catalogue.save([ROW])
    assert await reader.find(Query(), limit=1) == [ROW]
    await catalogue.save([numbered_row(2)])
    assert len(await reader.find(Query(), limit=5)) == 2
    with pytest.raises(errors.CatalogueUnavailable, match="it is read-only"):
        await reader.save([numbered_row(3)])
    await reader.close()
    assert len(await catalogue.unfinished()) == 2


async def test_sessions_are_found_by_their_external_ids(catalogue: Catalogue) -> None:
    """Every principal's, newest first; saving one again changes nothing."""
    rows = [numbered_row(number) for number in (1, 2, 3)]
    external_ids = [
        CatalogueExternalId("job", "p", "run-1", 1),
        CatalogueExternalId("job", "q", "run-2", 2),
        CatalogueExternalId("other", "p", "run-3", 3),
    ]
    await catalogue.save(rows)
    assert await catalogue.external_ids("job") == []
    for _ in range(2):
        await catalogue.save_external_ids(external_ids)
    assert await catalogue.external_ids("job") == external_ids[1::-1]
    found = await catalogue.find(Query(external_id="job"), limit=10)
    assert [row.identity for row in found] == ["run-2", "run-1"]
    assert await catalogue.find(Query(external_id="job", text="run-3"), limit=10) == []


async def test_a_catalogue_of_an_older_supervisor_has_no_external_ids(
    catalogue: Catalogue, catalogue_settings: settings.CatalogueSettings
) -> None:
    """One that is only read is searched in vain; one that is written to gets the table, and its version stays."""
    await catalogue.save([ROW])
    await catalogue.close()
    drop_table(catalogue_settings, "external_ids")
    reading = factory.create_read_only(settings.Settings(catalogue=catalogue_settings))
    assert await reading.get(ROW.identity) == ROW
    assert await reading.external_ids("job") == []
    assert await reading.find(Query(external_id="job"), limit=10) == []
    await reading.close()
    await catalogue.save_external_ids([CatalogueExternalId("job", "p", "run-1", 1)])
    assert len(await catalogue.external_ids("job")) == 1


CONFIG = ConfigRow(ConfigInfo("5" * 64, "p", "engine", 2, 1, 11, 7), b'{"a": "\xc3\xa9"}')


async def test_the_first_configuration_of_an_identifier_stays(catalogue: Catalogue) -> None:
    """What is saved again under its identifier changes nothing; lists have the newest first."""
    assert await catalogue.config(CONFIG.info.identifier) is None
    assert await catalogue.save_config(CONFIG)
    assert not await catalogue.save_config(ConfigRow(CONFIG.info, b"{}"))
    later = ConfigRow(msgspec.structs.replace(CONFIG.info, identifier="6" * 64, published_ms=8), bytes(3 * 2**20))
    assert await catalogue.save_config(later)
    assert await catalogue.config(CONFIG.info.identifier) == CONFIG.data
    assert await catalogue.config(later.info.identifier) == later.data
    assert await catalogue.config_infos(limit=9) == [later.info, CONFIG.info]
    assert await catalogue.config_infos(limit=1) == [later.info]
    assert await catalogue.has_configs(["5" * 64, "7" * 64]) == {"5" * 64}


async def test_two_that_save_a_configuration_at_once_agree(
    catalogue: Catalogue, catalogue_settings: settings.CatalogueSettings
) -> None:
    """Neither fails, and there is one row."""
    other = create(catalogue_settings)
    async with anyio.create_task_group() as tasks:
        for one in (catalogue, other) * 4:
            tasks.start_soon(one.save_config, CONFIG)
    await other.close()
    assert await catalogue.config_infos(limit=9) == [CONFIG.info]


async def test_a_catalogue_of_an_older_supervisor_has_no_configurations(
    catalogue: Catalogue, catalogue_settings: settings.CatalogueSettings
) -> None:
    """One that is only read has none; one that is written to gets the tables, and the version of sessions stays."""
    await catalogue.save([ROW])
    await catalogue.close()
    for table in ("configs", "configs_version"):
        drop_table(catalogue_settings, table)
    reading = factory.create_read_only(settings.Settings(catalogue=catalogue_settings))
    assert await reading.config(CONFIG.info.identifier) is None
    assert await reading.config_infos(limit=9) == []
    assert await reading.has_configs([CONFIG.info.identifier]) == set()
    await reading.close()
    assert await catalogue.save_config(CONFIG)
    assert await catalogue.config(CONFIG.info.identifier) == CONFIG.data


async def test_configurations_of_a_newer_version_are_refused_and_sessions_are_not(
    catalogue: Catalogue, catalogue_settings: settings.CatalogueSettings
) -> None:
    """A later program may store configurations in another way; sessions beside them are read and written as before."""
    await catalogue.save_config(CONFIG)
    execute(catalogue_settings, "configs_version", "UPDATE {} SET number = 2")
    with pytest.raises(errors.CatalogueTooNew, match="schema 2"):
        await catalogue.config(CONFIG.info.identifier)
    await catalogue.save([ROW])
    assert await catalogue.get(ROW.identity) == ROW


def drop_table(config: settings.CatalogueSettings, name: str) -> None:
    execute(config, name, "DROP TABLE {}")


def execute(config: settings.CatalogueSettings, table: str, statement: LiteralString) -> None:
    """Execute a statement in which braces stand for a table."""
    if config.url:
        with psycopg.connect(config.url, autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(sql.Identifier(config.schema, table)))
    else:
        with contextlib.closing(sqlite3.connect(config.path, isolation_level=None)) as connection:
            connection.execute(statement.format(table))


async def test_sessions_of_a_principal_without_large_json(catalogue: Catalogue) -> None:
    """Over the connection that only reads, beside the one that writes."""
    rows = [
        numbered_row(number, principal="rig-4" if number % 2 else "rig-5", json="x" * number) for number in range(1, 7)
    ]
    await catalogue.save(rows)
    reader = catalogue.reader()
    found = await reader.find(Query(principal="rig-4"), limit=10, json_max_chars=3)
    assert [(row.stream_session_id, row.json) for row in found] == [(5, ""), (3, "xxx"), (1, "x")]
    assert await reader.find(Query(principal="rig"), limit=10) == []
    with pytest.raises(errors.CatalogueUnavailable, match="read-only"):
        await reader.save(rows)
    await reader.close()


async def test_folders_of_the_archive_are_found_for_many_sessions_at_once(catalogue: Catalogue) -> None:
    """By stream and id; other kinds of locations, and other sessions of the stream, are left out."""
    places = [
        msgspec.structs.replace(
            LOCATION, stream=stream, stream_session_id=number, kind=kind, location=f"{stream}/{number}"
        )
        for stream in ("a", "b")
        for number in (1, 2, 3)
        for kind in ("cold", "files")
        if (stream, number, kind) != ("b", 1, "files")
    ]
    await catalogue.save_locations(places)
    wanted = [("a", 1), ("a", 3), ("b", 1), ("c", 1)]
    assert await catalogue.archive_folders(wanted) == {("a", 1): "a/1", ("a", 3): "a/3"}
    assert await catalogue.archive_folders([]) == {}
