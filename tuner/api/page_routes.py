"""The status page: a shell that anybody may load, and its parts, which take what reading takes.

The shell holds nothing of the cluster. Each part is made once a cycle, however many look, and comes in HTML, so that what
a person sees and what the API says are made of the same values.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, Response

from streaming.shared.units import rate_text, size_text, span_text
from tuner.api import broker_views, sentences, views
from tuner.api.access_guard import AccessGuard
from tuner.api.api_state import ApiState
from tuner.api.decision_rows import OUTCOMES, decision_json
from tuner.api.decisions import DecisionFilter
from tuner.api.parameters import refuse_unknown_parameters
from tuner.api.response_cache import Stamp, no_stamp
from tuner.api.routes import page_json, plans_json, tenants_json
from tuner.api.status_snapshot import StatusSnapshot
from tuner.control.throttle.decision import Reason
from tuner.core.dry_run_notice import dry_run_notice

CARDS = 12
_MOVES = 20
_PLANS = 10
_FEED = 30
_TENANTS = 20
_FOLDER = Path(__file__).parent / "page"
Digits = Annotated[str, Query(pattern=r"^[0-9]{0,10}$")]


def page_routes(desktop: ApiState, guard: AccessGuard) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    parts = APIRouter(prefix="/page", dependencies=[Depends(guard.read), Depends(refuse_unknown_parameters)])
    files = _files()
    templates = _templates()
    stamp = sha256(b"".join(body for _, (body, _) in sorted(files.items()))).hexdigest()[:12]
    shell = templates.get_template("shell.html").render(stamp=stamp, reasons=sorted(reason.value for reason in Reason))

    @router.get("/")
    async def index() -> Response:
        return HTMLResponse(shell)

    runbook = (_FOLDER / "runbook.html").read_bytes()

    @router.get("/runbook")
    async def runbook_page() -> Response:
        """What to do about each alert; made by dashboards/runbook_page.py. Open, as it is the same for everybody."""
        return HTMLResponse(runbook)

    @router.get("/static/{path:path}")
    async def static(path: str) -> Response:
        if path not in files:
            raise HTTPException(404, "not known here")
        body, kind = files[path]
        return Response(body, media_type=kind, headers={"cache-control": "public, max-age=86400"})

    def part(
        name: str, make: Callable[[], dict[str, Any]], *, each_s: bool = False, also: Stamp = no_stamp
    ) -> Response:
        made = templates.get_template(name)
        return desktop.cached_response(lambda: made.render(**make()).encode(), "text/html", each_s=each_s, also=also)

    @parts.get("/now")
    async def now() -> Response:
        board = desktop.observers.status
        notice = dry_run_notice(by_default=board.dry_run_by_default) if board.dry_run else None
        return part("now.html", lambda: {"s": desktop.status("read"), "dry_run_notice": notice}, each_s=True)

    @parts.get("/moves")
    async def moves() -> Response:
        def made() -> dict[str, Any]:
            look = desktop.snapshot()
            found = views.destinations_by_urgency(look)
            rows = [views.move_json(look, broker) for broker in found[:_MOVES]]
            return {"rows": rows, "total": len(found), "plans": bool(desktop.plans.snapshot().plans)}

        return part("moves.html", made, also=lambda: bool(desktop.plans.snapshot().plans))

    @parts.get("/plans")
    async def plans() -> Response:
        return part(
            "plans.html",
            lambda: {"p": plans_json(desktop.snapshot(), desktop.plans.snapshot(), 0, _PLANS)},
            also=lambda: desktop.plans.snapshot().number,
        )

    @parts.get("/brokers")
    async def brokers(find: Digits = "", offset: Annotated[int, Query(ge=0, le=10**7)] = 0) -> Response:
        return part("brokers.html", lambda: _cards(desktop.snapshot(), find, offset))

    @parts.get("/decisions")
    async def decisions(
        broker: Digits = "", reason: Annotated[str, Query(max_length=64)] = "", changes_only: bool = False
    ) -> Response:
        wanted = DecisionFilter(int(broker) if broker else None, reason=reason or None, changes_only=changes_only)
        found = desktop.observers.decisions

        def made() -> dict[str, Any]:
            rows, further = found.page(wanted, _FEED)
            shown = [decision_json(row, inputs=False) for row in rows]
            return {"rows": shown, "further": further, "outcomes": OUTCOMES, "filtered": wanted != DecisionFilter()}

        return part("decisions.html", made, also=found.changes)

    @parts.get("/tenants")
    async def tenants() -> Response:
        return part(
            "tenants.html",
            lambda: {"t": tenants_json(desktop.quotas.as_json(), 0, _TENANTS)},
            also=lambda: desktop.quotas.number,
        )

    router.include_router(parts)
    return router


def _cards(look: StatusSnapshot, find: str, offset: int) -> dict[str, Any]:
    every = look.brokers
    found = [broker for broker in every if not find or broker == int(find)]
    # Who has paged beyond the end sees the last page.
    offset = min(offset, max(0, len(found) - 1) // CARDS * CARDS)
    page = page_json("brokers", found, offset, CARDS)
    return {
        "rows": broker_views.brokers_json(look, page["brokers"]),
        "objective": views.objective_json(look.objective),
        "ceiling_bytes_per_s": look.cycle.result.limits.rate_bytes_per_s_max,
        "cards": CARDS,
        "last_offset": max(0, len(every) - 1) // CARDS * CARDS,
        "first": offset + 1,
        "last": offset + len(page["brokers"]),
        "total": len(every) if find else page["total"],
        "missing": find if find and not found else None,
    }


def _files() -> dict[str, tuple[bytes, str]]:
    """All that may be asked for, by its path: whatever path comes in, it is only looked up here."""
    root = _FOLDER / "static"
    kinds = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain"}
    return {
        path.relative_to(root).as_posix(): (path.read_bytes(), kinds[path.suffix])
        for path in sorted(root.rglob("*"))
        if path.suffix in kinds
    }


def _templates() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "overrides": sentences.override_lines,
        "with_code": html_with_code,
        "rate": _known(rate_text),
        "size": _known(size_text),
        "span": _known(span_text),
        "moment": _known(sentences.moment),
        "clock": _known(lambda ms: sentences.moment(ms)[11:19]),
        "iso": lambda ms: sentences.utc_datetime(ms).isoformat(timespec="milliseconds"),
        "ms": _known(lambda ms: f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms"),
        "slope": _known(_slope),
        "per_s": _known(lambda value: f"{value:g}/s"),
        "or_dash": _known(str),
        "sentence": lambda text: text if text.endswith(("?", "!", ".")) else f"{text}.",
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
    }
    return made


def html_with_code(text: str) -> Markup:
    """Returns the text, escaped, with what stands between backticks as code."""
    parts = str(text).split("`")
    # A backtick without its second one is a character like any other.
    whole, rest = (parts, []) if len(parts) % 2 else (parts[:-1], parts[-1:])
    made = Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part) for number, part in enumerate(whole)
    )
    return made + escape("`".join(["", *rest]))


def _known(form: Callable[[Any], str]) -> Callable[[Any], str]:
    """What was not measured is a dash."""
    return lambda value: "–" if value is None else form(value)


def _slope(bytes_per_s: float) -> str:
    if abs(bytes_per_s) < 1000:
        return "stands still"
    return f"{rate_text(abs(bytes_per_s))} {'nearer' if bytes_per_s < 0 else 'further off'}"
