"""The password of Redis: from a file, the environment or systemd's credentials, and never where others can read it."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

import rta_writers
from rta_supervisor.cli import entry as cli_entry
from rta_supervisor.embedded import server
from rta_wire import credentials, errors
from tests.support import supervisors

SECRET = "s3cret-pa/ss@word"  # noqa: S105 - of a server that lives for a minute


@pytest.fixture(scope="module")
def locked() -> Iterator[server.EmbeddedServer]:
    with server.running(port=server.free_port()) as running:
        with redis.Redis(unix_socket_path=str(running.socket_path)) as client:
            client.config_set("requirepass", SECRET)
        yield running


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "redis-password"
    path.write_text(SECRET + "\n")
    path.chmod(0o600)
    return path


Command = Callable[..., tuple[int, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """The command line, in this process. Gives its exit code and everything that it wrote."""

    def run(*words: str, **environment: str) -> tuple[int, str]:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["rta-supervisor", *words])
        code = cli_entry.main()
        return code, "".join(capfd.readouterr())

    return run


@pytest.mark.parametrize("way", ["file", "variable", "credential"])
def test_every_way_leads_to_a_session_and_none_to_a_log(
    locked: server.EmbeddedServer, secret_file: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A supervisor and a client sign in, and the secret stands in no log, no command line and no option."""
    environment = {
        "file": {"RTA_REDIS__PASSWORD_FILE": str(secret_file)},
        "variable": {credentials.PASSWORD_VARIABLE: SECRET},
        "credential": {credentials.CREDENTIALS_VARIABLE: str(secret_file.parent)},
    }[way]
    url = f"{locked.url}?password_file={secret_file}" if way == "file" else locked.url
    if way != "file":
        monkeypatch.setenv(*next(iter(environment.items())))
    with supervisors.running(locked.url, {**environment, "RTA_LOG__LEVEL": "debug"}, is_fresh=True) as running:
        with rta_writers.SessionClient(url, timeout_s=20).open(f"run-{way}", stream="rig") as session:
            assert SECRET not in str(session.options)
        process = Path("/proc", str(running.process.pid))
        assert SECRET.encode() not in (process / "cmdline").read_bytes()
        running.stop()
        assert SECRET not in running.log_path.read_text()


def test_a_password_on_the_command_line_is_refused_and_not_repeated(command: Command) -> None:
    """Everybody on the host could read it there."""
    for url in (f"redis://:{SECRET}@127.0.0.1:1/0", f"redis://127.0.0.1:1/0?password={SECRET}"):
        for name in ("run", "demo"):
            code, words = command(name, "--redis-url", url)
            assert code == errors.Usage.exit_code
            assert "password on the command line" in words
            assert SECRET not in words


def test_help_tells_the_names_and_not_the_secret(command: Command) -> None:
    """With the secret in the environment, no help text shows it."""
    secrets = {credentials.PASSWORD_VARIABLE: SECRET, "RTA_REDIS__URL": f"redis://:{SECRET}@h"}
    for asked in (("--help",), ("demo", "--help"), ("run", "--help")):
        code, words = command(*asked, **secrets)
        assert code == 0
        assert SECRET not in words
    assert credentials.PASSWORD_VARIABLE in words


def test_a_wrong_password_is_named_and_not_shown(locked: server.EmbeddedServer, command: Command) -> None:
    """The supervisor ends with the reason; a client fails at once."""
    wrong = "wr0ng-" + SECRET
    code, words = command("run", "--redis-url", locked.url, **{credentials.PASSWORD_VARIABLE: wrong})
    assert code == errors.RedisRefused.exit_code
    assert "does not take this user or password" in words
    assert wrong not in words
    with pytest.raises(errors.RedisRefused) as caught:
        rta_writers.SessionClient(f"redis://:wrong@127.0.0.1:{locked.port}").open("run", stream="rig")
    assert "wrong@" not in str(caught.value)
