"""Channels in a CSV: a line with the names of columns, then a channel in each line. Cells to plain values and back."""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from rta_wire.channels import json_text, plain, plain_errors

COLUMNS: Final = tuple(field.name for field in msgspec.structs.fields(plain.PlainChannel))
_NAME: Final = "name"
_CONVERSION: Final = "conversion"


class LineMistake(msgspec.Struct, frozen=True):
    """What is wrong with a line."""

    line: int
    reason: str
    where: str = ""
    """The channel; empty where it is none."""


class CsvChannels(msgspec.Struct, frozen=True):
    """The channels of a CSV as plain values, the line on which each begins, and the mistakes in how it is written."""

    channels: list[dict[str, Any]] = []
    lines: list[int] = []
    mistakes: list[LineMistake] = []


def read(text: str) -> CsvChannels:
    """The channels of a CSV. Its separator is that of the first line: many countries' spreadsheets write semicolons."""
    found = CsvChannels([], [], [])
    text = text.removeprefix("\ufeff")
    header_line = text.partition("\n")[0]
    delimiter = max(",;\t", key=header_line.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    first_line = 1
    try:
        # A spreadsheet makes the first letter of a cell a capital.
        header = [cell.strip().lower() for cell in next(reader, [])]
        found.mistakes.extend(LineMistake(1, reason) for reason in _header_mistakes(header))
        first_line = reader.line_num + 1
        for row in reader if _NAME in header else ():
            if any(cell.strip() for cell in row):
                _add_channel(found, header, row, first_line)
            first_line = reader.line_num + 1
    except csv.Error as error:
        is_open = "expected after" not in str(error)  # a cell goes on to the end of the file, or of what is read
        reason = f"a cell of it has no end, perhaps a quote is missing: {error}" if is_open else str(error)
        found.mistakes.append(LineMistake(first_line if is_open else reader.line_num, reason))
    return found


def dump(channels: Sequence[Mapping[str, Any]]) -> str:
    """Channels as the text of a CSV, which `read` reads back."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for channel in channels:
        cells = dict(channel)
        if _CONVERSION in cells:
            cells[_CONVERSION] = json.dumps(cells[_CONVERSION], ensure_ascii=False)
        writer.writerow(cells)
    return out.getvalue()


def _header_mistakes(header: Sequence[str]) -> Iterator[str]:
    if _NAME not in header:
        yield f"the first line names the columns, and there is none called {_NAME!r}"
    for column in dict.fromkeys(filter(None, header)):
        if column not in COLUMNS:
            yield f"there is no column {column!r}. It knows {', '.join(COLUMNS)}"
        elif header.count(column) > 1:
            yield f"column {column!r} stands there twice"


def _add_channel(found: CsvChannels, header: Sequence[str], row: Sequence[str], line: int) -> None:
    cells = {column: cell.strip() for column, cell in zip(header, row, strict=False) if column in COLUMNS}
    channel: dict[str, Any] = {column: cell for column, cell in cells.items() if cell}
    where = f"channel {channel[_NAME]!r}" if _NAME in channel else ""
    if len(row) > len(header):
        reason = f"it has {len(row)} cells, and the first line names {len(header)} columns"
        found.mistakes.append(LineMistake(line, reason, where))
    # Spreadsheets write empty columns beside those that were filled in.
    for place, (column, cell) in enumerate(zip(header, row, strict=False), 1):
        if not column and cell.strip():
            reason = (
                f"its cell {place} has {plain_errors.shown(cell.strip())}, and the first line names no column there"
            )
            found.mistakes.append(LineMistake(line, reason, where))
    if _CONVERSION in channel:
        try:
            channel[_CONVERSION], has_repeated = json_text.parse(channel[_CONVERSION])
            if has_repeated:
                found.mistakes.append(LineMistake(line, "a key stands twice in its conversion", where))
        except (ValueError, RecursionError) as error:
            del channel[_CONVERSION]
            found.mistakes.append(LineMistake(line, f"its conversion is not JSON: {error}", where))
    found.channels.append(channel)
    found.lines.append(line)
