"""Writes conf/grafana/rta-supervisor.json: a dashboard is mostly coordinates, and a program keeps them straight."""

import json
import sys
from pathlib import Path
from typing import Any, Final

TARGET: Final = Path(__file__).parents[1] / "conf" / "grafana" / "rta-supervisor.json"
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
WIDTH: Final = 24

Query = tuple[str, str]
Panel = tuple[str, str, str, list[Query]]
"""Title, kind, unit, and queries with their legends."""


def flow(name: str, *by: str, function: str = "rate") -> str:
    """How fast a counter grows, summed."""
    total = f"sum by ({', '.join(by)})" if by else "sum"
    return f"{total} ({function}({name}[$__rate_interval]))"


def quantile(share: float, name: str, *by: str) -> str:
    return f"histogram_quantile({share}, {flow(f'{name}_bucket', 'le', *by)})"


def most(name: str, *by: str) -> str:
    """All supervisors see the same Redis."""
    return f"max by ({', '.join(by)}) ({name})" if by else f"max({name})"


def longest(name: str) -> str:
    return f"topk(10, {most(name, 'stream')})"


ROWS: Final[list[tuple[str, int, list[Panel]]]] = [
    ("Now", 4, [
        ("Ready", "stat", "bool_yes_no", [("min(rta_ready)", "")]),
        ("Supervisors", "stat", "none", [(most("rta_nodes"), "")]),
        ("Open sessions", "stat", "none", [('max(rta_sessions{state="open"})', "")]),
        ("Streams", "stat", "none", [(most("rta_streams"), "")]),
        ("Dead letters", "stat", "none", [(most("rta_dead_letters_kept"), "")]),
        ("Losses of data, 24 h", "stat", "none", [("sum(increase(rta_data_losses_total[24h]))", "")]),
    ]),
    ("Sessions", 8, [
        ("Sessions by state", "timeseries", "none", [(most("rta_sessions", "state"), "{{state}}")]),
        ("Opened", "timeseries", "ops", [(flow("rta_session_opens_total", "outcome"), "{{outcome}}")]),
        ("Ended", "timeseries", "ops", [(flow("rta_session_closes_total", "state"), "{{state}}")]),
    ]),
    ("Data", 8, [
        ("Samples", "timeseries", "cps", [(flow("rta_stream_samples_total", "stream"), "{{stream}}")]),
        ("Bursts", "timeseries", "cps", [(flow("rta_stream_bursts_total", "stream"), "{{stream}}")]),
        ("Bytes", "timeseries", "Bps", [
            (flow("rta_stream_raw_bytes_total"), "before compression"),
            (flow("rta_stream_stored_bytes_total"), "stored"),
        ]),
        ("Trimmed", "timeseries", "cps", [(flow("rta_stream_trimmed_entries_total", "stream"), "{{stream}}")]),
    ]),
    ("Control", 8, [
        ("Handled", "timeseries", "cps", [
            (flow("rta_reports_total"), "reports"),
            (flow("rta_requests_total", "kind", "outcome"), "{{kind}} {{outcome}}"),
        ]),
        ("Waiting", "timeseries", "none", [
            (most("rta_control_lag_messages", "lane", "principal"), "{{lane}} {{principal}}"),
            (most("rta_control_unacknowledged_messages", "lane", "principal"), "{{lane}} {{principal}} being handled"),
        ]),
        ("Age of the oldest message", "timeseries", "s", [
            (most("rta_control_age_seconds", "lane", "principal"), "{{lane}} {{principal}}"),
        ]),
        ("Refresh delay", "timeseries", "s", [
            (quantile(0.5, "rta_refresh_delay_seconds"), "half"),
            (quantile(0.99, "rta_refresh_delay_seconds"), "99 %"),
        ]),
    ]),
    ("Trouble", 8, [
        ("Dead letters", "timeseries", "none", [
            (flow("rta_dead_letters_total", "code", function="increase"), "{{code}}"),
        ]),
        ("Redelivered and evicted", "timeseries", "none", [
            (flow("rta_redelivered_messages_total", function="increase"), "redelivered"),
            (flow("rta_evicted_messages_total", function="increase"), "evicted"),
        ]),
        ("After a loss", "timeseries", "none", [
            (flow("rta_data_losses_total", function="increase"), "losses"),
            (flow("rta_sessions_restored_total", function="increase"), "sessions restored"),
            (flow("rta_sessions_with_loss_total", function="increase"), "sessions that miss data"),
        ]),
        ("Loop delay, 99 %", "timeseries", "s", [
            (quantile(0.99, "rta_loop_delay_seconds", "instance"), "{{instance}}"),
        ]),
    ]),
    ("Redis", 8, [
        ("Memory", "timeseries", "bytes", [
            (most("rta_redis_memory_used_bytes"), "used"),
            (most("rta_redis_memory_max_bytes"), "limit"),
        ]),
        ("Round trip", "timeseries", "s", [(most("rta_redis_round_trip_seconds", "instance"), "{{instance}}")]),
        ("Largest streams", "timeseries", "bytes", [(longest("rta_stream_memory_bytes"), "{{stream}}")]),
        ("Longest streams", "timeseries", "none", [(longest("rta_stream_entries"), "{{stream}}")]),
        ("Age of the oldest entry", "timeseries", "s", [(longest("rta_stream_age_seconds"), "{{stream}}")]),
    ]),
]  # fmt: skip


def panel(number: int, place: dict[str, int], shown: Panel) -> dict[str, Any]:
    title, kind, unit, queries = shown
    return {
        "id": number,
        "type": kind,
        "title": title,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": query, "legendFormat": legend or "__auto"}
            for at, (query, legend) in enumerate(queries)
        ],
    }


def dashboard() -> dict[str, Any]:
    panels: list[dict[str, Any]] = []
    y = 0
    for title, height, row in ROWS:
        place = {"x": 0, "y": y, "w": WIDTH, "h": 1}
        panels.append(
            {"id": len(panels) + 1, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}
        )
        y += 1
        width = WIDTH // len(row)
        for at, shown in enumerate(row):
            panels.append(panel(len(panels) + 1, {"x": at * width, "y": y, "w": width, "h": height}, shown))
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
