"""`rta-supervisor sessions show`: everything about one session, and where its data is."""

import click
import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import CatalogueRow, StorageLocation
from rta_supervisor.catalogue.publications.model import PublicationStatus
from rta_supervisor.cli import catalogue_access, options, output, session_lookup
from rta_supervisor.cli.options import SessionNames
from rta_supervisor.cli.sessions import bound_configs, storage_locations
from rta_supervisor.cli.sessions.bound_configs import BoundConfig
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe import queries, summaries
from rta_supervisor.session import store as session_store
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_wire import errors
from rta_wire.control.totals import Totals


class SessionDetails(msgspec.Struct, frozen=True):
    """What `sessions show --json` prints."""

    session: summaries.SessionSummary
    document: msgspec.Raw
    """Session JSON as its readers have it."""
    units: dict[str, Totals]
    expires_s: int | None
    """None: Redis has forgotten the session, and all of this comes from the catalogue."""
    places: list[StorageLocation]
    catalogue_error: str
    """Why the catalogue could not be asked where else the data is; empty where it could."""
    configs: list[BoundConfig] = []
    """What its channels are."""
    publication: PublicationStatus | None = None
    """What a Session Service was told of it; None where it is not published."""


@click.command()
@options.named_session
@options.as_json
@options.with_settings
def show(config: settings.Settings, names: SessionNames, as_json: bool) -> None:
    """Show one session: its JSON, its time range, its configurations, who wrote how much, where its data is.

    One that Redis has forgotten is looked up in the catalogue.

    \b
    Examples:  rta-supervisor sessions show run-17
               rta-supervisor sessions show --external-id job-4711
               rta-supervisor sessions show run-17 --json | jq .document.details
    """
    details = one_shot.run(config, lambda link: _load_named(link, config, names))
    if as_json:
        output.print_json(details)
    else:
        output.console().print(_page(details))


async def _load_named(link: Link, config: settings.Settings, names: SessionNames) -> SessionDetails:
    return await load_details(link, config, await session_lookup.resolve_one(link, config, names))


async def load_details(link: Link, config: settings.Settings, identity: str) -> SessionDetails:
    """Details of a session out of Redis, else out of the catalogue. NoSuchSession: neither has it."""
    redis_queries = queries.RedisQueries(link, config)
    summary = await redis_queries.session(identity)
    row: CatalogueRow | None = None
    locations: list[StorageLocation] = []
    publication: PublicationStatus | None = None
    catalogue_error = ""
    try:
        row, locations, publication = await catalogue_access.with_catalogue(
            config, lambda catalogue: _read_catalogue(catalogue, identity, summary)
        )
    except errors.CatalogueUnavailable as error:
        catalogue_error = str(error)
    if summary is None and row is not None:
        is_json = catalogue_access.parse_document(row) != {}
        document = row.json.encode() if is_json else b"null"
        return SessionDetails(
            session=_summary_of_row(row),
            document=msgspec.Raw(document),
            units={},
            expires_s=None,
            places=[*await storage_locations.in_redis(link, config, row.stream), *locations],
            catalogue_error=catalogue_error,
            configs=await bound_configs.load(link, config, document),
            publication=publication,
        )
    summary = await session_lookup.require_session(redis_queries, identity)
    store = session_store.SessionStore(link, config)
    record = await store.read(identity)
    document = record.document if record is not None and record.document else b"null"
    return SessionDetails(
        session=summary,
        document=msgspec.Raw(document),
        units=dict(sorted((await store.all_unit_totals(identity)).items())),
        expires_s=await link.do("TTL", config.keys.session(identity)),
        places=[*await storage_locations.in_redis(link, config, summary.stream), *locations],
        catalogue_error=catalogue_error,
        configs=await bound_configs.load(link, config, document),
        publication=publication,
    )


