"""Settings of webhooks: which targets are refused, and where a secret comes from."""

from pathlib import Path

import pytest

from rta_supervisor.settings import settings
from rta_supervisor.settings.sections.webhooks import WebhookTarget
from rta_wire import errors

GOOD = {"url": "https://example.com/x", "secret": "0123456789abcdef"}


@pytest.mark.parametrize(
    ("change", "name", "reason"),
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
def test_bad_targets_are_named(change: dict[str, object], name: str, reason: str) -> None:
    """The error names the setting and what is wrong with it, and does not quote a URL, which may hold a token."""
    with pytest.raises(errors.BadConfiguration) as caught:
        settings.load(overrides={f"webhooks.to.{name}": {**GOOD, **change}}, environ={})
    assert reason in str(caught.value)
    assert "word" not in str(caught.value)


def test_a_secret_may_be_a_credential(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret is read from systemd's directory by the name of its file; a missing or empty file is named."""
    (tmp_path / "pager").write_text("0123456789abcdef\n")
    (tmp_path / "empty").write_text("\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    credential = "pager"
    assert WebhookTarget("https://h/", secret_file=credential).key_bytes("a") == b"0123456789abcdef"
    for name in ("empty", "missing"):
        with pytest.raises(errors.BadConfiguration, match=name):
            WebhookTarget("https://h/", secret_file=name).key_bytes("a")
