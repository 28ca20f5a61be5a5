"""Messages to systemd, what happens where nobody listens, and the deadline of its watchdog."""

import resource
import socket
from pathlib import Path

import pytest
import structlog

from rta_supervisor.runtime import systemd


def test_a_listener_that_reads_nothing_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its queue is full after some messages; from then on they are not taken, and nobody waits."""
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "s"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "s"))
        assert systemd.notify("READY=1")
        assert not all(systemd.notify("WATCHDOG=1") for _ in range(5000))
        assert listener.recv(100) == b"READY=1"


def test_a_listener_that_is_gone_is_complained_about_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And once more after it was there again."""
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "s"))
    with structlog.testing.capture_logs() as events:
        for _ in range(3):
            assert not systemd.notify("WATCHDOG=1")
        assert [event["event"] for event in events] == ["notify_failed"]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.bind(str(tmp_path / "s"))
            assert systemd.notify("WATCHDOG=1")
        assert not systemd.notify("WATCHDOG=1")
    assert [event["event"] for event in events] == ["notify_failed", "notify_failed"]


def test_without_a_file_for_the_socket_the_supervisor_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has no file left sends no message, and does not end for it."""
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "s"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        assert not systemd.notify("WATCHDOG=1")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("micros", "pid", "expected"),
    [("3000000", None, 3.0), ("3000000", "1", None), ("", None, None), (None, None, None)],
)
def test_the_watchdog_is_for_whom_it_names(
    monkeypatch: pytest.MonkeyPatch, micros: str | None, pid: str | None, expected: float | None
) -> None:
    """systemd tells how often, and which process it means."""
    for name, value in (("WATCHDOG_USEC", micros), ("WATCHDOG_PID", pid)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert systemd.watchdog_deadline_s() == expected
