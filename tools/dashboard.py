"""Writes conf/grafana/rta-supervisor.json, the dashboard of Grafana: lays out the panels of `ROWS` in a grid."""

import json
import sys
from pathlib import Path
from typing import Any, Final

TARGET: Final = Path(__file__).parents[1] / "conf" / "grafana" / "rta-supervisor.json"
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
WIDTH: Final = 24

Query = tuple[str, str]
Panel = tuple[str, str, str, list[Query]]
"""Title, type, unit, and queries with their legends."""


def rate_of(name: str, *by: str, function: str = "rate") -> str:
    """A query for how fast a counter grows, summed over supervisors."""
    total = f"sum by ({', '.join(by)})" if by else "sum"
    return f"{total} ({function}({name}[$__rate_interval]))"


def quantile(share: float, name: str, *by: str) -> str:
    """A query for a quantile of a histogram."""
    return f"histogram_quantile({share}, {rate_of(f'{name}_bucket', 'le', *by)})"


def highest(name: str, *by: str) -> str:
    """A query for the highest value of a gauge: all supervisors observe the same Redis, so one of them is enough."""
    return f"max by ({', '.join(by)}) ({name})" if by else f"max({name})"


def longest(name: str) -> str:
    """A query for the ten streams with the highest value of a gauge."""
    return f"topk(10, {highest(name, 'stream')})"


