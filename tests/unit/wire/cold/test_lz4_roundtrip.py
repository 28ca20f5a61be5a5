"""LZ4 blocks in cold batches: compressed again to the same bytes, or kept as they are."""

import lz4.block
import pytest

from rta_wire.codec import burst
from rta_wire.cold import batch as cold_batch
from rta_wire.cold import lz4_roundtrip
from tests.unit.wire.cold.cold_entries import bursts, numbered, packed


@pytest.mark.parametrize("framing", list(burst.Framing))
@pytest.mark.parametrize("level", [-64, -3, 0, 1, 9, 12])
def test_blocks_are_made_again_whatever_made_them(level: int, framing: burst.Framing) -> None:
    """The level of LZ4 is found, so that the content of blocks is compressed and not the blocks."""
    entries = numbered(bursts(20, level=level, framing=framing))
    data = packed(entries)
    assert cold_batch.unpack_entries(data) == entries
    assert len(data) < sum(len(entry.fields[3]) for entry in entries)
    batch = cold_batch.unpack_batch(data)
    kept = sum(entry.recipes[1] == lz4_roundtrip.NOT_UNPACKED for entry in batch)
    assert kept == 0


def test_blocks_of_another_writer_are_kept_as_they_came() -> None:
    """Legal LZ4 that no level makes: all literals."""
    raw = b"\x0a\x10" + b"x" * 198
    block = b"\xf0" + bytes([200 - 15]) + raw
    assert lz4.block.decompress(block, uncompressed_size=200) == raw
    entries = numbered([block] * 5)
    assert cold_batch.unpack_entries(packed(entries)) == entries


def test_another_lz4_gives_the_same_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """The day on which LZ4 makes other bytes: entries stay readable, and it is known that they are not to the bit."""
    entries = numbered(bursts(3))
    data = packed(entries)
    real = burst.compress
    monkeypatch.setattr(burst, "compress", lambda raw, *_: real(raw, 9))
    for unpacked, entry in zip(cold_batch.unpack_batch(data), entries, strict=True):
        again, exact = lz4_roundtrip.repack(unpacked)
        assert not exact
        assert lz4.block.decompress(again.fields[3], uncompressed_size=1 << 20) == lz4.block.decompress(
            entry.fields[3], uncompressed_size=1 << 20
        )
