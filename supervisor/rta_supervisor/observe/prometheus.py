"""Counts, surveys and health as Prometheus metrics. Holds nothing: a scrape shows what the others know at that moment.

Labels are streams, principals and words of ours, never sessions: their number has no bound.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from rta_supervisor.diagnostics import counters
from rta_supervisor.diagnostics.loop_watch import LoopWatch
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe.health import Health
from rta_supervisor.observe.sampler import Observation, Sampler
from rta_wire import __version__


def build_registry(
    node_id: str, counts: counters.Counts, survey: Sampler, health: Health, progress: LoopWatch
) -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(SupervisorCollector(node_id, counts, survey, health, progress))
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=made)
    return made


class SupervisorCollector(Collector):
    """Everything about this supervisor and its Redis."""

    def __init__(
        self, node_id: str, counts: counters.Counts, survey: Sampler, health: Health, progress: LoopWatch
    ) -> None:
        self._node_id = node_id
        self._counts = counts
        self._survey = survey
        self._health = health
        self._progress = progress

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        about = InfoMetricFamily("rta_supervisor", "This supervisor.")
        about.add_metric([], {"version": __version__, "node": self._node_id})
        yield about
        yield from _work(self._counts)
        yield from _trouble(self._counts)
        yield from _compaction(self._counts)
        yield from _archive(self._counts)
        yield from _streams(self._counts)
        yield from _seen(self._survey.latest)
        yield from self._vitals()

    def _vitals(self) -> Iterator[Metric]:
        yield _histogram("rta_loop_delay_seconds", "How late the event loop wakes a task.", self._counts.loop_delay_s)
        yield _gauge("rta_stuck_loops", "Loops that get nowhere.", len(self._progress.stuck()))
        yield _gauge("rta_redis_up", "Whether Redis answers, after two strikes.", int(self._health.is_redis_there))
        yield _gauge("rta_ready", "What /health says.", int(self._health.readiness().is_ready))
        round_trip_ms = self._health.round_trip_ms
        if round_trip_ms is not None:
            yield _gauge("rta_redis_round_trip_seconds", "The last round trip to Redis.", round_trip_ms / 1000)


def _work(counts: counters.Counts) -> Iterator[Metric]:
    opens = {("opened",): counts.opened, ("again",): counts.opened_again}
    yield _counter("rta_session_opens", "Sessions that were opened, or asked for again.", opens, "outcome")
    closes = {(state,): count for state, count in counts.closed.items()}
    yield _counter("rta_session_closes", "Sessions that ended, by state.", closes, "state")
    yield _counter("rta_requests", "Requests that were answered.", counts.requests, "kind", "outcome")
    yield _counter("rta_reports", "Reports that were handled.", {(): counts.reports})
    yield _counter("rta_time_ranges", "Time ranges that readers were shown.", {(): counts.ranges_published})
    yield _histogram(
        "rta_refresh_delay_seconds", "From the first news of a session to its time range.", counts.refresh_delay_s
    )


def _trouble(counts: counters.Counts) -> Iterator[Metric]:
    codes = {(code,): count for code, count in counts.dead_letters.items()}
    yield _counter("rta_dead_letters", "Messages that could not be applied, by code.", codes, "code")
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
    share = max(counts.archive_held.values(), default=0.0)
    yield _gauge("rta_archive_held_share", "Memory of the largest stream that waits for it, of what may.", share)
    cut = sum(counts.archive_cut.values())
    yield _counter("rta_archive_cut_entries", "Entries trimmed before the archive had them.", {(): cut})


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


def _seen(seen: Observation) -> Iterator[Metric]:
    at_ms = now_ms()
    if not seen.at_ms:
        return
    yield _gauge("rta_survey_age_seconds", "Age of the figures below.", (at_ms - seen.at_ms) / 1000)
    yield _gauges(
        "rta_sessions", "Live sessions.", {(state,): count for state, count in seen.sessions.items()}, "state"
    )
    yield _gauge("rta_nodes", "Supervisors that are registered.", seen.nodes)
    yield _gauge("rta_dead_letters_kept", "Messages that could not be applied and are kept.", seen.dead_letters)
    yield _gauge("rta_archive_waiting_sessions", "Closed sessions that wait for it.", seen.unarchived)
    yield _gauge("rta_streams", "Streams that sessions used.", seen.stream_count)
    lanes = {(lane.lane, lane.principal): lane for lane in seen.lanes}
    waiting = {place: lane.waiting for place, lane in lanes.items()}
    unacknowledged = {place: lane.unacknowledged for place, lane in lanes.items()}
    ages = {place: 0 if one.oldest_ms is None else (at_ms - one.oldest_ms) / 1000 for place, one in lanes.items()}
    labels = ("lane", "principal")
    yield _gauges("rta_control_lag_messages", "Messages that no supervisor has read.", waiting, *labels)
    yield _gauges("rta_control_unacknowledged_messages", "Messages that are being handled.", unacknowledged, *labels)
    yield _gauges("rta_control_age_seconds", "Age of the oldest message.", ages, *labels)
    largest = seen.streams
    entries, memory = {(one.name,): one.entries for one in largest}, {(one.name,): one.memory_bytes for one in largest}
    yield _gauges("rta_stream_entries", "Entries of the longest streams.", entries, "stream")
    yield _gauges("rta_stream_memory_bytes", "Memory of the longest streams.", memory, "stream")
    oldest = {(one.name,): one.age_s for one in largest}
    yield _gauges("rta_stream_age_seconds", "Age of the oldest entry of the longest streams.", oldest, "stream")
    if (server := seen.server) is not None:
        yield _gauge("rta_redis_memory_used_bytes", "Memory that Redis uses.", server.used_bytes)
        yield _gauge("rta_redis_memory_max_bytes", "Memory that Redis may use; 0: any.", server.max_bytes)
        yield _gauge("rta_redis_clock_ahead_seconds", "By how much Redis is ahead.", server.clock_ahead_ms / 1000)


LabelledValues = Mapping[Any, float]
"""Values by the values of their labels."""


def _counter(name: str, text: str, series: LabelledValues, *labels: str) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in series.items():
        family.add_metric(values, count)
    return family


def _gauges(name: str, text: str, series: LabelledValues, *labels: str) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, count in series.items():
        family.add_metric(values, count)
    return family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _histogram(name: str, text: str, seen: counters.Histogram) -> Metric:
    buckets: list[tuple[str, float]] = []
    count = 0
    for bound, more in zip((*seen.bounds, float("inf")), seen.counts, strict=True):
        count += more
        buckets.append(("+Inf" if bound == float("inf") else str(bound), count))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=seen.sum)
