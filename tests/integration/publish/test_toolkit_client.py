"""Connections to the services: TLS, tokens, and what status codes mean."""

import datetime as dt
import ipaddress
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rta_supervisor.publish.toolkit_client import CallFailed, CallRefused, SessionMissing, ToolkitClient
from rta_supervisor.settings import settings
from rta_wire.pb import session_service_pb2 as pb
from tests.support.toolkit_services import Fault, ToolkitServices

TOKEN = "a-token-of-a-test"  # noqa: S105 - of this test
REQUEST = pb.CreateOrUpdateSessionRequest(
    identity="run-1",
    create_if_not_exists=pb.NewSession(state=2, timestamp="2026-11-18T00:00:00Z", identifier="Run 1"),
)


def certificate(folder: Path) -> tuple[bytes, bytes]:
    """A key and a certificate of 127.0.0.1, which is also written to `ca.pem`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public = signed.public_bytes(serialization.Encoding.PEM)
    (folder / "ca.pem").write_bytes(public)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private, public


async def test_tls_and_a_token(tmp_path: Path) -> None:
    """The service is checked with the certificate of the settings, and has the token with each call."""
    services = ToolkitServices()
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    with services.running(credentials=grpc.ssl_server_credentials([certificate(tmp_path)])):
        config = settings.PublishSettings(
            session_address=services.address,
            tls=True,
            ca_file=str(tmp_path / "ca.pem"),
            token_file=str(tmp_path / "token"),
        )
        config.check()
        client = ToolkitClient(config)
        await client.update_session(REQUEST)
        await client.close()
        assert services.metadata[-1]["authorization"] == f"Bearer {TOKEN}"
        assert list(services.sessions) == ["run-1"]


async def test_a_service_with_another_certificate_is_not_called(tmp_path: Path) -> None:
    """One that the settings do not vouch for gets nothing, and no token."""
    services = ToolkitServices()
    credentials = grpc.ssl_server_credentials([certificate(tmp_path)])
    certificate(tmp_path)
    with services.running(credentials=credentials):
        config = settings.PublishSettings(
            session_address=services.address, tls=True, ca_file=str(tmp_path / "ca.pem"), token=TOKEN, timeout_s=2
        )
        client = ToolkitClient(config)
        with pytest.raises(CallFailed):
            await client.update_session(REQUEST)
        await client.close()
        assert services.requests == []


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, CallRefused),
        (grpc.StatusCode.OUT_OF_RANGE, CallRefused),
        (grpc.StatusCode.NOT_FOUND, SessionMissing),
        (grpc.StatusCode.UNAVAILABLE, CallFailed),
        (grpc.StatusCode.UNAUTHENTICATED, CallFailed),
        (grpc.StatusCode.INTERNAL, CallFailed),
        (grpc.StatusCode.UNIMPLEMENTED, CallFailed),
    ],
)
async def test_what_a_status_means(code: grpc.StatusCode, meaning: type[Exception]) -> None:
    """A bad argument will never work; whatever else fails may work later. The reason of the service is kept."""
    services = ToolkitServices()
    services.fault = lambda _method, _request: Fault(code, details="because")
    with services.running():
        client = ToolkitClient(settings.PublishSettings(session_address=services.address))
        with pytest.raises(meaning, match=f"{code.name}: because"):
            await client.update_session(REQUEST)
        await client.close()
