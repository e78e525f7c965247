"""The status page: an open shell without data, and its parts as HTML, which need read access.

Each part is built once per cycle for all viewers, from the same values as the API.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import Response

from streaming.shared.units import rate_text, size_text, span_text
from tuner.api import (
    attention,
    broker_views,
    idle_views,
    lag_views,
    mutation_texts,
    page_texts,
    sentences,
    views,
    week_texts,
)
from tuner.api.access_guard import AccessGuard
from tuner.api.api_state import ApiState
from tuner.api.cordon_views import cordon_line
from tuner.api.decision_rows import OUTCOMES, decision_json
from tuner.api.decisions import DecisionFilter
from tuner.api.history_page_routes import add_history_parts
from tuner.api.lag_status_store import LagSnapshot, fetcher_matrix
from tuner.api.log_dir_views import log_dir_line
from tuner.api.page_shells import PAGE_FOLDER, add_open_routes
from tuner.api.parameters import refuse_unknown_parameters
from tuner.api.plan_history_routes import add_plan_history_parts
from tuner.api.plan_routes import plan_preview_route
from tuner.api.plan_service import PlanService
from tuner.api.response_cache import StampSource, no_stamp
from tuner.api.routes import page_json, plans_json, tenants_json
from tuner.api.status_snapshot import StatusSnapshot
from tuner.api.status_store import StatusStore
from tuner.core.latency_limit import WHEN_MEASURED, LatencySource

# Rows per part of the page.
CARDS = 12
_MOVES = 20
_PLANS = 10
_DECISIONS = 30
_TENANTS = 20
_CHANGES = 10
_FOLLOWERS = 10
# The states of a plan's partitions, with their texts. The page shows a state only if the plan has partitions in this state.
_PARTITION_STATES = {
    "waiting": "waiting for a step",
    "electing": "waiting for a leader election",
    "unconfirmed": "not confirmed yet",
    "externally_owned": "moved by another tool",
    "dropped": "dropped from the plan",
}
_RUNBOOK_SECTION = re.compile(r"\b([A-Z][A-Za-z]+) in the runbook\b")
Digits = Annotated[str, Query(pattern=r"^[0-9]{0,10}$")]
Minute = Annotated[str, Query(pattern=r"^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2})?$")]  # In UTC.
Find = Annotated[str, Query(max_length=512)]  # A part of a name.


def page_routes(state: ApiState, guard: AccessGuard, plan_service: PlanService | None) -> APIRouter:
    """Returns the router with the shells of all views, the runbook, the static files, and the parts of the page.

    Args:
        plan_service: None if plans cannot be previewed.
    """
    router = APIRouter(include_in_schema=False)
    templates = _templates()
    add_open_routes(router, templates, needs_token=guard.needs_token)
    parts = APIRouter(prefix="/page", dependencies=[Depends(guard.read), Depends(refuse_unknown_parameters)])
    _add_parts(parts, state, templates)
    _add_outlook(parts, state, templates)
    router.include_router(parts)
    router.include_router(plan_preview_route(guard, plan_service, templates))
    return router


def _add_parts(parts: APIRouter, state: ApiState, templates: Environment) -> None:
    def part(
        name: str,
        build: Callable[[], dict[str, Any]],
        *,
        every_second: bool = False,
        further_stamp: StampSource = no_stamp,
    ) -> Response:
        template = templates.get_template(name)
        return state.cached_response(
            lambda: template.render(**build()).encode(),
            "text/html",
            every_second=every_second,
            further_stamp=further_stamp,
        )

    store, decisions_store = state.observers.status, state.observers.decisions

    @parts.get("/now")
    async def now() -> Response:
        def build() -> dict[str, Any]:
            status = state.status("read")
            mode = page_texts.mode_line(status, is_standby=store.is_standby, closed_loop=store.limits.closed_loop)
            lines = sentences.schedule_lines(status["schedule"])
            plans = plans_json(state.snapshot(), state.plans.snapshot(), 0, _PLANS)["plans"]
            concerns = attention.concerns(status, plans, state.mutations_json())
            return {"s": status, "mode": mode, "schedule": lines, "concerns": concerns}

        return part("now.html", build, every_second=True)

    @parts.get("/moves")
    async def moves() -> Response:
        def build() -> dict[str, Any]:
            snapshot = state.snapshot()
            destinations = views.destinations_by_urgency(snapshot)
            rows = [views.move_json(snapshot, broker) for broker in destinations[:_MOVES]]
            return {
                "rows": rows,
                "total": len(destinations),
                "plans": bool(state.plans.snapshot().plans),
                "empty": None if rows else page_texts.no_moves_text(store, snapshot),
            }

        return part("moves.html", build, further_stamp=lambda: bool(state.plans.snapshot().plans))

    @parts.get("/plans")
    async def plans(find: Find = "") -> Response:
        def build() -> dict[str, Any]:
            snapshot = state.snapshot()
            plans = plans_json(snapshot, state.plans.snapshot(), 0, _PLANS, find)
            return {
                "p": plans,
                "find": find,
                "waiting": page_texts.waiting_text(store, snapshot),
                "states": _PARTITION_STATES,
            }

        return part(
            "plans.html",
            build,
            further_stamp=lambda: state.plans.snapshot().number,
        )

    @parts.get("/brokers")
    async def brokers(find: Digits = "", offset: Annotated[int, Query(ge=0, le=10**7)] = 0) -> Response:
        return part("brokers.html", lambda: _cards(store, state.snapshot(), find, offset))

    @parts.get("/replication")
    async def replication() -> Response:
        def build() -> dict[str, Any]:
            return {**_lag_rows(store, state.snapshot()), **_lag_causes(state.lag.snapshot())}

        return part("replication.html", build, further_stamp=lambda: state.lag.number)

    @parts.get("/decisions")
    async def decision_feed(
        broker: Digits = "",
        reason: Annotated[str, Query(max_length=64)] = "",
        changes_only: bool = False,
        until: Minute = "",
    ) -> Response:
        selection = DecisionFilter(
            broker=int(broker) if broker else None,
            reason=reason or None,
            changes_only=changes_only,
            to_ms=_end_of_minute_ms(until) if until else None,
        )

        def build() -> dict[str, Any]:
            rows, next_before = decisions_store.page(selection, _DECISIONS)
            shown = [decision_json(row, inputs_max=0) for row in rows]
            for row in shown:
                row["meaning"] = page_texts.reason_meaning(row["kind"], row["action"], row["reason"])
            return {
                "rows": shown,
                "further": next_before,
                "outcomes": OUTCOMES,
                "filtered": selection != DecisionFilter(),
            }

        return part("decisions.html", build, further_stamp=decisions_store.revision)

    add_history_parts(parts, state, templates)
    add_plan_history_parts(parts, state, templates)

    @parts.get("/controller")
    async def controller() -> Response:
        def build() -> dict[str, Any]:
            values = state.mutations_json()
            return {
                "m": values,
                "empty": page_texts.waiting_text(store, state.snapshot()) if values["observed_at_ms"] is None else None,
                "blame": mutation_texts.blame_sentence(values),
                "summary": mutation_texts.load_sentence(values),
                "rows": mutation_texts.rate_rows(values),
                "old_clients": mutation_texts.old_client_sentences(values),
                "quotas_on": state.quotas.snapshot() is not None,
                "changes": week_texts.tenant_event_texts(state.weeks.events, _CHANGES),
            }

        return part(
            "controller.html",
            build,
            further_stamp=lambda: (state.mutations.number, state.quotas.number, state.weeks.events),
        )

    @parts.get("/tenants")
    async def tenants(find: Find = "") -> Response:
        def build() -> dict[str, Any]:
            tenants = tenants_json(state.quotas.as_json(), 0, _TENANTS, find)
            return {
                "t": tenants,
                "find": find,
                "empty": page_texts.no_tenants_text(store, state.snapshot(), state.quotas),
            }

        return part(
            "tenants.html",
            build,
            further_stamp=lambda: state.quotas.number,
        )


def _add_outlook(parts: APIRouter, state: ApiState, templates: Environment) -> None:
    template = templates.get_template("idle.html")

    @parts.get("/idle")
    async def idle() -> Response:
        """Returns the outlook while nothing moves; else an empty part, which the page hides."""

        def build() -> bytes:
            snapshot, store = state.snapshot(), state.observers.status
            if not store.active or not idle_views.is_idle(snapshot, has_plans=bool(state.plans.snapshot().plans)):
                return b""
            inputs = idle_views.OutlookInputs(store, state.weeks, state.mutations_json())
            threads, threads_text = idle_views.fetcher_rows(snapshot)
            return template.render(
                facts=idle_views.facts(snapshot, inputs),
                capacities=idle_views.capacity_rows(snapshot, inputs),
                total=len(snapshot.brokers),
                threads=threads,
                threads_text=threads_text,
            ).encode()

        return state.cached_response(
            build, "text/html", further_stamp=lambda: (state.plans.snapshot().number, state.mutations.number)
        )


def _lag_rows(store: StatusStore, snapshot: StatusSnapshot) -> dict[str, Any]:
    followers = lag_views.followers_by_lag(snapshot)
    lagging = lag_views.lagging_followers(followers)
    return {
        "rows": [(signal, lag_views.slowest_thread(signal)) for signal in lagging[:_FOLLOWERS]],
        "total": len(lagging),
        "empty": None if lagging else page_texts.no_lag_text(store, snapshot, len(followers)),
    }


def _lag_causes(snapshot: LagSnapshot | None) -> dict[str, Any]:
    if snapshot is None:
        return {"causes": [], "lagging": 0, "matrix": []}
    causes = [
        {"broker": d.broker, "reason": d.reason.value, "text": d.text, "growing": d.growing}
        for d in snapshot.diagnoses[:_FOLLOWERS]
    ]
    return {"causes": causes, "lagging": len(snapshot.diagnoses), "matrix": fetcher_matrix(snapshot, _FOLLOWERS)}


def _cards(store: StatusStore, snapshot: StatusSnapshot, find: str, offset: int) -> dict[str, Any]:
    all_brokers = snapshot.brokers
    matching = [broker for broker in all_brokers if not find or broker == int(find)]
    # An offset beyond the end shows the last page.
    offset = min(offset, _last_page_offset(matching))
    page = page_json("brokers", matching, offset, CARDS)
    return {
        "rows": broker_views.brokers_json(snapshot, page["brokers"]),
        "objective": views.objective_json(snapshot.objective),
        "rate_bytes_per_s_max": snapshot.cycle.result.limits.rate_bytes_per_s_max,
        "cards": CARDS,
        "last_offset": _last_page_offset(all_brokers),
        "first": offset + 1,
        "last": offset + len(page["brokers"]),
        "total": len(all_brokers) if find else page["total"],
        "missing": find if find and not matching else None,
        "empty": None if all_brokers else page_texts.waiting_text(store, snapshot) or "No broker is known yet.",
    }


def _last_page_offset(rows: Sequence[object]) -> int:
    return max(0, len(rows) - 1) // CARDS * CARDS


def _end_of_minute_ms(minute: str) -> int:
    """Returns the last millisecond of a minute in UTC (epoch).

    Raises:
        HTTPException: there is no such minute.
    """
    try:
        start = datetime.fromisoformat(minute).replace(tzinfo=UTC)
    except ValueError as error:
        raise HTTPException(422, f"until: there is no time {minute}") from error
    return round(start.timestamp() * 1000) + 59_999


def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(PAGE_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "overrides": sentences.override_lines,
        "log_dir_line": log_dir_line,
        "cordon_line": cordon_line,
        "with_code": html_with_code,
        "baseline_source": lambda source: WHEN_MEASURED[LatencySource(source)],
        "tenant_meaning": page_texts.tenant_meaning,
        "rate": _or_dash(rate_text),
        "size": _or_dash(size_text),
        "span": _or_dash(span_text),
        "moment": _or_dash(sentences.moment),
        "clock": _or_dash(lambda ms: sentences.moment(ms)[11:19]),  # The time of day.
        "iso": lambda ms: sentences.utc_datetime(ms).isoformat(timespec="milliseconds"),
        "ms": _or_dash(lambda ms: f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms"),
        "slope": _or_dash(_slope),
        "messages": _or_dash(lambda messages: f"{messages:,.0f}"),
        "lag_trend": _or_dash(page_texts.lag_trend_text),
        "per_s": _or_dash(lambda value: f"{value:g}/s"),
        "per_s_plain": mutation_texts.plain,
        "count": _or_dash(lambda value: f"{value:.0f}"),
        "or_dash": _or_dash(str),
        "sentence": lambda text: text if text.endswith(("?", "!", ".")) else f"{text}.",
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
    }
    return environment


def html_with_code(text: str) -> Markup:
    """Returns the text as escaped HTML: text between backticks as ``<code>``, the name of a runbook section as a link."""
    parts = str(text).split("`")
    # Without a closing backtick, the last backtick and the text after it are ordinary text.
    paired, unpaired = (parts, []) if len(parts) % 2 else (parts[:-1], parts[-1:])
    markup = Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else _linked(part) for number, part in enumerate(paired)
    )
    return markup + escape("`".join(["", *unpaired]))


def _linked(text: str) -> Markup:
    # Every second part is the name of a section.
    parts = _RUNBOOK_SECTION.split(text)
    link = Markup('<a href="/runbook#{}">{}</a> in the runbook')
    return Markup("").join(
        link.format(part.lower(), part) if number % 2 else escape(part) for number, part in enumerate(parts)
    )


def _or_dash(to_text: Callable[[Any], str]) -> Callable[[Any], str]:
    """Returns a filter that formats a value with ``to_text``, and shows None as a dash."""
    return lambda value: "–" if value is None else to_text(value)


def _slope(bytes_per_s: float) -> str:
    if abs(bytes_per_s) < 1000:
        return "unchanged"
    return f"{rate_text(abs(bytes_per_s))} {'less' if bytes_per_s < 0 else 'more'}"
