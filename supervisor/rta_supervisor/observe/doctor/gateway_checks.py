"""Checks of the gateways that the settings name: whether one answers, and can serve."""

import anyio.to_thread

from rta_supervisor.observe import gateway_client
from rta_supervisor.observe.doctor import findings
from rta_supervisor.observe.doctor.findings import Finding
from rta_supervisor.settings import settings


class GatewayChecks:
    """The gateways at `gateway.addresses`."""

    def __init__(self, config: settings.Settings) -> None:
        self._addresses = config.gateway.addresses

    async def gateways(self) -> Finding:
        """A gateway that does not run is no fault: not everybody has viewers."""
        ready, silent, problems = [], [], []
        for address in self._addresses:
            try:
                status, answer = await anyio.to_thread.run_sync(gateway_client.ask, address, "/health")
            except gateway_client.ASKING_ERRORS as error:
                silent.append(f"{address} ({error})")
                continue
            if status == 200:
                ready.append(address)
            elif status == 401:
                problems.append(f"{address} wants a token: set {gateway_client.TOKEN_VARIABLE}")
            else:
                reason = answer.get("reason", "") if isinstance(answer, dict) else answer
                problems.append(f"{address} says {status}: {reason}")
        if problems:
            return findings.warn("gateways", findings.name_some(problems), "See the log: journalctl -u rta-gateway")
        if silent and ready:
            remedy = "Start it, or take it out of gateway.addresses."
            return findings.warn("gateways", f"none answers at {findings.name_some(silent)}", remedy)
        if silent or not ready:
            return findings.ok("gateways", "none runs at gateway.addresses")
        return findings.ok("gateways", f"{findings.name_some(ready)} ready")
