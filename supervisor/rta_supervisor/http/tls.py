"""TLS of a server: a certificate and its key from files, which are read again when they change."""

import ssl
import time
from pathlib import Path
from typing import Final

from rta_supervisor.diagnostics import log
from rta_wire import errors

CHECK_S: Final = 5.0


class CertificateFiles:
    """The context for a new connection. A mistake in files that changed is logged, and the old certificate stays."""

    def __init__(self, cert_file: str, key_file: str, where: str) -> None:
        """`where`: the setting that errors name. Raises `BadConfiguration` for files that can't be used."""
        self._paths = (Path(cert_file), Path(key_file))
        self._where = where
        self._checked_s = time.monotonic()
        self._version = self._read_version()
        self._context = self._load()

    def context(self) -> ssl.SSLContext:
        now_s = time.monotonic()
        if now_s - self._checked_s >= CHECK_S:
            self._checked_s = now_s
            self._refresh()
        return self._context

    def _refresh(self) -> None:
        try:
            version = self._read_version()
            if version != self._version:
                self._version = version
                self._context = self._load()
                log.get().info("certificate_read", path=str(self._paths[0]))
        except errors.BadConfiguration as error:
            log.get().error("certificate_refused", error=str(error))

    def _read_version(self) -> list[tuple[int, int]]:
        try:
            return [(status.st_mtime_ns, status.st_ino) for status in (path.stat() for path in self._paths)]
        except OSError as error:
            raise self._unusable(error) from error

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(*self._paths)
        except (OSError, ValueError) as error:
            raise self._unusable(error) from error
        return context

    def _unusable(self, error: Exception) -> errors.BadConfiguration:
        return errors.BadConfiguration(where=self._where, reason=f"the certificate can't be used: {error}")
