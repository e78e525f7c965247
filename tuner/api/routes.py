"""/api/v1, what can be read: status, moves, brokers, tenants, decisions, events.

An answer is made once a cycle, however many ask: between two cycles nothing of it changes, and the loop needs the processor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request
from starlette.responses import Response

from tuner.api import broker_views, plan_response_models, plan_views, response_models, views
from tuner.api.access_guard import AccessGuard, caller_of
from tuner.api.api_state import ApiState
from tuner.api.decision_rows import decision_json
from tuner.api.decisions import DecisionFilter
from tuner.api.events import EventStream
from tuner.api.orders_api import broker_fault
from tuner.api.parameters import refuse_unknown_parameters
from tuner.api.plan_status_store import PlanSnapshot
from tuner.api.responses import json_bytes, json_bytes_response
from tuner.api.status_snapshot import StatusSnapshot
from tuner.control.mutation_quota.decision import QuotaReason
from tuner.control.throttle.decision import Reason
from tuner.core.cluster import PartitionMove

ROWS_MAX = 500
BROKERS_MAX = 1000
HISTORY_BROKERS_MAX = 24
Offset = Annotated[int, Query(ge=0, le=10**9, description="skip so many")]
Limit = Annotated[int, Query(ge=1, le=ROWS_MAX, description="so many at most")]
ManyLimit = Annotated[int, Query(ge=1, le=BROKERS_MAX, description="so many at most")]
BrokerId = Annotated[int, Path(ge=0, le=response_models.BROKER_MAX, description="the broker's id")]
Moment = Annotated[int | None, Query(ge=0, le=2**53, description="epoch, in ms")]
T = TypeVar("T")

REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"model": response_models.ErrorBody, "description": "no token, or a wrong one"},
    403: {
        "model": response_models.ErrorBody,
        "description": "without tokens in the settings: a name in the Host header",
    },
    413: {"model": response_models.ErrorBody, "description": "the body is too large"},
    422: {
        "model": response_models.ErrorBody,
        "description": "a value is not what it may be, or a parameter is not known",
    },
    429: {"model": response_models.ErrorBody, "description": "asked too often; Retry-After says when to ask again"},
    503: {
        "model": response_models.ErrorBody,
        "description": "too many requests at once: Retry-After says when to ask again",
    },
    500: {
        "model": response_models.ErrorBody,
        "description": "something broke that nobody thought of: the tuner's log says what",
    },
}
_UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"model": response_models.ErrorBody, "description": "not known here"}}


def read_routes(desktop: ApiState, guard: AccessGuard, openapi: Callable[[], dict[str, Any]]) -> APIRouter:
    router = APIRouter(
        prefix="/api/v1", dependencies=[Depends(guard.read), Depends(refuse_unknown_parameters)], responses=REFUSALS
    )
    observers = desktop.observers

    @router.get("/openapi.json", include_in_schema=False)
    async def description() -> dict[str, Any]:
        return openapi()

    @router.get("/status", response_model=response_models.Status)
    async def status(request: Request) -> Response:
        """What moves, how far it is, who has ordered what, and what comes next."""
        role = caller_of(request).role.value
        return desktop.cached_json(lambda: desktop.status(role), each_s=True)

    @router.get("/moves", response_model=response_models.Moves)
    async def moves(offset: Offset = 0, limit: Limit = 100) -> Response:
        """What is measured of the moves, by the broker that the replicas are made on; what is most urgent first."""

        def made() -> dict[str, Any]:
            look = desktop.snapshot()
            return page_json(
                "moves",
                views.destinations_by_urgency(look),
                offset,
                limit,
                lambda broker: views.move_json(look, broker),
            )

        return desktop.cached_json(made)

    @router.get("/plans", response_model=plan_response_models.Plans)
    async def plans(offset: Offset = 0, limit: Limit = 20) -> Response:
        """The plans of `rheostat reassign` that have not ended: how far each is, what is under way, and what holds it up."""
        return desktop.cached_json(
            lambda: plans_json(desktop.snapshot(), desktop.plans.snapshot(), offset, limit),
            also=lambda: desktop.plans.snapshot().number,
        )

    @router.get("/moves/partitions", response_model=response_models.Partitions)
    async def partitions(
        topic: Annotated[str | None, Query(max_length=249, description="only of this topic")] = None,
        offset: Offset = 0,
        limit: Limit = 100,
    ) -> Response:
        """The partitions being reassigned, as the controller lists them."""

        def made() -> dict[str, Any]:
            live = desktop.snapshot().cycle.result.live
            found: Sequence[PartitionMove] = live.moves if live is not None else ()
            if topic is not None:
                found = [move for move in found if move.topic == topic]
            return page_json("partitions", found, offset, limit, views.partition_json)

        return desktop.cached_json(made)

    @router.get("/brokers", response_model=response_models.Brokers)
    async def brokers(
        moving: Annotated[bool, Query(description="only those that take part in a move or have a throttle")] = False,
        offset: Offset = 0,
        limit: ManyLimit = 100,
    ) -> Response:
        """Each broker's two throttles: what stands, what passes, what must pass, and why nothing else stands there."""

        def made() -> dict[str, Any]:
            look = desktop.snapshot()
            page = page_json("brokers", look.participating_brokers if moving else look.brokers, offset, limit)
            return {**page, "brokers": broker_views.brokers_json(look, page["brokers"])}

        return desktop.cached_json(made)

    @router.get("/brokers/{broker}", response_model=response_models.Broker, responses=_UNKNOWN)
    async def broker(broker: BrokerId) -> Response:
        look = desktop.snapshot()
        if (fault := broker_fault(broker, look.brokers)) is not None:
            raise HTTPException(404, fault)
        return desktop.cached_json(lambda: broker_views.brokers_json(look, [broker])[0])

    @router.get("/history", response_model=response_models.RateHistoryBody)
    async def history(
        broker: Annotated[
            list[Annotated[int, Query(ge=0, le=response_models.BROKER_MAX)]],
            Query(min_length=1, max_length=HISTORY_BROKERS_MAX, description="may stand several times"),
        ],
        since_ms: Annotated[int, Query(ge=0, le=2**53, description="only what is newer; epoch, in ms")] = 0,
    ) -> Response:
        """The last quarter of an hour of the brokers named: what the charts show."""

        def made() -> dict[str, Any]:
            series = observers.history.series(broker, since_ms)
            return {
                "times_ms": series.times_ms,
                "rate_bytes_per_s_max": observers.status.limits.rate_bytes_per_s_max,
                "max_rates_bytes_per_s": series.max_rates_bytes_per_s,
                "brokers": series.columns,
            }

        return desktop.cached_json(made)

    @router.get("/tenants", response_model=response_models.Tenants)
    async def tenants(offset: Offset = 0, limit: Limit = 100) -> Response:
        """Who creates and deletes how much, and who is held back: those who are first."""
        return desktop.cached_json(
            lambda: tenants_json(desktop.quotas.as_json(), offset, limit), also=lambda: desktop.quotas.number
        )

    @router.get("/decisions", response_model=response_models.DecisionPage)
    async def decisions(
        broker: Annotated[
            int | None, Query(ge=0, le=response_models.BROKER_MAX, description="only about this broker")
        ] = None,
        side: Annotated[Literal["leader", "follower"] | None, Query()] = None,
        action: Annotated[str | None, Query(max_length=64, description="set, hold, restore, …")] = None,
        reason: Annotated[
            str | None, Query(max_length=64, description="one of the reasons that /reasons lists")
        ] = None,
        from_ms: Moment = None,
        to_ms: Moment = None,
        changes_only: Annotated[bool, Query(description="only those that changed something, or would have")] = False,
        steering_ticks: Annotated[bool, Query(description="the seconds of the law instead")] = False,
        before: Annotated[
            int | None, Query(ge=0, le=2**53, description="only with a smaller id; for the next page")
        ] = None,
        inputs: Annotated[bool, Query(description="with what each stood on")] = True,
        limit: Limit = 50,
    ) -> Response:
        """The newest decisions first: each with what it stood on, its reason, what was before and after, and what came of it."""
        wanted = DecisionFilter(broker, side, action, reason, from_ms, to_ms, changes_only)

        def made() -> dict[str, Any]:
            rows, further = observers.decisions.page(wanted, limit, before=before, steering_ticks=steering_ticks)
            return {"decisions": [decision_json(row, inputs=inputs) for row in rows], "next_before": further}

        return desktop.cached_json(made, also=lambda: observers.decisions.changes(steering_ticks=steering_ticks))

    @router.get("/decisions/{number}", response_model=response_models.DecisionBody, responses=_UNKNOWN)
    async def decision(number: Annotated[int, Path(ge=0, le=2**53, description="its id")]) -> Response:
        row = observers.decisions.row(number)
        if row is None:
            raise HTTPException(404, f"decision {number} is not among the newest; older ones: `rheostat replay`")
        return json_bytes_response(json_bytes(decision_json(row)))

    @router.get("/reasons", response_model=list[str])
    async def reasons() -> list[str]:
        """Every reason that a decision may have."""
        return sorted({reason.value for reason in (*Reason, *QuotaReason)})

    @router.get(
        "/events",
        status_code=200,
        response_class=Response,
        responses={
            200: {"content": {"text/event-stream": {}}},
            503: {
                "model": response_models.ErrorBody,
                "description": "too many listen, or too many requests at once: Retry-After says when to ask again",
            },
        },
    )
    async def events() -> Response:
        """Server-sent events: `cycle` after each cycle, `acted` after each act, `ordered` after an order over HTTP, `history` when
        the decisions of before a restart are there, `end` when the tuner stops; `dropped` says how many of them were lost, where
        somebody does not read fast enough. Each says only that something is new; what it is can be asked for."""
        return EventStream(observers.hub)

    return router


