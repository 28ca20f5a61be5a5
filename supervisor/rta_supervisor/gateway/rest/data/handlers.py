"""Answers requests for samples and events of a session."""

import hashlib
from collections.abc import Awaitable, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from rta_supervisor.gateway.access.control import grant_of
from rta_supervisor.gateway.rest import answers
from rta_supervisor.gateway.rest.answers import Body
from rta_supervisor.gateway.rest.data import bodies, data_request, envelopes, row_forms, sample_steps, session_samples
from rta_supervisor.gateway.rest.data.data_request import DataForm, DataRequest
from rta_supervisor.gateway.rest.data.row_forms import RowForm, SampleRows
from rta_supervisor.gateway.rest.data.session_data import SessionData, SessionDataStore
from rta_supervisor.gateway.rest.data.time_index import Block, TimeSpan
from rta_supervisor.gateway.rest.sessions.directory import SessionDirectory
from rta_supervisor.gateway.rest.target import RestTarget
from rta_wire.chunks import envelope as envelope_steps
from rta_wire.chunks.channel_expression import ChannelSelection
from rta_wire.chunks.envelope import SampleEnvelope
from rta_wire.codec.layout import Kind

FORM_VERSION = 2
"""Part of every ETag: raised when the same data is sent as other bytes."""


class DataHandlers:
    """The endpoints with data."""

    def __init__(self, directory: SessionDirectory, store: SessionDataStore) -> None:
        self._directory = directory
        self._store = store

    async def samples(self, request: Request, target: RestTarget) -> Response:
        """`GET /sessions/{identity}/data`: samples of channels of all kinds, as rows."""
        wanted = data_request.parse(request.query_params, _accept(request), channels=None, default=DataForm.JSON_LINES)
        return await self._answer_samples(request, target, wanted, None)

    async def data(self, request: Request, target: RestTarget) -> Response:
        """`GET /sessions/{identity}/data/{kind}/{channels}`: samples of channels of one kind, as chunks or rows."""
        wanted = data_request.parse(
            request.query_params, _accept(request), channels=target.channels, default=DataForm.CHUNKS
        )
        return await self._answer_samples(request, target, wanted, Kind(target.kind))

    async def events(self, request: Request, target: RestTarget) -> Response:
        """`GET /sessions/{identity}/data/events`."""
        wanted = data_request.parse(request.query_params, _accept(request), channels=None, default=DataForm.CHUNKS)
        data = await self._open(request, target)
        blocks = await data.blocks()

        async def make_body() -> Body:
            steps = sample_steps.events(blocks, wanted.start_ns, wanted.end_ns, data.read_events)
            if wanted.form is DataForm.CHUNKS:
                return bodies.event_chunks_body(steps)
            form = RowForm(wanted.form, row_forms.EVENTS)
            return bodies.event_rows_body(steps, form, (wanted.start_ns, wanted.end_ns))

        return await _answer(request, data, wanted, make_body)

    async def _answer_samples(
        self, request: Request, target: RestTarget, wanted: DataRequest, kind: Kind | None
    ) -> Response:
        data = await self._open(request, target)
        selection = wanted.select(data.channel_list)
        if kind is not None:
            selection = data_request.of_kind(selection, kind, data.layouts)
        blocks = await data.blocks()
        return await _answer(request, data, wanted, lambda: _samples_body(data, blocks, wanted, selection, kind))

    async def _open(self, request: Request, target: RestTarget) -> SessionData:
        return await self._store.open(await self._directory.get(target.name, grant_of(request)))


async def _samples_body(
    data: SessionData, blocks: list[Block], wanted: DataRequest, selection: ChannelSelection, kind: Kind | None
) -> Body:
    rows = SampleRows(data.channel_list)
    if wanted.resolution:
        # Before the first byte is sent: what goes wrong can still be said.
        envelope = await _envelope(data, blocks, wanted, selection)
        return bodies.envelope_body(envelope, rows, RowForm(wanted.form, rows.envelope_schema()))
    bounds = wanted.start_ns, wanted.end_ns
    is_in_rows = kind is Kind.ROW and wanted.form is DataForm.CHUNKS
    steps = sample_steps.samples(blocks, *bounds, selection, data.read_samples, is_in_rows=is_in_rows)
    if wanted.form is DataForm.CHUNKS:
        return bodies.sample_chunks_body(steps, kind or Kind.TIMESTAMPED, data.layouts)
    sample_type = row_forms.value_type(selection, data.layouts)
    return bodies.sample_rows_body(
        steps, rows, RowForm(wanted.form, rows.sample_schema(sample_type)), sample_type, bounds
    )


async def _envelope(
    data: SessionData, blocks: list[Block], wanted: DataRequest, selection: ChannelSelection
) -> SampleEnvelope:
    span = wanted.span or _clip(session_samples.span_of(blocks, wanted.start_ns, wanted.end_ns, selection), wanted)
    step_ns = envelope_steps.step_of(span.start_ns, span.end_ns, wanted.resolution)
    envelope = SampleEnvelope(span.start_ns, span.end_ns, step_ns)
    await envelopes.fill(envelope, blocks, selection, data.read_samples, data.read_cells)
    await data.save_cells()
    return envelope


def _clip(span: TimeSpan | None, wanted: DataRequest) -> TimeSpan:
    """The range that an envelope divides where the request has no start or no end: as far as there are samples."""
    if span is None:
        return TimeSpan(0, 0)
    start_ns, end_ns = max(span.start_ns, wanted.start_ns), min(span.end_ns, wanted.end_ns)
    return TimeSpan(start_ns, max(start_ns, end_ns))


async def _answer(
    request: Request, data: SessionData, wanted: DataRequest, make_body: Callable[[], Awaitable[Body]]
) -> Response:
    """The answer with its headers. What a closed session has does not change: a client may keep it."""
    media_type = wanted.form.media_type
    headers = {"Cache-Control": "no-store"}
    if data.is_final:
        session = data.session
        # A session of the same name and number may be made again, in a Redis that was emptied.
        when = session.core().timestamp_ns, session.time_range_ns
        facts = (FORM_VERSION, session.stream, session.stream_session_id, when, str(request.url.path), wanted)
        tag = hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:32]
        headers = {"Cache-Control": answers.REVALIDATE, "ETag": f'W/"{tag}"'}
        if answers.is_known(request, tag):
            return Response(status_code=304, headers=headers)
    if request.method == "HEAD":
        return answers.head_answer(media_type, headers)
    body = await make_body()
    return answers.stream_answer(request, body, media_type, headers, is_packed=wanted.form is DataForm.CHUNKS)


def _accept(request: Request) -> str:
    return ",".join(request.headers.getlist("accept"))
