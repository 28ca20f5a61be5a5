"""`rta-supervisor sessions show`: everything about one session, and where its data is."""

from typing import Any, Final

import click
import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rta_supervisor.catalogue.model import Catalogue, CatalogueRow, StorageLocation
from rta_supervisor.cli import catalogue_access, options, output
from rta_supervisor.cli.sessions import export
from rta_supervisor.control import client as control_client
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe import queries
from rta_supervisor.session import store as sessions_
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import errors, keys
from rta_wire.control.totals import Totals
from rta_wire.stream import cold_index

LIVE: Final = "live"
COLD: Final = "cold"


class SessionDetails(msgspec.Struct, frozen=True):
    """What `sessions show --json` prints."""

    session: queries.SessionSummary
    document: msgspec.Raw
    """Session JSON as its readers have it."""
    units: dict[str, Totals]
    expires_s: int | None
    """None: Redis has forgotten it, and this is what the catalogue knows."""
    places: list[StorageLocation]
    catalogue_error: str
    """Why the catalogue could not be asked where else the data is; empty where it could."""


@click.command()
@click.argument("identity")
@options.as_json
@options.with_settings
def show(loaded: settings.Settings, identity: str, as_json: bool) -> None:
    """Everything about one session: its JSON, its time range, who wrote how much, where its data is.

    One that Redis has forgotten is looked up in the catalogue.

    \b
    Examples:  rta-supervisor sessions show run-17
               rta-supervisor sessions show run-17 --json | jq .document.details
    """
    found = one_shot.run(loaded, lambda link: load_details(link, loaded, identity))
    if as_json:
        output.print_json(found)
    else:
        output.console().print(_page(found))


async def load_details(link: Link, loaded: settings.Settings, identity: str) -> SessionDetails:
    view = queries.RedisQueries(link, loaded)
    line = await view.session(identity)
    row: CatalogueRow | None = None
    places: list[StorageLocation] = []
    error = ""
    try:
        row, places = await catalogue_access.with_catalogue(
            loaded, lambda catalogue: _catalogued(catalogue, identity, line)
        )
    except errors.CatalogueUnavailable as unavailable:
        error = str(unavailable)
    if line is None and row is not None:
        is_json = export.document(row) != {}
        return SessionDetails(
            session=_line(row),
            document=msgspec.Raw(row.json.encode() if is_json else b"null"),
            units={},
            expires_s=None,
            places=[*await _in_redis(link, loaded, row.stream), *places],
            catalogue_error=error,
        )
    line = await control_client.require_session(view, identity)
    known = await sessions_.SessionStore(link, loaded).read(identity)
    units = {} if known is None else known.unit_totals
    return SessionDetails(
        session=line,
        document=msgspec.Raw(known.document if known is not None and known.document else b"null"),
        units={unit: Totals.from_words(words.split(" ")) for unit, words in sorted(units.items())},
        expires_s=await link.do("TTL", loaded.keys.session(identity)),
        places=[*await _in_redis(link, loaded, line.stream), *places],
        catalogue_error=error,
    )


async def _catalogued(
    catalogue: Catalogue, identity: str, line: queries.SessionSummary | None
) -> tuple[CatalogueRow | None, list[StorageLocation]]:
    """The row of a session, and where its data is besides Redis."""
    row = await catalogue.get(identity)
    if line is not None:
        stream, number = line.stream, line.stream_session_id
    elif row is not None:
        stream, number = row.stream, row.stream_session_id
    else:
        return None, []
    found = await catalogue.locations(stream)
    return row, [place for place in found if place.stream_session_id in (0, number) and place.kind not in (LIVE, COLD)]


