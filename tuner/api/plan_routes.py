"""The routes that preview a plan and start it: a part of the page, and an order of the API."""

from __future__ import annotations

from typing import Any

import structlog
from fastapi import APIRouter, Depends, HTTPException, Request
from jinja2 import Environment
from pydantic import Field
from starlette.responses import HTMLResponse, Response

from tuner.api import response_models
from tuner.api.access_guard import AccessGuard, caller_text, declare_bearer_auth, route_class_with_check
from tuner.api.limits import PLAN_PATH, PLAN_PREVIEW_PATH
from tuner.api.observers import Observers
from tuner.api.parameters import refuse_unknown_parameters
from tuner.api.plan_service import PlanPreview, PlanRefused, PlanService, PlanToStart
from tuner.api.responses import json_response
from tuner.api.routes import REFUSALS

log = structlog.get_logger("tuner")

ROWS_MAX = 200
_NO_SERVICE = "this tuner cannot check plans: use `rheostat reassign start PLAN.json`"
_REFUSALS: dict[int | str, dict[str, Any]] = {
    **REFUSALS,
    400: {"model": response_models.ErrorBody, "description": "the body is not text"},
    403: {"model": response_models.ErrorBody, "description": "the token may not give orders"},
    409: {"model": response_models.ErrorBody, "description": "a check forbids the plan, or no tuner would execute it"},
    413: {"model": response_models.ErrorBody, "description": "the plan is too large"},
    422: {"model": response_models.ErrorBody, "description": "the plan is faulty, or moves nothing"},
    503: {
        "model": response_models.ErrorBody,
        "description": "the cluster cannot be read, or it is unknown whether the plan is recorded. The text says which",
    },
}


class PlanStartRequest(response_models.OrderRequest):
    plan: str = Field(description="the text of a plan of kafka-reassign-partitions")
    start_ms: int | None = Field(default=None, ge=0, le=2**53, description="the time of the start; null: now")
    at_best: bool = Field(default=False, description="true: start at the time at which the move is shortest")


def plan_order_routes(observers: Observers, guard: AccessGuard, service: PlanService | None) -> APIRouter:
    """Returns the router with the order that starts a plan.

    Args:
        service: None if plans are refused.
    """
    router = APIRouter(
        dependencies=[Depends(declare_bearer_auth), Depends(refuse_unknown_parameters)],
        responses=_REFUSALS,
        route_class=route_class_with_check(guard.operate),
    )

    # A plain function: FastAPI runs it in its thread pool, as it waits for Kafka.
    @router.post(PLAN_PATH, status_code=202, response_model=response_models.PlanReceipt)
    def start(request: Request, body: PlanStartRequest) -> Response:
        """Checks a plan, and records it for the tuner, like `rheostat reassign start --detach`. If the request has a start time,
        the tuner begins the plan at this time."""
        _check_active(observers)
        if service is None:
            raise HTTPException(409, _NO_SERVICE)
        try:
            started = service.start(_request_of(body), caller_text(request))
        except PlanRefused as refusal:
            raise HTTPException(refusal.status, str(refusal)) from refusal
        log.info("a plan was recorded over HTTP", plan=started.plan, by=caller_text(request))
        receipt = {"plan": started.plan, "not_before_ms": started.not_before_ms or None, "text": started.text}
        return json_response({**receipt, "by": caller_text(request)}, 202)

    return router


def plan_preview_route(guard: AccessGuard, service: PlanService | None, templates: Environment) -> APIRouter:
    """Returns the router with the page's preview of a plan, which needs read access and changes nothing."""
    router = APIRouter(
        dependencies=[Depends(refuse_unknown_parameters)], route_class=route_class_with_check(guard.read)
    )
    template = templates.get_template("preview.html")

    @router.post(PLAN_PREVIEW_PATH)
    def preview(body: PlanStartRequest) -> Response:
        """Returns the preview as a part of the page. A refusal is such a part too, so that the page shows it instead of the
        preview."""
        if service is None:
            return HTMLResponse(template.render(p=None, refusal=_NO_SERVICE))
        try:
            found: PlanPreview = service.preview(_request_of(body))
        except PlanRefused as refusal:
            return HTMLResponse(template.render(p=None, refusal=str(refusal)))
        return HTMLResponse(template.render(p=found, refusal=None, rows_max=ROWS_MAX))

    return router


def _check_active(observers: Observers) -> None:
    if not observers.status.active:
        _, why = observers.status.ready()
        raise HTTPException(
            409, f"{why}: start the plan on the status page of the active tuner, or use `rheostat reassign start`"
        )


def _request_of(body: PlanStartRequest) -> PlanToStart:
    return PlanToStart(body.plan, body.start_ms, body.at_best)
