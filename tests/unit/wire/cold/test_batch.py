"""Batches of cold streams: every entry comes back bit by bit, and bytes that are no batch are refused by name."""

import contextlib
import struct
import time
import zlib
from typing import Any

import lz4.block
import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rta_wire import entry_ids, errors, limits
from rta_wire.codec import burst
from rta_wire.cold import batch as cold_batch
from rta_wire.cold import byte_split, lz4_roundtrip
from rta_wire.cold.lz4_roundtrip import RawEntry
from tests.unit.wire import strategies as g
from tests.unit.wire.cold.cold_entries import bursts, numbered, packed

PATIENCE_S = 5.0
quickly = settings(g.thorough, max_examples=5_000 if g.SOAK else 40)
"""Each example searches for the level of LZ4, which takes a while."""


parts = st.integers(0, 2**64 - 1)
ids = st.lists(st.tuples(parts, parts).filter(lambda pair: pair != (0, 0)), min_size=1, max_size=12, unique=True).map(
    sorted
)
datas = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([b"", b"\x00", *bursts(2), *bursts(2, level=9), *bursts(1, level=-5)]),
    st.sampled_from(bursts(2, framing=burst.Framing.SIZE_PREFIXED)),
    st.binary(max_size=300).map(lambda raw: lz4.block.compress(raw, store_size=False)),
)
foreign = st.lists(st.tuples(st.binary(max_size=9), datas), min_size=1, max_size=5).map(
    lambda pairs: tuple(word for pair in pairs for word in pair)
)
ours = datas.map(lambda data: (b"id", b"12", b"data", data))


@st.composite
def streams(draw: st.DrawFn) -> list[RawEntry]:
    """Entries with rising ids and any fields."""
    return [RawEntry(f"{ms}-{seq}", draw(st.one_of(ours, foreign))) for ms, seq in draw(ids)]


@quickly
@given(entries=streams(), codec=st.sampled_from(cold_batch.CODECS))
@example([RawEntry("0-1", (b"", b""))], cold_batch.ZSTD)
@example([RawEntry("5-0", (b"a", b"1", b"a", b"2"))], cold_batch.LZ4)
def test_every_entry_comes_back(entries: list[RawEntry], codec: str) -> None:
    """Ids, names, doubled names, values: whoever wrote them, and whatever they hold."""
    data = packed(entries, cold_batch.ColdCompression(codec=codec))
    assert cold_batch.unpack_entries(data) == entries
    assert all(lz4_roundtrip.repack(entry)[1] for entry in cold_batch.unpack_batch(data))
    header = cold_batch.read_header(data)
    assert (header.first_id, header.last_id, header.entries) == (entries[0].id, entries[-1].id, len(entries))


@quickly
@given(st.data())
def test_a_cursor_in_the_middle(data: st.DataObject) -> None:
    """Entries after one id and up to another, as XRANGE would give them."""
    entries = data.draw(streams())
    batch = packed(entries)
    after, until = (data.draw(st.sampled_from([entry.id for entry in entries])) for _ in range(2))
    low, high = entry_ids.parse(after), entry_ids.parse(until)
    wanted = [entry for entry in entries if low < entry_ids.parse(entry.id) <= high]
    assert cold_batch.unpack_entries(batch, after, until) == wanted


GOOD = packed(numbered(bursts(4)))


def survive(data: bytes) -> None:
    with contextlib.suppress(errors.BadBatch):
        cold_batch.unpack_entries(data)


@g.thorough
@given(data=st.binary(max_size=400))
@example(b"")
@example(GOOD[:-1])
@example(GOOD + b"\x00")
def test_any_bytes_are_refused(data: bytes) -> None:
    """By name, and never read."""
    with pytest.raises(errors.BadBatch):
        cold_batch.unpack_entries(data)


def framed(header: Any, body: bytes) -> bytes:
    packed_header = msgspec.msgpack.encode(header)
    content = packed_header + body
    return struct.pack("<4sBII", b"rtac", 1, zlib.crc32(content), len(packed_header)) + content


