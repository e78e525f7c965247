"""Hostile or careless clients of the tuner's HTTP server."""

from __future__ import annotations

from pathlib import Path

import pytest
from api_rig import OPERATE_TOKEN, READ_TOKEN, Rig, bearer
from fastapi.testclient import TestClient
from test_orders import overridden
from tuner_cases import NOW_MS, SOURCE

from rheostat.config.settings import load_settings
from rheostat.errors import BadInputError
from streaming.shared.contract import MoveSignal, Side
from tuner.api.api_state import ApiState
from tuner.api.auth import ApiRole, CredentialsError, Tokens, make_token
from tuner.api.limits import RequestRate, TokenBuckets
from tuner.api.orders_api import OrderChange
from tuner.api.responses import SECURITY_HEADERS
from tuner.api.server import make_app
from tuner.control.throttle.operator_overrides import apply_new_orders, limit_override
from tuner.control.throttle.state import Memory
from tuner.core.operator_orders import Orders, Override
from tuner.core.plan_progress import move_eta_s
from tuner.core.throttle_limits import MB, ThrottleLimits

LIMITS = ThrottleLimits(rate_bytes_per_s_max=50 * MB)


def test_request_with_foreign_host_name_is_refused() -> None:
    rig = Rig(tokens=False)
    rig.cycle()
    rebound = TestClient(rig.app, base_url="http://evil.example", client=("127.0.0.1", 50000))
    assert rebound.get("/api/v1/status").status_code == 403
    assert rebound.get("/metrics").status_code == 403
    for name in ("http://localhost:9464", "http://127.0.0.1:9464", "http://[::1]:9464"):
        assert TestClient(rig.app, base_url=name, client=("127.0.0.1", 50000)).get("/api/v1/status").status_code == 200


def test_read_limit_does_not_block_orders_or_probes() -> None:
    rig = Rig(reads=TokenBuckets(RequestRate(per_s=1.0, burst=5), lambda: 0.0))
    rig.cycle()
    said = [rig.http.get("/", headers={}).status_code for _ in range(10)]
    assert said[-1] == 429
    assert rig.http.get("/healthz").status_code == 200
    assert rig.post("/api/v1/pause").status_code == 202


def test_wrong_tokens_are_limited_without_an_operate_token_too() -> None:
    rig = Rig()
    rig.cycle()
    app = make_app(
        ApiState(rig.observers, rig.quotas), rig.registry, 5.0, rig.clock,
        tokens=Tokens((make_token(READ_TOKEN, "grafana", ApiRole.READ),)), order_service=rig.order_service, monotonic=rig.clock,
    )  # fmt: skip
    http = TestClient(app, base_url="http://127.0.0.1")

    def tries(secret: str) -> int:
        return http.post("/api/v1/pause", headers={"Authorization": f"Bearer {secret}"}).status_code

    assert tries(READ_TOKEN) == 403
    assert [tries("w" * 24) for _ in range(11)] == [401] * 10 + [429]


@pytest.mark.parametrize("body", ["{", '{"rate_bytes_per_s": "x"}', "\udcff"])
def test_unauthorized_order_is_refused_before_its_body_is_checked(body: str) -> None:
    rig = Rig()
    rig.cycle()

    def asks(who: str | None) -> int:
        headers = bearer(who) | {"Content-Type": "application/json"}
        sent = body.encode(errors="surrogateescape")
        return rig.http.post("/api/v1/override", content=sent, headers=headers).status_code

    assert asks(None) == 401
    assert asks("w" * 24) == 401
    assert asks(READ_TOKEN) == 403
    assert asks(OPERATE_TOKEN) in (400, 422)


def test_each_order_takes_one_token_of_its_limit() -> None:
    rig = Rig()
    rig.cycle()
    assert [rig.post("/api/v1/pause").status_code for _ in range(11)] == [202] * 10 + [429]


def test_internal_error_has_security_headers_and_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    rig = Rig()
    rig.cycle()

    def broken(change: OrderChange) -> Orders:
        raise RuntimeError("an unexpected error")

    rig.order_service.submit = broken  # type: ignore[method-assign]
    answer = rig.post("/api/v1/pause")
    assert (answer.status_code, answer.json()) == (
        500,
        {"detail": "the tuner failed to answer this request: see the tuner's log"},
    )
    assert SECURITY_HEADERS.items() <= dict(answer.headers).items()
    assert answer.headers["cache-control"] == "no-store"
    said = capsys.readouterr().out
    assert "an unexpected error" in said
    assert OPERATE_TOKEN not in said


def test_order_before_the_first_cycle_is_unavailable() -> None:
    assert Rig().post("/api/v1/pause").status_code == 503


def test_token_in_both_file_and_settings_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"operate kim {READ_TOKEN}\n")
    with pytest.raises(CredentialsError, match="is also in the settings"):
        Tokens((make_token(READ_TOKEN, "grafana", ApiRole.READ),), str(file))


def test_error_about_numeric_token_hides_it(tmp_path: Path) -> None:
    file = tmp_path / "rheostat.yaml"
    file.write_text(
        "cluster: lab\nkafka: {bootstrap_servers: a:1}\ntuner: {rate_bytes_per_s_max: 1000000, http: {operate_token: "
        "12345678901234567890}}\n"
    )
    with pytest.raises(BadInputError) as refused:
        load_settings(file)
    assert "operate_token" in str(refused.value)
    assert "12345678901234567890" not in str(refused.value)


def test_move_eta_beyond_calendar_range_is_none() -> None:
    def slow(slope: float) -> MoveSignal:
        return MoveSignal(
            "lab",
            1,
            Side.FOLLOWER,
            NOW_MS,
            NOW_MS,
            6,
            1.0,
            moving_partitions=1,
            listed_partitions=1,
            remaining_bytes=1e12,
            remaining_slope_bytes_per_s=slope,
        )

    assert move_eta_s(slow(-1e6)) == 1e6
    assert move_eta_s(slow(-1.0)) is None
    assert move_eta_s(slow(-1e-300)) is None


# -- orders -------------------------------------------------------------------------------------------------------------


def test_only_active_override_ends_external_hold() -> None:
    memory = Memory(externally_owned_until_ms={SOURCE: NOW_MS + 3_600_000})
    assert (
        apply_new_orders(overridden(MB, NOW_MS - 1), memory, LIMITS, NOW_MS)[0].externally_owned_until_ms
        == memory.externally_owned_until_ms
    )
    assert apply_new_orders(overridden(MB, NOW_MS + 60_000), memory, LIMITS, NOW_MS)[0].externally_owned_until_ms == {}


def test_override_is_limited_to_current_maximum_rate() -> None:
    assert limit_override(Override(900 * MB, NOW_MS, "kim"), LIMITS) == Override(50 * MB, NOW_MS, "kim")
    assert limit_override(Override(5 * MB, NOW_MS, "kim"), LIMITS) == Override(5 * MB, NOW_MS, "kim")
    assert limit_override(None, LIMITS) is None
