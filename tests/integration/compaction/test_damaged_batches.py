"""Compaction that meets damaged batches, or batches that differ from the live stream: it removes nothing because of
them."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
import redis

from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link
from rta_wire import limits
from rta_wire.cold import batch as cold_batch
from rta_wire.cold import byte_split, lz4_roundtrip
from rta_wire.cold.lz4_roundtrip import RawEntry
from tests.support import cold_streams
from tests.support.cold_streams import (
    as_read,
    compactor,
    fill,
    old_entries,
    read_all,
    read_extent,
    sample_entries,
    stream_length,
)


def pack_batch(entries: Iterable[RawEntry]) -> bytes:
    """The bytes of a batch with these entries."""
    unpacker = lz4_roundtrip.Lz4Unpacker()
    unpacked = [unpacker.unpack(entry) for entry in entries]
    return cold_batch.pack_batch(unpacked, byte_split.WidthChooser(), live_bytes=0)


@pytest.mark.parametrize("is_whole", [False, True])
async def test_a_batch_that_reads_back_differently_removes_nothing(
    client: redis.Redis,
    link: Link,
    catalogue: SqliteCatalogue,
    capsys: pytest.CaptureFixture[str],
    is_whole: bool,
) -> None:
    """With another bit, or whole and with another entry: the live stream keeps everything."""
    entries = sample_entries(12)
    fill(client, "rig", entries)
    other = pack_batch([*entries[:-1], entries[-1]._replace(fields=(b"who", b"other"))])

    class DamagingLink(Link):
        async def try_all(self, batch: Sequence[commands.Command]) -> list[Any]:
            replies = await super().try_all(batch)
            if replies and batch[0][:2] == ("XRANGE", "cold:rig") and replies[0]:
                raw_id, [name, data] = replies[0][0]
                damaged = other if is_whole else data[:-1] + bytes([data[-1] ^ 1])
                replies[0] = [[raw_id, [name, damaged]]]
            return replies

    damaging = DamagingLink(link.config)
    assert await compactor(damaging, catalogue).sweep() == {}
    assert f"Batch {entries[-1].id} of the cold part" in capsys.readouterr().out
    await damaging.close()
    assert stream_length(client, "stream:rig") == 12
    assert read_extent(client) is None
    assert read_all(client, "rig") == as_read(entries)
    await compactor(link, catalogue).sweep()
    assert read_all(client, "rig") == as_read(entries)
    assert stream_length(client, "stream:rig") == 0


@pytest.mark.parametrize("batch_entries", [None, slice(1, 12), slice(0, 11)])
async def test_a_first_batch_that_differs_is_removed(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue, batch_entries: slice | None
) -> None:
    """Junk where the first batch is to go, or a batch that lacks an entry which is live: the stream is moved again."""
    entries = sample_entries(12)
    fill(client, "rig", entries)
    client.xadd(
        "cold:rig",
        {b"b": pack_batch(entries[batch_entries]) if batch_entries else b"junk"},
        id=entries[-1].id,
    )
    assert (await compactor(link, catalogue).sweep())["rig"].entries == 12
    assert read_all(client, "rig") == as_read(entries)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("batch_entries", [None, slice(21, 25), slice(20, 24), slice(15, 25)])
async def test_a_later_batch_that_differs_stays(
    client: redis.Redis,
    link: Link,
    catalogue: SqliteCatalogue,
    capsys: pytest.CaptureFixture[str],
    batch_entries: slice | None,
) -> None:
    """Junk, a batch that lacks an entry at either end, or one with entries that are cold already: it is logged with its
    id and not indexed, and readers see everything."""
    entries = sample_entries(25)
    fill(client, "rig", entries[:20])
    await compactor(link, catalogue).sweep()
    fill(client, "rig", entries[20:])
    client.xadd(
        "cold:rig",
        {b"b": pack_batch(entries[batch_entries]) if batch_entries else b"junk"},
        id=entries[-1].id,
    )
    assert await compactor(link, catalogue).sweep() == {}
    assert f"Batch {entries[-1].id} of the cold part" in capsys.readouterr().out
    assert stream_length(client, "stream:rig") == 5
    extent = read_extent(client)
    assert extent is not None
    assert (extent.entries, extent.batches) == (20, 2)
    assert read_all(client, "rig") == as_read(entries)


@pytest.mark.usefixtures("small")
async def test_a_damaged_batch_in_the_middle_is_logged_with_its_id(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue, capsys: pytest.CaptureFixture[str]
) -> None:
    """By trimming and by compaction; until somebody has looked at it, nothing is removed."""
    entries = sample_entries(25)
    fill(client, "rig", entries)
    await compactor(link, catalogue).sweep()
    batches: Any = client.xrange("cold:rig")
    first, second, _ = batches
    client.delete("cold:rig")
    client.xadd("cold:rig", first[1], id=first[0])
    client.xadd("cold:rig", {b"b": b"rtac and junk"}, id=second[0])
    capsys.readouterr()
    await compactor(link, catalogue, cold_streams.config(trim=settings.TrimSettings(max_entries=5, entry_s=0))).sweep()
    assert f"can't be read: {entries[19].id}: it has version" in capsys.readouterr().out
    fill(client, "rig", old_entries([b"x"], first_ms=cold_streams.now_ms() - cold_streams.HOUR_MS))
    assert await compactor(link, catalogue).sweep() == {}
    assert f"can't be read: {entries[19].id}: it has version" in capsys.readouterr().out
    assert (stream_length(client, "stream:rig"), stream_length(client, "cold:rig")) == (1, 2)


@pytest.mark.usefixtures("small")
async def test_live_entries_that_differ_from_cold_ones_stay(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue
) -> None:
    """A live stream came back with another entry than the cold one: nothing is removed from that entry on."""
    entries = sample_entries(25)
    fill(client, "rig", entries)
    await compactor(link, catalogue).sweep()
    client.delete("stream:rig")
    fill(client, "rig", [*entries[:12], entries[12]._replace(fields=(b"id", b"7", b"data", b"other")), *entries[13:]])
    assert await compactor(link, catalogue).sweep() == {}
    assert stream_length(client, "stream:rig") == 15
    assert read_all(client, "rig") == as_read(entries)


@pytest.mark.usefixtures("small")
async def test_an_index_that_is_ahead_of_the_cold_stream(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue
) -> None:
    """As after a failover: readers see what is live, and the index is repaired."""
    entries = sample_entries(25)
    fill(client, "rig", entries)
    await compactor(link, catalogue).sweep()
    batches: Any = client.xrange("cold:rig", count=2)
    client.delete("stream:rig", "cold:rig")
    for raw_id, fields in batches:
        client.xadd("cold:rig", fields, id=raw_id)
    fill(client, "rig", entries[20:])
    assert read_all(client, "rig") == as_read(entries)
    await compactor(link, catalogue).sweep()
    assert read_all(client, "rig") == as_read(entries)
    extent = read_extent(client)
    assert extent is not None
    assert (extent.entries, extent.batches, extent.added) == (25, 3, 25)


async def test_an_entry_that_is_too_large_stays(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue, capsys: pytest.CaptureFixture[str]
) -> None:
    """It stays live with everything after it, and what is before it is moved."""
    entries = old_entries([b"a", b"b", os.urandom(limits.COLD_BATCH_MAX_BYTES), b"c"])
    fill(client, "rig", entries)
    await compactor(link, catalogue).sweep()
    assert f"Entry {entries[2].id} has" in capsys.readouterr().out
    assert read_all(client, "rig") == as_read(entries)
    assert (stream_length(client, "stream:rig"), stream_length(client, "cold:rig")) == (2, 1)
