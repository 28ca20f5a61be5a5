"""The methods that every catalogue has. `sql_catalogue` implements most of them, `sqlite` and `postgres` the rest."""

from collections.abc import Sequence
from typing import Protocol

from rta_supervisor.catalogue.model import (
    CatalogueExternalId,
    CatalogueRow,
    ConfigInfo,
    ConfigRow,
    ProgressRow,
    Query,
    RowVersion,
    StorageLocation,
)
from rta_supervisor.catalogue.publications.table import PublicationTable


class Catalogue(Protocol):
    """The methods of a catalogue. Each may raise `CatalogueUnavailable`."""

    @property
    def name(self) -> str:
        """Where the catalogue is, for people, without secrets."""

    @property
    def is_shared(self) -> bool:
        """Whether supervisors on other hosts write to the same catalogue."""

    @property
    def publications(self) -> PublicationTable:
        """What a Session Service was told of the sessions."""

    def reader(self) -> "Catalogue":
        """The same catalogue over a connection of its own that only reads: a long search delays no write."""

    async def open(self) -> None:
        """Connect and create what is missing. The other methods do that too: this one finds a problem early."""

    async def save(self, rows: Sequence[CatalogueRow]) -> None:
        """Save all rows or none, each merged with the stored row of its session."""

    async def save_progress(self, progress: Sequence[ProgressRow], *, at_ms: int) -> None:
        """Merge totals into the stored rows of sessions, all or none; a session without a row is left out."""

    async def get(self, identity: str) -> CatalogueRow | None:
        """The newest session of an identity."""

    async def save_external_ids(self, external_ids: Sequence[CatalogueExternalId]) -> None:
        """Save the external ids of sessions, all or none."""

    async def external_ids(self, external_id: str) -> list[CatalogueExternalId]:
        """Every session that some principal gave this external id, newest first."""

    async def unfinished_external_ids(self) -> list[CatalogueExternalId]:
        """The external ids of all sessions that are not closed."""

    async def closed(self, identities: Sequence[str]) -> list[CatalogueRow]:
        """Every closed session of these identities, of which there may be some hundred."""

    async def unfinished(self) -> list[CatalogueRow]:
        """Every session that is not closed, oldest id first."""

    async def find(
        self,
        query: Query,
        *,
        limit: int,
        before: tuple[int, str] | None = None,
        json_max_chars: int | None = None,
    ) -> list[CatalogueRow]:
        """Sessions that match, highest id first. `before`: the `page_cursor` of the last row of the page before.
        `json_max_chars`: Session JSON that is longer is left out."""

    async def page_after(self, after: tuple[int, str] | None, *, limit: int) -> list[CatalogueRow]:
        """All sessions, lowest id first. `after`: the `page_cursor` of the last row of the page before."""

    async def versions(self) -> list[RowVersion]:
        """What tells for each session whether its row has changed."""

    async def latest(self, count: int) -> list[str]:
        """Identities of the sessions that were opened last, newest first."""

    async def streams(self) -> list[str]:
        """Every stream that a session was ever in, in any order."""

    async def highest_id(self) -> int:
        """The highest stream session id of all, 0 where there is none."""

    async def save_locations(self, locations: Sequence[StorageLocation]) -> None:
        """Save all locations or none. A location of the same stream, session and kind is replaced."""

    async def delete_locations(self, locations: Sequence[StorageLocation]) -> None:
        """Delete the locations of the same streams, sessions and kinds, all or none. Missing ones are left out."""

    async def locations(self, stream: str) -> list[StorageLocation]:
        """Where the entries of a stream are; locations of all its sessions come first."""

    async def archive_folders(self, sessions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], str]:
        """Where the archive has the files of sessions, each named by its stream and stream session id. There may be
        some hundred; those that the archive does not have are left out."""

    async def save_config(self, config: ConfigRow) -> bool:
        """Save a configuration, unless there is one of its identifier: the first one stays. Whether it is new."""

    async def config(self, identifier: str) -> bytes | None:
        """The JSON of a configuration."""

    async def config_infos(self, *, limit: int) -> list[ConfigInfo]:
        """The configurations that were published last, newest first."""

    async def has_configs(self, identifiers: Sequence[str]) -> set[str]:
        """Which of some hundred configurations are saved."""

    async def close(self) -> None:
        """Close the file or the connection. It may be repeated."""
