"""The configurations of archived sessions: read where they are kept, and written beside the files of each session, so
that the archive alone says what its channels are.
"""

from collections.abc import Mapping
from pathlib import Path

from rta_supervisor.archive import folders
from rta_supervisor.catalogue import factory
from rta_supervisor.channels.store import ConfigStore
from rta_supervisor.diagnostics import log
from rta_supervisor.session import config_bindings
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_wire import errors
from rta_wire.archive import names


class ArchivedConfigs:
    """Configurations of the sessions of one run, each read once: many sessions share one."""

    def __init__(self, config: settings.Settings) -> None:
        self._config = config
        self._known: dict[str, bytes | None] = {}

    def of(self, document: bytes) -> dict[str, bytes]:
        """The configurations that a Session JSON binds, by identifier; without those that nobody published here."""
        identifiers = config_bindings.identifiers_in(document)
        if unknown := [identifier for identifier in identifiers if identifier not in self._known]:
            self._known |= one_shot.run(self._config, lambda link: self._read(link, unknown))
        return {identifier: data for identifier in identifiers if (data := self._known[identifier]) is not None}

    async def _read(self, link: Link, identifiers: list[str]) -> dict[str, bytes | None]:
        catalogue = factory.create_read_only(self._config)
        store = ConfigStore(link, self._config.keys, catalogue)
        configs: dict[str, bytes | None] = {}
        try:
            for identifier in identifiers:
                try:
                    configs[identifier] = await store.get(identifier)
                except (errors.CatalogueUnavailable, errors.RedisRefused) as error:
                    # Samples are archived all the same: the names of channels must not keep them in Redis.
                    log.get().warning("config_not_archived", config=identifier, error=str(error))
                    configs[identifier] = None
        finally:
            await catalogue.close()
        return configs


def write(folder: Path, configs: Mapping[str, bytes]) -> None:
    """Write configurations into the folder of a session. One that is there is not written again: none ever changes."""
    for identifier, data in configs.items():
        path = folder / names.config_file(identifier)
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            folders.write_durably(path, data)
