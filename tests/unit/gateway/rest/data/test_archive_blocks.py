"""Blocks of an archived session, and which of its entries have to come from the stream."""

from pathlib import Path

import pytest

from rta_supervisor.archive import finalize
from rta_supervisor.gateway.rest.data import archive_blocks
from rta_wire import entry_ids
from rta_wire.archive import names
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
