"""The read route of the week of one broker. The page draws its charts from it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, HTTPException
from starlette.responses import Response

from tuner.api import response_models, week_response_models
from tuner.api.api_state import ApiState
from tuner.api.orders_api import broker_fault
from tuner.api.parameters import BrokerId
from tuner.api.week_views import week_inputs, week_json

# The first request starts the reader. The week of a small cluster is read within this time.
_READ_S_MAX = 1.5
_AGAIN_S = 2

_REFUSALS: dict[int | str, dict[str, Any]] = {
    404: {"model": response_models.ErrorBody, "description": "unknown id"},
    503: {
        "model": response_models.ErrorBody,
        "description": "the history is still being read, or cannot be read, or too many requests at the same time; "
        "Retry-After says when to try again",
    },
}


def add_week_route(router: APIRouter, state: ApiState) -> None:
    # A plain function: FastAPI runs it in its thread pool, as it may wait for the reader.
    @router.get(
        "/brokers/{broker}/week",
        response_model=week_response_models.BrokerWeekBody,
        responses=_REFUSALS,
    )
    def week(broker: BrokerId) -> Response:
        """The last seven days of a broker in periods of ten minutes, the forecast of the next days with its mean error, the latency
        without copies and its objective by hour, the capacity with its age, and the changes that `rheostat learn` has noticed."""
        status = state.observers.status
        return state.cached_json(
            lambda: read_week(state, broker),
            further_stamp=lambda: (state.weeks.revision(), status.capacity, status.capacity_by_broker),
        )


def read_week(state: ApiState, broker: int) -> dict[str, Any]:
    """Returns the week of a broker as JSON values.

    Raises:
        HTTPException: the broker is unknown, or the history is not read.
    """
    snapshot, store, status = state.snapshot(), state.weeks, state.observers.status
    now_ms = status.now_ms()
    reason = store.unread_reason(_READ_S_MAX)
    # A broker that was removed still has its history.
    fault = broker_fault(broker, snapshot.brokers)
    if fault is not None and (reason is not None or store.week(broker, now_ms) is None):
        raise HTTPException(404, fault)
    if reason is not None:
        raise HTTPException(503, reason, {"retry-after": str(_AGAIN_S)})
    capacity = status.capacity_by_broker.get(broker, status.capacity)
    return week_json(snapshot, week_inputs(store, broker, now_ms, capacity))