@g.thorough
@given(st.data())
def test_a_batch_with_a_right_checksum_and_wrong_insides(data: st.DataObject) -> None:
    """Somebody who knows the format writes nonsense: refused by name, or read as what it says."""
    header, body = msgspec.to_builtins(cold_batch.read_header(GOOD)), bytearray(cold_batch._parse_frame(GOOD)[1])
    for _ in range(data.draw(st.integers(1, 4))):
        if data.draw(st.booleans()):
            name = data.draw(st.sampled_from(["sizes", "stored"]))
            values = list(header[name])
            values[data.draw(st.integers(0, 3))] = data.draw(st.integers(-1, 2**40))
            header[name] = values
        else:
            body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    survive(framed(header, bytes(body)))


@g.thorough
@given(st.data())
def test_a_table_that_lies(data: st.DataObject) -> None:
    """Numbers in the table that do not add up: no slice goes past its end, and no index."""
    header = cold_batch.read_header(GOOD)
    body = cold_batch._parse_frame(GOOD)[1]
    sections = list(cold_batch._decompress_parts(header, body))
    table = msgspec.msgpack.decode(sections[0])
    for _ in range(data.draw(st.integers(1, 3))):
        index = data.draw(st.sampled_from([n for n, numbers in enumerate(table) if isinstance(numbers, bytes)]))
        numbers = bytearray(table[index])
        if numbers and data.draw(st.booleans()):
            numbers[data.draw(st.integers(0, len(numbers) - 1))] = data.draw(st.integers(0, 255))
        else:
            numbers += data.draw(st.binary(max_size=9))
        table[index] = bytes(numbers)
    raw = msgspec.msgpack.encode(table)
    stored = cold_batch._compress(raw, cold_batch.DEFAULT)
    changed = msgspec.structs.replace(
        header, sizes=(len(raw), *header.sizes[1:]), stored=(len(stored), *header.stored[1:])
    )
    survive(framed(changed, stored + bytes(body[header.stored[0] :])))


@pytest.mark.parametrize("change", [{"first_id": "1-0"}, {"last_id": "9999999999999-0"}, {"entries": 1}])
def test_a_header_that_lies(change: dict[str, Any]) -> None:
    """What it says of the entries is what readers and the index go by."""
    header, body = msgspec.to_builtins(cold_batch.read_header(GOOD)), bytes(cold_batch._parse_frame(GOOD)[1])
    assert cold_batch.unpack_entries(framed(header, body)) == cold_batch.unpack_entries(GOOD)
    with pytest.raises(errors.BadBatch, match="does not hold the entries"):
        cold_batch.unpack_entries(framed(header | change, body))


def test_numbers_that_do_not_add_up_are_refused() -> None:
    """A column or a rest that is shorter or longer than what was cut, a cut of a column that there is not."""
    values = [lz4.block.decompress(one, uncompressed_size=1 << 20) for one in bursts(3)]
    lengths = [len(value) for value in values]
    apart = byte_split.split_values([(value, True) for value in values], byte_split.WidthChooser())
    assert byte_split.join_values(apart, lengths) == values
    first, *others = apart.columns
    for wrong in (
        apart._replace(columns=[first._replace(data=first.data[:-1]), *others]),
        apart._replace(columns=[first._replace(data=first.data + b"x"), *others]),
        apart._replace(rest=apart.rest[:-1]),
        apart._replace(rest=apart.rest + b"x"),
        apart._replace(column_indices=apart.column_indices + len(apart.columns)),
        apart._replace(counts=apart.counts[:-1]),
        apart._replace(gaps=apart.gaps[:-1]),
    ):
        with pytest.raises(ValueError, match=r"add up|agree|not as long|there is not"):
            byte_split.join_values(wrong, lengths)


