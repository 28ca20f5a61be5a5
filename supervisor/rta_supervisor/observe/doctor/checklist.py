"""Runs all checks of a deployment, in an order in which a later check may rely on the earlier ones. Reads only.

What is checked is in the modules `*_checks`.
"""

from collections.abc import Awaitable, Callable

import redis.exceptions

from rta_supervisor.observe.doctor import findings, key_checks
from rta_supervisor.observe.doctor.binding_checks import BindingChecks
from rta_supervisor.observe.doctor.deployment_checks import DeploymentChecks
from rta_supervisor.observe.doctor.findings import Finding
from rta_supervisor.observe.doctor.gateway_checks import GatewayChecks
from rta_supervisor.observe.doctor.key_scan import KeyScan
from rta_supervisor.observe.doctor.producer_checks import ProducerChecks
from rta_supervisor.observe.doctor.publishing_checks import PublishingChecks
from rta_supervisor.observe.doctor.server_checks import ServerChecks
from rta_supervisor.settings import settings
from rta_supervisor.transport.failures import is_key_specific
from rta_supervisor.transport.link import Link
from rta_wire import errors, redis_errors

Check = Callable[[], Awaitable[Finding]]


async def run_checks(link: Link, config: settings.Settings, *, scan_keys: int) -> list[Finding]:
    """One finding for each check. If Redis does not answer, nothing else is checked.

    `scan_keys`: how many keys are scanned at most, for orphaned ones and for sessions of other producers.
    """
    scan = KeyScan(link, scan_keys)
    server, deployment = ServerChecks(link, config), DeploymentChecks(link, config, scan)
    reachable = await server.reachable()
    if reachable.level == findings.BAD:
        return [reachable]
    checks: dict[str, Check] = {
        "server": server.server,
        "memory": server.memory,
        "persistence": server.persistence,
        "functions": server.functions,
        "permissions": server.permissions,
        "clock": server.clock,
        "supervisors": deployment.supervisors,
        "control streams": deployment.control_streams,
        "principals": deployment.principals,
        "dead letters": deployment.dead_letters,
        "sessions": deployment.sessions,
        "configurations": BindingChecks(link, config).configurations,
        "spoilt keys": key_checks.KeyChecks(link, config, max_keys=scan_keys).spoilt_keys,
        "archive": deployment.archive,
        "publishing": PublishingChecks(link, config).publishing,
        "orphaned keys": deployment.orphaned_keys,
        "gateways": GatewayChecks(config).gateways,
        "other producers": ProducerChecks(link, config, scan).other_producers,
    }
    return [reachable, *[await _run(name, check) for name, check in checks.items()]]


async def _run(name: str, check: Check) -> Finding:
    try:
        return await check()
    except redis.exceptions.NoPermissionError as error:
        remedy = "Sign in as a user that may look at this, or leave it to somebody who is."
        return findings.warn(name, f"can't be looked at: {redis_errors.first_line(error)}", remedy)
    except redis.exceptions.ResponseError as error:
        if not is_key_specific(error):
            raise
        remedy = "Somebody has put something else in place of a key of ours. Find it by its type, and remove it."
        found = f"can't be looked at: {redis_errors.first_line(error)}"
        return findings.bad(name, found, remedy, errors.Unavailable.exit_code)
