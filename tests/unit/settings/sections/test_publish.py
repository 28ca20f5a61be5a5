"""Section `[publish]`: which values are refused, and why."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from rta_supervisor.settings import settings
from rta_wire import errors

ADDRESS = "127.0.0.1:2652"
SECRET = "of-a-test"  # noqa: S105 - of this test


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"session_address": "toolkit"}, "publish.session_address"),
        ({"session_address": "toolkit:0"}, "host:port"),
        ({"session_address": "http://toolkit:2652"}, "host:port"),
        ({"config_address": ADDRESS}, "there is no publish.session_address"),
        ({"every_s": 0}, "publish.every_s"),
        ({"every_s": 31}, "more than 30"),
        ({"ca_file": "ca.pem"}, "set publish.tls"),
        ({"session_address": ADDRESS, "token": SECRET, "token_file": "t"}, "Use one"),
        ({"session_address": "toolkit:2652", "token": SECRET}, "clear text"),
        ({"session_address": "toolkit:2652", "token_file": "t"}, "clear text"),
        ({"session_address": ADDRESS, "config_address": "toolkit:2662", "token": SECRET}, "clear text"),
        ({"session_address": ADDRESS, "token": "ä"}, "no header may hold"),
    ],
)
def test_a_wrong_value_is_refused(values: dict[str, Any], sentence: str) -> None:
    """Each with the name of the setting and what to do."""
    with pytest.raises(errors.BadConfiguration, match=sentence.replace(".", r"\.")):
        settings.PublishSettings(**values).check()


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"session_address": "[::1]:2652", "token": SECRET},
        {"session_address": "localhost:2652", "config_address": ADDRESS, "token": SECRET},
        {"session_address": "toolkit.example.com:2652", "tls": True, "token": SECRET},
    ],
)
def test_what_is_right_is_taken(values: dict[str, Any]) -> None:
    """Services on this host may have a token without TLS."""
    settings.PublishSettings(**values).check()


def test_without_grpc_the_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence says what to install, or to take the setting away; without the setting nothing is missed."""
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "grpc" else found(name))
    settings.PublishSettings().check()
    with pytest.raises(errors.BadConfiguration, match=r"Install rta-supervisor\[publish\]"):
        settings.PublishSettings(session_address=ADDRESS).check()


def test_files_that_are_missing_are_named(tmp_path: Path) -> None:
    """A token or a certificate that can't be read is found at the start."""
    missing = str(tmp_path / "none")
    with pytest.raises(errors.BadConfiguration, match=r"publish\.token_file"):
        settings.PublishSettings(token_file=missing).bearer_token()
    with pytest.raises(errors.BadConfiguration, match=r"publish\.ca_file"):
        settings.PublishSettings(tls=True, ca_file=missing).root_certificates()
    for content in (
        b"",
        b"somebody's notes",
        b"\xff\0",
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ):
        (tmp_path / "ca.pem").write_bytes(content)
        with pytest.raises(errors.BadConfiguration, match="holds no certificates in PEM"):
            settings.PublishSettings(tls=True, ca_file=str(tmp_path / "ca.pem")).root_certificates()
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(errors.BadConfiguration, match="empty"):
        settings.PublishSettings(token_file=str(tmp_path / "empty")).bearer_token()
