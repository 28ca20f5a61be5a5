"""What the catalogue has still to learn: collected in memory, written now and then in one transaction."""

import anyio

from rta_supervisor import log, settings
from rta_supervisor.catalogue import Catalogue, Row
from rta_wire import errors


class Journal:
    """One row per session at most, however long the catalogue is away."""

    def __init__(self, catalogue: Catalogue, config: settings.CatalogueSettings) -> None:
        self._catalogue = catalogue
        self._flush_s = config.flush_s
        self._waiting: dict[tuple[str, int], Row] = {}
        self._some = anyio.Event()
        self._writing = anyio.Lock()
        self._is_out = False
        self._log = log.get()

    def __len__(self) -> int:
        """How many sessions wait to be written."""
        return len(self._waiting)

    def note(self, row: Row) -> None:
        """Remember what a session looks like now. Does no I/O."""
        before = self._waiting.get(row.key)
        self._waiting[row.key] = row if before is None else before.joined(row)
        self._some.set()

    async def run(self) -> None:
        """Write what is noted, at most once per interval, until cancelled."""
        while True:
            await self._some.wait()
            await self.flush()
            await anyio.sleep(self._flush_s)

    async def flush(self) -> bool:
        """Write everything that was noted before the call, in one transaction. False: it is kept for another time."""
        async with self._writing:
            rows, self._waiting = self._waiting, {}
            self._some = anyio.Event()
            try:
                await self._catalogue.save(list(rows.values()))
            except BaseException as error:
                for row in rows.values():
                    self.note(row)
                if not isinstance(error, errors.CatalogueUnavailable):
                    raise
                self._say_once(error)
                return False
            if self._is_out:
                self._is_out = False
                self._log.info("catalogue_available", rows=len(rows))
            return True

    def _say_once(self, error: errors.CatalogueUnavailable) -> None:
        if not self._is_out:
            self._is_out = True
            self._log.error("catalogue_unavailable", error=str(error), waiting=len(self._waiting))
