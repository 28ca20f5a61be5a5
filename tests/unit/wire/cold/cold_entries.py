"""Entries for cold batches, and batches of them."""

import numpy as np

from rta_wire.codec import burst, encode
from rta_wire.cold import batch as cold_batch
from rta_wire.cold import byte_split, lz4_roundtrip
from rta_wire.cold.lz4_roundtrip import RawEntry


def bursts(count: int, *, level: int = 0, framing: burst.Framing = burst.Framing.RAW, seed: int = 1) -> list[bytes]:
    """Bursts of our own encoder: waves with noise, some jittered."""
    rng = np.random.default_rng(seed)
    ids = np.tile(np.arange(4, dtype=np.uint32), 50 * count)
    times = 1_700_000_000_000_000_000 + np.repeat(np.arange(50 * count), 4) * 10_000_000 + ids * rng.integers(0, 3)
    values = np.round(1000 * np.sin(times / 1e9) + rng.normal(0, 3, len(ids)), 1)
    options = burst.EncodeOptions(target_bytes=1700, group_rows=200, level=level, framing=framing)
    return [burst.data for burst in encode.Encoder(options=options).rows(ids, times, values)]


def packed(entries: list[RawEntry], options: cold_batch.ColdCompression = cold_batch.DEFAULT) -> bytes:
    opener = lz4_roundtrip.Lz4Unpacker()
    batch = [opener.unpack(entry) for entry in entries]
    live_bytes = sum(len(field) for entry in entries for field in entry.fields)
    return cold_batch.pack_batch(batch, byte_split.WidthChooser(), live_bytes=live_bytes, options=options)


def numbered(datas: list[bytes]) -> list[RawEntry]:
    return [
        RawEntry(f"{1_700_000_000_000 + n * 100}-{n % 3}", (b"id", b"7", b"data", data)) for n, data in enumerate(datas)
    ]
