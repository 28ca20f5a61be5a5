"""The format of the log for machines, the journal and people, whatever values the fields have."""

import io
import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from rta_supervisor.diagnostics import log
from rta_supervisor.diagnostics.log_limiter import LogLimiter
from rta_supervisor.settings import settings

CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
HOSTILE = ["\x1b[2J\x1b]0;owned\x07", "a\nfake: line", "\r\u202egnp.exe", "\u2028x", "\x9b31m", "\udcff", "<3>x"]


@pytest.fixture(autouse=True)
def reset_log() -> Iterator[None]:
    yield
    structlog.reset_defaults()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def logged(
    monkeypatch: pytest.MonkeyPatch,
    stream: io.StringIO,
    log_format: str,
    *,
    secrets: list[str] | None = None,
    **fields: Any,
) -> str:
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(log, "_limiter", LogLimiter(lambda: 0.0))
    log.configure(settings.LogSettings(format=log_format), secrets or [])
    log.get().warning("session_opened", **fields)
    return stream.getvalue()


@pytest.mark.parametrize("identity", HOSTILE)
def test_no_name_leaves_its_field(monkeypatch: pytest.MonkeyPatch, identity: str) -> None:
    """Hostile values give one line of ASCII for machines, and one line without control characters for people."""
    line = logged(monkeypatch, io.StringIO(), "json", session=identity)
    assert line.count("\n") == 1
    assert line.isascii()
    assert not CONTROL.search(line[:-1])
    assert json.loads(line)["session"] == identity
    colours = re.compile(r"\x1b\[[0-9;]*m")
    text = colours.sub("", logged(monkeypatch, Terminal(), "auto", session=identity, more=[identity, {"x": identity}]))
    assert text.count("\n") == 1
    assert not CONTROL.search(text[:-1])


def test_a_traceback_shows_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A traceback has lines of code and the error, and no values of variables."""
    monkeypatch.setattr(sys, "stdout", out := Terminal())
    log.configure(settings.LogSettings(format="console"))
    payload = "what a writer" + " sent"

    def fail(_: str) -> None:
        raise ValueError("bad \x1b[31m thing")

    try:
        fail(payload)
    except ValueError:
        log.get().exception("message_poisonous", entry="1-1")
    text = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert "ValueError: bad \\x1b[31m thing" in text
    assert payload not in text


def test_secrets_are_hidden_wherever_they_turn_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets are hidden as fields, in lists and inside other texts."""
    line = logged(
        monkeypatch, io.StringIO(), "json", secrets=["hush-hush"], error="no hush-hush!", all=["hush-hush", 5]
    )
    assert "hush" not in line
    assert json.loads(line)["error"] == "no ***!"


def test_long_things_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long texts and lists are cut, and end with how long they were."""
    event = json.loads(logged(monkeypatch, io.StringIO(), "json", reason="x" * 5000, sessions=list(range(5000))))
    assert event["reason"].endswith("... (5000 characters)")
    assert event["sessions"][-1] == "... (5000 in all)"


def test_the_journal_gets_priorities(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Lines begin with a priority only if the journal reads the file, which systemd names."""
    with (tmp_path / "journal").open("w+") as journal:
        status = os.fstat(journal.fileno())
        monkeypatch.setattr(sys, "stdout", journal)
        for stream in (f"{status.st_dev}:{status.st_ino}", "1:1", ""):
            monkeypatch.setenv("JOURNAL_STREAM", stream)
            log.configure(settings.LogSettings(format="auto"))
            log.get(n=stream).warning("redis_unavailable")
            log.get(n=stream).error("redis_lost_data")
            log.get(n=stream).info("session_opened")
        journal.seek(0)
        begins = [line[:3] for line in journal]
    assert begins == ["<4>", "<3>", "<6>", *['{"n'] * 6]


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colours are for terminals, unless NO_COLOR is set."""
    assert "\x1b[" in logged(monkeypatch, Terminal(), "auto")
    assert "\x1b[" not in logged(monkeypatch, io.StringIO(), "console")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in logged(monkeypatch, Terminal(), "auto")
