"""Where engineers look at the data of sessions: the viewer of a gateway, as configured or found on this host."""

import ssl
from typing import Any, Final

import anyio

from rta_supervisor.settings import settings
from rta_supervisor.settings.sections.servers import http

CONNECT_TIMEOUT_S: Final = 1.0
_ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not listened on


async def find_viewer(config: settings.Settings) -> dict[str, Any]:
    """What the live page links to: `url` as configured; else `scheme` and `port` of a gateway on this host, for which
    the page uses the host name that it was asked for by; else nothing. `is_local`: whether that gateway can be reached
    from this host only."""
    if config.http.viewer_url:
        return {"url": config.http.viewer_url}
    gateway = config.gateway
    host = _ANY_ADDRESS.get(gateway.host, gateway.host)
    try:
        with anyio.fail_after(CONNECT_TIMEOUT_S):
            stream = await anyio.connect_tcp(host, gateway.port)
    except (OSError, TimeoutError, ssl.SSLError):
        return {}
    await stream.aclose()
    scheme = "https" if gateway.cert_file else "http"
    return {"scheme": scheme, "port": gateway.port, "isLocal": http.is_loopback(gateway.host)}
