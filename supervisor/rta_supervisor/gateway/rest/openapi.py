"""The OpenAPI document of REST: every endpoint with its parameters and answers. A test compares it with the server."""

from typing import Any, Final

from rta_supervisor.gateway.rest import answers, config_handler
from rta_supervisor.gateway.rest.data import data_request
from rta_supervisor.gateway.rest.data.data_request import DataForm
from rta_supervisor.gateway.rest.sessions import handlers, list_request, listed_session
from rta_supervisor.gateway.rest.target import PREFIX, Endpoint
from rta_wire import __version__, limits
from rta_wire.codec.layout import Kind

Json = dict[str, Any]

_TEXT: Final = {"type": "string"}
_SORT_KEY: Final = {"type": "string", "pattern": "^[^:]+(:(asc|desc))?$"}
INFO: Final = "info"
"""The one endpoint that takes no token."""


def document() -> Json:
    """All of it."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "RTA gateway",
            "version": __version__,
            "description": "Sessions, configurations and data of live, past and archived RTA sessions. Reads only.",
        },
        "paths": {f"{PREFIX}{path}": operations for path, operations in _paths().items()}
        | {"/openapi.json": _get(Endpoint.OPENAPI, "This document", [], _json({"type": "object"}))},
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"bearer": []}],
    }


def _paths() -> dict[str, Json]:
    page = [
        _query("pageIndex", "Pages before this one.", {"type": "integer", "minimum": 0, "maximum": 10**6}),
        _query(
            "pageSize",
            f"Sessions of a page; more than {list_request.PAGE_MAX_SESSIONS} count as that many.",
            {"type": "integer", "minimum": 1, "maximum": 10**6, "default": list_request.PAGE_SIZE},
        ),
        _query("folder", "There is one folder, the root, whose name is empty.", _TEXT),
        _query(
            "sort",
            "Properties to sort by, the first one counts most; newest first where there is none.",
            {
                "type": "array",
                "items": _SORT_KEY,
                "maxItems": limits.SORT_MAX_KEYS,
            },
        ),
    ]
    identity = _path("identity", "The identity of a session, percent-encoded.")
    sessions = _get(Endpoint.SESSIONS, "A page of sessions", page, _json(_ref("SessionPage")), problems=(400,))
    info = _get(INFO, "The gateway, and which tokens it wants", [], _json(_ref("Info")))
    info["get"]["security"] = [{}]
    return {
        "/info": info,
        "/sessions": sessions | {"post": _search()},
        "/sessions/{identity}": _get(
            Endpoint.SESSION, "One session", [identity], _json(_ref("Session")), problems=(404,)
        ),
        "/session-folders/{parent}": _get(
            Endpoint.FOLDERS,
            "Folders of sessions: none",
            [_path("parent", "The name of a folder.")],
            _json({"type": "array", "items": {"type": "object"}}),
        ),
        "/session-metamodel": _get(
            Endpoint.METAMODEL,
            "Properties of sessions, what can be done with them, and their values",
            [_query("folder", "", _TEXT), _query("prop", "", {"type": "array", "items": _TEXT})],
            _json({"type": "object"}),
        ),
        "/session-metamodel/properties": _get(
            Endpoint.PROPERTIES,
            "Properties of sessions",
            [_query("query", "A part of the name, in any case.", _TEXT), _query("folder", "", _TEXT)],
            _json({"type": "array", "items": _ref("Property")}),
        ),
        "/configs/{identifier}": _get(
            Endpoint.CONFIG,
            "A configuration, which never changes",
            [_path("identifier", "The identifier of a configuration.")],
            {config_handler.MEDIA_TYPE: {"schema": {"type": "object"}}},
            problems=(404,),
        ),
        "/sessions/{identity}/data": _get(
            Endpoint.SAMPLES,
            "Samples of a session as rows, or their envelope",
            [
                identity,
                _query("channels", _CHANNELS, {"type": "string", "pattern": _CHANNELS_PATTERN}),
                *_data_parameters(),
            ],
            _data_answers(),
            problems=(400, 404, 406),
        ),
        "/sessions/{identity}/data/{kind}/{channels}": _get(
            Endpoint.DATA,
            "Samples of the channels of one kind, as chunks or rows",
            [
                identity,
                _path("kind", "How the configuration says that channels are sent.", {"enum": [k.value for k in Kind]}),
                _path("channels", _CHANNELS, {"pattern": _CHANNELS_PATTERN}),
                *_data_parameters(),
            ],
            _data_answers(),
            problems=(400, 404, 406),
        ),
        "/sessions/{identity}/data/events": _get(
            Endpoint.EVENTS,
            "Events of a session",
            [identity, *_data_parameters()[:3]],
            _data_answers(),
            problems=(400, 404, 406),
        ),
    }


_CHANNELS: Final = "Hexadecimal ids and ranges, with open ends: -5,7,B-D,14- (a lone - is all channels)."
_RANGE_PATTERN: Final = "([0-9A-Fa-f]{1,8}(-[0-9A-Fa-f]{0,8})?|-[0-9A-Fa-f]{0,8})"
_CHANNELS_PATTERN: Final = f"^{_RANGE_PATTERN}(,{_RANGE_PATTERN})*$"


def _data_parameters() -> list[Json]:
    time = {"type": "integer", "minimum": limits.TIME_NS_MIN, "maximum": limits.TIME_NS_MAX}
    return [
        _query("start", "From this time on, in ns since 1970; ISO 8601 is taken too.", time),
        _query(
            "end", "Up to this time and with it. Whole chunks are sent, which may begin before and end after.", time
        ),
        _query(
            "format",
            "The form of the answer, where `Accept` can't be set.",
            {"enum": [form.value for form in DataForm]},
        ),
        _query("names", "Channels by their names, with commas; repeatable.", {"type": "array", "items": _TEXT}),
        _query(
            "resolution",
            "An envelope with about so many steps instead of every sample. Not for chunks.",
            {"type": "integer", "minimum": 1, "maximum": data_request.RESOLUTION_MAX},
        ),
    ]


def _data_answers() -> Json:
    return {form.media_type.partition(";")[0]: {"schema": {}} for form in DataForm}


def _search() -> Json:
    fields: Json = {
        "pageIndex": {"type": "integer", "minimum": 0, "maximum": 10**6},
        "pageSize": {"type": "integer", "minimum": 1, "maximum": 10**6},
        "folder": _TEXT,
        "sort": {"type": "array", "items": _SORT_KEY, "maxItems": limits.SORT_MAX_KEYS},
        "query": {"type": "string", "description": 'Criteria as JSON text, such as {"details.Lap": {"$gte": 3}}.'},
        "prop": {
            "type": "array",
            "items": _TEXT,
            "maxItems": list_request.PROPS_MAX,
            "description": "Properties of extDetails that are wanted.",
        },
    }
    operation: Json = _get(
        Endpoint.SESSIONS, "The sessions that match a query", [], _json(_ref("SessionPage")), problems=(400,)
    )["get"]
    return operation | {
        "operationId": "search_sessions",
        "requestBody": {"content": {handlers.FORM: {"schema": {"type": "object", "properties": fields}}}},
    }


def _get(endpoint: str, summary: str, parameters: list[Json], content: Json, *, problems: tuple[int, ...] = ()) -> Json:
    """A path that is read. HEAD is taken wherever GET is."""
    failures = {
        str(status): {"description": description, "content": {answers.PROBLEM: {"schema": _ref("Problem")}}}
        for status, description in _PROBLEMS.items()
        if status in problems or status in _ALWAYS
    }
    operation = {
        "operationId": str(endpoint),
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": summary, "content": content},
            "304": {"description": "What the client has is the present one."},
            "401": {"description": "The token is missing or wrong."},
            **failures,
        },
    }
    return {"get": operation}


_ALWAYS: Final = (405, 500, 503)
_PROBLEMS: Final = {
    400: "The request has a mistake, which is named.",
    404: "There is none, or it may not be seen.",
    405: "The method is not taken.",
    406: "Nothing of what the client accepts can be sent.",
    500: "What is stored can't be read, and somebody has to look at it.",
    503: "Redis or the catalogue does not answer: try again.",
}


def _query(name: str, description: str, schema: Json) -> Json:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _path(name: str, description: str, schema: Json | None = None) -> Json:
    schema = {"type": "string", "minLength": 1} | (schema or {})
    return {"name": name, "in": "path", "required": True, "description": description, "schema": schema}


def _json(schema: Json) -> Json:
    return {answers.JSON: {"schema": schema}}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _schemas() -> Json:
    texts = ("type", "group", "identifier", "startTimestamp", "endTimestamp")
    session = {
        "identity": _TEXT,
        "state": {"enum": list(listed_session.STATES)},
        "timestamp": _TEXT,
        **{name: {"type": ["string", "null"]} for name in texts},
        "timeRange": {
            "type": ["object", "null"],
            "properties": {"startTime": {"type": "integer"}, "endTime": {"type": "integer"}},
        },
        "quality": {"type": ["number", "null"]},
        "details": {"type": ["object", "null"]},
        "extDetails": {"type": ["object", "null"]},
        "configBindings": {"type": ["array", "null"], "items": {"type": "object"}},
        "children": {"type": ["array", "null"]},
        "alternates": {"type": ["array", "null"]},
        listed_session.SAMPLES: {"type": "integer", "description": "How many samples were written to it."},
        listed_session.SAMPLES_TIME: {"type": "string", "description": "When there were so many."},
    }
    info = {
        **dict.fromkeys(("label", "name", "description", "version"), _TEXT),
        "authentication": {"enum": ["none", "bearer"]},
        **{name: {"type": "boolean"} for name in ("authenticationRequired", "requiresToken")},
        **{name: {"type": ["string", "null"]} for name in ("issuer", "audience")},
    }
    return {
        "Info": {"type": "object", "properties": info, "required": list(info)},
        "Session": {"type": "object", "properties": session, "required": ["identity"]},
        "SessionPage": {
            "type": "object",
            "properties": {"sessions": {"type": "array", "items": _ref("Session")}},
            "required": ["sessions"],
        },
        "Property": {
            "type": "object",
            "properties": {"id": _TEXT, "label": _TEXT, "description": _TEXT},
            "required": ["id", "label", "description"],
        },
        "Problem": {
            "type": "object",
            "properties": {"type": _TEXT, "title": _TEXT, "status": {"type": "integer"}, "detail": _TEXT},
            "required": ["title", "status", "detail"],
        },
    }
