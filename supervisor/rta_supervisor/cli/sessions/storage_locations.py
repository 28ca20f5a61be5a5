"""Where the data of a session is, as `sessions show` prints it: in Redis, live and cold, and in the archive."""

from pathlib import Path
from typing import Any, Final

import msgspec
from rich.table import Table

from rta_supervisor.archive import manifest
from rta_supervisor.catalogue.model import StorageLocation
from rta_supervisor.cli import output
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import errors, keys
from rta_wire.archive import names
from rta_wire.archive.manifest import PartManifest
from rta_wire.stream import cold_index

LIVE: Final = "live"
COLD: Final = "cold"
PART: Final = "part"
DAMAGED: Final = "damaged part"
OF_REDIS: Final = (LIVE, COLD)
"""Kinds that Redis is asked for: what the catalogue noted of them may be gone."""
PARTS_SHOWN: Final = 2
"""A closed session with fewer parts is shown by its folder alone."""


def archived_parts(identity: str, location: StorageLocation) -> list[StorageLocation]:
    """The parts of a session in the archive, where its folder can be seen from this host and has several."""
    try:
        archive = manifest.read_session(Path(location.location), identity)
    except (errors.ArchiveDamaged, OSError):
        return []
    if archive.whole is not None and archive.next_number <= PARTS_SHOWN and not archive.damaged:
        return []
    parts = {part.number: part for part in archive.parts}
    return [
        _part_location(location, number, parts.get(number), DAMAGED if number in archive.damaged else PART)
        for number in range(1, archive.next_number)
    ]


def _part_location(location: StorageLocation, number: int, part: PartManifest | None, kind: str) -> StorageLocation:
    """Where a part is. None: its manifest can't be read, and nothing is known of it."""
    return msgspec.structs.replace(
        location,
        kind=kind,
        location=str(Path(location.location) / names.part_manifest(number)),
        first_id=part.first_id if part is not None else "",
        last_id=part.last_id if part is not None else "",
        entries=part.entries if part is not None else 0,
        size_bytes=part.size_bytes if part is not None else 0,
    )


async def in_redis(link: Link, config: settings.Settings, stream: str) -> list[StorageLocation]:
    """The live and the cold part of a stream as Redis has them now: what the catalogue noted of them may be gone."""
    info, memory, raw_extent = await link.try_all(
        [
            ("XINFO", "STREAM", keys.stream(stream)),
            ("MEMORY", "USAGE", keys.stream(stream)),
            ("HGET", config.keys.cold_index(), stream),
        ]
    )
    locations: list[StorageLocation] = []
    if not isinstance(raw_extent, Exception) and (cold := cold_index.parse(raw_extent)) is not None:
        locations.append(
            StorageLocation(
                stream=stream,
                stream_session_id=0,
                kind=COLD,
                location=keys.cold_stream(stream),
                first_id=cold.first_id,
                last_id=cold.last_id,
                entries=cold.entries,
                size_bytes=cold.size_bytes,
                noted_ms=cold.noted_ms,
            )
        )
    live: dict[bytes, Any] = {} if isinstance(info, Exception) else pairs_to_dict(info)
    if live.get(b"length"):
        locations.append(
            StorageLocation(
                stream=stream,
                stream_session_id=0,
                kind=LIVE,
                location=keys.stream(stream),
                first_id=live[b"first-entry"][0].decode(),
                last_id=live[b"last-entry"][0].decode(),
                entries=live[b"length"],
                size_bytes=memory if isinstance(memory, int) else 0,
                noted_ms=now_ms(),
            )
        )
    return locations


def kinds(locations: list[StorageLocation]) -> str:
    """The kinds of places, in words."""
    kinds = dict.fromkeys(location.kind for location in locations)
    return ", ".join(kinds) if kinds else "nowhere any more"


def table(locations: list[StorageLocation]) -> Table:
    """A row for each place."""
    rows = output.table("data", "where", "of", "entries", "bytes", "first", "last", right=("entries", "bytes"))
    for location in locations:
        rows.add_row(
            location.kind,
            output.escape(location.location),
            "this session" if location.stream_session_id else "the stream",
            output.count(location.entries),
            output.size(location.size_bytes),
            location.first_id,
            location.last_id,
        )
    return rows
