"""Compaction that meets batches which it can not believe: nothing is removed because of them."""

import os
from collections.abc import Sequence
from typing import Any

import pytest
import redis

from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link
from rta_wire import limits
from tests.support import cold_streams
from tests.support.cold_streams import aged, compactor, fill, index, length, shown, some, view


@pytest.mark.parametrize("is_whole", [False, True])
async def test_a_spoilt_batch_removes_nothing(
    client: redis.Redis,
    link: Link,
    catalogue: SqliteCatalogue,
    capsys: pytest.CaptureFixture[str],
    is_whole: bool,
) -> None:
    """A batch that Redis gives back otherwise than it was given, with a bit or an entry that is another: the live
    stream keeps everything."""
    wanted = some(12)
    fill(client, "rig", wanted)
    other = cold_streams.packed([*wanted[:-1], wanted[-1]._replace(fields=(b"who", b"other"))])

    class Spoiling(Link):
        async def try_all(self, batch: Sequence[commands.Command]) -> list[Any]:
            answers = await super().try_all(batch)
            if answers and batch[0][:2] == ("XRANGE", "cold:rig") and answers[0]:
                raw_id, [name, data] = answers[0][0]
                spoilt = other if is_whole else data[:-1] + bytes([data[-1] ^ 1])
                answers[0] = [[raw_id, [name, spoilt]]]
            return answers

    spoiling = Spoiling(link.config)
    assert await compactor(spoiling, catalogue).sweep() == {}
    assert f"Batch {wanted[-1].id} of the cold part" in capsys.readouterr().out
    await spoiling.close()
    assert length(client, "stream:rig") == 12
    assert index(client) is None
    assert view(client, "rig") == shown(wanted)
    await compactor(link, catalogue).sweep()
    assert view(client, "rig") == shown(wanted)
    assert length(client, "stream:rig") == 0


@pytest.mark.parametrize("held_there", [None, slice(1, 12), slice(0, 11)])
async def test_a_batch_that_nobody_vouches_for_is_taken_back(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue, held_there: slice | None
) -> None:
    """Something else stands where a batch is to go, or one that lacks an entry which is live."""
    wanted = some(12)
    fill(client, "rig", wanted)
    client.xadd(
        "cold:rig", {b"b": cold_streams.packed(wanted[held_there]) if held_there else b"junk"}, id=wanted[-1].id
    )
    assert (await compactor(link, catalogue).sweep())["rig"].entries == 12
    assert view(client, "rig") == shown(wanted)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("held_there", [None, slice(21, 25), slice(20, 24), slice(15, 25)])
async def test_a_batch_at_the_end_that_differs(
    client: redis.Redis,
    link: Link,
    catalogue: SqliteCatalogue,
    capsys: pytest.CaptureFixture[str],
    held_there: slice | None,
) -> None:
    """Junk, an entry too few at either end, or some that are cold already: it is not believed and not removed, and
    named; everything stays where it is, and is seen."""
    wanted = some(25)
    fill(client, "rig", wanted[:20])
    await compactor(link, catalogue).sweep()
    fill(client, "rig", wanted[20:])
    client.xadd(
        "cold:rig", {b"b": cold_streams.packed(wanted[held_there]) if held_there else b"junk"}, id=wanted[-1].id
    )
    assert await compactor(link, catalogue).sweep() == {}
    assert f"Batch {wanted[-1].id} of the cold part" in capsys.readouterr().out
    assert length(client, "stream:rig") == 5
    found = index(client)
    assert found is not None
    assert (found.entries, found.batches) == (20, 2)
    assert view(client, "rig") == shown(wanted)


@pytest.mark.usefixtures("small")
async def test_a_batch_in_the_middle_that_is_spoilt_is_named(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever is to look at it knows which one, and until then nothing is removed."""
    wanted = some(25)
    fill(client, "rig", wanted)
    await compactor(link, catalogue).sweep()
    batches: Any = client.xrange("cold:rig")
    first, second, _ = batches
    client.delete("cold:rig")
    client.xadd("cold:rig", first[1], id=first[0])
    client.xadd("cold:rig", {b"b": b"rtac and junk"}, id=second[0])
    capsys.readouterr()
    await compactor(link, catalogue, cold_streams.config(trim=settings.TrimSettings(max_entries=5))).sweep()
    assert f"can't be read: {wanted[19].id}: it has version" in capsys.readouterr().out
    fill(client, "rig", aged([b"x"], first_ms=cold_streams.now_ms() - cold_streams.HOUR_MS))
    assert await compactor(link, catalogue).sweep() == {}
    assert f"can't be read: {wanted[19].id}: it has version" in capsys.readouterr().out
    assert (length(client, "stream:rig"), length(client, "cold:rig")) == (1, 2)


@pytest.mark.usefixtures("small")
async def test_what_is_live_again_and_differs_stays(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue
) -> None:
    """A live stream that came back with another entry below what is cold: nothing goes from there on."""
    wanted = some(25)
    fill(client, "rig", wanted)
    await compactor(link, catalogue).sweep()
    client.delete("stream:rig")
    fill(client, "rig", [*wanted[:12], wanted[12]._replace(fields=(b"id", b"7", b"data", b"other")), *wanted[13:]])
    assert await compactor(link, catalogue).sweep() == {}
    assert length(client, "stream:rig") == 15
    assert view(client, "rig") == shown(wanted)


@pytest.mark.usefixtures("small")
async def test_an_index_that_is_ahead(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """It says more than the cold stream has, as after a failover: what is live is seen, and the index is mended."""
    wanted = some(25)
    fill(client, "rig", wanted)
    await compactor(link, catalogue).sweep()
    batches: Any = client.xrange("cold:rig", count=2)
    client.delete("stream:rig", "cold:rig")
    for raw_id, fields in batches:
        client.xadd("cold:rig", fields, id=raw_id)
    fill(client, "rig", wanted[20:])
    assert view(client, "rig") == shown(wanted)
    await compactor(link, catalogue).sweep()
    assert view(client, "rig") == shown(wanted)
    found = index(client)
    assert found is not None
    assert (found.entries, found.batches, found.added) == (25, 3, 25)


async def test_an_entry_that_is_too_large_stays(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue, capsys: pytest.CaptureFixture[str]
) -> None:
    """It stays live with all that came after it, and what came before it is moved."""
    wanted = aged([b"a", b"b", os.urandom(limits.COLD_BATCH_MAX_BYTES), b"c"])
    fill(client, "rig", wanted)
    await compactor(link, catalogue).sweep()
    assert f"Entry {wanted[2].id} has" in capsys.readouterr().out
    assert view(client, "rig") == shown(wanted)
    assert (length(client, "stream:rig"), length(client, "cold:rig")) == (2, 1)
