"""Certificates for tests, made by openssl: an authority, and certificates that it signs."""

import subprocess
from pathlib import Path

import msgspec


class Certificate(msgspec.Struct, frozen=True):
    """A certificate and its key."""

    cert: Path
    key: Path


def authority(folder: Path, name: str) -> Certificate:
    """A self-signed certificate that can sign others."""
    certificate = Certificate(folder / f"{name}.crt", folder / f"{name}.key")
    _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
             "-subj", f"/CN={name}", "-keyout", str(certificate.key), "-out", str(certificate.cert))  # fmt: skip
    return certificate


def signed(folder: Path, name: str, issuer: Certificate) -> Certificate:
    """A certificate for 127.0.0.1 and localhost, signed by an issuer."""
    certificate = Certificate(folder / f"{name}.crt", folder / f"{name}.key")
    request, names = folder / f"{name}.csr", folder / f"{name}.ext"
    names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    _openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-subj", f"/CN={name}", "-keyout", str(certificate.key), "-out", str(request))  # fmt: skip
    _openssl("x509", "-req", "-in", str(request), "-CA", str(issuer.cert), "-CAkey", str(issuer.key), "-CAcreateserial",
             "-days", "2", "-extfile", str(names), "-out", str(certificate.cert))  # fmt: skip
    return certificate


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
