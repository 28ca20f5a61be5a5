"""Families of Prometheus metrics from plain numbers, for collectors that keep none of their own."""

from collections.abc import Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from rta_supervisor.diagnostics import counters

LabelledValues = Mapping[Any, float]
"""Values of a metric by the values of its labels."""


def counter(name: str, text: str, series: LabelledValues, *labels: str) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in series.items():
        family.add_metric(values, count)
    return family


def gauges(name: str, text: str, series: LabelledValues, *labels: str) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, count in series.items():
        family.add_metric(values, count)
    return family


def gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def histogram(name: str, text: str, values: counters.Histogram) -> Metric:
    return HistogramMetricFamily(name, text, buckets=_buckets(values), sum_value=values.sum)


def histograms(name: str, text: str, series: Mapping[str, counters.Histogram], label: str) -> Metric:
    family = HistogramMetricFamily(name, text, labels=(label,))
    for value, values in series.items():
        family.add_metric((value,), _buckets(values), values.sum)
    return family


def _buckets(values: counters.Histogram) -> list[tuple[str, float]]:
    buckets: list[tuple[str, float]] = []
    count = 0
    for bound, bucket_count in zip((*values.bounds, float("inf")), values.counts, strict=True):
        count += bucket_count
        buckets.append(("+Inf" if bound == float("inf") else str(bound), count))
    return buckets
