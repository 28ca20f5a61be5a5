"""Blocks of an archived session, and which of its entries have to come from the stream."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rta_supervisor.archive import finalize
from rta_supervisor.gateway.rest.data import archive_blocks
from rta_wire import entry_ids
from rta_wire.archive import names, schema
from tests.unit.archive import candidates
from tests.unit.wire.archive.test_folder import part


@pytest.mark.parametrize(
    ("unreadable", "stream_ranges"),
    [
        (0, [("40-0", entry_ids.MAX)]),
        (1, [("0-0", "20-0"), ("40-0", entry_ids.MAX)]),
        (2, [("20-0", "30-0"), ("40-0", entry_ids.MAX)]),
        (3, [("30-0", entry_ids.MAX)]),
    ],
)
def test_a_part_that_can_not_be_read_is_looked_for_in_the_stream(
    tmp_path: Path, unreadable: int, stream_ranges: list[tuple[str, str]]
) -> None:
    """The first, one in between or the last: what is left is not the whole session, though it is closed."""
    parts = [part(number) for number in (1, 2, 3)]
    whole = finalize.build_manifest(candidates.candidate(1, identity="run"), parts)
    contents = {names.part_manifest(number): part.encode() for number, part in enumerate(parts, 1)}
    contents[names.MANIFEST] = whole.encode()
    for name, data in contents.items():
        (tmp_path / name).write_bytes(b"{" if name == names.part_manifest(unreadable) else data)
    archived = archive_blocks.read_folder(tmp_path, "run", list(contents), lambda _path, _error: None)
    assert list(archived.stream_ranges) == stream_ranges
    assert archived.is_whole is (unreadable == 0)


def test_events_are_read_by_row_groups_and_only_those_of_the_range(tmp_path: Path) -> None:
    """A file may have those of many hours: each of its row groups is a block, of which a minute makes few objects."""
    rows = [{"identity": "s", "stream_session_id": 1, "event_definition_id": n, "time": 10 * n} for n in range(1000)]
    texts = {"app_name": "", "status_text": "x", "raw_data": [1.0]}
    table = pa.Table.from_pylist([row | texts for row in rows], schema.EVENTS)
    pq.write_table(table, tmp_path / "events.parquet", row_group_size=100)
    blocks = list(archive_blocks.event_blocks(tmp_path / "events.parquet"))
    spans = [(block.event_span.start_ns, block.event_span.end_ns) for block in blocks if block.event_span]
    assert spans == [(1000 * n, 1000 * n + 990) for n in range(10)]
    assert sum(block.events for block in blocks) == len(rows)
    found = archive_blocks.read_events(blocks[3], 3020, 3050)
    assert [(event.event_definition_id, event.timestamp) for event in found] == [(n, 10 * n) for n in range(302, 306)]
