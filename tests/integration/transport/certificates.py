"""Certificates for a test, made by openssl: an authority, and what it signs."""

import subprocess
from pathlib import Path

import msgspec


class Pair(msgspec.Struct, frozen=True):
    """A certificate and its key."""

    cert: Path
    key: Path


def authority(folder: Path, name: str) -> Pair:
    made = Pair(folder / f"{name}.crt", folder / f"{name}.key")
    _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
             "-subj", f"/CN={name}", "-keyout", str(made.key), "-out", str(made.cert))  # fmt: skip
    return made


def signed(folder: Path, name: str, by: Pair) -> Pair:
    """For 127.0.0.1 and localhost."""
    made = Pair(folder / f"{name}.crt", folder / f"{name}.key")
    request, names = folder / f"{name}.csr", folder / f"{name}.ext"
    names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    _openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-subj", f"/CN={name}", "-keyout", str(made.key), "-out", str(request))  # fmt: skip
    _openssl("x509", "-req", "-in", str(request), "-CA", str(by.cert), "-CAkey", str(by.key), "-CAcreateserial",
             "-days", "2", "-extfile", str(names), "-out", str(made.cert))  # fmt: skip
    return made


def _openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)
