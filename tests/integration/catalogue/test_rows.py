"""Rows of sessions and locations, in SQLite and in PostgreSQL: one interface and one behaviour."""

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rta_supervisor.catalogue import factory
from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import CatalogueRow, Query
from rta_supervisor.settings import settings
from rta_wire import errors
from rta_wire.control.totals import Totals
from rta_wire.session import State
from tests.integration.catalogue import backends
from tests.support.catalogue_rows import LOCATION, ROW, numbered_row

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


def examples(max_examples: int) -> hypothesis_settings:
    return hypothesis_settings(
        max_examples=max_examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )


@examples(40)
@given(rows=st.lists(any_row, max_size=8, unique_by=lambda row: row.key))
def test_rows_read_back(catalogue_settings: settings.CatalogueSettings, rows: list[CatalogueRow]) -> None:
    """Any text, any number of 64 bits and any state; queries see all rows."""

    async def work(backend: Catalogue) -> None:
        await backend.save(rows)
        assert await backend.highest_id() == max((row.stream_session_id for row in rows), default=0)
        unfinished = await backend.unfinished()
        assert sorted(unfinished, key=_key) == sorted((row for row in rows if not row.state.is_closed), key=_key)
        for identity in {row.identity for row in rows}:
            newest = max((row for row in rows if row.identity == identity), key=lambda row: row.stream_session_id)
            assert await backend.get(identity) == newest

    backends.run_on_empty(catalogue_settings, work)


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

    async def work(backend: Catalogue) -> None:
        half = len(shuffled) // 2
        await backend.save(shuffled[:half])
        await backend.save(shuffled[half:])
        assert await backend.get("run") == expected

    backends.run_on_empty(catalogue_settings, work)


@examples(40)
@given(row=row_of_one_session, progress=st.lists(totals(), max_size=4))
def test_progress_is_merged_like_rows(
    catalogue_settings: settings.CatalogueSettings, row: CatalogueRow, progress: list[Totals]
) -> None:
    """Totals as text have the effect of totals in a row, and no other row changes."""
    expected = row
    for step in progress:
        expected = expected.merged_with(msgspec.structs.replace(row, totals=step, updated_ms=5))

    async def work(backend: Catalogue) -> None:
        other = msgspec.structs.replace(row, identity="other")
        await backend.save([row, other])
        progress_rows = [("run", 1, " ".join(step.to_strings()).encode()) for step in progress]
        await backend.save_progress([*progress_rows, ("nobody", 1, b"1 1 1 1 1 1")], at_ms=5)
        assert [await backend.get(identity) for identity in ("other", "run")] == [other, expected]

    backends.run_on_empty(catalogue_settings, work)


async def test_versions_and_closed_states(backend: Catalogue) -> None:
    """A row of a lower version changes nothing but totals, and a closed session never opens again."""
    await backend.save([msgspec.structs.replace(ROW, version=3, json='{"v":3}')])
    await backend.save([msgspec.structs.replace(ROW, version=2, json='{"v":2}', totals=Totals(bursts=9))])
    row = await backend.get("run-1")
    assert row is not None
    assert (row.version, row.json, row.totals) == (3, '{"v":3}', Totals(9, 2, 3, 4, 10, 20))
    closed = msgspec.structs.replace(ROW, version=4, state=State.TRUNCATED)
    await backend.save([closed, msgspec.structs.replace(ROW, version=5, state=State.OPEN)])
    row = await backend.get("run-1")
    assert row is not None
    assert row.state is State.TRUNCATED
    assert await backend.unfinished() == []
    renamed = msgspec.structs.replace(closed, version=6, json='{"identifier":"new"}')
    await backend.save([renamed])
    row = await backend.get("run-1")
    assert row is not None
    assert row.json == renamed.json, "metadata may change after closing"


async def test_another_session_of_an_identity_is_another_row(backend: Catalogue) -> None:
    """An identity that Redis has lost may be used again with a new id; `get` returns the newest."""
    await backend.save([ROW, msgspec.structs.replace(ROW, stream_session_id=7, version=0)])
    row = await backend.get("run-1")
    assert row is not None
    assert row.stream_session_id == 7
    assert len(await backend.unfinished()) == 2
    assert await backend.get("nobody") is None
    await backend.save([numbered_row(3)])
    assert await backend.closed(["run-1", "run-3", "nobody"]) == []
    closed = msgspec.structs.replace(ROW, version=4, state=State.FAILED)
    await backend.save([closed])
    assert await backend.closed(["run-1", "run-3", "nobody"]) == [closed]
    assert await backend.closed(["run-3"]) == await backend.closed([]) == []


async def test_counts_beyond_64_bits_saturate(backend: Catalogue) -> None:
    """A count that a writer made up keeps no other row from being saved."""
    await backend.save([numbered_row(1, totals=Totals(bursts=2**64 - 1)), numbered_row(2)])
    row = await backend.get("run-1")
    assert row is not None
    assert row.totals.bursts == 2**63 - 1
    assert await backend.get("run-2") == numbered_row(2)
    await backend.save_progress([("run-2", 2, b"18446744073709551615 9 9 9 - -")], at_ms=1)
    row = await backend.get("run-2")
    assert row is not None
    assert (row.totals.bursts, row.totals.samples) == (2**63 - 1, 9)


async def test_the_latest_are_those_with_the_highest_ids(backend: Catalogue) -> None:
    """Newest first, in whichever order they were saved."""
    await backend.save([numbered_row(number) for number in (3, 1, 5, 2, 4)])
    assert await backend.latest(2) == ["run-5", "run-4"]
    assert len(await backend.latest(100)) == 5


async def test_locations_are_saved_by_stream_session_and_kind(backend: Catalogue) -> None:
    """A location is replaced by the next one, and may be deleted more than once."""
    of_one_session = msgspec.structs.replace(LOCATION, stream_session_id=3, kind="files", location="/archive/rig/3")
    await backend.save_locations([of_one_session, LOCATION, msgspec.structs.replace(LOCATION, stream="other")])
    moved = msgspec.structs.replace(LOCATION, location="cold:moved", entries=10)
    await backend.save_locations([moved])
    assert await backend.locations("rig") == [moved, of_one_session]
    await backend.delete_locations([LOCATION, of_one_session])
    await backend.delete_locations([LOCATION])
    assert await backend.locations("rig") == []
    assert len(await backend.locations("other")) == 1
    await backend.save_locations([])
    await backend.delete_locations([])


async def test_folders_of_the_archive_are_found_for_many_sessions_at_once(backend: Catalogue) -> None:
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
    await backend.save_locations(places)
    wanted = [("a", 1), ("a", 3), ("b", 1), ("c", 1)]
    assert await backend.archive_folders(wanted) == {("a", 1): "a/1", ("a", 3): "a/3"}
    assert await backend.archive_folders([]) == {}


async def test_a_read_only_catalogue(backend: Catalogue, catalogue_settings: settings.CatalogueSettings) -> None:
    """It creates nothing, changes nothing and sees what others write."""
    reader = factory.create_read_only(settings.Settings(catalogue=catalogue_settings))
    with pytest.raises(errors.CatalogueUnavailable, match="there is no"):
        await reader.find(Query(), limit=1)
    await backend.save([ROW])
    assert await reader.find(Query(), limit=1) == [ROW]
    await backend.save([numbered_row(2)])
    assert len(await reader.find(Query(), limit=5)) == 2
    with pytest.raises(errors.CatalogueUnavailable, match="it is read-only"):
        await reader.save([numbered_row(3)])
    await reader.close()
    assert len(await backend.unfinished()) == 2
