"""The read routes of running and finished plans from the journal, and their parts of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, HTTPException, Query
from jinja2 import Environment
from starlette.responses import Response

from tuner.api import plan_history_models, response_models
from tuner.api.api_state import ApiState
from tuner.api.page_shells import PlanName
from tuner.api.partition_table import Sorting
from tuner.api.plan_history_views import past_plan_json, past_plans_json, plan_partitions_json, progress_points
from tuner.api.response_cache import StampSource

_READ_S_MAX = 1.5  # The first request makes the tuner read the journal.
_ROWS_MAX = 500
_PLANS_SHOWN, _PARTITIONS_SHOWN = 20, 50
_POINTS_MAX = 200


Find = Annotated[str, Query(max_length=512, description="only names that contain this text")]
SortBy = Annotated[
    Literal["name", "state", "size", "started", "ended", "duration"], Query(description="the order of the partitions")
]
Descending = Annotated[bool, Query(description="true: the highest value first")]
Offset = Annotated[int, Query(ge=0, le=10**9, description="number of rows to skip")]
Limit = Annotated[int, Query(ge=1, le=_ROWS_MAX, description="maximum number of rows")]

_UNKNOWN_ID: dict[int | str, dict[str, Any]] = {404: {"model": response_models.ErrorBody, "description": "unknown id"}}


class Curve(NamedTuple):
    """The arrived partitions over time, for a drawing of 100 × 100 units.

    Attributes:
        points: of an SVG polyline; empty if fewer than two values are known.
        from_ms, to_ms: the time of the first and of the last point.
        highest: the number of partitions at the upper edge.
    """

    points: str
    from_ms: int
    to_ms: int
    highest: int


def add_plan_history_routes(router: APIRouter, state: ApiState) -> None:
    def answer(build: Callable[[], dict[str, Any] | None]) -> Response:
        return state.cached_json(lambda: _found(build()), every_second=True, further_stamp=_stamp(state))

    # Plain functions: FastAPI runs them in its thread pool, as they may wait for the journal.
    @router.get("/plan-history", response_model=plan_history_models.PastPlans)
    def plan_history(find: Find = "", offset: Offset = 0, limit: Limit = 20) -> Response:
        """The running and finished plans that the journal and the orders topic know, of all tuners."""
        return answer(lambda: past_plans_json(state.journal, _now_ms(state), offset, limit, find, _unread(state)))

    @router.get("/plan-history/{plan}", response_model=plan_history_models.PastPlan, responses=_UNKNOWN_ID)
    def past_plan(plan: PlanName) -> Response:
        """One plan: expected and real duration, result, and its newest events."""
        return answer(lambda: past_plan_json(state.journal, plan, _now_ms(state), _unread(state)))

    @router.get(
        "/plan-history/{plan}/partitions", response_model=plan_history_models.PlanPartitions, responses=_UNKNOWN_ID
    )
    def plan_partitions(
        plan: PlanName,
        find: Find = "",
        sort: SortBy = "state",
        descending: Descending = False,
        offset: Offset = 0,
        limit: Limit = 100,
    ) -> Response:
        """The partitions of one plan with their state and times; the tuner sorts and searches them."""
        sorting = Sorting(sort, descending)
        return state.cached_json(
            lambda: _found(plan_partitions_json(state, plan, sorting, find, offset, limit, _unread(state))),
            further_stamp=_stamp(state),
        )


def add_plan_history_parts(parts: APIRouter, state: ApiState, templates: Environment) -> None:
    def render(name: str, build: Callable[[], dict[str, Any]], *, every_second: bool = True) -> Response:
        return state.cached_response(
            lambda: templates.get_template(name).render(**build()).encode(),
            "text/html",
            every_second=every_second,
            further_stamp=_stamp(state),
        )

    @parts.get("/plan-history")
    def plan_history(find: Find = "") -> Response:
        def build() -> dict[str, Any]:
            values = past_plans_json(state.journal, _now_ms(state), 0, _PLANS_SHOWN, find, _unread(state))
            return {"p": values, "find": find}

        return render("plan_history.html", build)

    @parts.get("/plan/{plan}")
    def past_plan(plan: PlanName) -> Response:
        def build() -> dict[str, Any]:
            values = past_plan_json(state.journal, plan, _now_ms(state), notes := _unread(state))
            curve = progress_curve(progress_points(state.journal, plan))
            return {"p": values, "plan": plan, "notes": notes, "curve": curve}

        return render("plan.html", build)

    @parts.get("/plan/{plan}/partitions")
    def plan_partitions(
        plan: PlanName, find: Find = "", sort: SortBy = "state", descending: Descending = False, offset: Offset = 0
    ) -> Response:
        sorting = Sorting(sort, descending)

        def build() -> dict[str, Any]:
            values = plan_partitions_json(state, plan, sorting, find, offset, _PARTITIONS_SHOWN, _unread(state))
            return {"p": values, "offset": offset, "rows_max": _PARTITIONS_SHOWN, "find": find}

        return render("plan_partitions.html", build, every_second=False)


def progress_curve(points: Sequence[tuple[int, int]]) -> Curve:
    """Returns the curve through the points. For a long plan, the curve has every n-th point and the last one."""
    if len(points) < 2:
        return Curve("", 0, 0, 0)
    step = -(-len(points) // _POINTS_MAX)
    shown = [*points[:-1:step], points[-1]]
    from_ms, to_ms = min(at_ms for at_ms, _ in shown), max(at_ms for at_ms, _ in shown)
    highest = max(1, max(arrived for _, arrived in shown))
    span_ms = max(1, to_ms - from_ms)
    places = [(100 * (at_ms - from_ms) / span_ms, 100 - 100 * arrived / highest) for at_ms, arrived in sorted(shown)]
    return Curve(" ".join(f"{x:.1f},{y:.1f}" for x, y in places), from_ms, to_ms, highest)


def _stamp(state: ApiState) -> StampSource:
    return lambda: (state.journal.plans_revision(), state.plans.snapshot().number)


def _now_ms(state: ApiState) -> int:
    return state.observers.status.now_ms()


def _unread(state: ApiState) -> list[str]:
    """Returns a sentence that says why the journal is not read yet; empty if the journal is read."""
    reason = state.journal.unread_reason(_READ_S_MAX)
    return [] if reason is None else [f"{reason[:1].upper()}{reason[1:]}."]


def _found(values: dict[str, Any] | None) -> dict[str, Any]:
    """
    Raises:
        HTTPException: there are no values.
    """
    if values is None:
        raise HTTPException(404, "the journal and the orders topic have no plan with this id")
    return values
