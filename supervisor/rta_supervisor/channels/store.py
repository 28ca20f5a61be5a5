"""The configurations that were published, by their identifiers: Redis has those that sessions are bound to, the
catalogue has all. Reading needs no supervisor.
"""

from collections.abc import Sequence
from typing import Any

import redis.exceptions

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.diagnostics import log
from rta_supervisor.transport.failures import OUTAGE_ERRORS, classify, is_key_specific, to_rta_error
from rta_supervisor.transport.link import Link
from rta_wire import errors, keys, name_checks, redis_errors, redis_url
from rta_wire.channels import config_json


class ConfigStore:
    """Configurations never change: one that is not what its identifier says is not given to anybody."""

    def __init__(self, link: Link, names: keys.Keys, catalogue: Catalogue | None) -> None:
        """`catalogue`: one that may be read only; None where there is none to be read."""
        self._link = link
        self._keys = names
        self._catalogue = catalogue
        self._log = log.get()

    async def get(self, identifier: str) -> bytes | None:
        """The JSON of a configuration, from Redis or else from the catalogue; None where nobody published it here.

        A Redis that is away or does not let us read it matters only where the catalogue does not have it.
        """
        if not name_checks.is_config_identifier(identifier):
            return None
        problem: Exception | None = None
        try:
            if (data := await self.get_live(identifier)) is not None:
                return data
        except (*OUTAGE_ERRORS, redis.exceptions.NoPermissionError) as error:
            problem = error
        data = await self.get_saved(identifier)
        if data is None and problem is not None:
            raise self._readable_problem(problem) from problem
        return data

    async def get_live(self, identifier: str) -> bytes | None:
        """The JSON of a configuration that Redis has."""
        [reply] = await self._link.try_all([("GET", self._keys.config(identifier))])
        if isinstance(reply, Exception):
            if not is_key_specific(reply):
                raise classify(reply)
            self._log.error("config_spoilt", config=identifier, reason=redis_errors.first_line(reply))
            return None
        return self._checked(identifier, reply, where="Redis")

    async def get_saved(self, identifier: str) -> bytes | None:
        """The JSON of a configuration that the catalogue has."""
        if self._catalogue is None:
            return None
        return self._checked(identifier, await self._catalogue.config(identifier), where=self._catalogue.name)

    async def put_live(self, identifier: str, data: bytes, *, ttl_s: int) -> None:
        """Have Redis keep a configuration for a time at least. One that is there stays as it is, unless somebody
        spoilt it."""
        key = self._keys.config(identifier)
        is_new = await self._link.do("SET", key, data, "NX", "EX", ttl_s)
        if is_new is not None:
            return
        if await self.get_live(identifier) is None:
            await self._link.do("SET", key, data, "EX", ttl_s)
        else:
            await self._link.do("EXPIRE", key, ttl_s, "GT")

    async def renew(self, identifiers: Sequence[str], *, ttl_s: int) -> list[str]:
        """Keep configurations in Redis for a time from now on. Gives those that it does not have."""
        replies = await self._link.do_all([("EXPIRE", self._keys.config(name), ttl_s) for name in identifiers])
        return [identifier for identifier, is_there in zip(identifiers, replies, strict=True) if not is_there]

    def _checked(self, identifier: str, data: Any, *, where: str) -> bytes | None:
        if data is None:
            return None
        if config_json.identifier(data) != identifier:
            self._log.error("config_spoilt", config=identifier, reason=f"{where} holds something else under its name")
            return None
        return bytes(data)

    def _readable_problem(self, problem: Exception) -> errors.RtaError:
        if isinstance(problem, redis.exceptions.NoPermissionError):
            rule = f"%R~{self._keys.config('*')} +get"
            reason = f"{redis_errors.first_line(problem)}. Add {rule} to its ACL, as in conf/acl"
            return errors.RedisRefused(url=redis_url.redact(self._link.config.url), reason=reason)
        return to_rta_error(self._link.config.url, problem)
