"""Valid and invalid requests made from the OpenAPI document: no 5xx, nothing undeclared."""

from __future__ import annotations

import warnings
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    schemathesis = pytest.importorskip("schemathesis")
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

HOST = {"Host": "127.0.0.1"}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
pytestmark = pytest.mark.filterwarnings("ignore")  # those of the tool itself


def examined(client, keyed, n: int) -> int:
    """Send n valid and n invalid requests to each address; return how many were sent."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", client.app, headers=HOST)
    sent = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        for mode in schemathesis.GenerationMode:
            try:
                cases = operation.as_strategy(generation_mode=mode)
            except Exception:  # a route without parameters has no invalid request
                continue

            @settings(
                max_examples=n,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=cases)
            def ask(case):
                nonlocal sent
                answer = case.call(headers={**keyed, **HOST})
                case.validate_response(answer, checks=CHECKS)
                sent += 1

            with suppress(Unsatisfiable):
                ask()
    return sent


def test_responses_conform_to_the_document(client, keyed):
    assert examined(client, keyed, 5) > 100


@pytest.mark.slow
def test_responses_conform_to_the_document_at_length(client, keyed):
    sent = examined(client, keyed, 300)
    print(f"{sent} requests")
    assert sent > 4000
