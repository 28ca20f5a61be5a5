"""The OpenAPI document against the server: what schemathesis makes of it is answered as it says."""

from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from schemathesis.core.result import Ok

import rta_writers
from rta_supervisor.gateway.rest import openapi
from rta_supervisor.gateway.rest.target import Endpoint
from rta_supervisor.settings import settings
from tests.support import rest_gateway
from tests.support.rest_gateway import RestGateway

EXAMPLES = 12
schemathesis.checks.load_all_checks()
CHECKS = schemathesis.checks.CHECKS.get_by_names(
    ["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance"]
)


def test_the_document_is_served(gateway: RestGateway) -> None:
    """At its well-known path, with every endpoint that there is."""
    served = gateway.ask("/openapi.json").json()
    assert served == openapi.document()
    operations = {part["operationId"] for path in served["paths"].values() for part in path.values()}
    assert operations == {endpoint.value for endpoint in Endpoint} | {"info", "search_sessions"}


# The gateway under test has threads in this process, and schemathesis itself draws from the global generator: that
# moves while a case is made, which hypothesis takes for a strategy that can't be replayed.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning")
def test_the_server_keeps_to_the_document(gateway: RestGateway, sessions: rta_writers.SessionClient) -> None:
    """Any request of the document gets a status, a type and a body that the document has."""
    sessions.open("0", stream="rig", details={"Lap": 1})
    schema = schemathesis.openapi.from_dict(openapi.document())
    for result in schema.get_all_operations():
        assert isinstance(result, Ok), result
        operation = result.ok()

        @hypothesis_settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            case.call_and_validate(base_url=gateway.address, checks=CHECKS)

        ask()


@pytest.mark.parametrize(
    ("origin", "is_allowed"), [("https://wall.example.com", True), ("https://evil.example", False)]
)
def test_pages_of_named_origins_may_ask(url: str, catalogue_path: str, origin: str, is_allowed: bool) -> None:
    """A browser is told so, before it sends a token and with the answer."""
    config = settings.Settings(
        redis=settings.RedisSettings(url=url),
        catalogue=settings.CatalogueSettings(path=catalogue_path),
        gateway=msgspec.structs.replace(settings.GatewaySettings(), origins=("https://wall.example.com",)),
    )
    with rest_gateway.running(config) as gateway:
        answer = gateway.get("/sessions", Origin=origin)
        assert (answer.headers.get("access-control-allow-origin") == origin) is is_allowed
        headers = {
            "Origin": origin,
            "Access-Control-Request-Method": "GET",
            "Access-Control-Request-Headers": "authorization",
        }
        assert gateway.ask("/rta/v2/sessions", "OPTIONS", headers).status == (200 if is_allowed else 400)
