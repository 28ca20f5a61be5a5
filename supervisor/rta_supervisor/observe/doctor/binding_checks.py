"""Checks the configurations that live sessions are bound to: viewers show no session without its configuration."""

from typing import Final

from rta_supervisor.catalogue import factory
from rta_supervisor.channels import sync
from rta_supervisor.observe.doctor.findings import Finding, name_some, ok, warn
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.paging import PAGE_SIZE, map_pages, pages
from rta_wire import errors

CHECK: Final = "configurations"


class BindingChecks:
    """The check of configurations."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        self._link = link
        self._config = config

    async def configurations(self) -> Finding:
        """Whether Redis or the catalogue has every configuration that a live session is bound to."""
        bound = sorted(await sync.bound_configs(self._link, self._config.keys))
        names = self._config.keys
        are_live = await map_pages(
            bound, lambda page: self._link.do_all([("EXISTS", names.config(identifier)) for identifier in page])
        )
        forgotten = [identifier for identifier, is_live in zip(bound, are_live, strict=True) if not is_live]
        if not forgotten:
            return ok(CHECK, f"{len(bound):,} bound to live sessions, all published here")
        try:
            saved = await self._saved(forgotten)
        except errors.CatalogueUnavailable as error:
            found = f"{len(forgotten):,} of {len(bound):,} not in Redis: {name_some(forgotten)}"
            return warn(CHECK, found, f"Whether the catalogue has them can't be told here. {error}")
        if missing := [identifier for identifier in forgotten if identifier not in saved]:
            found = f"{len(missing):,} of {len(bound):,} that nobody published here: {name_some(missing)}"
            remedy = "Viewers don't show their sessions. Publish them (channels= of SessionClient), or bind others."
            return warn(CHECK, found, remedy)
        remedy = "A supervisor puts them back within a minute: see that one runs."
        return warn(CHECK, f"{len(forgotten):,} of {len(bound):,} only in the catalogue", remedy)

    async def _saved(self, identifiers: list[str]) -> set[str]:
        catalogue = factory.create_read_only(self._config)
        try:
            return set().union(*[await catalogue.has_configs(page) for page in pages(identifiers, PAGE_SIZE)])
        finally:
            await catalogue.close()
