"""What `/metrics` shows after real work, and that everything that looks at it finds what it looks for."""

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
from tests.support import http_client as web
from tests.support import supervisors
from tests.support.control import dead_letters, write
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until
from tools import dashboard

ROOT = Path(__file__).parents[3]
HOSTILE = 'zz "1"\\ é'

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(scope="module")
def busy() -> Iterator[Supervisor]:
    """A supervisor that has done a bit of everything."""
    settings = {
        "RTA_METRICS__SURVEY_S": "0.1",
        "RTA_TRIM__EVERY_S": "0.1",
        "RTA_TRIM__MAX_ENTRIES": "4",
        "RTA_TRIM__EXACT": "true",
        "RTA_TRIM__MIN_RETENTION_S": "0",
    }
    with (
        server.running() as own,
        supervisors.running(own.url, settings) as supervisor,
        redis_client.connect(own.url) as client,
    ):
        sessions = rta_writers.SessionClient(own.url)
        with sessions.session(HOSTILE, stream="rig") as session:
            write(client, session, 20)
        sessions.session(HOSTILE + "2", stream="rig").close(state="failed")
        kept = sessions.session("zz-kept", stream="other")
        sessions.session("zz-kept", stream="other")
        write(client, kept, 7)
        client.xadd("rtas:req:default", {"m": b"junk"})
        wait_until(lambda: dead_letters(client), what="a dead letter")
        yield supervisor


def scrape(supervisor: Supervisor) -> list[Metric]:
    return list(parse(web.get(web.address(supervisor), "/metrics").body))


def flat(families: list[Metric]) -> Samples:
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for family in families for one in family.samples}


def has_series(supervisor: Supervisor, name: str) -> bool:
    return f"{name}{{" in web.get(web.address(supervisor), "/metrics").body


def named_in(text: str) -> set[str]:
    return set(re.findall(r"\brta_[a-z_]+\b", text))


def expressions() -> Iterator[str]:
    for panel in json.loads((ROOT / "conf/grafana/rta-supervisor.json").read_text())["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from re.findall(r"expr: (.+)", (ROOT / "conf/prometheus/alerts.yml").read_text())


def test_it_counts_what_was_done(busy: Supervisor) -> None:
    """Against what the test itself did."""
    wanted: Samples = {
        ("rta_stream_samples_total", (("stream", "rig"),)): 20,
        ("rta_stream_samples_total", (("stream", "other"),)): 7,
        ("rta_stream_bursts_total", (("stream", "rig"),)): 20,
        ("rta_session_opens_total", (("outcome", "opened"),)): 3,
        ("rta_session_opens_total", (("outcome", "again"),)): 1,
        ("rta_session_closes_total", (("state", "closed"),)): 1,
        ("rta_session_closes_total", (("state", "failed"),)): 1,
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

    def seen() -> Samples:
        found = flat(scrape(busy))
        return {place: found.get(place, -1) for place in wanted}

    try:
        wait_until(lambda: seen() == wanted)
    except AssertionError:
        assert seen() == wanted
    found = flat(scrape(busy))
    assert found["rta_stream_memory_bytes", (("stream", "rig"),)] > 100
    assert found["rta_stream_stored_bytes_total", (("stream", "rig"),)] > 0
    assert found["rta_stream_trimmed_entries_total", (("stream", "rig"),)] > 0
    assert found["rta_redis_memory_used_bytes", ()] > 100_000
    assert found["rta_refresh_delay_seconds_count", ()] > 0
    wait_until(lambda: flat(scrape(busy))["rta_loop_delay_seconds_count", ()] > 0, what="a tick")


def test_what_the_dashboard_and_the_alerts_name_exists(busy: Supervisor) -> None:
    """Each metric in a query is a series of a real scrape, and each label that it is told apart by is one of its."""
    for name in ("rta_stream_age_seconds", "rta_stream_trimmed_entries_total"):
        wait_until(functools.partial(has_series, busy, name), what=name)
    families = scrape(busy)
    labels: dict[str, set[str]] = {}
    for family in families:
        for sample in family.samples:
            labels.setdefault(sample.name, {"instance", "job"}).update(sample.labels)
    queries = list(expressions())
    assert len(queries) > 40
    for query in queries:
        names = named_in(query)
        assert names, query
        assert names <= labels.keys(), query
        for by in re.findall(r"by \(([^)]*)\)", query):
            assert all(set(re.findall(r"\w+", by)) <= labels[name] for name in names), query


def test_no_label_is_a_session(busy: Supervisor) -> None:
    """Their number has no bound, and their names are none of Prometheus' business."""
    assert "zz" not in web.get(web.address(busy), "/metrics").body


def test_it_speaks_openmetrics_too(busy: Supervisor) -> None:
    """To who asks for it."""
    answer = web.get(web.address(busy), "/metrics", {"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    families = parse_openmetrics(answer.body)  # type: ignore[no-untyped-call]
    assert {family.name for family in families} >= {"rta_reports", "rta_sessions"}


def test_every_metric_is_explained(busy: Supervisor) -> None:
    """docs/metrics.md lists what a scrape shows, and nothing else."""
    wait_until(lambda: has_series(busy, "rta_stream_age_seconds"), what="a survey")
    shown = {family.name for family in scrape(busy) if family.name.startswith("rta_")}
    rows = re.findall(r"^\| `(rta_\w+)", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE)
    assert {name.removesuffix("_total") for name in rows} == {name.removesuffix("_total") for name in shown}


def test_the_dashboard_is_as_written() -> None:
    """The file is what tools/dashboard.py makes."""
    assert json.loads((ROOT / "conf/grafana/rta-supervisor.json").read_text()) == dashboard.dashboard()
