"""Templates of stream names: `{topic}-{partition}` names a stream by the columns of a row."""

import re
from typing import Any, Final, Self

import msgspec

from rta_wire import errors, name_checks

STREAM_COLUMN: Final = "stream"

_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")


class StreamTemplate(msgspec.Struct, frozen=True):
    """The name of a stream, with columns in braces. Without any it is the name itself."""

    text: str
    columns: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises where no row could have a valid name by it."""
        columns = tuple(_PLACEHOLDER.findall(text))
        if "" in columns:
            raise errors.Usage(reason=f"Stream {text!r} has braces without the name of a column")
        template = cls(text, columns)
        if columns:
            template.render(dict.fromkeys(columns, 0))
        else:
            name_checks.check_stream_name(text)
        return template

    def render(self, values: dict[str, Any]) -> str:
        """The stream of a row with these values. A name that begins with '.', '_' or '-' is escaped."""
        return name_checks.escape_stream_name(_PLACEHOLDER.sub(lambda match: str(values[match[1]]), self.text))


BY_COLUMN: Final = StreamTemplate.parse(f"{{{STREAM_COLUMN}}}")
"""Each row names its stream."""
