"""`/metrics` after real work; and that dashboard, alerts and documentation name metrics that exist."""

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

import rta_writers
from rta_supervisor.embedded import server
from rta_writers.connection import redis_client
from tests.support import gateways, supervisors
from tests.support import http_client as web
from tests.support.control import dead_letters, write
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[3]
HOSTILE = 'zz "1"\\ é'

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
"""Values by the name of a series and its labels."""


@pytest.fixture(scope="module")
def busy() -> Iterator[Supervisor]:
    """A supervisor that has done some work of each kind."""
    settings = {
        "RTA_METRICS__SURVEY_S": "0.1",
        "RTA_TRIM__EVERY_S": "0.1",
        "RTA_TRIM__MAX_ENTRIES": "4",
        "RTA_TRIM__ENTRY_S": "0",
        "RTA_TRIM__EXACT": "true",
        "RTA_TRIM__MIN_RETENTION_S": "0",
    }
    with (
        server.running() as redis_server,
        supervisors.running(redis_server.url, settings) as supervisor,
        redis_client.connect(redis_server.url) as client,
    ):
        sessions = rta_writers.SessionClient(redis_server.url)
        with sessions.session(HOSTILE, stream="rig") as session:
            write(client, session, 20)
        sessions.session(HOSTILE + "2", stream="rig").close(state="failed")
        open_session = sessions.session("zz-kept", stream="other")
        sessions.session("zz-kept", stream="other")
        write(client, open_session, 7)
        client.xadd("rtas:req:default", {"m": b"junk"})
        wait_until(lambda: dead_letters(client), what="a dead letter")
        yield supervisor


def scrape(supervisor: Supervisor) -> list[Metric]:
    return list(parse(web.get(web.address(supervisor), "/metrics").body))


def samples_of(families: list[Metric]) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def has_series(supervisor: Supervisor, name: str) -> bool:
    return f"{name}{{" in web.get(web.address(supervisor), "/metrics").body


def metrics_in(text: str) -> set[str]:
    return set(re.findall(r"\brta_[a-z_]+\b", text))


def expressions() -> Iterator[str]:
    """Queries of the dashboard and the alerts."""
    for panel in json.loads((ROOT / "conf/grafana/rta-supervisor.json").read_text())["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    # Up to the next key: an expression may be folded over several lines.
    yield from re.findall(r"expr: ((?:.|\n)+?)\n +\w+: ", (ROOT / "conf/prometheus/alerts.yml").read_text())


def test_it_counts_what_was_done(busy: Supervisor) -> None:
    """Counters and gauges have the values of what the fixture did."""
    expected: Samples = {
        ("rta_stream_samples_total", (("stream", "rig"),)): 20,
        ("rta_stream_samples_total", (("stream", "other"),)): 7,
        ("rta_stream_bursts_total", (("stream", "rig"),)): 20,
        ("rta_session_opens_total", (("outcome", "opened"),)): 3,
        ("rta_session_opens_total", (("outcome", "again"),)): 1,
        ("rta_session_closes_total", (("state", "closed"),)): 1,
        ("rta_session_closes_total", (("state", "failed"),)): 1,
        ("rta_session_closes_total", (("state", "abandoned"),)): 0,
        ("rta_sessions", (("state", "open"),)): 1,
        ("rta_requests_total", (("kind", "open"), ("outcome", "done"))): 4,
        ("rta_requests_total", (("kind", "close"), ("outcome", "done"))): 2,
        ("rta_reports_total", ()): 2,
        ("rta_dead_letters_total", (("code", "BadMessage"),)): 1,
        ("rta_dead_letters_kept", ()): 1,
        ("rta_nodes", ()): 1,
        ("rta_streams", ()): 2,
        ("rta_stream_entries", (("stream", "rig"),)): 4,
        ("rta_redis_up", ()): 1,
        ("rta_ready", ()): 1,
        ("rta_stuck_loops", ()): 0,
        ("rta_control_lag_messages", (("lane", "reports"), ("principal", "default"))): 0,
    }

    def scraped() -> Samples:
        samples = samples_of(scrape(busy))
        return {series: samples.get(series, -1) for series in expected}

    try:
        wait_until(lambda: scraped() == expected)
    except AssertionError:
        assert scraped() == expected
    samples = samples_of(scrape(busy))
    assert samples["rta_stream_memory_bytes", (("stream", "rig"),)] > 100
    assert samples["rta_stream_stored_bytes_total", (("stream", "rig"),)] > 0
    assert samples["rta_stream_trimmed_entries_total", (("stream", "rig"),)] > 0
    assert samples["rta_redis_memory_used_bytes", ()] > 100_000
    assert samples["rta_refresh_delay_seconds_count", ()] > 0
    wait_until(lambda: samples_of(scrape(busy))["rta_loop_delay_seconds_count", ()] > 0, what="a tick")


def test_what_the_dashboard_and_the_alerts_name_exists(busy: Supervisor) -> None:
    """Each metric in a query is a series of a real scrape, and each label of a `by` is a label of that metric."""
    for name in ("rta_stream_age_seconds", "rta_stream_trimmed_entries_total"):
        wait_until(functools.partial(has_series, busy, name), what=name)
    labels: dict[str, set[str]] = {}
    unseen: set[str] = set()
    with server.running() as redis_server, gateways.running(redis_server.url) as gateway:
        web.get(gateway.address, "/rta/v2/sessions")
        gateway_families = list(parse(web.get(gateway.address, "/metrics").body))
    for family in (*scrape(busy), *gateway_families):
        if not family.samples:  # of a duty that this supervisor does not have, or of what has not happened
            unseen |= {family.name, f"{family.name}_total"}
        for sample in family.samples:
            labels.setdefault(sample.name, {"instance", "job"}).update(sample.labels)
    queries = list(expressions())
    assert len(queries) > 40
    for query in queries:
        names = metrics_in(query)
        assert names or query.startswith("up{"), query  # `up` is Prometheus' own
        assert names <= labels.keys() | unseen, query
        for by in re.findall(r"by \(([^)]*)\)", query):
            assert all(set(re.findall(r"\w+", by)) <= labels[name] for name in names - unseen), query


def test_no_label_is_a_session(busy: Supervisor) -> None:
    """The number of sessions has no bound, and Prometheus does not need their names."""
    assert "zz" not in web.get(web.address(busy), "/metrics").body


def test_openmetrics(busy: Supervisor) -> None:
    """A scraper that accepts OpenMetrics gets that format."""
    answer = web.get(web.address(busy), "/metrics", {"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    families = parse_openmetrics(answer.body)  # type: ignore[no-untyped-call]
    assert {family.name for family in families} >= {"rta_reports", "rta_sessions"}


def test_every_metric_is_explained(busy: Supervisor) -> None:
    """docs/metrics.md lists the metrics of a scrape, and no others."""
    wait_until(lambda: has_series(busy, "rta_stream_age_seconds"), what="a survey")
    scraped = {family.name for family in scrape(busy) if family.name.startswith("rta_")}
    rows = re.findall(r"^\| `(rta_\w+)", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE)
    assert {name.removesuffix("_total") for name in rows} == {name.removesuffix("_total") for name in scraped}