def page_json(
    name: str, rows: Sequence[T], offset: int, limit: int, form: Callable[[T], object] | None = None
) -> dict[str, Any]:
    shown = rows[offset : offset + limit]
    end = offset + limit
    return {
        "total": len(rows),
        "next_offset": end if end < len(rows) else None,
        name: [form(row) for row in shown] if form is not None else list(shown),
    }


def plans_json(look: StatusSnapshot, shown: PlanSnapshot, offset: int, limit: int) -> dict[str, Any]:
    overall = plan_views.limits_json(shown.limits) if shown.limits is not None else None
    ends_s = views.snapshot_end(look, plan_views.plan_progress(shown)).plans_eta_s
    page = page_json(
        "plans", shown.plans, offset, limit, lambda turn: plan_views.plan_json(shown, turn, ends_s[turn.plan.id])
    )
    return {
        "limits": overall,
        "observed_at_ms": shown.at_ms if shown.limits is not None else None,
        "unknown_reason": shown.unknown_reason,
        "unknown_since_ms": shown.unknown_since_ms,
        **page,
    }


def tenants_json(quotas: Mapping[str, Any] | None, offset: int, limit: int) -> dict[str, Any]:
    if quotas is None:
        nothing = dict.fromkeys(("total_per_s", "pressure", "total_text", "observed_at_ms", "tenants", "next_offset"))
        return {"enabled": False, **nothing, "holds": [], "total": 0}
    rows = quotas["tenants"]
    if rows is None:
        return {"enabled": True, **quotas, "total": 0, "next_offset": None}
    # Who is held back first, then who does most.
    first = sorted(rows, key=lambda row: (not row["throttled"], -row["demand_per_s"]))
    return {"enabled": True, **quotas, **page_json("tenants", first, offset, limit)}
