"""What the log looks like: for machines, for the journal, for people; whatever the names in it are."""

import io
import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.diagnostics import log
from rta_supervisor.diagnostics.log_limiter import LogLimiter
from rta_supervisor.settings import settings

CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
HOSTILE = ["\x1b[2J\x1b]0;owned\x07", "a\nfake: line", "\r\u202egnp.exe", "\u2028x", "\x9b31m", "\udcff", "<3>x"]


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    yield
    structlog.reset_defaults()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def said(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, how: str, *, secrets: list[str] | None = None, **fields: Any
) -> str:
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(log, "_repeats", LogLimiter(lambda: 0.0))
    log.configure(settings.LogSettings(format=how), secrets or [])
    log.get().warning("session_opened", **fields)
    return stream.getvalue()


@pytest.mark.parametrize("identity", HOSTILE)
def test_no_name_leaves_its_field(monkeypatch: pytest.MonkeyPatch, identity: str) -> None:
    """One line of ASCII for machines, one without anything that a terminal obeys for people."""
    line = said(monkeypatch, io.StringIO(), "json", session=identity)
    assert line.count("\n") == 1
    assert line.isascii()
    assert not CONTROL.search(line[:-1])
    assert json.loads(line)["session"] == identity
    colours = re.compile(r"\x1b\[[0-9;]*m")
    text = colours.sub("", said(monkeypatch, Terminal(), "auto", session=identity, more=[identity, {"x": identity}]))
    assert text.count("\n") == 1
    assert not CONTROL.search(text[:-1])


@given(st.text())
def test_printable_keeps_what_can_be_read(text: str) -> None:
    """And nothing else."""
    shown = log.printable(text)
    assert shown.isprintable()
    if text.isprintable():
        assert shown == text


def test_a_traceback_shows_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of code and the error, not what the variables held."""
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
    """In fields, in lists, inside other text."""
    line = said(monkeypatch, io.StringIO(), "json", secrets=["hush-hush"], error="no hush-hush!", all=["hush-hush", 5])
    assert "hush" not in line
    assert json.loads(line)["error"] == "no ***!"


def test_long_things_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """With how long they were."""
    found = json.loads(said(monkeypatch, io.StringIO(), "json", reason="x" * 5000, sessions=list(range(5000))))
    assert found["reason"].endswith("... (5000 characters)")
    assert found["sessions"][-1] == "... (5000 in all)"


def test_the_journal_gets_priorities(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Only where it is the journal that reads: systemd names the file."""
    with (tmp_path / "journal").open("w+") as journal:
        found = os.fstat(journal.fileno())
        monkeypatch.setattr(sys, "stdout", journal)
        for stream in (f"{found.st_dev}:{found.st_ino}", "1:1", ""):
            monkeypatch.setenv("JOURNAL_STREAM", stream)
            log.configure(settings.LogSettings(format="auto"))
            log.get(n=stream).warning("redis_unavailable")
            log.get(n=stream).error("redis_lost_data")
            log.get(n=stream).info("session_opened")
        journal.seek(0)
        begins = [line[:3] for line in journal]
    assert begins == ["<4>", "<3>", "<6>", *['{"n'] * 6]


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not for those that ask for none."""
    assert "\x1b[" in said(monkeypatch, Terminal(), "auto")
    assert "\x1b[" not in said(monkeypatch, io.StringIO(), "console")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in said(monkeypatch, Terminal(), "auto")
