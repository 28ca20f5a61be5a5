"""The catalogue on real files, with real faults: other processes, kill -9, permissions, a full disk, junk."""

import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rta_supervisor import settings, sqlite_catalogue
from rta_supervisor.catalogue import Catalogue, Place, Row
from rta_supervisor.sqlite_catalogue import SqliteCatalogue
from rta_wire import errors, keys
from rta_wire.session import State
from rta_wire.totals import Totals
from tests.support import users

ROW = Row("run-1", "rig", 1, "default", State.OPEN, "{}", Totals(1, 2, 3, 4, 10, 20), 1, 1000, 2000)
ROOT = Path(__file__).parents[2]

int64 = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 2**63 - 1)
small = st.integers(0, 3)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@st.composite
def totals(draw: st.DrawFn) -> Totals:
    span = draw(st.none() | st.tuples(int64, int64).map(sorted))
    return Totals(draw(counts), draw(counts), draw(counts), draw(counts), *(span or (None, None)))


any_row = st.builds(
    Row,
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
one_session = st.builds(
    Row,
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
)


@pytest.fixture
async def catalogue(tmp_path: Path) -> AsyncIterator[SqliteCatalogue]:
    catalogue = SqliteCatalogue(tmp_path / "c.sqlite", busy_timeout_s=0.05)
    yield catalogue
    await catalogue.close()


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that every user can get to."""
    with tempfile.TemporaryDirectory(prefix="rtas-test-") as name:
        allow(Path(name), 0o755)
        yield Path(name)
        allow(Path(name), 0o755)


def allow(path: Path, mode: int) -> None:
    path.chmod(mode)


def named(number: int, **changes: object) -> Row:
    return msgspec.structs.replace(ROW, identity=f"run-{number}", stream_session_id=number, **changes)


def run_on_new_file(work: object) -> None:
    """For hypothesis, which has no event loop and no fixtures of its own."""

    async def main() -> None:
        with tempfile.TemporaryDirectory(prefix="rtas-test-") as directory:
            catalogue = SqliteCatalogue(Path(directory) / "c.sqlite")
            try:
                await work(catalogue)  # type: ignore[operator]
            finally:
                await catalogue.close()

    anyio.run(main)


@hypothesis_settings(max_examples=60, deadline=None)
@given(rows=st.lists(any_row, max_size=8, unique_by=lambda row: row.key))
def test_rows_come_back_as_they_went(rows: list[Row]) -> None:
    """Every text, every 64 bit number and every state survives, and the questions are answered from all rows."""

    async def work(catalogue: Catalogue) -> None:
        await catalogue.save(rows)
        assert await catalogue.highest_id() == max((row.stream_session_id for row in rows), default=0)
        unfinished = await catalogue.unfinished()
        assert sorted(unfinished, key=_key) == sorted((row for row in rows if not row.state.is_closed), key=_key)
        for identity in {row.identity for row in rows}:
            newest = max((row for row in rows if row.identity == identity), key=lambda row: row.stream_session_id)
            assert await catalogue.get(identity) == newest

    run_on_new_file(work)


def _key(row: Row) -> tuple[str, int]:
    return row.key


@hypothesis_settings(max_examples=150, deadline=None)
@given(rows=st.lists(one_session, min_size=1, max_size=6), order=st.randoms(use_true_random=False))
def test_rows_of_one_session_are_joined_in_any_order(rows: list[Row], order: st.DataObject) -> None:
    """SQL and Python join alike, and shuffled and repeated rows give the same."""
    wanted = rows[0]
    for row in rows:
        wanted = wanted.joined(row)
    shuffled = [*rows, *order.choices(rows, k=2)]  # type: ignore[attr-defined]
    order.shuffle(shuffled)  # type: ignore[attr-defined]

    async def work(catalogue: Catalogue) -> None:
        half = len(shuffled) // 2
        await catalogue.save(shuffled[:half])
        await catalogue.save(shuffled[half:])
        assert await catalogue.get("run") == wanted

    run_on_new_file(work)


@hypothesis_settings(max_examples=50, deadline=None)
@given(row=one_session, progress=st.lists(totals(), max_size=4))
def test_progress_is_joined_like_rows(row: Row, progress: list[Totals]) -> None:
    """The words of Redis come to the same as totals do, and nobody else's row changes."""
    wanted = row
    for one in progress:
        wanted = wanted.joined(msgspec.structs.replace(row, totals=one, updated_ms=5))

    async def work(catalogue: Catalogue) -> None:
        other = msgspec.structs.replace(row, identity="other")
        await catalogue.save([row, other])
        words = [("run", 1, [word.encode() for word in one.words()]) for one in progress]
        await catalogue.save_progress([*words, ("nobody", 1, [b"1"] * 6)], at_ms=5)
        assert sorted(await catalogue.get_all(["run", "other"]), key=_key) == [other, wanted]

    run_on_new_file(work)


async def test_versions_and_closed_states(catalogue: SqliteCatalogue) -> None:
    """A late row changes nothing but totals, equal versions join, and closed never opens again."""
    await catalogue.save([msgspec.structs.replace(ROW, version=3, json='{"v":3}')])
    await catalogue.save([msgspec.structs.replace(ROW, version=2, json='{"v":2}', totals=Totals(bursts=9))])
    found = await catalogue.get("run-1")
    assert found is not None
    assert (found.version, found.json, found.totals) == (3, '{"v":3}', Totals(9, 2, 3, 4, 10, 20))
    closed = msgspec.structs.replace(ROW, version=4, state=State.TRUNCATED)
    await catalogue.save([closed, msgspec.structs.replace(ROW, version=5, state=State.OPEN)])
    found = await catalogue.get("run-1")
    assert found is not None
    assert found.state is State.TRUNCATED
    assert await catalogue.unfinished() == []
    renamed = msgspec.structs.replace(closed, version=6, json='{"identifier":"new"}')
    await catalogue.save([renamed])
    found = await catalogue.get("run-1")
    assert found is not None
    assert found.json == renamed.json, "metadata may change after closing"


async def test_another_session_of_an_identity_is_another_row(catalogue: SqliteCatalogue) -> None:
    """After Redis forgot an identity it may come again with a new id; the newest is the answer."""
    await catalogue.save([ROW, msgspec.structs.replace(ROW, stream_session_id=7, version=0)])
    found = await catalogue.get("run-1")
    assert found is not None
    assert found.stream_session_id == 7
    assert len(await catalogue.unfinished()) == 2
    assert await catalogue.get("nobody") is None
    await catalogue.save([named(3)])
    assert {row.stream_session_id for row in await catalogue.get_all(["run-1", "run-3", "nobody"])} == {7, 3}
    assert await catalogue.get_all([]) == []


async def test_counts_beyond_the_file_saturate(catalogue: SqliteCatalogue) -> None:
    """A count of 2^64 - 1 that a writer made up keeps no other row from being saved."""
    await catalogue.save([named(1, totals=Totals(bursts=2**64 - 1)), named(2)])
    found = await catalogue.get("run-1")
    assert found is not None
    assert found.totals.bursts == 2**63 - 1
    assert await catalogue.get("run-2") == named(2)
    await catalogue.save_progress([("run-2", 2, [b"18446744073709551615", *[b"9"] * 3, b"-", b"-"])], at_ms=1)
    found = await catalogue.get("run-2")
    assert found is not None
    assert (found.totals.bursts, found.totals.samples) == (2**63 - 1, 9)


WRITER = """
import sys, anyio, msgspec
from pathlib import Path
from rta_supervisor.sqlite_catalogue import SqliteCatalogue
from tests.integration.test_catalogue import named
async def main(path, first, count):
    catalogue = SqliteCatalogue(Path(path))
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(first, first + count):
        # Two rows that tell the same story, or the transaction was cut.
        await catalogue.save([named(2 * number, version=number), named(2 * number + 1, version=number)])
        print(number, flush=True)
    await catalogue.close()
anyio.run(main, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
"""


def writer(path: Path, first: int, count: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(first), str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def started(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def go(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


async def test_two_processes_write_at_once(tmp_path: Path) -> None:
    """Both make the file and fill it side by side, and every row of both is there."""
    path = tmp_path / "c.sqlite"
    with writer(path, 1, 50) as one, writer(path, 1001, 50) as two:
        for process in (one, two):
            started(process)
        for process in (one, two):
            go(process)
        for process in (one, two):
            process.communicate()
    assert (one.returncode, two.returncode) == (0, 0)
    catalogue = SqliteCatalogue(path)
    assert len(await catalogue.unfinished()) == 200
    assert await catalogue.highest_id() == 2 * 1050 + 1
    await catalogue.close()


async def test_kill_minus_9_in_the_middle_of_writes(tmp_path: Path) -> None:
    """The file is sound, what was acknowledged is there, and no transaction is there by half."""
    path = tmp_path / "c.sqlite"
    for turn in range(3):
        with writer(path, 1 + turn * 10_000, 10_000) as process:
            assert process.stdout is not None
            started(process)
            go(process)
            seen = [process.stdout.readline() for _ in range(20)]
            process.kill()
            seen += process.stdout.readlines()
        acknowledged = max(int(line) for line in seen if line.endswith("\n"))
        with sqlite3.connect(path) as raw:
            assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        raw.close()
        catalogue = SqliteCatalogue(path)
        rows = {row.stream_session_id: row for row in await catalogue.unfinished()}
        await catalogue.close()
        assert 2 * acknowledged + 1 in rows
        assert all(number ^ 1 in rows and rows[number ^ 1].version == row.version for number, row in rows.items())


async def test_locked_by_another_connection(catalogue: SqliteCatalogue) -> None:
    """A named error after a moment, nothing changed, and all well once the lock is gone; reading goes on meanwhile."""
    await catalogue.save([ROW])
    other = sqlite3.connect(catalogue.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(errors.CatalogueUnavailable, match="another process has locked it") as caught:
        await catalogue.save([named(2)])
    assert caught.value.retriable
    assert await catalogue.unfinished() == [ROW]
    other.execute("ROLLBACK")
    other.close()
    await catalogue.save([named(2)])
    assert len(await catalogue.unfinished()) == 2


async def test_a_new_file_that_somebody_has_locked(catalogue: SqliteCatalogue) -> None:
    """Even the first step on a file waits for a lock and then has a name for it."""
    other = sqlite3.connect(catalogue.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(errors.CatalogueUnavailable, match="another process has locked it"):
        await catalogue.open()
    other.close()
    await catalogue.open()


async def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    """An error with the path, and no directory made behind the operator's back."""
    catalogue = SqliteCatalogue(tmp_path / "gone" / "c.sqlite")
    with pytest.raises(errors.CatalogueUnavailable, match=r"gone/c\.sqlite can't be used: .*directory must exist"):
        await catalogue.open()
    assert not (tmp_path / "gone").exists()
    (tmp_path / "gone").mkdir()
    await catalogue.save([ROW])
    assert await catalogue.get("run-1") == ROW
    await catalogue.close()


async def test_a_directory_that_may_not_be_written(open_directory: Path) -> None:
    """The same for a directory of somebody else, given or to be made."""
    allow(open_directory, 0o555)
    for catalogue in (
        SqliteCatalogue(open_directory / "c.sqlite"),
        SqliteCatalogue(open_directory / "new" / "c.sqlite", make_directory=True),
    ):
        with users.unprivileged():
            with pytest.raises(errors.CatalogueUnavailable, match=r"can't be (opened|made)"):
                await catalogue.save([ROW])
            await catalogue.close()


async def test_a_file_that_may_not_be_written(open_directory: Path) -> None:
    """A read-only file is named as such and keeps what it has."""
    path = open_directory / "c.sqlite"
    catalogue = SqliteCatalogue(path)
    await catalogue.save([ROW])
    await catalogue.close()
    allow(path, 0o444)
    allow(open_directory, 0o777)
    with users.unprivileged():
        with pytest.raises(errors.CatalogueUnavailable, match="it is read-only"):
            await catalogue.save([named(2)])
        await catalogue.close()
    allow(path, 0o644)
    assert await catalogue.unfinished() == [ROW]
    await catalogue.close()


async def test_a_full_disk(catalogue: SqliteCatalogue) -> None:
    """A write that does not fit changes nothing at all, and one that fits again is taken."""
    await catalogue.save([ROW])
    assert catalogue._connection is not None
    pages = catalogue._connection.execute("PRAGMA page_count").fetchone()[0]
    catalogue._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(errors.CatalogueUnavailable, match="the disk is full"):
        await catalogue.save([named(2), *(named(number, json="x" * 5000) for number in range(3, 20))])
    assert await catalogue.unfinished() == [ROW]
    await catalogue.save([named(2)])
    assert await catalogue.unfinished() == [ROW, named(2)]


async def test_files_that_are_no_catalogue(tmp_path: Path) -> None:
    """Junk and damage are told apart from each other, and are left as they were found."""
    junk = tmp_path / "junk.sqlite"
    junk.write_bytes(b"certainly not a database" * 1000)
    catalogue = SqliteCatalogue(junk)
    with pytest.raises(errors.CatalogueUnavailable, match="is not a catalogue"):
        await catalogue.unfinished()
    assert junk.read_bytes() == b"certainly not a database" * 1000
    damaged = tmp_path / "damaged.sqlite"
    catalogue = SqliteCatalogue(damaged)
    await catalogue.save([named(number, json="x" * 1000) for number in range(1, 200)])
    await catalogue.close()
    raw = bytearray(damaged.read_bytes())
    raw[4096:] = os.urandom(len(raw) - 4096)
    damaged.write_bytes(raw)
    with pytest.raises(errors.CatalogueUnavailable, match="is damaged"):
        await catalogue.unfinished()
    damaged.unlink()
    await catalogue.save([ROW])
    assert await catalogue.unfinished() == [ROW]
    await catalogue.close()


async def test_a_file_of_a_later_version(catalogue: SqliteCatalogue) -> None:
    """A schema that we do not know is left alone, with what to do about it."""
    await catalogue.save([ROW])
    await catalogue.close()
    raw = sqlite3.connect(catalogue.path)
    raw.execute("PRAGMA user_version = 99")
    raw.close()
    with pytest.raises(errors.CatalogueTooNew, match=r"schema 99 .* Upgrade the supervisor") as caught:
        await catalogue.save([named(2)])
    assert (caught.value.retriable, caught.value.exit_code) == (False, 78)


async def test_the_loop_goes_on_while_sql_waits(catalogue: SqliteCatalogue) -> None:
    """A lock that is waited for blocks the worker thread and not the event loop."""
    patient = SqliteCatalogue(catalogue.path, busy_timeout_s=10)
    await patient.save([ROW])
    other = sqlite3.connect(catalogue.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(patient.save, [named(2)])
        await anyio.wait_all_tasks_blocked()
        other.execute("ROLLBACK")
    other.close()
    assert await patient.get("run-2") == named(2)
    await patient.close()


@pytest.mark.parametrize(
    ("environ", "path", "wanted"),
    [
        ({"STATE_DIRECTORY": "/var/lib/x:/var/lib/y", "HOME": "/h"}, "", "/var/lib/x/catalogue-3c2b.sqlite"),
        ({"XDG_STATE_HOME": "/state", "HOME": "/h"}, "", "/state/rta-supervisor/catalogue-3c2b.sqlite"),
        ({"HOME": "/h"}, "", "/h/.local/state/rta-supervisor/catalogue-3c2b.sqlite"),
        ({"STATE_DIRECTORY": "/var/lib/x"}, "/elsewhere/c.db", "/elsewhere/c.db"),
    ],
)
def test_where_the_file_is(environ: dict[str, str], path: str, wanted: str) -> None:
    """As configured, else where systemd says, else where the user keeps state."""
    config = settings.Settings(catalogue=settings.CatalogueSettings(path=path))
    found = sqlite_catalogue.place(config, environ)
    tag = sqlite_catalogue.deployment(config)
    assert found == Path(wanted.replace("3c2b", tag))


def test_each_redis_has_a_file_of_its_own() -> None:
    """Sessions of one server are never put back into another; a password makes no difference."""
    urls = ["redis://h/0", "redis://h/1", "redis://me:secret@h/0"]
    tags = [sqlite_catalogue.deployment(settings.Settings(redis=settings.RedisSettings(url=url))) for url in urls]
    assert tags[0] == tags[2] != tags[1]
    other = settings.Settings(keys=keys.Keys(prefix="other:"))
    assert sqlite_catalogue.deployment(other) != sqlite_catalogue.deployment(settings.Settings())


async def test_the_default_directory_is_made(tmp_path: Path) -> None:
    """A first start on a laptop needs no preparation, and nobody else can read the sessions."""
    catalogue = SqliteCatalogue.configured(settings.Settings(), {"XDG_STATE_HOME": str(tmp_path / "state")})
    await catalogue.open()
    assert catalogue.path.exists()
    assert catalogue.path.parent.stat().st_mode & 0o777 == 0o700
    await catalogue.close()


async def test_the_latest_are_those_with_the_highest_ids(catalogue: SqliteCatalogue) -> None:
    """Newest first, in whichever order they were saved."""
    await catalogue.save([named(number) for number in (3, 1, 5, 2, 4)])
    assert await catalogue.latest(2) == ["run-5", "run-4"]
    assert len(await catalogue.latest(100)) == 5


PLACE = Place("rig", 0, "cold", "cold:rig", "1-0", "9-0", 9, 900, 5)


async def test_places_are_kept_by_stream_session_and_kind(catalogue: SqliteCatalogue) -> None:
    """The last word on a place counts, and what is dropped is gone, once or twice."""
    of_one = msgspec.structs.replace(PLACE, stream_session_id=3, kind="files", location="/archive/rig/3")
    await catalogue.save_places([of_one, PLACE, msgspec.structs.replace(PLACE, stream="other")])
    moved = msgspec.structs.replace(PLACE, location="cold:moved", entries=10)
    await catalogue.save_places([moved])
    assert await catalogue.places("rig") == [moved, of_one]
    await catalogue.drop_places([PLACE, of_one])
    await catalogue.drop_places([PLACE])
    assert await catalogue.places("rig") == []
    assert len(await catalogue.places("other")) == 1
    await catalogue.save_places([])
    await catalogue.drop_places([])


async def test_a_file_of_the_first_version(tmp_path: Path) -> None:
    """It gets what is new, by whichever of two gets there first, and keeps every row."""
    path = tmp_path / "c.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as raw, raw:
        raw.executescript((ROOT / "tests" / "integration" / "catalogue-1.sql").read_text())
    for catalogue in (SqliteCatalogue(path), SqliteCatalogue(path)):
        assert await catalogue.get("run-1") == ROW
        await catalogue.save_places([PLACE])
        assert await catalogue.places("rig") == [PLACE]
        await catalogue.close()
