"""A certificate of a server on 127.0.0.1, signed by itself."""

import subprocess
from pathlib import Path


def make_certificate(folder: Path, name: str) -> None:
    """Write `cert.pem` and `key.pem`."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run([*command, *files], check=True, capture_output=True)
