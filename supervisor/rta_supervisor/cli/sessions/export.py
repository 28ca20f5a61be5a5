"""`rta-supervisor sessions export`: rows of the catalogue as JSON lines or CSV, however many there are."""

import contextlib
import csv
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Final, TextIO

import click
import msgspec

from rta_supervisor.catalogue.model import Catalogue, CatalogueRow, Query
from rta_supervisor.cli import catalogue_access, options, query_options
from rta_supervisor.cli import output as cli_output
from rta_supervisor.settings import settings
from rta_wire import errors
from rta_wire.session import State

STDOUT: Final = "-"
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet takes for the beginning of a formula."""


class CatalogueLine(msgspec.Struct, frozen=True):
    """One session in the catalogue, as `--json` and an export print it."""

    identity: str
    identifier: str
    state: State
    stream: str
    stream_session_id: int
    principal: str
    opened_ms: int
    updated_ms: int
    bursts: int
    samples: int
    raw_bytes: int
    stored_bytes: int
    start_ns: int | None
    end_ns: int | None
    version: int


class ExportedSession(CatalogueLine, frozen=True):
    """The same with its Session JSON."""

    document: Any = None


def line(row: CatalogueRow) -> CatalogueLine:
    return CatalogueLine(**_facts(row))


def _facts(row: CatalogueRow) -> dict[str, Any]:
    found = document(row)
    return {
        "identity": row.identity,
        "identifier": str(found.get("identifier", "")),
        "state": row.state,
        "stream": row.stream,
        "stream_session_id": row.stream_session_id,
        "principal": row.principal,
        "opened_ms": row.opened_ms,
        "updated_ms": row.updated_ms,
        "version": row.version,
        **msgspec.structs.asdict(row.totals),
    }


def document(row: CatalogueRow) -> dict[str, Any]:
    """Its Session JSON. A row that somebody spoilt keeps nobody from the others: it has none."""
    try:
        return msgspec.json.decode(row.json, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError):
        return {}


@click.command()
@query_options.search_options
@click.option(
    "--format", "how", type=click.Choice(["json", "csv"]), help="json: a line for each. Else by the file's name."
)
@click.option("--output", "-o", default=STDOUT, metavar="FILE", help="Written whole or not at all; -: standard output.")
@options.with_settings
def export(loaded: settings.Settings, query: Query, how: str | None, output: str) -> None:
    """Write sessions of the catalogue as JSON lines or CSV, newest first.

    Times are whole nanoseconds. In CSV, text that a spreadsheet would take for a formula has an apostrophe before it.

    \b
    Examples:  rta-supervisor sessions export --since 30d -o sessions.csv
               rta-supervisor sessions export --state failed | jq -r .identity
    """
    is_csv = how == "csv" or (how is None and Path(output).suffix.lower() == ".csv")
    with _opened(output) as file:
        write = _csv(file) if is_csv else _json(file)
        count = catalogue_access.run(loaded, lambda catalogue: _export(catalogue, query, write))
    if output != STDOUT:
        cli_output.console(stderr=True).print(f"{count:,} {'session' if count == 1 else 'sessions'} in {output}")


async def _export(catalogue: Catalogue, query: Query, write: Callable[[CatalogueRow], None]) -> int:
    count = 0
    rows: AsyncIterator[CatalogueRow] = catalogue_access.search_rows(catalogue, query)
    async for row in rows:
        write(row)
        count += 1
    return count


@contextlib.contextmanager
def _opened(output: str) -> Iterator[TextIO]:
    """A file that gets its name once it is whole."""
    if output == STDOUT:
        yield sys.stdout
        return
    path = Path(output)
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("w", encoding="utf-8", newline="") as file:
            yield file
        part.replace(path)
    except OSError as error:
        raise errors.Usage(reason=f"{output} can't be written: {error.strerror}.") from error
    finally:
        part.unlink(missing_ok=True)


def _json(file: TextIO) -> Callable[[CatalogueRow], None]:
    def write(row: CatalogueRow) -> None:
        raw = msgspec.Raw(row.json.encode()) if document(row) else None
        file.write(msgspec.json.encode(ExportedSession(**_facts(row), document=raw)).decode() + "\n")

    return write


def _csv(file: TextIO) -> Callable[[CatalogueRow], None]:
    names = (*CatalogueLine.__struct_fields__, "json")
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(names)

    def write(row: CatalogueRow) -> None:
        facts = {**_facts(row), "state": row.state.value, "json": row.json}
        writer.writerow([_cell(facts[name]) for name in names])

    return write


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
