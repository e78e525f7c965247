"""What the routes and the page read from: one look a cycle, and the answers that are made of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from streaming.own_metrics import installed_version
from tuner.api import views
from tuner.api.answers import json_bytes
from tuner.api.lane import Again, Stamp, unchanging
from tuner.api.look import Look
from tuner.api.plan_board import PlanBoard
from tuner.api.quota_board import QuotaBoard
from tuner.api.watched import Watched

JSON = "application/json"


class Desktop:
    """What the routes and the page read from: one look a cycle, and what is made of it."""

    def __init__(self, watched: Watched, quotas: QuotaBoard, plans: PlanBoard) -> None:
        self.watched = watched
        self.quotas = quotas
        self.plans = plans
        self._program = installed_version()
        self._version: object = None
        self._look: Look | None = None
        self._status: dict[str, Any] = {}

    def version(self) -> object:
        board = self.watched.board
        return self.watched.version, board.cycled_at_s, board.acting

    def look(self) -> Look:
        version = self.version()
        if self._look is None or version != self._version:
            watched = self.watched
            board = watched.board
            self._look = Look(watched.picture(), watched.history.peaks(), board.objective, board.dry_run)
            self._status, self._version = {}, version
        return self._look

    def answer(self, make: Callable[[], object], *, each_s: bool = False, also: Stamp = unchanging) -> Response:
        """
        Args:
            make: what holds until the next cycle, for JSON.
            each_s: what it says goes with the clock.
            also: other than the last cycle's, a value that changes when the answer does.
        """
        return self.again(lambda: json_bytes(make()), JSON, each_s=each_s, also=also)

    def again(
        self, make: Callable[[], bytes], media_type: str, *, each_s: bool = False, also: Stamp = unchanging
    ) -> Response:
        board = self.watched.board

        def stamp() -> object:
            return self.version(), board.now_ms() // 1000 if each_s else None, also()

        # Before: what comes while it is being made is in the next one.
        stamped = stamp()
        return Again(make(), media_type, stamped, stamp)

    def status(self, role: str) -> dict[str, Any]:
        board, look = self.watched.board, self.look()
        ready, why = board.ready()
        # Only what goes with the clock is made anew every second.
        self._status = self._status or views.status(look)
        return {
            "cluster": board.cluster,
            "version": self._program,
            "ready": ready,
            "why": why,
            "acting": board.acting,
            "dry_run": board.dry_run,
            "role": role,
            "now_ms": board.now_ms(),
            "cycled_at_ms": round(board.cycled_at_s * 1000) if board.cycled_at_s is not None else None,
            "cycle_s": board.cycle_s,
            **self._status,
        }
