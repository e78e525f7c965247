"""The API gives exactly the refusals that its description names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from api_rig import OPERATE_TOKEN, READ_TOKEN, Clock, Rig, bearer

from streaming.shared.connection_limits import SlotLimits
from tuner.api.connection_table import limits_for_descriptors
from tuner.api.limits import BODY_BYTES_MAX, PLAN_BYTES_MAX, PLAN_PATH, RequestRate, TokenBuckets
from tuner.api.plan_service import PlanRefused
from tuner.api.requests_at_once import ConcurrentRequestLimiter

Given = Callable[[Any, str, str, pytest.MonkeyPatch], int]
OVERRIDE = {"broker": 3, "rate_bytes_per_s": 5_000_000, "for_s": 60}


def working(**how: Any) -> Rig:
    rig = Rig(**how)
    rig.cycle()
    return rig


def asked(rig: Rig, method: str, path: str, *, who: str | None = OPERATE_TOKEN, **more: Any) -> int:
    bodies = {"/api/v1/override": OVERRIDE, "/api/v1/plans": {"plan": "{}"}}
    body: dict[str, Any] = {"json": bodies.get(path)} if method == "POST" else {}
    headers = {**bearer(who), **more.pop("headers", {})}
    return int(rig.http.request(method, path, headers=headers, **(body | more)).status_code)


def unauthorized(rig: Any, method: str, path: str, _: pytest.MonkeyPatch) -> int:
    return asked(rig, method, path, who="nobody-0123456789abcdef")


def forbidden(rig: Any, method: str, path: str, _: pytest.MonkeyPatch) -> int:
    if method != "GET":
        return asked(rig, method, path, who=READ_TOKEN)
    return asked(OPEN, method, path, who=None, headers={"host": "elsewhere.example"})


def not_text(rig: Any, method: str, path: str, _: pytest.MonkeyPatch) -> int:
    return asked(rig, method, path, json=None, content=b"\xff", headers={"content-type": "application/json"})


def nowhere(rig: Any, method: str, path: str, _: pytest.MonkeyPatch) -> int:
    more = {"json": {**OVERRIDE, "broker": 99}} if path.endswith("/override") else {}
    return asked(rig, method, path.replace("/3", "/99").replace("/0", "/99"), **more)


def standing_by(rig: Any, method: str, path: str, patch: pytest.MonkeyPatch) -> int:
    patch.setattr(rig.board, "active", False)
    return asked(rig, method, path)


def too_large(rig: Any, method: str, path: str, _: pytest.MonkeyPatch) -> int:
    return asked(
        rig, method, path, json=None, content=b" " * (1 + (PLAN_BYTES_MAX if path == PLAN_PATH else BODY_BYTES_MAX))
    )


def senseless(rig: Any, method: str, path: str, _: pytest.MonkeyPatch) -> int:
    if method == "POST":
        return asked(rig, method, path, json={"what": "else"})
    path = path.replace("/3", "/-1").replace("/0", "/-1")
    return asked(rig, method, f"{path}{'&' if '?' in path else '?'}limit=0&offset=-1&broker=-1")


def too_often(_: Any, method: str, path: str, __: pytest.MonkeyPatch) -> int:
    return asked(BUSY, method, path)


def broken(rig: Any, method: str, path: str, patch: pytest.MonkeyPatch) -> int:
    def breaks(*_: object, **__: object) -> Any:
        raise RuntimeError("a bug")

    observers = rig.observers
    for part, name in (
        (rig.order_service, "submit"), (rig.plan_service, "start"), (rig.plans, "snapshot"), (rig.quotas, "as_json"), (observers, "snapshot"), (observers.history, "series"),
        (observers.decisions, "page"), (observers.decisions, "row"), (rig.mutations, "snapshot"), (rig.weeks, "week"),
        (rig.weeks, "series"), (rig.journal, "rates"), (rig.journal.plans, "newest_first"), (rig.journal.plans, "story"),
    ):  # fmt: skip
        patch.setattr(part, name, breaks)
    return asked(rig, method, path)


def unavailable(rig: Any, method: str, path: str, patch: pytest.MonkeyPatch) -> int:
    patch.setattr(rig.observers.hub, "subscribe", lambda _: None)
    patch.setattr(rig.order_service, "away", True)
    patch.setattr(rig.plan_service, "refusal", PlanRefused("the cluster does not answer", 503))
    return asked(rig, method, path)


def too_many_at_once(_: Any, method: str, path: str, __: pytest.MonkeyPatch) -> int:
    return asked(CROWDED, method, path)


def crowded() -> Rig:
    """A server whose limit of concurrent requests is reached."""
    rig = working()
    (limit,) = [each for each in rig.app.user_middleware if each.cls is ConcurrentRequestLimiter]
    limit.kwargs["limits"] = replace(limits_for_descriptors(-1), requests=SlotLimits(0, 0, 0))
    return rig


PROVOKED: tuple[Given, ...] = (
    not_text, unauthorized, forbidden, nowhere, standing_by, too_large, senseless, too_often, too_many_at_once, broken, unavailable,
)  # fmt: skip
EXAMPLES = {"broker": "3", "number": "0", "plan": "p1"}
# These routes have nothing that can fail, but are documented like the others.
NEVER = {
    ("get", "/api/v1/reasons", "500"), ("get", "/api/v1/events", "500"),
}  # fmt: skip
DESCRIBED = Rig().app.openapi()["paths"]
ROUTES = [(method, path) for path, of in DESCRIBED.items() for method in of]


WELL, OPEN, BUSY, CROWDED = (
    working(),
    working(tokens=False),
    working(reads=TokenBuckets(RequestRate(1e-9, 0.0), Clock())),
    crowded(),
)


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_route_gives_exactly_the_refusals_it_documents(method: str, path: str) -> None:
    described = {int(code) for code in DESCRIBED[path][method]["responses"] if int(code) >= 400}
    never = {int(code) for m, p, code in NEVER if (m, p) == (method, path)}
    concrete = path.format(**EXAMPLES) + ("?broker=3" if path == "/api/v1/history" else "")
    given = set()
    # An accepted stream never ends, so only its refusals are provoked.
    for provoke in (
        (forbidden, unauthorized, too_large, senseless, too_often, too_many_at_once) if _is_stream(path) else PROVOKED
    ):
        # New time: no cached response applies, and every rate limit is reset.
        WELL.clock.now_s += 600.0
        WELL.cycle()
        with pytest.MonkeyPatch.context() as patch:
            given.add(provoke(WELL, method.upper(), concrete, patch))
    assert {code for code in given if code >= 400} == described - never


def _is_stream(path: str) -> bool:
    return path.endswith("/events")


def test_every_documented_refusal_has_a_description() -> None:
    for path, of in DESCRIBED.items():
        for method, operation in of.items():
            for code, answer in operation["responses"].items():
                if int(code) >= 400:
                    assert answer["description"][0].islower(), (method, path, code, "as FastAPI names it by itself")
    said = DESCRIBED["/api/v1/pause"]["post"]["responses"]["503"]["description"]
    assert "unknown whether it is" in said
