"""Digests of rows: the same in any order, and another where a bit differs."""

import math
import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rta_wire import content_digest

QUIET, OTHER_NAN = (
    struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in (0x7FF8000000000000, 0xFFF80000DEADBEEF)
)


doubles = st.one_of(st.floats(width=64), st.sampled_from([0.0, -0.0, QUIET, OTHER_NAN, math.inf, 5e-324]))
samples = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(-(2**62), 2**62), doubles), min_size=1, max_size=50)


def of(rows: list[tuple[int, int, float]]) -> content_digest.Digest:
    channels, times, values = zip(*rows, strict=True)
    return content_digest.of_samples(
        np.array(channels, np.int64), np.array(times, np.int64), np.array(values, np.float64)
    )


@given(rows=samples, data=st.data())
def test_a_digest_knows_rows_and_not_their_order(rows: list[tuple[int, int, float]], data: st.DataObject) -> None:
    """Shuffled and joined in parts it is the same; with one bit of one row changed, or a row twice, it is another."""
    mixed = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(1, len(rows)))
    parts = [part for part in (mixed[:cut], mixed[cut:]) if part]
    joined = content_digest.Digest()
    for part in parts:
        joined = joined.sum_of(of(part))
    assert joined == of(rows)
    channel, time_ns, value = rows[0]
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    (other,) = struct.unpack("<d", struct.pack("<Q", bits ^ (1 << data.draw(st.integers(0, 63)))))
    for wrong in ((channel ^ 1, time_ns, value), (channel, time_ns ^ 1, value), (channel, time_ns, other)):
        assert of([wrong, *rows[1:]]).sum != of(rows).sum
    assert of([*rows, rows[0]]) != of(rows)


def test_values_that_swap_places_are_noticed() -> None:
    """Each value belongs to its time and channel."""
    assert of([(1, 10, 1.0), (1, 20, 2.0)]) != of([(1, 10, 2.0), (1, 20, 1.0)])
    assert of([(1, 10, 1.0), (2, 10, 2.0)]) != of([(1, 10, 2.0), (2, 10, 1.0)])


def of_entries(entries: list[tuple[str, bytes]]) -> content_digest.Digest:
    return content_digest.EntryHashes.of(entries).digest


@given(st.binary(max_size=300), st.integers(0, 299), st.integers(0, 7))
def test_a_flipped_bit_of_an_entry_changes_its_digest(data: bytes, at: int, bit: int) -> None:
    """So do another id and other neighbours of the same bytes; the order of entries makes no difference."""
    entries = [("5-1", data), ("6-0", b"x" * 20)]
    digest = of_entries(entries)
    assert digest == of_entries(entries[::-1])
    assert digest.rows == 2
    assert digest != of_entries([("5-2", data), entries[1]])
    assert digest != of_entries([("5-1", data + b"\0"), entries[1]])
    if data:
        changed = bytearray(data)
        changed[at % len(data)] ^= 1 << bit
        assert digest != of_entries([("5-1", bytes(changed)), entries[1]])
    large = b"".join(number.to_bytes(8, "little") for number in range(20_000))
    swapped = large[8:16] + large[:8] + large[16:]
    assert of_entries([("5-1", large)]) != of_entries([("5-1", swapped)])


entry_lists = st.dictionaries(st.tuples(st.integers(0, 9), st.integers(0, 3)), st.binary(max_size=9), max_size=30)


@given(before=entry_lists, after=entry_lists, first=st.tuples(st.integers(0, 9), st.integers(0, 3)))
def test_entries_that_are_gone_are_told_from_others(
    before: dict[tuple[int, int], bytes], after: dict[tuple[int, int], bytes], first: tuple[int, int]
) -> None:
    """Those that are not there as they were, below an id: as a comparison of dictionaries finds them."""
    both = [
        content_digest.EntryHashes.of((f"{ms}-{seq}", data) for (ms, seq), data in entries.items())
        for entries in (before, after)
    ]
    gone = [(f"{key[0]}-{key[1]}", data) for key, data in before.items() if after.get(key) != data and key < first]
    assert both[0].without(both[1]).below(f"{first[0]}-{first[1]}").digest == of_entries(gone)
