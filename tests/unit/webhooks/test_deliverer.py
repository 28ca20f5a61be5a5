"""The rules of webhooks: pauses, the breaker, the note of a change, the signature, the settings."""

import functools
import hashlib
import hmac
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.diagnostics import loop_watch
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections.webhooks import WebhookTarget
from rta_supervisor.transport.link import Link
from rta_supervisor.webhooks import change as webhooks_change
from rta_supervisor.webhooks import deliverer
from rta_supervisor.webhooks.breaker import Breaker
from rta_supervisor.webhooks.change import StateChange
from rta_wire import errors
from rta_wire.session import State
from tests.support.waiting import wait_until


@given(st.integers(1, 100), st.floats(0.001, 100), st.floats(0, 1))
def test_pauses_grow_and_are_bounded(attempt: int, first_s: float, chance: float) -> None:
    """Never shorter than half of the first, never longer than the cap, and the next range starts where one ends."""
    pause_s = deliverer.backoff_s(attempt, first_s, chance)
    assert first_s / 2 <= pause_s <= deliverer.BACKOFF_MAX_S
    assert deliverer.backoff_s(attempt + 1, first_s, chance) >= pause_s


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 10)), max_size=50))
def test_a_breaker_is_open_after_failures_in_a_row(story: list[tuple[bool, float]]) -> None:
    """Compared with counting the failures at the end of the story."""
    breaker = Breaker(failures=3, open_s=5)
    now_s = 100.0
    row = 0
    last_failure_s = 0.0
    for is_good, pause_s in story:
        now_s += pause_s
        if is_good:
            assert breaker.record_success() == (row >= 3)
            row = 0
        else:
            row += 1
            last_failure_s = now_s
            assert breaker.record_failure(now_s) == (row == 3)
        assert breaker.wait_s(now_s) == (last_failure_s + 5 - now_s if row >= 3 else 0)
        assert breaker.wait_s(now_s + 5) == 0, "after the pause one may try"


@given(st.integers(1, 2**53), st.sampled_from(State), st.none() | st.sampled_from(State), st.integers(0, 2**53))
def test_a_note_reads_back(version: int, state: State, previous: State | None, at_ms: int) -> None:
    """What is kept with a session says the same afterwards."""
    note = StateChange(version, state, previous, at_ms)
    field, text = note.to_field()
    assert StateChange.from_field(field.removeprefix("t:"), text) == note


@given(st.binary(min_size=1), st.binary(), st.integers(0, 2**40))
def test_the_signature_covers_time_and_body(secret: bytes, body: bytes, at_s: int) -> None:
    """Made again from its definition."""
    right = hmac.new(secret, str(at_s).encode() + b"." + body, hashlib.sha256).hexdigest()
    assert webhooks_change.sign(secret, body, at_s) == f"t={at_s},v1={right}"


GOOD = {"url": "https://example.com/x", "secret": "0123456789abcdef"}


@pytest.mark.parametrize(
    ("change", "name", "says"),
    [
        ({"url": "ftp://example.com"}, "a", "webhooks.to.a.url: it is not of the form https://host/path"),
        ({"url": "https://user:word@example.com"}, "a", "webhooks.to.a.url: it holds a user name"),
        ({"url": "https://example.com/a b"}, "a", "percent-encoded"),
        ({"url": "https://example.com:99999/"}, "a", "Port out of range"),
        ({"secret": ""}, "a", "either secret or secret_file"),
        ({"secret_file": "/x"}, "a", "either secret or secret_file"),
        ({"secret": "short"}, "a", "less than 16 bytes"),
        ({"states": ["closed", "shut"]}, "a", "invalid enum value 'shut'"),
        ({}, "a{b}", "letters, digits"),
    ],
)
def test_bad_targets_are_named(change: dict[str, object], name: str, says: str) -> None:
    """Which setting, and what is wrong with it. A URL is not repeated, since it may hold a token."""
    with pytest.raises(errors.BadConfiguration) as caught:
        settings.load(overrides={f"webhooks.to.{name}": {**GOOD, **change}}, environ={})
    assert says in str(caught.value)
    assert "word" not in str(caught.value)


def test_a_secret_may_be_a_credential(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """systemd names the directory, the setting the file; a missing or empty one is an error with its path."""
    (tmp_path / "pager").write_text("0123456789abcdef\n")
    (tmp_path / "empty").write_text("\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    good = "pager"
    assert WebhookTarget("https://h/", secret_file=good).key_bytes("a") == b"0123456789abcdef"
    for name in ("empty", "missing"):
        with pytest.raises(errors.BadConfiguration, match=name):
            WebhookTarget("https://h/", secret_file=name).key_bytes("a")


async def test_each_target_is_a_loop_under_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says each time that it is alive, while Redis is away too: nobody takes it for stuck."""
    monkeypatch.setattr(deliverer, "TROUBLE_PAUSE_S", 0.01)
    config = settings.load(overrides={"redis.url": "unix:///nonexistent/socket", "webhooks.to.a": GOOD}, environ={})
    link = Link(config.redis)
    duties = deliverer.Webhooks(link, config).duties()
    watched = loop_watch.LoopWatch()
    async with anyio.create_task_group() as tasks:
        for name, duty in duties.items():
            tasks.start_soon(watched.watched(name, duty))
        await anyio.wait_all_tasks_blocked()
        [loop] = watched._loops
        first_s = loop.due_s
        assert first_s is not None
        later = functools.partial(wait_until, lambda: (loop.due_s or 0) > first_s, what="another step")
        await anyio.to_thread.run_sync(later)
        tasks.cancel_scope.cancel()
    await link.close()
