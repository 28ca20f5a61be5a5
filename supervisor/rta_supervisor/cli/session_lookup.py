"""Finds what a command names, a session by its identity or external id or a stream, or suggests what was meant."""

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.cli import catalogue_access, output
from rta_supervisor.cli.options import SessionNames
from rta_supervisor.observe import queries, summaries
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import day_streams, errors, name_checks


async def require_session(redis_queries: queries.RedisQueries, identity: str) -> summaries.SessionSummary:
    """The session of that identity, or an error that names the live session with the most similar identity."""
    summary = await redis_queries.session(identity)
    if summary is not None:
        return summary
    nearest = output.nearest(identity, await redis_queries.identities())
    raise errors.NoSuchSession(identity=identity, nearest=nearest)


async def require_stream(redis_queries: queries.RedisQueries, name: str) -> list[str]:
    """The streams of that name: of a source its days as well. Else an error that names the most similar source."""
    name_checks.check_stream_name(name)
    if streams := await redis_queries.streams_of(name):
        return streams
    nearest = output.nearest(name, map(day_streams.source_of, await redis_queries.used_streams()))
    raise errors.NoSuchStream(stream=name, nearest=nearest)


async def resolve(link: Link, config: settings.Settings, names: SessionNames) -> list[str]:
    """Identities of all sessions that a command names: those that it names so, then those of external ids."""
    principals = [names.principal] if names.principal else list(config.control.principals)
    found = [
        await _identity_of(link, config, name_checks.check_external_id(external_id), principals, names.principal)
        for external_id in names.external_ids
    ]
    return list(dict.fromkeys([*names.identities, *found]))


async def resolve_one(link: Link, config: settings.Settings, names: SessionNames) -> str:
    """The identity of the one session that a command names."""
    [identity] = await resolve(link, config, names)
    return identity


async def _identity_of(
    link: Link, config: settings.Settings, external_id: str, principals: list[str], principal: str
) -> str:
    """The session of an external id: in Redis, else the newest in the catalogue.

    `principal`: empty where it may be of any. Then `principals` are those of the settings.
    """
    identities = await queries.RedisQueries(link, config).identities_of_external_id(external_id, principals)
    if not identities:
        identities = await catalogue_access.with_catalogue(
            config, lambda catalogue: _identities_in_catalogue(catalogue, external_id, principal)
        )
    if not identities:
        whose = f"principal {principal!r}" if principal else "any principal"
        raise errors.UnknownExternalId(external_id=external_id, principals=whose)
    if len(identities) > 1:
        raise errors.AmbiguousExternalId(external_id=external_id, principals=", ".join(map(repr, sorted(identities))))
    return next(iter(identities.values()))


async def _identities_in_catalogue(catalogue: Catalogue, external_id: str, principal: str) -> dict[str, str]:
    """Identities of the newest session with an external id, by principal."""
    rows = [row for row in await catalogue.external_ids(external_id) if principal in ("", row.principal)]
    return {row.principal: row.identity for row in reversed(rows)}
