"""The gateway: serves live, cold and archived sessions to viewers over WebSocket and REST. Reads only.

`live` has the WebSocket, `rest` everything else under `/rta/v2`, `access` who may see what. `runtime.gateway` runs it.
"""
