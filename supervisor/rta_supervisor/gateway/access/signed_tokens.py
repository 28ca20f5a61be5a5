"""Tokens that another service signed (JWT): checked with its public keys, which are read again when they change."""

import hashlib
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives import serialization

from rta_supervisor.diagnostics import log
from rta_supervisor.gateway.access.grant import Grant
from rta_supervisor.settings import settings
from rta_wire import errors

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Those with a public key. One with a shared secret would let whoever can check a token make one."""

LEEWAY_S: Final = 30.0
"""By how much clocks may differ."""

TOKEN_MAX_CHARS: Final = 16_384
PREFIXES_MAX: Final = 1000
WHERE: Final = "gateway.jwks_file"


class SignedTokens:
    """Checks JWTs against the issuer, the audience and the keys of the settings."""

    def __init__(self, config: settings.GatewaySettings) -> None:
        """Raises `BadConfiguration` for a file of keys that can't be read."""
        self._config = config
        self._path = Path(config.jwks_file)
        self._read_mtime_ns = -1
        self._keys: list[jwt.PyJWK] = []
        self._read()

    def find(self, token: str) -> Grant | None:
        """What a token may see; None where it is no valid JWT of the issuer for this gateway."""
        if len(token) > TOKEN_MAX_CHARS or token.count(".") != 2:
            return None
        try:
            claims, key = self._verify(token)
        except jwt.PyJWTError as error:
            log.get().debug("gateway_jwt_refused", error=str(error))
            return None
        prefixes = claims.get(self._config.jwt_claim)
        if isinstance(prefixes, str):
            prefixes = prefixes.split()
        if not isinstance(prefixes, list) or not all(isinstance(prefix, str) and prefix for prefix in prefixes):
            return None
        return Grant(
            str(claims.get("sub", "jwt")),
            tuple(prefixes[:PREFIXES_MAX]),
            float(claims["exp"]) + LEEWAY_S,
            proof=_thumbprint(key),
        )

    def has(self, grant: Grant) -> bool:
        """Whether the key that signed the token of a grant still counts."""
        return any(_thumbprint(key) == grant.proof for key in self._keys)

    def _verify(self, token: str) -> tuple[dict[str, Any], jwt.PyJWK]:
        """The claims of a token, and the key that signed it."""
        header = jwt.get_unverified_header(token)
        key_id = header.get("kid")
        candidates = [key for key in self._keys if key_id is None or key.key_id == key_id]
        error: jwt.PyJWTError = jwt.InvalidKeyError(f"no key {key_id!r}")
        for key in candidates:
            try:
                claims: dict[str, Any] = jwt.decode(
                    token,
                    key,
                    algorithms=[key.algorithm_name],
                    issuer=self._config.jwt_issuer,
                    audience=self._config.jwt_audience,
                    leeway=LEEWAY_S,
                    options={"require": ["exp", "iss", "aud"]},
                )
            except jwt.PyJWTError as failure:
                error = failure
            else:
                return claims, key
        raise error

    def refresh(self) -> None:
        """Read the keys again if their file changed. A mistake is logged, and the keys from before stay."""
        try:
            if self._path.stat().st_mtime_ns != self._read_mtime_ns:
                self._read()
                log.get().info("gateway_keys_read", path=str(self._path), keys=len(self._keys))
        except (OSError, errors.BadConfiguration) as error:
            log.get().error("gateway_keys_refused", error=str(error))

    def _read(self) -> None:
        try:
            self._read_mtime_ns = self._path.stat().st_mtime_ns
            keys = jwt.PyJWKSet.from_json(self._path.read_text()).keys
            self._keys = [key for key in keys if key.algorithm_name in ALGORITHMS]
        except OSError as error:
            raise errors.BadConfiguration(
                where=WHERE, reason=f"{self._path} can't be read: {error.strerror}"
            ) from error
        except (jwt.PyJWTError, ValueError) as error:
            raise errors.BadConfiguration(where=WHERE, reason=f"{self._path} is no JWKS: {error}") from error


def _thumbprint(key: jwt.PyJWK) -> bytes:
    der = key.key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).digest()
