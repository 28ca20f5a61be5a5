"""When a stream with a cold part is over its limits, and when its oldest batch is removed."""

import pytest

from rta_supervisor.compaction import cold_limits
from rta_supervisor.settings import settings
from tests.unit.compaction.cold_parts import extent, header

AT_MS = 10_000_000


def usage(live_entries: int = 0, memory_bytes: int = 0) -> cold_limits.StreamUsage:
    return cold_limits.StreamUsage(live_entries, memory_bytes, AT_MS)


def limits(max_entries: int = 100, max_bytes: int = 0, max_age_s: float = 0, entry_s: float = 0) -> settings.TrimLimits:
    return settings.TrimSettings(
        max_entries=max_entries, max_bytes=max_bytes, max_age_s=max_age_s, entry_s=entry_s
    ).limits_for("rig")


@pytest.mark.parametrize(
    ("live_entries", "max_entries", "may_exceed", "should_remove"),
    [(0, 30, False, False), (1, 30, True, False), (9, 30, True, False), (10, 30, True, True), (0, 20, True, True)],
)
def test_a_batch_goes_where_enough_stays_without_it(
    live_entries: int, max_entries: int, may_exceed: bool, should_remove: bool
) -> None:
    """Thirty entries in batches of ten: live ones count too, and no less than the limit stays."""
    used, trim_limits = usage(live_entries), limits(max_entries)
    assert cold_limits.may_exceed(extent(entries=30), used, trim_limits) == may_exceed
    assert cold_limits.should_remove(header(entries=10), extent(entries=30), used, trim_limits) == should_remove


@pytest.mark.parametrize(
    ("last_id", "memory_bytes", "has_room", "should_remove"),
    [
        ("90000-0", 1000, True, False),
        ("89999-9", 1000, True, True),
        ("90000-0", 20 * 51_200 + 1, True, True),
        ("90000-0", 1000, False, True),
    ],
)
def test_a_batch_of_small_entries_stays_as_long_as_few_large_ones_would(
    last_id: str, memory_bytes: int, has_room: bool, should_remove: bool
) -> None:
    """20 entries stand for 10 s before the last one and for 1 MB, while Redis has room."""
    used = cold_limits.StreamUsage(10, memory_bytes, AT_MS, "100000-0", has_room)
    batch = header(entries=10, last_id=last_id)
    assert cold_limits.should_remove(batch, extent(entries=30), used, limits(20, entry_s=0.5)) == should_remove


def test_a_batch_goes_once_its_last_entry_is_too_old() -> None:
    """The index says whether the first entry is: only then is a batch read."""
    trim_limits = limits(max_age_s=1000)
    old_ms = AT_MS - 1_000_000
    assert not cold_limits.may_exceed(extent(first_id=f"{old_ms}-0"), usage(), trim_limits)
    assert cold_limits.may_exceed(extent(first_id=f"{old_ms - 1}-9"), usage(), trim_limits)
    assert not cold_limits.should_remove(header(last_id=f"{old_ms}-0"), extent(), usage(), trim_limits)
    assert cold_limits.should_remove(header(last_id=f"{old_ms - 1}-9"), extent(), usage(), trim_limits)
    assert not cold_limits.may_exceed(extent(first_id="1-0"), usage(), limits()), "0 s: no entry is too old"


def test_a_batch_goes_where_memory_is_over_its_limit() -> None:
    """Where the memory is limited at all."""
    for memory_bytes, max_bytes, is_over in ((1000, 1000, False), (1001, 1000, True), (10**9, 0, False)):
        used, trim_limits = usage(memory_bytes=memory_bytes), limits(max_bytes=max_bytes)
        assert cold_limits.may_exceed(extent(), used, trim_limits) == is_over
        assert cold_limits.should_remove(header(), extent(), used, trim_limits) == is_over
