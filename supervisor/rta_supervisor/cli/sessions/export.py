"""`rta-supervisor sessions export`: rows of the catalogue as JSON lines or CSV, read and written page by page."""

import contextlib
import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TextIO

import click
import msgspec

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import CatalogueRow, Query
from rta_supervisor.cli import catalogue_access, options, output, query_options
from rta_supervisor.cli.catalogue_access import CatalogueLine
from rta_supervisor.settings import settings
from rta_wire import errors

STDOUT: Final = "-"
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Characters that a spreadsheet takes for the beginning of a formula."""


class ExportedSession(CatalogueLine, frozen=True):
    """One session in an export: its line of the catalogue and its Session JSON."""

    document: Any = None


@click.command()
@query_options.search_options
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["json", "csv"]),
    help="json: one JSON object a line. Without it: csv for a file called .csv, else json.",
)
@click.option(
    "--output", "-o", "target", default=STDOUT, metavar="FILE", help="Written whole or not at all; -: standard output."
)
@options.with_settings
def export(config: settings.Settings, query: Query, format_name: str | None, target: str) -> None:
    """Write sessions of the catalogue as JSON lines or CSV, newest first.

    Times are whole nanoseconds. In CSV, text that a spreadsheet would take for a formula has an apostrophe before it.

    \b
    Examples:  rta-supervisor sessions export --since 30d -o sessions.csv
               rta-supervisor sessions export --state failed | jq -r .identity
    """
    is_csv = format_name == "csv" or (format_name is None and Path(target).suffix.lower() == ".csv")
    with _open_target(target) as file:
        write = _csv_writer(file) if is_csv else _json_writer(file)
        count = catalogue_access.run(config, lambda catalogue: _export(catalogue, query, write))
    if target != STDOUT:
        output.console(stderr=True).print(f"{count:,} {'session' if count == 1 else 'sessions'} in {target}")


async def _export(catalogue: Catalogue, query: Query, write: Callable[[CatalogueRow], None]) -> int:
    """Writes every row that the query finds, and gives their number."""
    count = 0
    async for row in catalogue_access.search_rows(catalogue, query):
        write(row)
        count += 1
    return count


@contextlib.contextmanager
def _open_target(target: str) -> Iterator[TextIO]:
    """Standard output, or a file that gets its name once it is whole."""
    if target == STDOUT:
        yield output.utf8_stdout()
        return
    path = Path(target)
    part_path = path.with_name(f"{path.name}.part")
    try:
        with part_path.open("w", encoding="utf-8", newline="") as file:
            yield file
        part_path.replace(path)
    except OSError as error:
        raise errors.Usage(reason=f"{target} can't be written: {error.strerror}.") from error
    finally:
        part_path.unlink(missing_ok=True)


def _json_writer(file: TextIO) -> Callable[[CatalogueRow], None]:
    def write(row: CatalogueRow) -> None:
        document = msgspec.Raw(row.json.encode()) if catalogue_access.parse_document(row) else None
        exported = ExportedSession(**catalogue_access.line_fields(row), document=document)
        file.write(msgspec.json.encode(exported).decode() + "\n")

    return write


def _csv_writer(file: TextIO) -> Callable[[CatalogueRow], None]:
    columns = (*CatalogueLine.__struct_fields__, "json")
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(columns)

    def write(row: CatalogueRow) -> None:
        fields = {**catalogue_access.line_fields(row), "state": row.state.value, "json": row.json}
        writer.writerow([_csv_cell(fields[column]) for column in columns])

    return write


def _csv_cell(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula begins with an apostrophe."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value
