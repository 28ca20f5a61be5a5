"""Archived samples summed up in cells, row group by row group, as envelopes first ask for them. All methods block."""

import collections
from pathlib import Path

from rta_supervisor.gateway.rest.data import archive_blocks
from rta_supervisor.gateway.rest.data.archive_blocks import ArchiveBlock
from rta_supervisor.gateway.rest.data.index import stored_index
from rta_supervisor.gateway.rest.data.index.index_cache import IndexCache
from rta_wire.chunks import envelope_cells
from rta_wire.chunks.envelope_cells import EnvelopeCells
from rta_wire.codec.layout import Plan


class _FileCells:
    """The cells of one file, by row group."""

    def __init__(self, cells: dict[int, EnvelopeCells | None]) -> None:
        self.cells = cells
        self.is_saved = True

    @property
    def size_bytes(self) -> int:
        return sum(cells.size_bytes for cells in self.cells.values() if cells is not None)


class ArchiveCells:
    """Cells of files that were used last: in memory, and in the cache. Files of the archive never change."""

    def __init__(self, cache: IndexCache, max_bytes: int) -> None:
        self._cache = cache
        self._max_bytes = max_bytes
        self._files: collections.OrderedDict[str, _FileCells] = collections.OrderedDict()

    def read(self, block: ArchiveBlock, layouts: Plan) -> EnvelopeCells | None:
        """The cells of a row group, which is read where they are not known. None where no value is finite."""
        file = self._file(block.path, layouts)
        if block.row_group not in file.cells:
            samples = archive_blocks.read_samples(block, layouts)
            file.cells[block.row_group] = envelope_cells.summarize(samples)
            file.is_saved = False
        return file.cells[block.row_group]

    def save(self) -> None:
        """Have the cache keep what it lacks."""
        for key, file in list(self._files.items()):
            if not file.is_saved:
                file.is_saved = True
                self._cache.save(key, stored_index.dump_cells(key, dict(file.cells)))
        total = self.size_bytes
        while total > self._max_bytes and len(self._files) > 1:
            _, oldest = self._files.popitem(last=False)
            total -= oldest.size_bytes

    @property
    def size_bytes(self) -> int:
        """About how much memory they take."""
        return sum(file.size_bytes for file in list(self._files.values()))

    def _file(self, path: str, layouts: Plan) -> _FileCells:
        status = Path(path).stat()
        key = stored_index.key_of(path, status.st_size, status.st_mtime_ns, layouts=layouts)
        file = self._files.get(key)
        if file is None:
            data = self._cache.load(key)
            # Another thread may have made it meanwhile.
            file = self._files.setdefault(key, _FileCells({} if data is None else stored_index.load_cells(key, data)))
        self._files.move_to_end(key)
        return file
