"""`rta-supervisor publish`: how publishing to a Session Service goes, and sessions that are to be published again."""

from collections.abc import Sequence
from typing import Final

import click
import msgspec
from rich.console import Group

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.cli import catalogue_access, options, output, session_lookup
from rta_supervisor.cli.options import SessionNames
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe import queries
from rta_supervisor.publish import status as publish_status
from rta_supervisor.publish.status import PublishStatus
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_wire import errors, keys

REFUSED_MAX: Final = 100
RETRIES_MAX: Final = 10_000
"""Requests to publish again that may wait, while nobody publishes."""


class RefusedSession(msgspec.Struct, frozen=True):
    """A session that the service refuses, as `publish status --json` prints it."""

    identity: str
    reason: str


@click.group("publish")
def command() -> None:
    """Look at publishing to a Session Service, and have sessions published again. It is set in [publish].

    \b
    Examples:  rta-supervisor publish status
               rta-supervisor publish retry run-17
    """


@command.command()
@options.as_json
@options.with_settings
def status(config: settings.Settings, as_json: bool) -> None:
    """Say how publishing goes, and list sessions that the service refuses, with its reasons.

    \b
    Examples:  rta-supervisor publish status
               rta-supervisor publish status --json | jq .status.oldest_s
    """
    current = one_shot.run(config, lambda link: publish_status.read(link, config.keys))
    refused, problem = _read_refused(config)
    if as_json:
        output.print_json({"status": current, "refused": refused, "catalogue_error": problem})
        return
    console = output.console()
    console.print(_page(config, current))
    if problem:
        console.print(output.escape(problem))
    if refused:
        table = output.table("session", "why it is refused")
        for session in refused:
            table.add_row(output.escape(session.identity), output.escape(session.reason))
        console.print(Group("", table))


def _page(config: settings.Settings, current: PublishStatus | None) -> Group | str:
    if current is None:
        return "nothing was ever published" if config.publish.is_on else "publish.session_address is not set"
    at_ms = now_ms()
    stale = " (nobody publishes now)" if current.is_stale else ""
    return Group(
        output.key_value_table(
            [
                ("publisher", f"{output.escape(current.node)}, seen {output.ago(current.at_ms, at_ms)} ago{stale}"),
                ("service", output.escape(current.problem) or "takes calls"),
                ("time ranges", f"every {current.period_s:g} s"),
                ("waiting", f"{output.count(current.waiting)} sessions, the oldest for {current.oldest_s:.1f} s"),
                ("refused", f"{output.count(current.refused)} sessions"),
            ]
        )
    )


def _read_refused(config: settings.Settings) -> tuple[list[RefusedSession], str]:
    """Sessions that are refused, from the catalogue of this host; or why it can't be read."""

    async def read(catalogue: Catalogue) -> list[RefusedSession]:
        return [RefusedSession(*row) for row in await catalogue.publications.refused(REFUSED_MAX)]

    try:
        return catalogue_access.run(config, read), ""
    except errors.CatalogueUnavailable as error:
        return [], str(error)


def _unsaved(config: settings.Settings, identities: Sequence[str]) -> list[str]:
    """Sessions that the catalogue of this host does not have, as far as it can be read."""

    async def read(catalogue: Catalogue) -> list[str]:
        return [identity for identity in identities if await catalogue.get(identity) is None]

    try:
        return catalogue_access.run(config, read) if identities else []
    except errors.CatalogueUnavailable:
        return []


@command.command()
@click.argument("identities", metavar="[IDENTITY]...", nargs=-1)
@options.external_ids
@click.option("--all", "is_all", is_flag=True, help="All sessions that the service has refused.")
@options.with_settings
def retry(
    config: settings.Settings, identities: tuple[str, ...], external_ids: tuple[str, ...], principal: str, is_all: bool
) -> None:
    """Have sessions published again: those that are named, as a whole, or all that were refused.

    A session that ended before publishing was set up, or that the service has lost, can be published so too.

    \b
    Examples:  rta-supervisor publish retry run-17
               rta-supervisor publish retry --external-id job-4711
               rta-supervisor publish retry --all
    """
    names = options.check_names(SessionNames(identities, external_ids, principal))
    if bool(names.identities or names.external_ids) is is_all:
        raise errors.Usage(reason="Name sessions, or use --all for those that were refused.")
    if not config.publish.is_on:
        raise errors.Usage(reason="publish.session_address is not set: nothing is published.")
    resolved = one_shot.run(config, lambda link: session_lookup.resolve(link, config, names))
    unsaved = _unsaved(config, resolved)

    async def send(link: Link) -> None:
        for identity in unsaved:
            await session_lookup.require_session(queries.RedisQueries(link, config), identity)
        key = config.keys.publish_retries()
        await link.do_all(
            [
                ("XADD", key, "MAXLEN", "~", RETRIES_MAX, "*", keys.RETRY_IDENTITY, identity)
                for identity in resolved or [""]
            ]
        )

    one_shot.run(config, send)
    click.echo("whoever publishes tries again" if is_all else f"{len(resolved)} to be published again")