async def _read_catalogue(
    catalogue: Catalogue, identity: str, summary: summaries.SessionSummary | None
) -> tuple[CatalogueRow | None, list[StorageLocation], PublicationStatus | None]:
    """The row of a session, where its data is besides Redis, and what was published of it."""
    row = await catalogue.get(identity)
    session = row if summary is None else summary
    if session is None:
        return None, [], None
    locations = [
        place
        for location in await catalogue.locations(session.stream)
        if location.stream_session_id in (0, session.stream_session_id)
        and location.kind not in storage_locations.OF_REDIS
        for place in (location, *storage_locations.archived_parts(identity, location))
    ]
    return row, locations, await catalogue.publications.get(identity)


def _summary_of_row(row: CatalogueRow) -> summaries.SessionSummary:
    return summaries.SessionSummary(
        identity=row.identity,
        state=row.state,
        stream=row.stream,
        stream_session_id=row.stream_session_id,
        principal=row.principal,
        opened_ms=row.opened_ms,
        heard_ms=None,
        lost_data=False,
        **msgspec.structs.asdict(row.totals),
    )


def _page(details: SessionDetails) -> Group:
    session = details.session
    at_ms = now_ms()
    raw_document = bytes(details.document)
    document = msgspec.json.decode(raw_document) or {}
    lost_data = " (Redis lost data of it)" if session.lost_data else ""
    spoilt = [("spoilt", Text(output.escape(session.spoilt), style="red"))] if session.spoilt else []
    facts: list[tuple[str, Text | str]] = [
        ("session", output.escape(session.identity)),
        ("identifier", output.escape(str(document.get("identifier", output.EMPTY_CELL)))),
        ("state", output.state(session.state) + Text(lost_data, style="red")),
        ("stream", f"{session.stream}, id {session.stream_session_id}"),
        ("principal", output.escape(session.principal)),
        ("opened", f"{output.format_time_ms(session.opened_ms)}, {output.ago(session.opened_ms, at_ms)} ago"),
        ("heard of", f"{output.ago(session.heard_ms, at_ms)} ago" if session.heard_ms is not None else "put away"),
        ("from", output.format_time_ns(session.start_ns)),
        ("to", output.format_time_ns(session.end_ns)),
        ("samples", f"{output.count(session.samples)} in {output.count(session.bursts)} bursts"),
        ("bytes", f"{output.size(session.stored_bytes)}, {output.size(session.raw_bytes)} before compression"),
        ("expires", _expiry(details.expires_s)),
        *_published(details.publication, at_ms),
        *spoilt,
        (
            "data",
            output.escape(details.catalogue_error)
            if details.catalogue_error
            else storage_locations.kinds(details.places),
        ),
    ]
    parts: list[RenderableType] = [output.key_value_table(facts), ""]
    if details.configs:
        parts += [bound_configs.table(details.configs), ""]
    if details.places:
        parts += [storage_locations.table(details.places), ""]
    if details.units:
        parts += [_units_table(details.units), ""]
    return Group(*parts, Text(output.pretty_json(raw_document)))


def _expiry(expires_s: int | None) -> str:
    if expires_s is None:
        return "Redis has forgotten it: rta-supervisor sessions resurrect brings it back"
    return f"in {output.duration(expires_s)}, renewed while it is open"


def _published(publication: PublicationStatus | None, at_ms: int) -> list[tuple[str, Text | str]]:
    """When a Session Service was last told of a session, and whether it knows all."""
    if publication is None:
        return []
    rows: list[tuple[str, Text | str]] = []
    if publication.refused:
        rows.append(("refused", Text(output.escape(publication.refused), style="red")))
    if not publication.told_ms:
        return [*rows, ("published", "not yet")]
    told = f"{output.format_time_ms(publication.told_ms)}, {output.ago(publication.told_ms, at_ms)} ago"
    end = "" if publication.is_pending else ", to its end"
    return [*rows, ("published", f"{told}, sequence {publication.sequence}{end}")]


def _units_table(units: dict[str, Totals]) -> Table:
    table = output.table("unit", "bursts", "samples", "to", right=("bursts", "samples"))
    for unit, totals in units.items():
        table.add_row(
            output.escape(unit),
            output.count(totals.bursts),
            output.count(totals.samples),
            output.format_time_ns(totals.end_ns),
        )
    return table