def test_a_value_that_is_not_to_the_bit_is_noticed_among_others() -> None:
    """Each value of an entry has its own checksum."""
    first, second = bursts(2)[:2]
    unpacked = lz4_roundtrip.Lz4Unpacker().unpack(RawEntry("1-0", (b"a", first, b"b", second)))
    assert lz4_roundtrip.repack(unpacked) == (RawEntry("1-0", (b"a", first, b"b", second)), True)
    for sums in (
        (unpacked.checksums[0] ^ 1, unpacked.checksums[1]),
        (unpacked.checksums[0], unpacked.checksums[1] ^ 1),
    ):
        assert not lz4_roundtrip.repack(unpacked._replace(checksums=sums))[1]


def test_levels_are_not_tried_for_every_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer whose blocks no level makes costs a search or two in a batch, not one for each value."""
    block = b"\xf0" + bytes([200 - 15]) + b"\x0a\x10" + b"x" * 198
    real, tried = burst.compress, []

    def compress(*arguments: Any) -> bytes:
        tried.append(arguments[1])
        return real(*arguments)

    monkeypatch.setattr(burst, "compress", compress)
    unpacker = lz4_roundtrip.Lz4Unpacker()
    levels = limits.LZ4_LEVEL_MAX - limits.LZ4_LEVEL_MIN + 1
    for batch in (1, 2):
        for number in range(50):
            assert unpacker.unpack(RawEntry(f"{number + 1}-0", (b"data", block))).recipes == bytes(
                [lz4_roundtrip.NOT_UNPACKED]
            )
        assert len(tried) < batch * (2 * levels + 2 * 50 + 1)
        assert len(tried) > batch * levels
        unpacker.next_batch()


@pytest.mark.parametrize("codec", cold_batch.CODECS)
def test_a_bomb_takes_no_memory(codec: str) -> None:
    """A megabyte that unpacks to gigabytes is refused by its sizes, or ends where they do."""
    zeros = cold_batch._compress(bytes(64 * limits.MIB), cold_batch.ColdCompression(codec=codec))
    for claimed in (64 * limits.MIB, limits.COLD_BATCH_MAX_BYTES, 1):
        header = msgspec.structs.replace(
            cold_batch.read_header(GOOD), codec=codec, sizes=(0, claimed, 0, 0), stored=(0, len(zeros), 0, 0)
        )
        started_s = time.perf_counter()
        reason = "the sizes in its header" if claimed > limits.COLD_BATCH_MAX_BYTES else "."
        with pytest.raises(errors.BadBatch, match=reason):
            cold_batch.unpack_entries(framed(header, zeros))
        assert time.perf_counter() - started_s < PATIENCE_S


def test_a_newer_version_is_named() -> None:
    """So that whoever reads the error knows what to do."""
    with pytest.raises(errors.BadBatch, match="version 2"):
        cold_batch.unpack_entries(GOOD[:4] + b"\x02" + GOOD[5:])


def test_a_full_batch_fits() -> None:
    """What may go into a batch can be read again: as many entries and as many bytes as there may be."""
    rng = np.random.default_rng(5)
    noise = rng.integers(0, 256, limits.COLD_BATCH_MAX_BYTES // 16, np.uint8).tobytes()
    unpacker = lz4_roundtrip.Lz4Unpacker()
    batch: list[lz4_roundtrip.UnpackedEntry] = []
    size = 0
    while True:
        entry = unpacker.unpack(RawEntry(f"{len(batch) + 1}-0", (b"id", b"1", b"data", noise)))
        if cold_batch.is_over_limit(len(batch) + 1, size + entry.size):
            break
        batch.append(entry)
        size += entry.size
    data = cold_batch.pack_batch(batch, byte_split.WidthChooser(), live_bytes=0)
    assert len(data) <= limits.COLD_STORED_MAX_BYTES
    assert cold_batch.unpack_batch(data) == batch
    tiny = [unpacker.unpack(RawEntry(f"{n + 1}-0", (b"", b""))) for n in range(limits.COLD_BATCH_MAX_ENTRIES)]
    assert cold_batch.unpack_batch(cold_batch.pack_batch(tiny, byte_split.WidthChooser(), live_bytes=0)) == tiny
