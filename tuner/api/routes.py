"""The read routes of /api/v1: status, moves, plans, brokers, replication, history, tenants, decisions, reasons, events.

A response is built once per cycle for all callers, as its content changes only with the cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request
from starlette.responses import Response

from tuner.api import broker_views, lag_views, plan_response_models, plan_views, response_models, views
from tuner.api.access_guard import AccessGuard, caller_of
from tuner.api.api_state import ApiState
from tuner.api.broker_history_routes import add_broker_history_route
from tuner.api.decision_lookup import find_decision
from tuner.api.decision_rows import INPUTS_LISTED_MAX, decision_json
from tuner.api.decisions import DecisionFilter
from tuner.api.events import EventStream
from tuner.api.orders_api import broker_fault
from tuner.api.parameters import BrokerId, refuse_unknown_parameters
from tuner.api.plan_history_routes import add_plan_history_routes
from tuner.api.plan_status_store import PlanSnapshot
from tuner.api.reason_codes import REASON_CODES
from tuner.api.status_snapshot import StatusSnapshot
from tuner.api.week_routes import add_week_route
from tuner.control.reassignment.policy import PlanDecision
from tuner.core.cluster import PartitionMove

ROWS_MAX = 500
BROKERS_MAX = 1000
HISTORY_BROKERS_MAX = 24
Offset = Annotated[int, Query(ge=0, le=10**9, description="number of rows to skip")]
Limit = Annotated[int, Query(ge=1, le=ROWS_MAX, description="maximum number of rows")]
ManyLimit = Annotated[int, Query(ge=1, le=BROKERS_MAX, description="maximum number of rows")]
Moment = Annotated[int | None, Query(ge=0, le=2**53, description="epoch ms")]
T = TypeVar("T")

REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"model": response_models.ErrorBody, "description": "no token, or a wrong one"},
    403: {
        "model": response_models.ErrorBody,
        "description": "no token is configured, and the Host header is neither localhost nor an IP address",
    },
    413: {"model": response_models.ErrorBody, "description": "the body is too large"},
    422: {
        "model": response_models.ErrorBody,
        "description": "a value is invalid, or a parameter is unknown",
    },
    429: {"model": response_models.ErrorBody, "description": "too many requests; Retry-After says when to try again"},
    503: {
        "model": response_models.ErrorBody,
        "description": "too many requests at the same time; Retry-After says when to try again",
    },
    500: {
        "model": response_models.ErrorBody,
        "description": "an unexpected error: see the tuner's log",
    },
}
_UNKNOWN_ID: dict[int | str, dict[str, Any]] = {404: {"model": response_models.ErrorBody, "description": "unknown id"}}


def read_routes(state: ApiState, guard: AccessGuard, openapi: Callable[[], dict[str, Any]]) -> APIRouter:
    """Returns the router with all read routes, behind the access check.

    Args:
        openapi: returns the OpenAPI description.
    """
    router = APIRouter(
        prefix="/api/v1", dependencies=[Depends(guard.read), Depends(refuse_unknown_parameters)], responses=REFUSALS
    )
    _add_status_routes(router, state, openapi)
    _add_move_routes(router, state)
    _add_broker_routes(router, state)
    add_week_route(router, state)
    add_broker_history_route(router, state)
    add_plan_history_routes(router, state)
    _add_decision_routes(router, state)
    _add_event_route(router, state)
    return router


def _add_status_routes(router: APIRouter, state: ApiState, openapi: Callable[[], dict[str, Any]]) -> None:
    @router.get("/openapi.json", include_in_schema=False)
    async def description() -> dict[str, Any]:
        return openapi()

    @router.get("/status", response_model=response_models.Status)
    async def status(request: Request) -> Response:
        """The state of the tuner and of all moves: progress, expected end, operator orders, next steps."""
        role = caller_of(request).role.value
        return state.cached_json(lambda: state.status(role), every_second=True)

    @router.get("/tenants", response_model=response_models.Tenants)
    async def tenants(offset: Offset = 0, limit: Limit = 100) -> Response:
        """The demand and the mutation quota of each tenant, throttled tenants first."""
        return state.cached_json(
            lambda: tenants_json(state.quotas.as_json(), offset, limit), further_stamp=lambda: state.quotas.number
        )

    @router.get("/mutations", response_model=response_models.Mutations)
    async def mutations() -> Response:
        """The partitions and topics that all clients create and delete per second, each with its source; the load of the Kafka
        controller; the storm, if there is one. Needs no mutation quota."""
        return state.cached_json(state.mutations_json, further_stamp=lambda: state.mutations.number)


def _add_move_routes(router: APIRouter, state: ApiState) -> None:
    @router.get("/moves", response_model=response_models.Moves)
    async def moves(offset: Offset = 0, limit: Limit = 100) -> Response:
        """The moves by destination broker with their measurements, the most urgent first."""

        def build() -> dict[str, Any]:
            snapshot = state.snapshot()
            return page_json(
                "moves",
                views.destinations_by_urgency(snapshot),
                offset,
                limit,
                lambda broker: views.move_json(snapshot, broker),
            )

        return state.cached_json(build)

    @router.get("/plans", response_model=plan_response_models.Plans)
    async def plans(offset: Offset = 0, limit: Limit = 20) -> Response:
        """The active plans of `rheostat reassign`: progress, steps in progress, and blockers."""
        return state.cached_json(
            lambda: plans_json(state.snapshot(), state.plans.snapshot(), offset, limit),
            further_stamp=lambda: state.plans.snapshot().number,
        )

    @router.get("/moves/partitions", response_model=response_models.Partitions)
    async def partitions(
        topic: Annotated[str | None, Query(max_length=249, description="only partitions of this topic")] = None,
        offset: Offset = 0,
        limit: Limit = 100,
    ) -> Response:
        """The partitions being reassigned, as the controller lists them."""

        def build() -> dict[str, Any]:
            live = state.snapshot().cycle.result.live
            moves: Sequence[PartitionMove] = live.moves if live is not None else ()
            if topic is not None:
                moves = [move for move in moves if move.topic == topic]
            return page_json("partitions", moves, offset, limit, views.partition_json)

        return state.cached_json(build)


def _add_broker_routes(router: APIRouter, state: ApiState) -> None:
    @router.get("/brokers", response_model=response_models.Brokers)
    async def brokers(
        moving: Annotated[
            bool, Query(description="true: only brokers that take part in a move or have a throttle")
        ] = False,
        offset: Offset = 0,
        limit: ManyLimit = 100,
    ) -> Response:
        """The two throttles of each broker: current rate, setpoint, traffic, steady-state replication, and the reason."""

        def build() -> dict[str, Any]:
            snapshot = state.snapshot()
            page = page_json("brokers", snapshot.participating_brokers if moving else snapshot.brokers, offset, limit)
            return {**page, "brokers": broker_views.brokers_json(snapshot, page["brokers"])}

        return state.cached_json(build)

    @router.get("/brokers/{broker}", response_model=response_models.OneBroker, responses=_UNKNOWN_ID)
    async def broker(broker: BrokerId) -> Response:
        snapshot = state.snapshot()
        if (fault := broker_fault(broker, snapshot.brokers)) is not None:
            raise HTTPException(404, fault)
        return state.cached_json(lambda: broker_views.broker_json(snapshot, broker))

    @router.get("/replication", response_model=response_models.Replication)
    async def replication(offset: Offset = 0, limit: ManyLimit = 100) -> Response:
        """The lag of each follower with its trend, fetcher threads and worst partitions; the largest lag first."""

        def build() -> dict[str, Any]:
            snapshot = state.snapshot()
            now_ms = snapshot.observation.now_ms if snapshot.observation is not None else 0
            return page_json(
                "followers",
                lag_views.followers_by_lag(snapshot),
                offset,
                limit,
                lambda signal: lag_views.follower_json(signal, now_ms),
            )

        return state.cached_json(build)

    @router.get("/history", response_model=response_models.RateHistoryBody)
    async def history(
        broker: Annotated[
            list[Annotated[int, Query(ge=0, le=response_models.BROKER_MAX)]],
            Query(min_length=1, max_length=HISTORY_BROKERS_MAX, description="may be given several times"),
        ],
        since_ms: Annotated[int, Query(ge=0, le=2**53, description="only newer values; epoch ms")] = 0,
    ) -> Response:
        """The last 15 minutes of the given brokers: the data of the charts."""

        def build() -> dict[str, Any]:
            series = state.observers.history.series(broker, since_ms)
            return {
                "times_ms": series.times_ms,
                "rate_bytes_per_s_max": state.observers.status.limits.rate_bytes_per_s_max,
                "max_rates_bytes_per_s": series.max_rates_bytes_per_s,
                "brokers": series.columns,
            }

        return state.cached_json(build)


def _add_decision_routes(router: APIRouter, state: ApiState) -> None:
    store = state.observers.decisions

    @router.get("/decisions", response_model=response_models.DecisionPage)
    async def decisions(
        selection: Annotated[DecisionFilter, Depends(_decision_filter)],
        steering_ticks: Annotated[bool, Query(description="return steering ticks instead of decisions")] = False,
        before: Annotated[
            int | None, Query(ge=0, le=2**53, description="only decisions with a smaller id; for the next page")
        ] = None,
        inputs: Annotated[
            bool,
            Query(
                description="include the inputs of each decision, for at most three throttles; /decisions/{id} has the inputs of "
                "all throttles"
            ),
        ] = True,
        limit: Limit = 50,
    ) -> Response:
        """The newest decisions first: inputs, reason, values before and after, and outcome."""

        def build() -> dict[str, Any]:
            rows, next_before = store.page(selection, limit, before=before, steering_ticks=steering_ticks)
            inputs_max = INPUTS_LISTED_MAX if inputs else 0
            shown = [decision_json(row, inputs_max=inputs_max) for row in rows]
            return {"decisions": shown, "next_before": next_before}

        return state.cached_json(build, further_stamp=lambda: store.revision(steering_ticks=steering_ticks))

    @router.get("/decisions/{number}", response_model=response_models.DecisionBody, responses=_UNKNOWN_ID)
    def decision(number: Annotated[int, Path(ge=0, le=2**53, description="the id of the decision")]) -> Response:
        # A plain function: FastAPI runs it in its thread pool, as it may wait for the journal.
        def build() -> dict[str, Any]:
            found = find_decision(state, number)
            if found.row is None:
                raise HTTPException(404, found.reason)
            return decision_json(found.row)

        return state.cached_json(build, further_stamp=state.decisions_stamp)

    @router.get("/reasons", response_model=list[str])
    async def reasons() -> list[str]:
        """The reason codes of throttles, mutation quotas and plans."""
        return list(REASON_CODES)


def _decision_filter(
    broker: Annotated[
        int | None, Query(ge=0, le=response_models.BROKER_MAX, description="only decisions about this broker")
    ] = None,
    side: Annotated[Literal["leader", "follower"] | None, Query()] = None,
    action: Annotated[str | None, Query(max_length=64, description="set, hold, restore, …")] = None,
    reason: Annotated[str | None, Query(max_length=64, description="one of the reasons that /reasons lists")] = None,
    from_ms: Moment = None,
    to_ms: Moment = None,
    changes_only: Annotated[
        bool,
        Query(description="only decisions that changed a setting, or would have changed it without the dry run"),
    ] = False,
) -> DecisionFilter:
    """Returns the filter that the query parameters describe."""
    return DecisionFilter(
        broker=broker,
        side=side,
        action=action,
        reason=reason,
        from_ms=from_ms,
        to_ms=to_ms,
        changes_only=changes_only,
    )


def _add_event_route(router: APIRouter, state: ApiState) -> None:
    @router.get(
        "/events",
        status_code=200,
        response_class=Response,
        responses={
            200: {"content": {"text/event-stream": {}}},
            503: {
                "model": response_models.ErrorBody,
                "description": "too many event streams or requests; Retry-After says when to try again",
            },
        },
    )
    async def events() -> Response:
        """Server-sent events: `cycle` after each cycle, `acted` after the tuner has changed settings, `ordered` after an order over
        HTTP, `history` once the decisions from before a restart are loaded, `end` when the tuner stops. `dropped` tells a slow
        client how many events it has lost. An event only says that something has changed; the other routes return the new state."""
        return EventStream(state.observers.hub)


def page_json(
    name: str, rows: Sequence[T], offset: int, limit: int, to_json: Callable[[T], object] | None = None
) -> dict[str, Any]:
    """Returns one page of the rows, with the total and the next offset (None on the last page).

    Args:
        name: the key of the list of rows.
        to_json: makes the JSON value of a row; None if rows are JSON values already.
    """
    shown = rows[offset : offset + limit]
    end = offset + limit
    return {
        "total": len(rows),
        "next_offset": end if end < len(rows) else None,
        name: [to_json(row) for row in shown] if to_json is not None else list(shown),
    }


def plans_json(
    snapshot: StatusSnapshot, plans: PlanSnapshot, offset: int, limit: int, find: str = ""
) -> dict[str, Any]:
    """Returns one page of the active plans as JSON values.

    Args:
        snapshot: the last cycle. The expected end of each plan depends on its moves.
        find: only plans whose name contains this text.
    """
    limits = plan_views.limits_json(plans.limits) if plans.limits is not None else None
    etas_s = views.estimate_end(snapshot, plan_views.plan_progress(plans)).plans_eta_s

    def to_json(decision: PlanDecision) -> dict[str, Any]:
        return plan_views.plan_json(plans, decision, etas_s[decision.plan.id])

    matching = [decision for decision in plans.plans if find in decision.plan.id]
    page = page_json("plans", matching, offset, limit, to_json)
    return {
        "limits": limits,
        "observed_at_ms": plans.at_ms if plans.limits is not None else None,
        "unknown_reason": plans.unknown_reason,
        "unknown_since_ms": plans.unknown_since_ms,
        "order": plans.order,
        **page,
    }


def tenants_json(quotas: Mapping[str, Any] | None, offset: int, limit: int, find: str = "") -> dict[str, Any]:
    """Returns one page of the tenants as JSON values.

    Args:
        quotas: the result of ``QuotaStatusStore.as_json``.
        find: only tenants whose user or client-id contains this text.
    """
    if quotas is None:
        unknown = dict.fromkeys(("total_per_s", "pressure", "total_text", "observed_at_ms", "tenants", "next_offset"))
        return {"enabled": False, **unknown, "holds": [], "total": 0}
    rows = quotas["tenants"]
    if rows is None:
        return {"enabled": True, **quotas, "total": 0, "next_offset": None}
    if find:
        rows = [row for row in rows if find in (row["user"] or "") or find in (row["client_id"] or "")]
    by_demand = sorted(rows, key=lambda row: -row["demand_per_s"])
    throttled_first = sorted(by_demand, key=lambda row: not row["throttled"])  # The sort is stable.
    return {"enabled": True, **quotas, **page_json("tenants", throttled_first, offset, limit)}
