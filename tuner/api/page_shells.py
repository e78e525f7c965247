"""The open routes of the status page: a shell for each view, the runbook and the static files.

No route of this module returns data of the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path
from jinja2 import Environment
from starlette.responses import HTMLResponse, Response

from tuner.api.decisions import time_of_number
from tuner.api.parameters import BrokerId
from tuner.api.reason_codes import REASON_CODES

PAGE_FOLDER = FilePath(__file__).parent / "page"
PlanName = Annotated[str, Path(min_length=1, max_length=249, description="the id of a plan")]
DecisionNumber = Annotated[int, Path(ge=0, le=2**53, description="the id of a decision")]


_MOVES_BOARD = "rheostat-reassignments"


@dataclass(frozen=True, slots=True)
class View:
    """One view of the page.

    Attributes:
        template: the file that extends ``shell.html``.
        parts: the parts that the view loads from ``/page/...``, for browsers without JavaScript.
        board: uid of the Grafana dashboard about the same subject; see the folder dashboards/.
    """

    address: str
    title: str
    template: str
    parts: tuple[str, ...]
    board: str


VIEWS = (
    View("/", "Now", "view_now.html", ("now", "idle", "moves", "decisions"), "rheostat-overview"),
    View("/moves", "Moves and plans", "view_moves.html", ("moves", "plans", "plan-history"), _MOVES_BOARD),
    View("/brokers", "Brokers", "view_brokers.html", ("brokers", "replication"), "rheostat-replication"),
    View(
        "/controller",
        "Controller and tenants",
        "view_controller.html",
        ("controller", "tenants"),
        "rheostat-controller",
    ),
)


def add_open_routes(router: APIRouter, templates: Environment, *, needs_token: bool) -> None:
    """Adds the routes without an access check."""
    files = _files()
    stamp = sha256(b"".join(body for _, (body, _) in sorted(files.items()))).hexdigest()[:12]
    runbook = (PAGE_FOLDER / "runbook.html").read_bytes()

    def shell(template: str, view: View | None, **values: Any) -> str:
        return templates.get_template(template).render(
            stamp=stamp, views=VIEWS, view=view, reasons=REASON_CODES, needs_token=needs_token, **values
        )

    for view in VIEWS:
        _add_view(router, view.address, shell(view.template, view, board=view.board))

    @router.get("/decisions/{number}")
    async def decision(number: DecisionNumber) -> Response:
        at_ms = time_of_number(number)
        return HTMLResponse(shell("view_decision.html", None, number=number, at_ms=at_ms, board=_MOVES_BOARD))

    @router.get("/brokers/{broker}")
    async def broker_page(broker: BrokerId) -> Response:
        return HTMLResponse(shell("view_broker.html", None, broker=broker, board=_MOVES_BOARD))

    @router.get("/plans/{plan}")
    async def plan_page(plan: PlanName) -> Response:
        return HTMLResponse(shell("view_plan.html", None, plan=plan, board=_MOVES_BOARD))

    @router.get("/runbook")
    async def runbook_page() -> Response:
        """Returns the runbook, which dashboards/runbook_page.py generates."""
        return HTMLResponse(runbook)

    @router.get("/static/{path:path}")
    async def static(path: str) -> Response:
        if path not in files:
            raise HTTPException(404, "no such file")
        body, kind = files[path]
        return Response(body, media_type=kind, headers={"cache-control": "public, max-age=86400"})


def _add_view(router: APIRouter, address: str, shell: str) -> None:
    @router.get(address)
    async def view() -> Response:
        return HTMLResponse(shell)


def _files() -> dict[str, tuple[bytes, str]]:
    """Returns the static files by path, with their media types. A requested path is only looked up here, never opened."""
    root = PAGE_FOLDER / "static"
    media_types = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain"}
    return {
        path.relative_to(root).as_posix(): (path.read_bytes(), media_types[path.suffix])
        for path in sorted(root.rglob("*"))
        if path.suffix in media_types
    }
