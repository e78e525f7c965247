"""The routes of /api/v1 that give orders: pause, resume, override, release. The journal records each order with its author."""

from __future__ import annotations

from typing import Any

import structlog
from fastapi import APIRouter, Depends, HTTPException, Request
from starlette.responses import Response

from streaming.shared.contract import Side
from tuner.api import response_models
from tuner.api.access_guard import AccessGuard, caller_text, declare_bearer_auth, route_class_with_check
from tuner.api.observers import Observers
from tuner.api.orders_api import (
    OrderChange,
    OrderNotRecorded,
    OrderService,
    broker_fault,
    end_override_change,
    override_change,
    override_rates,
    pause_change,
    rate_fault,
    release_change,
    resume_change,
)
from tuner.api.parameters import BrokerId, refuse_unknown_parameters
from tuner.api.responses import json_response
from tuner.api.routes import REFUSALS
from tuner.api.views import orders_json

log = structlog.get_logger("tuner")

_CYCLE_AGE_S_MAX = 45.0  # If the last cycle is older, the orders that this tuner has read may be out of date.
_REFUSALS: dict[int | str, dict[str, Any]] = {
    **REFUSALS,
    403: {
        "model": response_models.ErrorBody,
        "description": "the token may not give orders, or orders over HTTP are disabled",
    },
    409: {
        "model": response_models.ErrorBody,
        "description": "this tuner is not active: another tuner has the lease, or this tuner is not ready. The text says which",
    },
    503: {
        "model": response_models.ErrorBody,
        "description": "the order is not recorded, or it is unknown whether it is recorded or would be acknowledged; or too "
        "many requests are open. The text says which",
    },
}
_WITH_BODY: dict[int | str, dict[str, Any]] = {
    400: {"model": response_models.ErrorBody, "description": "the body is not text"}
}
_WITH_BROKER: dict[int | str, dict[str, Any]] = {
    404: {"model": response_models.ErrorBody, "description": "the broker is not alive"}
}


def order_routes(observers: Observers, guard: AccessGuard, order_service: OrderService | None) -> APIRouter:
    """Returns the router with all order routes.

    Args:
        order_service: None if orders are refused.
    """
    router = APIRouter(
        prefix="/api/v1",
        dependencies=[Depends(declare_bearer_auth), Depends(refuse_unknown_parameters)],
        responses=_REFUSALS,
        route_class=route_class_with_check(guard.operate),
    )

    orders = _Orders(observers, order_service)

    # Plain functions: FastAPI runs them in its thread pool, so that waiting for Kafka does not block the server.
    @router.post("/pause", status_code=202, response_model=response_models.OrderReceipt, responses=_WITH_BODY)
    def pause(request: Request, body: response_models.EmptyRequest | None = None) -> Response:  # noqa: ARG001 - validates the body
        """Pauses the tuner: it changes no throttle and no quota until `resume`."""
        return orders.submit(request, "pause", pause_change(caller_text(request)))

    @router.post("/resume", status_code=202, response_model=response_models.OrderReceipt, responses=_WITH_BODY)
    def resume(request: Request, body: response_models.EmptyRequest | None = None) -> Response:  # noqa: ARG001 - validates the body
        """Ends a pause or a release. The tuner also manages settings again that another tool has changed."""
        return orders.submit(request, "resume", resume_change(caller_text(request)))

    @router.post("/release", status_code=202, response_model=response_models.OrderReceipt, responses=_WITH_BODY)
    def release(request: Request, body: response_models.EmptyRequest | None = None) -> Response:  # noqa: ARG001 - validates the body
        """Restores everything that rheostat has set, and pauses the tuner until `resume`."""
        return orders.submit(request, "release", release_change(caller_text(request)))

    @router.post(
        "/override", status_code=202, response_model=response_models.OrderReceipt, responses=_WITH_BODY | _WITH_BROKER
    )
    def override(request: Request, body: response_models.OverrideRequest) -> Response:
        """Sets a broker's throttle to a fixed rate for a limited time; then the tuner controls the throttle again."""
        limits = observers.status.limits
        if (fault := rate_fault(body.rate_bytes_per_s, limits.override_bytes_per_s_max)) is not None:
            raise HTTPException(422, fault)
        orders.check_alive(body.broker)
        side = Side(body.side) if body.side is not None else None
        sides = override_rates(body.broker, side, body.rate_bytes_per_s)
        return orders.submit(request, "override", override_change(sides, body.for_s, caller_text(request)))

    @router.delete(
        "/override/{broker}", status_code=202, response_model=response_models.OrderReceipt, responses=_WITH_BROKER
    )
    def end_override(request: Request, broker: BrokerId) -> Response:
        """Ends the overrides of this broker now."""
        # A broker that is down may have an override, which can be ended.
        if broker not in orders.overridden_brokers():
            orders.check_alive(broker)
        return orders.submit(request, "end of override", end_override_change(broker, caller_text(request)))

    return router


class _Orders:
    """Checks and submits orders for the routes."""

    def __init__(self, observers: Observers, order_service: OrderService | None) -> None:
        self._observers = observers
        self._order_service = order_service

    def overridden_brokers(self) -> set[int]:
        return {broker for broker, _ in self._observers.orders().overrides}

    def check_alive(self, broker: int) -> None:
        """
        Raises:
            HTTPException: the broker is not alive, or the live brokers are unknown.
        """
        live = self._observers.snapshot().result.live
        if live is None:
            _, why = self._observers.status.ready()
            raise HTTPException(503, f"it is unknown which brokers are alive: {why}")
        if (fault := broker_fault(broker, live.brokers)) is not None:
            raise HTTPException(404, fault)

    def submit(self, request: Request, name: str, change: OrderChange) -> Response:
        """Records an order, and returns the receipt.

        Raises:
            HTTPException: this tuner cannot record or acknowledge orders now.
        """
        store = self._observers.status
        if not store.active or self._order_service is None:
            _, why = store.ready()
            # The last word of the name is the command, also of "end of override".
            raise HTTPException(
                409, f"{why}: give the order to the tuner that acts, or use `rheostat {name.split()[-1]}`"
            )
        if (at_s := store.cycled_at_s) is None:
            raise HTTPException(
                503, "the first cycle has not ended yet, so the current orders are unknown: try again in a moment"
            )
        if (age_s := store.now_ms() / 1000 - at_s) > _CYCLE_AGE_S_MAX:
            raise HTTPException(503, f"no cycle has ended for {age_s:.0f} s, so an order would not be acknowledged")
        try:
            orders = self._order_service.submit(change)
        except OrderNotRecorded as error:
            raise HTTPException(503, str(error)) from error
        log.info("an order was recorded over HTTP", order=name, by=caller_text(request))
        self._observers.hub.publish("ordered", {"order": name, "at_ms": orders.at_ms})
        return json_response({"by": caller_text(request), **orders_json(orders, orders.at_ms)}, 202)
