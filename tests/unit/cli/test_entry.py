"""How the program ends, and where its output goes if that is nowhere or can't hold every character."""

import io
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from rta_supervisor.cli import entry

CLOSED_PIPE = 141


def test_a_closed_pipe_ends_the_process_in_silence() -> None:
    """As with other programs in a pipe: no traceback, and no complaint of Python when it flushes at the end."""
    command = 'set -o pipefail; "$0" -m rta_supervisor check-config | true'
    ended = subprocess.run(["bash", "-c", command, sys.executable], capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (CLOSED_PIPE, b"")


@pytest.mark.parametrize("arguments", [["check-config", "--json"], ["--version"], ["in the buffer"]])
def test_a_closed_pipe_is_noticed_also_at_the_end(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    """Whether click or the program notices it, and whether the output fills the buffer or not."""
    if arguments == ["in the buffer"]:
        monkeypatch.setattr(entry, "_run_command", lambda words: sys.stdout.write(words[0]))
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w", encoding="utf-8") as output:
        monkeypatch.setattr(sys, "stdout", output)
        assert entry.main(arguments) == CLOSED_PIPE


def test_a_full_disk_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The output is not there, so the command has failed."""
    with Path("/dev/full").open("w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        assert entry.main(["check-config"]) == entry.IO_ERROR
    assert capsys.readouterr().err == "rta-supervisor: [Errno 28] No space left on device\n"


def test_without_standard_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Started by a program that closed them."""
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    codes = [entry.main(["check-config"]), entry.main(["check-config", "--unknown"])]
    sys.stdin.close(), sys.stdout.close(), sys.stderr.close()
    assert codes == [0, 64]


def test_a_terminal_without_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text that it can't show is escaped; JSON is UTF-8 all the same."""
    monkeypatch.setenv("RTA_CATALOGUE__PATH", "/srv/prüfstand")

    def printed(*arguments: str) -> bytes:
        output = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, encoding="ascii"))
        assert entry.main(arguments) == 0
        return output.getvalue()

    assert rb"/srv/pr\xfcfstand" in printed("check-config")
    settings = msgspec.json.decode(printed("check-config", "--json"))["settings"]
    assert "/srv/prüfstand" in [setting["value"] for setting in settings]


def test_doubtful_settings_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """By `check-config` and at the start of the daemon, which ends here since the address is not one of this host."""
    monkeypatch.setenv("RTA_COMPACT__AFTER_S", "60")
    monkeypatch.setenv("RTA_HTTP__HOST", "192.0.2.1")
    monkeypatch.setenv("RTA_HTTP__TOKEN", "x" * 16)
    assert entry.main(["check-config"]) == 0
    sentence = "compact.after_s: it is less than session.closed_ttl_s: readers"
    assert capsys.readouterr().err.startswith(f"rta-supervisor: warning: RTA_COMPACT__AFTER_S: {sentence}")
    assert entry.main(["check-config", "--json"]) == 0
    [warning] = msgspec.json.decode(capsys.readouterr().out)["warnings"]
    assert warning["where"] == "RTA_COMPACT__AFTER_S: compact.after_s"
    assert entry.main(["run", "--log-format", "json"]) == 69
    events = [msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["setting"] for event in events if event["event"] == "setting_doubtful"] == ["compact.after_s"]


def test_a_fault_of_ours_is_called_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It has its traceback, and the documented exit code."""
    monkeypatch.setattr(entry, "_run_command", lambda _: int("no number"))
    assert entry.main([]) == 70
    assert capsys.readouterr().err.endswith(
        "rta-supervisor: That is a fault of ours. Please report it with the lines above.\n"
    )