async def _in_redis(link: Link, loaded: settings.Settings, stream: str) -> list[StorageLocation]:
    """The stream as it is now, live and cold: what a catalogue noted of it may be gone since."""
    info, memory, raw = await link.try_all(
        [
            ("XINFO", "STREAM", keys.stream(stream)),
            ("MEMORY", "USAGE", keys.stream(stream)),
            ("HGET", loaded.keys.cold_index(), stream),
        ]
    )
    places: list[StorageLocation] = []
    if not isinstance(raw, Exception) and (cold := cold_index.parse(raw)) is not None:
        ends = (cold.first_id, cold.last_id)
        places.append(
            StorageLocation(
                stream, 0, COLD, keys.cold_stream(stream), *ends, cold.entries, cold.size_bytes, cold.noted_ms
            )
        )
    found: dict[bytes, Any] = {} if isinstance(info, Exception) else pairs_to_dict(info)
    if found.get(b"length"):
        ends = (found[b"first-entry"][0].decode(), found[b"last-entry"][0].decode())
        size_bytes = memory if isinstance(memory, int) else 0
        places.append(
            StorageLocation(stream, 0, LIVE, keys.stream(stream), *ends, found[b"length"], size_bytes, now_ms())
        )
    return places


def _line(row: CatalogueRow) -> queries.SessionSummary:
    return queries.SessionSummary(
        **{name: getattr(row, name) for name in ("identity", "state", "stream", "stream_session_id", "principal")},
        opened_ms=row.opened_ms,
        heard_ms=None,
        lost_data=False,
        **msgspec.structs.asdict(row.totals),
    )


def _page(found: SessionDetails) -> Group:
    one = found.session
    at_ms = now_ms()
    raw = bytes(found.document)
    document = msgspec.json.decode(raw) or {}
    facts: list[tuple[str, Text | str]] = [
        ("session", output.escape(one.identity)),
        ("identifier", output.escape(str(document.get("identifier", output.EMPTY_CELL)))),
        ("state", output.state(one.state) + Text(" (Redis lost data of it)" if one.lost_data else "", style="red")),
        ("stream", f"{one.stream}, id {one.stream_session_id}"),
        ("principal", output.escape(one.principal)),
        ("opened", f"{output.format_time_ms(one.opened_ms)}, {output.ago(one.opened_ms, at_ms)} ago"),
        ("heard of", f"{output.ago(one.heard_ms, at_ms)} ago" if one.heard_ms is not None else "put away"),
        ("from", output.format_time_ns(one.start_ns)),
        ("to", output.format_time_ns(one.end_ns)),
        ("samples", f"{output.count(one.samples)} in {output.count(one.bursts)} bursts"),
        ("bytes", f"{output.size(one.stored_bytes)}, {output.size(one.raw_bytes)} before compression"),
        ("expires", _expiry(found.expires_s)),
        ("data", output.escape(found.catalogue_error) if found.catalogue_error else _summary(found.places)),
    ]
    units = output.table("unit", "bursts", "samples", "to", right=("bursts", "samples"))
    for name, totals in found.units.items():
        units.add_row(
            output.escape(name),
            output.count(totals.bursts),
            output.count(totals.samples),
            output.format_time_ns(totals.end_ns),
        )
    text = Text(output.pretty_json(raw))
    tables = [*((_places(found.places), "") if found.places else ()), *((units, "") if found.units else ())]
    parts: list[RenderableType] = [output.key_value_table(facts), "", *tables, text]
    return Group(*parts)


def _expiry(expires_s: int | None) -> str:
    if expires_s is None:
        return "Redis has forgotten it: rta-supervisor sessions resurrect brings it back"
    return f"in {output.duration(expires_s)}, renewed while it is open"


def _summary(places: list[StorageLocation]) -> str:
    return "nowhere any more" if not places else ", ".join(dict.fromkeys(place.kind for place in places))


def _places(places: list[StorageLocation]) -> Table:
    made = output.table("data", "where", "of", "entries", "bytes", "first", "last", right=("entries", "bytes"))
    for place in places:
        made.add_row(
            *(place.kind, output.escape(place.location), "this session" if place.stream_session_id else "the stream"),
            *(output.count(place.entries), output.size(place.size_bytes), place.first_id, place.last_id),
        )
    return made
