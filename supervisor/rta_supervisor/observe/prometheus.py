"""Counts, observations and health as Prometheus metrics. Keeps no figures of its own: a scrape shows what counters,
sampler and health have at that moment.

Labels are streams, principals and fixed words, never sessions: their number has no bound.
"""

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from rta_supervisor.diagnostics import counters
from rta_supervisor.diagnostics.loop_watch import LoopWatch
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe.health import Health
from rta_supervisor.observe.metric_families import counter as _counter
from rta_supervisor.observe.metric_families import gauge as _gauge
from rta_supervisor.observe.metric_families import gauges as _gauges
from rta_supervisor.observe.metric_families import histogram as _histogram
from rta_supervisor.observe.sampler import Observation, Sampler, StreamObservation
from rta_supervisor.observe.summaries import ControlStreamSummary
from rta_supervisor.session import state_machine
from rta_wire import __version__


def build_registry(
    node_id: str, counts: counters.Counts, sampler: Sampler, health: Health, loops: LoopWatch
) -> CollectorRegistry:
    """The metrics of this supervisor, and those of its process, Python and garbage collector."""
    registry = CollectorRegistry()
    registry.register(SupervisorCollector(node_id, counts, sampler, health, loops))
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return registry


class SupervisorCollector(Collector):
    """Collects the metrics of this supervisor and its Redis for a scrape."""

    def __init__(
        self, node_id: str, counts: counters.Counts, sampler: Sampler, health: Health, loops: LoopWatch
    ) -> None:
        self._node_id = node_id
        self._counts = counts
        self._sampler = sampler
        self._health = health
        self._loops = loops

    def describe(self) -> Iterable[Metric]:
        """Nothing: the registry would else collect everything when the collector is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        info = InfoMetricFamily("rta_supervisor", "This supervisor.")
        info.add_metric([], {"version": __version__, "node": self._node_id})
        yield info
        yield from _sessions(self._counts)
        yield from _configs(self._counts)
        yield from _incidents(self._counts)
        yield from _compaction(self._counts)
        yield from _archive(self._counts)
        yield from _publishing(self._counts)
        yield from _streams(self._counts)
        yield from _observation(self._sampler.latest)
        yield from self._health_metrics()

    def _health_metrics(self) -> Iterator[Metric]:
        yield _histogram("rta_loop_delay_seconds", "How late the event loop wakes a task.", self._counts.loop_delay_s)
        yield _gauge("rta_stuck_loops", "Loops that get nowhere.", len(self._loops.stuck()))
        yield _gauge("rta_redis_up", "Whether Redis answers, after two strikes.", int(self._health.is_redis_up))
        yield _gauge("rta_ready", "What /health says.", int(self._health.readiness().is_ready))
        round_trip_ms = self._health.round_trip_ms
        if round_trip_ms is not None:
            yield _gauge("rta_redis_round_trip_seconds", "The last round trip to Redis.", round_trip_ms / 1000)


def _sessions(counts: counters.Counts) -> Iterator[Metric]:
    opens = {("opened",): counts.opened, ("again",): counts.opened_again}
    yield _counter("rta_session_opens", "Sessions that were opened, or asked for again.", opens, "outcome")
    # With zeros: the first session that ends badly is an increase only if the series was there before.
    closes = {(state.value,): counts.closed.get(state.value, 0) for state in state_machine.CLOSING_EVENTS}
    yield _counter("rta_session_closes", "Sessions that ended, by state.", closes, "state")
    yield _counter("rta_requests", "Requests that were answered.", counts.requests, "kind", "outcome")
    yield _counter("rta_reports", "Reports that were handled.", {(): counts.reports})
    yield _counter("rta_time_ranges", "Time ranges that readers were shown.", {(): counts.ranges_published})
    yield _histogram(
        "rta_refresh_delay_seconds", "From the first news of a session to its time range.", counts.refresh_delay_s
    )


def _configs(counts: counters.Counts) -> Iterator[Metric]:
    outcomes = {(outcome,): counts.configs.get(outcome, 0) for outcome in ("new", "known", "restored")}
    yield _counter("rta_configs", "Configurations that were published or put back after a loss.", outcomes, "outcome")
    text = "Configurations that live sessions are bound to and nobody published here."
    yield _gauge("rta_configs_missing", text, counts.configs_missing)


def _incidents(counts: counters.Counts) -> Iterator[Metric]:
    codes = {(code,): count for code, count in counts.dead_letters.items()}
    yield _counter("rta_dead_letters", "Messages that could not be applied, by code.", codes, "code")
    yield _counter(
        "rta_limits_reached", "Times that a limit held back a principal.", counts.limits_reached, "principal", "limit"
    )
    closed = {(reason,): count for reason, count in counts.http_closed.items()}
    yield _counter("rta_http_connections_closed", "HTTP connections that a limit closed or refused.", closed, "reason")
    yield _counter("rta_webhook_tries", "Posts to webhooks, and those given up.", counts.webhooks, "target", "outcome")
    for name, text, count in (
        ("rta_redelivered_messages", "Messages that another supervisor left.", counts.redelivered),
        ("rta_evicted_messages", "Messages that were gone before anybody read them.", counts.evicted),
        ("rta_data_losses", "Times that Redis was found to have lost data.", counts.data_losses),
        ("rta_sessions_restored", "Sessions that were put back after a loss.", counts.sessions_restored),
        ("rta_sessions_with_loss", "Sessions that miss data after a loss.", counts.sessions_with_loss),
        ("rta_streams_removed", "Streams that nobody used and that were removed.", counts.streams_removed),
        ("rta_days_removed", "Days of a source that were too old and were removed.", counts.days_removed),
    ):
        yield _counter(name, text, {(): count})


def _compaction(counts: counters.Counts) -> Iterator[Metric]:
    outcomes = {(outcome,): count for outcome, count in counts.compactions.items()}
    yield _counter("rta_compactions", "Streams that were compacted, or could not be.", outcomes, "outcome")
    for name, text, count in (
        ("rta_compacted_raw_bytes", "Bytes that were compacted, before any compression.", counts.compacted_raw_bytes),
        ("rta_compacted_live_bytes", "The same as they stood live.", counts.compacted_live_bytes),
        ("rta_compacted_cold_bytes", "The same as they stand cold.", counts.compacted_cold_bytes),
    ):
        yield _counter(name, text, {(): count})


def _archive(counts: counters.Counts) -> Iterator[Metric]:
    yield _counter("rta_archived_sessions", "Sessions whose files were noted.", {(): counts.archived})
    yield _counter("rta_archived_parts", "Parts of open sessions that were noted.", {(): counts.archived_parts})
    share = max(counts.archive_held.values(), default=0.0)
    yield _gauge("rta_archive_held_share", "Memory of the largest stream that waits for it, of what may.", share)
    cut = sum(counts.archive_cut.values())
    yield _counter("rta_archive_cut_entries", "Entries trimmed before the archive had them.", {(): cut})


def _publishing(counts: counters.Counts) -> Iterator[Metric]:
    outcomes = {(outcome,): count for outcome, count in counts.publications.items()}
    yield _counter("rta_publish_calls", "Calls to the Session Service.", outcomes, "outcome")
    yield _counter("rta_publish_configs", "Configurations that were stored.", {(): counts.configs_published})
    status = counts.publish_status
    for name, text, field in (
        ("rta_publish_waiting_sessions", "Sessions with unpublished changes.", "waiting"),
        ("rta_publish_oldest_seconds", "Age of the oldest unpublished change.", "oldest_now_s"),
        ("rta_publish_refused_sessions", "Sessions that the service refuses.", "refused"),
        ("rta_publish_period_seconds", "How often time ranges are published.", "period_s"),
    ):
        # Without a value where this supervisor does not publish: zeros would say that all is well.
        yield _gauges(name, text, {} if status is None else {(): getattr(status, field)})


def _streams(counts: counters.Counts) -> Iterator[Metric]:
    rows = counts.streams.items()
    for name, text, field in (
        ("rta_stream_bursts", "Bursts that were reported.", "bursts"),
        ("rta_stream_samples", "Samples that were reported.", "samples"),
        ("rta_stream_raw_bytes", "Bytes that were reported, before compression.", "raw_bytes"),
        ("rta_stream_stored_bytes", "Bytes that were reported, as stored.", "stored_bytes"),
        ("rta_stream_trimmed_entries", "Entries that were trimmed.", "trimmed"),
    ):
        yield _counter(name, text, {(stream,): getattr(row, field) for stream, row in rows}, "stream")


def _observation(observation: Observation) -> Iterator[Metric]:
    at_ms = now_ms()
    if not observation.at_ms:
        return
    yield _gauge("rta_survey_age_seconds", "Age of the figures below.", (at_ms - observation.at_ms) / 1000)
    states = {(state,): count for state, count in observation.sessions.items()}
    yield _gauges("rta_sessions", "Live sessions.", states, "state")
    yield _gauge("rta_nodes", "Supervisors that are registered.", observation.nodes)
    yield _gauge("rta_dead_letters_kept", "Messages that could not be applied and are kept.", observation.dead_letters)
    yield _gauge("rta_archive_waiting_sessions", "Closed sessions that wait for it.", observation.unarchived)
    yield _gauge("rta_streams", "Streams that sessions used.", observation.stream_count)
    parts = {("live",): observation.live_bytes, ("cold",): observation.cold_bytes}
    yield _gauges("rta_streams_memory_bytes", "Memory of all streams that sessions used.", parts, "part")
    yield from _control_streams(observation.control_streams, at_ms)
    yield from _observed_streams(observation.streams)
    if (server := observation.server) is not None:
        yield _gauge("rta_redis_memory_used_bytes", "Memory that Redis uses.", server.used_bytes)
        yield _gauge("rta_redis_memory_max_bytes", "Memory that Redis may use; 0: any.", server.max_bytes)
        yield _gauge("rta_redis_clock_ahead_seconds", "By how much Redis is ahead.", server.clock_ahead_ms / 1000)


def _control_streams(streams: Sequence[ControlStreamSummary], at_ms: int) -> Iterator[Metric]:
    by_label = {(stream.lane, stream.principal): stream for stream in streams}
    labels = ("lane", "principal")
    waiting = {values: stream.waiting for values, stream in by_label.items()}
    unacknowledged = {values: stream.unacknowledged for values, stream in by_label.items()}
    ages = {
        values: 0 if stream.oldest_ms is None else (at_ms - stream.oldest_ms) / 1000
        for values, stream in by_label.items()
    }
    yield _gauges("rta_control_lag_messages", "Messages that no supervisor has read.", waiting, *labels)
    yield _gauges("rta_control_unacknowledged_messages", "Messages that are being handled.", unacknowledged, *labels)
    yield _gauges("rta_control_age_seconds", "Age of the oldest message.", ages, *labels)


def _observed_streams(streams: Sequence[StreamObservation]) -> Iterator[Metric]:
    """Figures of the streams that are the largest by memory or the longest."""
    entries = {(stream.name,): stream.entries for stream in streams}
    memory = {(stream.name,): stream.memory_bytes for stream in streams}
    cold = {(stream.name,): stream.cold_bytes for stream in streams}
    ages = {(stream.name,): stream.age_s for stream in streams}
    yield _gauges("rta_stream_entries", "Live entries of the largest streams.", entries, "stream")
    yield _gauges("rta_stream_memory_bytes", "Memory of the largest streams, of their live part.", memory, "stream")
    yield _gauges("rta_stream_cold_memory_bytes", "Memory of the largest streams, of their cold part.", cold, "stream")
    yield _gauges("rta_stream_age_seconds", "Age of the oldest live entry of the largest streams.", ages, "stream")
