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
    """Runs the command line in this process and gives its exit code and output."""

    def run(*arguments: str, **environment: str) -> tuple[int, str]:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["rta-supervisor", *arguments])
        code = cli_entry.main()
        return code, "".join(capfd.readouterr())

    return run


@pytest.mark.parametrize("source", ["file", "variable", "credential"])
def test_a_password_from_each_source_signs_in_and_is_logged_nowhere(
    locked: server.EmbeddedServer, secret_file: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """A supervisor and a client sign in, and the secret stands in no log, no command line and no option."""
    environment = {
        "file": {"RTA_REDIS__PASSWORD_FILE": str(secret_file)},
        "variable": {credentials.PASSWORD_VARIABLE: SECRET},
        "credential": {credentials.CREDENTIALS_VARIABLE: str(secret_file.parent)},
    }[source]
    url = f"{locked.url}?password_file={secret_file}" if source == "file" else locked.url
    if source != "file":
        monkeypatch.setenv(*next(iter(environment.items())))
    with supervisors.running(locked.url, {**environment, "RTA_LOG__LEVEL": "debug"}, is_fresh=True) as running:
        with rta_writers.SessionClient(url, timeout_s=20).open(f"run-{source}", stream="rig") as session:
            assert SECRET not in str(session.options)
        process = Path("/proc", str(running.process.pid))
        assert SECRET.encode() not in (process / "cmdline").read_bytes()
        running.stop()
        assert SECRET not in running.log_path.read_text()


def test_a_password_on_the_command_line_is_refused_and_not_repeated(command: Command) -> None:
    """A URL with a password is refused as an option, since everybody on the host could read it there."""
    for url in (f"redis://:{SECRET}@127.0.0.1:1/0", f"redis://127.0.0.1:1/0?password={SECRET}"):
        for name in ("run", "demo"):
            code, output = command(name, "--redis-url", url)
            assert code == errors.Usage.exit_code
            assert "password on the command line" in output
            assert SECRET not in output


def test_help_tells_the_names_and_not_the_secret(command: Command) -> None:
    """With the secret in the environment, no help text shows it."""
    secrets = {credentials.PASSWORD_VARIABLE: SECRET, "RTA_REDIS__URL": f"redis://:{SECRET}@h"}
    for arguments in (("--help",), ("demo", "--help"), ("run", "--help")):
        code, output = command(*arguments, **secrets)
        assert code == 0
        assert SECRET not in output
    assert credentials.PASSWORD_VARIABLE in output


def test_a_wrong_password_is_named_and_not_shown(locked: server.EmbeddedServer, command: Command) -> None:
    """A wrong password ends the supervisor with the reason, and fails a client at once."""
    wrong = "wr0ng-" + SECRET
    code, output = command("run", "--redis-url", locked.url, **{credentials.PASSWORD_VARIABLE: wrong})
    assert code == errors.RedisRefused.exit_code
    assert "does not take this user or password" in output
    assert wrong not in output
    with pytest.raises(errors.RedisRefused) as caught:
        rta_writers.SessionClient(f"redis://:wrong@127.0.0.1:{locked.port}").open("run", stream="rig")
    assert "wrong@" not in str(caught.value)
