"""Answers requests for configurations, which never change: each is named by what it holds."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from rta_supervisor.channels.store import ConfigStore
from rta_supervisor.gateway.rest import answers
from rta_supervisor.gateway.rest.target import RestTarget
from rta_wire import errors

MEDIA_TYPE: Final = "application/vnd.mat.config+json"


class ConfigHandler:
    """The endpoint of configurations. Whoever may see a session knows the names of those that it is bound to."""

    def __init__(self, store: ConfigStore) -> None:
        self._store = store

    async def show(self, request: Request, target: RestTarget) -> Response:
        """`HEAD` and `GET /configs/{identifier}`."""
        data = await self._store.get(target.name)
        if data is None:
            raise errors.UnknownConfig(identifier=target.name)
        return answers.whole_answer(request, data, MEDIA_TYPE, cache=answers.IMMUTABLE, etag=target.name)