ROWS: Final[list[tuple[str, int, list[Panel]]]] = [
    ("Now", 4, [
        ("Ready", "stat", "bool_yes_no", [("min(rta_ready)", "")]),
        ("Supervisors", "stat", "none", [(highest("rta_nodes"), "")]),
        ("Open sessions", "stat", "none", [('max(rta_sessions{state="open"})', "")]),
        ("Streams", "stat", "none", [(highest("rta_streams"), "")]),
        ("Dead letters", "stat", "none", [(highest("rta_dead_letters_kept"), "")]),
        ("Losses of data, 24 h", "stat", "none", [("sum(increase(rta_data_losses_total[24h]))", "")]),
    ]),
    ("Sessions", 8, [
        ("Sessions by state", "timeseries", "none", [(highest("rta_sessions", "state"), "{{state}}")]),
        ("Opened", "timeseries", "ops", [(rate_of("rta_session_opens_total", "outcome"), "{{outcome}}")]),
        ("Ended", "timeseries", "ops", [(rate_of("rta_session_closes_total", "state"), "{{state}}")]),
    ]),
    ("Data", 8, [
        ("Samples", "timeseries", "cps", [(rate_of("rta_stream_samples_total", "stream"), "{{stream}}")]),
        ("Bursts", "timeseries", "cps", [(rate_of("rta_stream_bursts_total", "stream"), "{{stream}}")]),
        ("Bytes", "timeseries", "Bps", [
            (rate_of("rta_stream_raw_bytes_total"), "before compression"),
            (rate_of("rta_stream_stored_bytes_total"), "stored"),
        ]),
        ("Trimmed", "timeseries", "cps", [(rate_of("rta_stream_trimmed_entries_total", "stream"), "{{stream}}")]),
    ]),
    ("Control", 8, [
        ("Handled", "timeseries", "cps", [
            (rate_of("rta_reports_total"), "reports"),
            (rate_of("rta_requests_total", "kind", "outcome"), "{{kind}} {{outcome}}"),
        ]),
        ("Waiting", "timeseries", "none", [
            (highest("rta_control_lag_messages", "lane", "principal"), "{{lane}} {{principal}}"),
            (
                highest("rta_control_unacknowledged_messages", "lane", "principal"),
                "{{lane}} {{principal}} being handled",
            ),
        ]),
        ("Age of the oldest message", "timeseries", "s", [
            (highest("rta_control_age_seconds", "lane", "principal"), "{{lane}} {{principal}}"),
        ]),
        ("Refresh delay", "timeseries", "s", [
            (quantile(0.5, "rta_refresh_delay_seconds"), "half"),
            (quantile(0.99, "rta_refresh_delay_seconds"), "99 %"),
        ]),
    ]),
    ("Trouble", 8, [
        ("Dead letters", "timeseries", "none", [
            (rate_of("rta_dead_letters_total", "code", function="increase"), "{{code}}"),
        ]),
        ("Redelivered and evicted", "timeseries", "none", [
            (rate_of("rta_redelivered_messages_total", function="increase"), "redelivered"),
            (rate_of("rta_evicted_messages_total", function="increase"), "evicted"),
        ]),
        ("After a loss", "timeseries", "none", [
            (rate_of("rta_data_losses_total", function="increase"), "losses"),
            (rate_of("rta_sessions_restored_total", function="increase"), "sessions restored"),
            (rate_of("rta_sessions_with_loss_total", function="increase"), "sessions that miss data"),
        ]),
        ("Loop delay, 99 %", "timeseries", "s", [
            (quantile(0.99, "rta_loop_delay_seconds", "instance"), "{{instance}}"),
        ]),
    ]),
    ("Redis", 8, [
        ("Memory", "timeseries", "bytes", [
            (highest("rta_redis_memory_used_bytes"), "used"),
            (highest("rta_redis_memory_max_bytes"), "limit"),
        ]),
        ("Round trip", "timeseries", "s", [(highest("rta_redis_round_trip_seconds", "instance"), "{{instance}}")]),
        ("Largest streams", "timeseries", "bytes", [(longest("rta_stream_memory_bytes"), "{{stream}}")]),
        ("Longest streams", "timeseries", "none", [(longest("rta_stream_entries"), "{{stream}}")]),
        ("Age of the oldest entry", "timeseries", "s", [(longest("rta_stream_age_seconds"), "{{stream}}")]),
    ]),
    ("Publishing", 8, [
        ("Calls to the Session Service", "timeseries", "cps", [
            (rate_of("rta_publish_calls_total", "outcome"), "{{outcome}}"),
            (rate_of("rta_publish_configs_total"), "configurations"),
        ]),
        ("Age of the oldest unpublished change", "timeseries", "s", [(highest("rta_publish_oldest_seconds"), "age")]),
        ("Unpublished sessions", "timeseries", "none", [
            (highest("rta_publish_waiting_sessions"), "waiting"),
            (highest("rta_publish_refused_sessions"), "refused"),
        ]),
        ("Period of time ranges", "timeseries", "s", [(highest("rta_publish_period_seconds"), "period")]),
    ]),
    ("Gateways", 8, [
        ("Viewers", "timeseries", "none", [
            ("sum(rta_gateway_viewers)", "connected"),
            ("sum(rta_gateway_viewers_behind)", "behind"),
        ]),
        ("Sent to viewers", "timeseries", "Bps", [(rate_of("rta_gateway_bytes_total"), "bytes")]),
        ("Slowest viewer", "timeseries", "s", [(highest("rta_gateway_lag_seconds"), "behind")]),
        ("Missed by viewers", "timeseries", "none", [
            (rate_of("rta_gateway_gap_entries_total", function="increase"), "entries"),
            (rate_of("rta_gateway_catch_ups_total", function="increase"), "catch-ups"),
        ]),
        ("Requests to gateways", "timeseries", "reqps", [
            (rate_of("rta_gateway_requests_total", "endpoint", "status"), "{{endpoint}} {{status}}"),
        ]),
        ("Time of requests to gateways (p99)", "timeseries", "s", [
            (quantile(0.99, "rta_gateway_request_seconds", "endpoint"), "{{endpoint}}"),
        ]),
        ("Processor time of cutting out channels", "timeseries", "percentunit", [
            (rate_of("rta_gateway_filter_seconds_total", "instance"), "{{instance}}"),
        ]),
        ("Memory of time indexes", "timeseries", "bytes", [
            (highest("rta_gateway_index_bytes", "instance"), "{{instance}}"),
        ]),
    ]),
]  # fmt: skip


def panel_json(number: int, position: dict[str, int], panel: Panel) -> dict[str, Any]:
    title, kind, unit, queries = panel
    return {
        "id": number,
        "type": kind,
        "title": title,
        "datasource": SOURCE,
        "gridPos": position,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": SOURCE, "expr": query, "legendFormat": legend or "__auto"}
            for index, (query, legend) in enumerate(queries)
        ],
    }


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, height, row in ROWS:
        position = {"x": 0, "y": y, "w": WIDTH, "h": 1}
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "gridPos": position,
                "panels": [],
            }
        )
        y += 1
        width = WIDTH // len(row)
        for column, panel in enumerate(row):
            position = {"x": column * width, "y": y, "w": width, "h": height}
            panels.append(panel_json(len(panels) + 1, position, panel))
        y += height
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    return {
        "uid": "rta-supervisor",
        "title": "RTA supervisor",
        "tags": ["rta"],
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [source]},
        "panels": panels,
    }


if __name__ == "__main__":
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(json.dumps(dashboard(), indent=2) + "\n")
    sys.stdout.write(f"{TARGET.name} written\n")
