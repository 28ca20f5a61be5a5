"""What all commands have in common: no Redis, no supervisor, a Cluster instead of one server."""

import pytest

import rta_writers
from rta_wire.pb import control_pb2
from tests.support import clusters, samples, supervisors
from tests.support.commands import NO_REDIS_URL, refused, rows, run
from tests.support.waiting import wait_until


@pytest.mark.parametrize(
    "arguments",
    [
        ["status"],
        ["nodes"],
        ["streams"],
        ["sessions", "list"],
        ["sessions", "show", "run-1"],
        ["sessions", "close", "run-1", "--yes"],
        ["sessions", "abandon", "run-1", "--yes"],
        ["sessions", "resurrect", "run-1"],
        ["tail", "run-1"],
        ["top"],
        ["dlq", "list"],
        ["dlq", "show", "1-1"],
        ["dlq", "retry", "1-1"],
        ["dlq", "drop", "1-1", "--yes"],
    ],
)
def test_without_redis_every_command_names_the_url(arguments: list[str]) -> None:
    """It ends with 69 and says at which URL no Redis answers."""
    refused(run(NO_REDIS_URL, *arguments), 69, f"No Redis answers at {NO_REDIS_URL}")


def test_without_a_supervisor_status_and_nodes_end_with_69(url: str) -> None:
    """They still print what Redis has; `sessions list` lists what there is and ends with 0."""
    for command in ("status", "nodes"):
        refused(run(url, command), 69, "No supervisor is running")
    assert "none is running" in run(url, "status").out
    assert run(url, "sessions", "list", "--json").json() == {"sessions": [], "total": 0}


def test_commands_go_by_the_template_that_supervisors_registered(url: str) -> None:
    """An operator on another host, without the settings of the supervisors, sees and ends their sessions."""
    with supervisors.running(url, {"RTA_KEYS__SESSION_TEMPLATE": "live/{identity}/rta"}):
        rta_writers.SessionClient(url).open("run-1", stream="rig")
        assert [row["identity"] for row in run(url, "sessions", "list", "--json").json()["sessions"]] == ["run-1"]
        assert run(url, "sessions", "show", "run-1").code == 0
        assert "run-1 ended: closed" in run(url, "sessions", "close", "run-1", "--yes").out


@pytest.mark.parametrize("command", ["sessions list", "streams", "tail run-1", "dlq list", "stats"])
def test_a_prefix_without_supervisors_is_an_error_that_names_it(
    url: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing would be found under it, and that is no answer."""
    monkeypatch.setenv("RTA_KEYS__PREFIX", "other:")
    refused(run(url, *command.split()), 69, "under the key prefix 'other:'")


def test_commands_work_on_a_cluster() -> None:
    """Keys of a session are on several nodes: status, dlq, sessions close, tail and doctor work as on one server."""
    with clusters.running(3) as cluster, supervisors.running(cluster.url):
        client = rta_writers.SessionClient(cluster.url, timeout_s=30)
        session = client.open("run-1", stream="rig")
        with rta_writers.BurstWriter(session.options, unit="u") as writer:
            writer.samples([1] * 50, [samples.START_NS + n for n in range(50)], [float(n) for n in range(50)])
        client.report(control_pb2.Heartbeat(identity="nobody", stream_session_id=99))
        wait_until(lambda: run(cluster.url, "dlq", "list", "--json").json()["total"], what="a dead letter")
        status = run(cluster.url, "status", "--json").json()
        assert (status["sessions"]["open"], status["streams"]) == (1, 1)
        assert " sent to rtas:ctl:default" in run(cluster.url, "dlq", "retry", "--all", "--yes").out
        assert "ended: closed, 50 samples" in run(cluster.url, "sessions", "close", "run-1", "--yes").out
        result = run(cluster.url, "tail", "run-1", "--from-start", "--json")
        assert rows(result.out) == [(1, samples.START_NS + n, float(n)) for n in range(50)]
        findings = run(cluster.url, "doctor", "--json").json()["findings"]
        assert "bad" not in {finding["level"] for finding in findings}
