"""The API conforms to its OpenAPI description, for valid requests and for invalid ones (schemathesis)."""

from __future__ import annotations

from collections import Counter

import pytest
import schemathesis
from api_rig import OPERATE_TOKEN, RAISE, READ_TOKEN, WELL, Clock, Rig, bearer, entry
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tuner_cases import NOW_MS, SOURCE

from tuner.api.limits import RequestRate, TokenBuckets
from tuner.control.mutation_quota.decision import QuotaReason, TenantShare, TotalRateReport
from tuner.control.mutation_quota.entity import Tenant
from tuner.control.mutation_quota.model import QuotaView
from tuner.control.mutation_quota.policy import QuotaStep
from tuner.control.mutation_quota.state import MutationMemory, TotalRate
from tuner.core.cluster import Setpoint
from tuner.core.operator_orders import Orders, Override, Pause
from tuner.core.throttle_limits import MB
from tuner.journal.entries import steering_entry

CHECKS = (
    schemathesis.checks.not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance,
    response_headers_conformance, negative_data_rejection,
)  # fmt: skip
GENERATED = settings(
    max_examples=20, deadline=None, phases=(Phase.explicit, Phase.generate), derandomize=True,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


def full_rig() -> Rig:
    """A tuner with data for every route and without request limits."""
    rig = Rig(reads=TokenBuckets(RequestRate(1e9, 1e9), Clock()), orders=TokenBuckets(RequestRate(1e9, 1e9), Clock()))
    orders = Orders(9, Pause(NOW_MS, "li"), overrides={SOURCE: Override(5 * MB, NOW_MS + 60_000, "kim")})
    rig.cycle(RAISE, WELL, orders=orders, courses={SOURCE: Setpoint(12 * MB, no_headroom=True)})
    rig.observers.decisions.add([entry("intent"), entry("outcome", failure="refused"), steering_entry([RAISE], NOW_MS)])
    held = TenantShare(Tenant("ann"), 5.0, True, 2.0, 2.0, QuotaReason.FAIR_SHARE, None)
    said = TotalRateReport(10.0, 0.8, QuotaReason.AT_CAP, "at the cap")
    rig.quotas.publish(
        QuotaView(NOW_MS, {}), QuotaStep(MutationMemory(), (said,), (held,)), MutationMemory(TotalRate(10.0))
    )
    return rig


RIG = full_rig()
# The event stream never ends, so it cannot be tested by waiting for a response.
SCHEMA = schemathesis.openapi.from_dict(RIG.app.openapi()).exclude(path="/api/v1/events")
SCHEMA.app = RIG.app


@SCHEMA.parametrize()
@GENERATED
def test_every_response_conforms_to_its_schema(case: schemathesis.Case) -> None:
    for who in (OPERATE_TOKEN, READ_TOKEN) if case.method != "GET" else (READ_TOKEN,):
        answer = case.call_and_validate(headers=bearer(who), checks=CHECKS)
        # A refused caller would leave the request itself untested.
        assert answer.status_code not in ((403, 429) if who == OPERATE_TOKEN else (429,)), answer.text


def test_generated_overrides_are_accepted_or_refused_by_content() -> None:
    """The caller is allowed and not limited, so only the content decides."""
    came: Counter[int] = Counter()

    @given(SCHEMA["/api/v1/override"]["POST"].as_strategy())
    @settings(GENERATED, max_examples=60)
    def overrides(case: schemathesis.Case) -> None:
        assert isinstance(case.body, dict)
        case.body["broker"] = 3  # A generated broker id is hardly ever alive.
        came[case.call(headers=bearer(OPERATE_TOKEN)).status_code] += 1

    overrides()
    assert came.keys() <= {202, 404, 422}, came
    assert came[202], came
    assert came[422], came


def test_every_route_is_documented_with_its_token() -> None:
    described = RIG.app.openapi()["paths"]
    assert {f"{method} {path}" for path, of in described.items() for method in of} == {
        "get /api/v1/status", "get /api/v1/plans", "get /api/v1/moves", "get /api/v1/moves/partitions", "get /api/v1/brokers",
        "get /api/v1/brokers/{broker}", "get /api/v1/brokers/{broker}/week", "get /api/v1/brokers/{broker}/history",
        "get /api/v1/plan-history", "get /api/v1/plan-history/{plan}", "get /api/v1/plan-history/{plan}/partitions", "get /api/v1/history", "get /api/v1/replication", "get /api/v1/tenants", "get /api/v1/mutations",
        "get /api/v1/decisions",
        "get /api/v1/decisions/{number}", "get /api/v1/reasons", "get /api/v1/events", "post /api/v1/pause",
        "post /api/v1/resume", "post /api/v1/release", "post /api/v1/override", "delete /api/v1/override/{broker}",
        "post /api/v1/plans",
    }  # fmt: skip
    for path, of in described.items():
        for method, operation in of.items():
            assert operation["security"] == [{"HTTPBearer": []}], (method, path)
            assert {"401", "422", "429"} <= operation["responses"].keys(), (method, path)


@pytest.mark.parametrize(
    "path",
    ["status", "moves", "plans", "brokers", "replication", "decisions", "tenants", "mutations", "moves/partitions"],
)
def test_response_has_no_undocumented_keys(path: str) -> None:
    """Schemathesis accepts undocumented keys, on which clients would come to rely."""
    operation = RIG.app.openapi()["paths"][f"/api/v1/{path}"]["get"]
    name = operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[1]
    described = RIG.app.openapi()["components"]["schemas"][name]["properties"]
    assert RIG.get(f"/api/v1/{path}").json().keys() == described.keys()
