"""What queries find in a catalogue of either kind."""

import msgspec
import pytest

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import CatalogueRow, Query
from rta_wire import errors
from rta_wire.control.totals import Totals
from rta_wire.session import State
from tests.support.catalogue_rows import numbered_row

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
async def test_what_a_query_finds(backend: Catalogue, query: Query, numbers: list[int]) -> None:
    """By text, details, state, stream or source, and time; newest first."""
    await backend.save(
        [
            numbered_row(1, stream="other"),
            numbered_row(2, json=RIG),
            numbered_row(3, state=State.CLOSED, stream="rig.20260101", totals=Totals(1, 1, 1, 1, 10**18, 10**18 + 9)),
            # Without data, the time of its opening counts.
            numbered_row(4, stream="other", totals=Totals(), opened_ms=3 * 10**12),
        ]
    )
    assert [row.stream_session_id for row in await backend.find(query, limit=10)] == numbers


async def test_pages_of_a_query(backend: Catalogue) -> None:
    """Every session once, whatever the size of a page, also where two have one id."""
    rows = [numbered_row(number) for number in range(1, 20)] + [
        msgspec.structs.replace(numbered_row(7), identity="twin")
    ]
    await backend.save(rows)
    for limit in (1, 3, 100):
        read: list[CatalogueRow] = []
        while page := await backend.find(Query(), limit=limit, before=read[-1].page_cursor if read else None):
            read += page
        assert sorted(read, key=lambda row: row.key) == sorted(rows, key=lambda row: row.key)
        assert [row.stream_session_id for row in read] == sorted((row.stream_session_id for row in rows), reverse=True)


async def test_a_session_is_found_by_its_newest_json(backend: Catalogue) -> None:
    """And not by an older one, whichever row was saved last."""
    for version, name in ((2, "older"), (3, "newest"), (1, "oldest")):
        await backend.save([numbered_row(1, version=version, json=f'{{"identifier":"{name}"}}')])
    assert await backend.find(Query(text="old"), limit=1) == []
    assert len(await backend.find(Query(text="newest"), limit=1)) == 1


async def test_sessions_of_a_principal_without_large_json(backend: Catalogue) -> None:
    """Over the connection that only reads, beside the one that writes."""
    rows = [
        numbered_row(number, principal="rig-4" if number % 2 else "rig-5", json="x" * number) for number in range(1, 7)
    ]
    await backend.save(rows)
    reader = backend.reader()
    found = await reader.find(Query(principal="rig-4"), limit=10, json_max_chars=3)
    assert [(row.stream_session_id, row.json) for row in found] == [(5, ""), (3, "xxx"), (1, "x")]
    assert await reader.find(Query(principal="rig"), limit=10) == []
    with pytest.raises(errors.CatalogueUnavailable, match="read-only"):
        await reader.save(rows)
    await reader.close()
