"""TLS with client certificates against Debian's redis-server. The embedded server has no TLS."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import anyio
import msgspec
import pyarrow as pa
import pytest
import redis

import rta_writers
from rta_supervisor.embedded import server
from rta_supervisor.settings import settings
from rta_supervisor.transport import server_check
from rta_supervisor.transport.link import Link
from rta_wire import errors, redis_errors
from rta_writers.connection import redis_client, retry
from tests.integration.transport import certificates
from tests.support import samples, supervisors
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(
    not (shutil.which("redis-server") and shutil.which("openssl")),
    reason="needs redis-server (Debian's has TLS; apt install redis-server) and openssl",
)


class Tls(msgspec.Struct, frozen=True):
    """A server that demands certificates, and the files of a client that it trusts."""

    url: str
    files: dict[str, str]

    def full_url(self, **changes: str) -> str:
        """The URL of a writer, with the files in its query."""
        return f"{self.url}?{urlencode({**self.files, **changes})}"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tls]:
    folder = tmp_path_factory.mktemp("tls")
    authority = certificates.authority(folder, "authority")
    host, client = (certificates.signed(folder, name, authority) for name in ("server", "client"))
    port = server.free_port()
    options = {
        "port": "0", "tls-port": str(port), "bind": "127.0.0.1", "save": "", "dir": str(folder),
        "tls-cert-file": str(host.cert), "tls-key-file": str(host.key), "tls-ca-cert-file": str(authority.cert),
        "tls-auth-clients": "yes", "requirepass": "",
    }  # fmt: skip
    command = ["redis-server", *(argument for name, value in options.items() for argument in (f"--{name}", value))]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            wait_until(lambda: _listens(port), what=f"redis-server: {(folder / 'log').read_text()}")
            files = {"ca_file": str(authority.cert), "cert_file": str(client.cert), "key_file": str(client.key)}
            yield Tls(f"rediss://127.0.0.1:{port}/0", files)
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_session_from_end_to_end_over_tls(tls: Tls) -> None:
    """Supervisor, session client, writer and reader, each with a certificate."""
    environment = {f"RTA_REDIS__{name.upper()}": path for name, path in tls.files.items()}
    with supervisors.running(tls.url, environment), redis_client.connect(tls.full_url()) as client:
        times = [samples.START_NS, samples.START_NS + 1]
        session = rta_writers.SessionClient(tls.full_url(), timeout_s=20).open("run", stream="rig")
        with session, rta_writers.BurstWriter(session.options, unit="u") as writer:
            writer.write(pa.record_batch({"channel": [1, 1], "time": times, "value": [1.0, 2.0]}))
        assert [value for _, _, value in samples.rows(client, "rig")] == [1.0, 2.0]


def failure(url: str) -> redis_errors.ClassifiedError:
    with redis_client.connect(url) as client, pytest.raises((redis.exceptions.RedisError, OSError)) as caught:
        client.ping()
    classified = redis_errors.classify(caught.value)
    assert classified is not None
    return classified


def test_a_server_that_we_do_not_trust_is_refused_at_once(tls: Tls, tmp_path: Path) -> None:
    """One that another authority signed, and one that nobody signed whom this host knows."""
    other = certificates.authority(tmp_path, "other")
    for url in (tls.full_url(ca_file=str(other.cert)), tls.url):
        error = failure(url)
        assert (error.code, error.kind) == ("TLS", redis_errors.FailureKind.PERMANENT), error
        with pytest.raises(errors.RedisRefused, match="don't agree on TLS"):
            rta_writers.SessionClient(url, timeout_s=20).open("run", stream="rig")


def test_a_client_that_the_server_does_not_trust_is_refused(
    tls: Tls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No certificate, or one of another authority. The server hangs up, sometimes before its reason gets to us."""
    monkeypatch.setattr(retry, "OUTAGE_TIMEOUT_S", 0.3)
    stranger = certificates.signed(tmp_path, "stranger", certificates.authority(tmp_path, "other"))
    for url in (
        f"{tls.url}?{urlencode({'ca_file': tls.files['ca_file']})}",
        tls.full_url(cert_file=str(stranger.cert), key_file=str(stranger.key)),
    ):
        assert failure(url).code in ("TLS", "RESET")
        with pytest.raises((errors.RedisRefused, errors.RedisUnreachable), match=r"TLS|SSL|protocol|reset|closed"):
            rta_writers.SessionClient(url, timeout_s=20).open("run", stream="rig")


async def test_a_supervisor_with_a_wrong_authority_does_not_start(tls: Tls) -> None:
    """One whose server is not trusted: it says why, and does not wait for what can't come."""
    link = Link(settings.RedisSettings(url=tls.url, startup_patience_s=60))
    with anyio.fail_after(30), pytest.raises(errors.RedisRefused, match="don't agree on TLS"):
        await server_check.connect(link)
    await link.close()


def test_files_have_to_be_there(tls: Tls) -> None:
    """A file that is missing, and files for a scheme without TLS, are mistakes of the configuration."""
    with pytest.raises(errors.BadConfiguration, match="cert_file /nowhere: it can't be read"):
        redis_client.connect(tls.full_url(cert_file="/nowhere"))
    with pytest.raises(errors.BadConfiguration, match="redis:// has no TLS"):
        redis_client.connect(f"redis://127.0.0.1:1/0?ca_file={tls.files['ca_file']}")
