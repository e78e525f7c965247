"""The read route of a broker's history over hours to weeks. The page of the broker draws its charts from it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from starlette.responses import Response

from tuner.api import broker_history_models, response_models
from tuner.api.api_state import ApiState
from tuner.api.broker_history_views import HistoryRange, broker_history_json, time_range
from tuner.api.orders_api import broker_fault
from tuner.api.parameters import BrokerId

# The first request starts the readers. Most histories are read within this time; a later request shows the rest of a longer one.
_READ_S_MAX = 1.5

FromMs = Annotated[int | None, Query(ge=0, le=2**53, description="epoch ms; by default a day before `to_ms`")]
ToMs = Annotated[int | None, Query(ge=0, le=2**53, description="epoch ms; by default now")]

_UNKNOWN_ID: dict[int | str, dict[str, Any]] = {404: {"model": response_models.ErrorBody, "description": "unknown id"}}


def add_broker_history_route(router: APIRouter, state: ApiState) -> None:
    # A plain function: FastAPI runs it in its thread pool, as it may wait for the readers.
    @router.get(
        "/brokers/{broker}/history", response_model=broker_history_models.BrokerHistoryBody, responses=_UNKNOWN_ID
    )
    def broker_history(broker: BrokerId, from_ms: FromMs = None, to_ms: ToMs = None) -> Response:
        """The throttles of a broker, its traffic, latency and lag over hours to weeks, from the history topic and the journal; also
        the ceiling and the objective in force, and marks for fail-overs, orders, external changes and decisions."""
        return state.cached_json(
            lambda: read_broker_history(state, broker, from_ms, to_ms), further_stamp=state.history_stamp
        )


def read_broker_history(state: ApiState, broker: int, from_ms: int | None, to_ms: int | None) -> dict[str, Any]:
    """Returns the history as JSON values. A source that is not read yet leaves gaps, and a note says so.

    Raises:
        HTTPException: the broker is unknown, and has no history.
    """
    now_ms = state.observers.status.now_ms()
    shown: HistoryRange = time_range(from_ms, to_ms, now_ms)
    reasons = [store.unread_reason(_READ_S_MAX) for store in (state.weeks, state.journal)]
    fault = broker_fault(broker, state.snapshot().brokers)
    # A broker that was removed still has its history.
    if fault is not None and state.weeks.week(broker, now_ms) is None:
        raise HTTPException(404, fault)
    notes = [f"{reason[:1].upper()}{reason[1:]}." for reason in reasons if reason is not None]
    return broker_history_json(state.weeks, state.journal, broker, shown, now_ms, notes)
