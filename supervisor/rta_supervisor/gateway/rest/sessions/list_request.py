"""What a request for sessions asks for: page, order, query, and properties of `extDetails`. Pure."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from starlette.datastructures import ImmutableMultiDict

from rta_supervisor.gateway.rest.sessions.listed_session import ListedSession
from rta_supervisor.gateway.rest.sessions.session_table import SessionQuery
from rta_supervisor.settings import settings
from rta_wire import errors
from rta_wire.query import criteria, sort_order
from rta_wire.session import Json

PAGE_SIZE: Final = 100
PAGE_MAX_SESSIONS: Final = 1000
PAGE_INDEX_MAX: Final = 10**9
PROPS_MAX: Final = 100
EXTENSIONS: Final = "extDetails"


class ListRequest(msgspec.Struct, frozen=True):
    """A page of sessions, as a request asks for it."""

    query: SessionQuery
    folder: str
    props: tuple[str, ...]

    @classmethod
    def parse(cls, fields: ImmutableMultiDict[str, Any], config: settings.GatewaySettings) -> "ListRequest":
        """From the query of a GET or the form of a POST. Raises `BadQuery`."""
        size = _number(fields, "pageSize", PAGE_SIZE, 1, PAGE_INDEX_MAX)
        size = min(size, PAGE_MAX_SESSIONS)
        first = _number(fields, "pageIndex", 0, 0, PAGE_INDEX_MAX) * size
        props = _texts(fields, "prop")
        if len(props) > PROPS_MAX:
            raise errors.BadQuery(where="prop", reason=f"it is there more than {PROPS_MAX} times")
        criterion = criteria.parse(_text(fields, "query"), max_chars=config.query_chars, max_depth=config.query_depth)
        sort = sort_order.parse(_texts(fields, "sort"))
        return cls(SessionQuery(criterion, sort, first, size), _text(fields, "folder"), tuple(props))

    def shown(self, row: ListedSession) -> Json:
        """A session as the list has it: `extDetails` only where they are asked for."""
        document = row.document()
        extensions = document.pop(EXTENSIONS, None)
        if isinstance(extensions, dict) and (chosen := _choose(extensions, self.props)):
            document[EXTENSIONS] = chosen
        return document


def _choose(extensions: Json, props: Sequence[str]) -> Json:
    chosen: Json = {}
    for prop in props:
        root, _, path = prop.partition(".")
        if root != EXTENSIONS:
            continue
        for group, values in extensions.items():
            if path in ("", group):
                chosen[group] = values
            elif path.startswith(f"{group}.") and isinstance(values, dict):
                name = path[len(group) + 1 :]
                if name in values and chosen.get(group) is not values:
                    chosen[group] = chosen.get(group, {}) | {name: values[name]}
    return chosen


def _texts(fields: ImmutableMultiDict[str, Any], name: str) -> list[str]:
    return [value for value in fields.getlist(name) if isinstance(value, str)]


def _text(fields: ImmutableMultiDict[str, Any], name: str) -> str:
    return next(iter(_texts(fields, name)), "")


def _number(fields: ImmutableMultiDict[str, Any], name: str, default: int, low: int, high: int) -> int:
    text = _text(fields, name)
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(high)) or not low <= int(text) <= high:
        raise errors.BadQuery(where=name, reason=f"it is no number from {low} to {high}")
    return int(text)
