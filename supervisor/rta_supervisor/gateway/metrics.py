"""What a gateway counts, as Prometheus metrics. Labels are fixed words, never streams or sessions: a token that may see
some streams reads the metrics of all."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from rta_supervisor.diagnostics import counters
from rta_supervisor.gateway.counts import GatewayCounts
from rta_supervisor.observe.health import Health
from rta_supervisor.observe.metric_families import counter, gauge, histogram, histograms
from rta_wire import __version__

Gauges = Callable[[], Iterable[tuple[str, str, float]]]
"""Gives names, texts and values of what is measured at this moment."""


def build_registry(counts: GatewayCounts, health: Health, gauges: Gauges) -> CollectorRegistry:
    """The metrics of this gateway, and those of its process, Python and garbage collector."""
    registry = CollectorRegistry()
    registry.register(GatewayCollector(counts, health, gauges))
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return registry


class GatewayCollector(Collector):
    """Collects the metrics of this gateway for a scrape."""

    def __init__(self, counts: GatewayCounts, health: Health, gauges: Gauges) -> None:
        self._counts = counts
        self._health = health
        self._gauges = gauges

    def describe(self) -> Iterable[Metric]:
        """Nothing: the registry would else collect everything when the collector is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        info = InfoMetricFamily("rta_gateway", "This gateway.")
        info.add_metric([], {"version": __version__})
        yield info
        yield from self._live()
        yield from self._rest()
        yield histogram("rta_loop_delay_seconds", "How late the event loop wakes a task.", counters.counts.loop_delay_s)
        yield gauge("rta_redis_up", "Whether Redis answers, after two strikes.", int(self._health.is_redis_up))
        yield gauge("rta_ready", "What /health says.", int(self._health.readiness().is_ready))

    def _live(self) -> Iterator[Metric]:
        counts = self._counts
        for name, text, value in self._gauges():
            yield gauge(name, text, value)
        left = {(reason,): number for reason, number in counts.viewers_left.items()}
        yield counter("rta_gateway_viewers_left", "Viewers that left, by reason.", left, "reason")
        refused = {(reason,): number for reason, number in counts.refused.items()}
        yield counter("rta_gateway_upgrades_refused", "WebSockets that were not accepted.", refused, "reason")
        closed = {(reason,): number for reason, number in counters.counts.http_closed.items()}
        yield counter(
            "rta_http_connections_closed", "HTTP connections that a limit closed or refused.", closed, "reason"
        )
        for name, text, value in (
            ("rta_gateway_viewers_joined", "Viewers that joined.", counts.viewers_joined),
            ("rta_gateway_frames", "Frames that were written to viewers.", counts.frames),
            ("rta_gateway_bytes", "Bytes that were written to viewers.", counts.bytes),
            ("rta_gateway_entries", "Entries that were read from streams.", counts.entries),
            ("rta_gateway_catch_ups", "Times that a slow viewer fell back to Redis.", counts.catch_ups),
            ("rta_gateway_gap_entries", "Entries trimmed before a viewer had them.", counts.gap_entries),
            ("rta_gateway_bad_entries", "Entries that no viewer could be served.", counts.bad_entries),
            ("rta_gateway_filtered_frames", "Frames that were cut out for a subscription.", counts.filtered_frames),
            ("rta_gateway_filter_seconds", "Processor time that cutting took.", counts.filter_s),
        ):
            yield counter(name, text, {(): value})

    def _rest(self) -> Iterator[Metric]:
        requests = {(endpoint, str(status)): number for (endpoint, status), number in self._counts.requests.items()}
        yield counter("rta_gateway_requests", "Requests of REST.", requests, "endpoint", "status")
        times_text = "How long requests of REST took until their answer began."
        yield histograms("rta_gateway_request_seconds", times_text, self._counts.request_s, "endpoint")
        yield gauge("rta_gateway_index_bytes", "Memory of the time indexes of sessions.", self._counts.index_bytes)
