"""What the routes and the page read from: one look a cycle, and the answers that are made of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from streaming.shared.process_metrics import installed_version
from tuner.api import views
from tuner.api.observers import Observers
from tuner.api.plan_status_store import PlanStatusStore
from tuner.api.plan_views import plan_progress
from tuner.api.quota_status_store import QuotaStatusStore
from tuner.api.response_cache import CachedResponse, Stamp, no_stamp
from tuner.api.responses import json_bytes
from tuner.api.status_snapshot import StatusSnapshot

JSON = "application/json"
_PATIENCE_S, _POLL_S = 0.1, 0.001


class ApiState:
    """What the routes and the page read from: one look a cycle, and what is made of it."""

    def __init__(self, observers: Observers, quotas: QuotaStatusStore, plans: PlanStatusStore) -> None:
        self.observers = observers
        self.quotas = quotas
        self.plans = plans
        self._program = installed_version()
        self._version: object = None
        self._look: StatusSnapshot | None = None
        self._status: dict[str, Any] = {}
        self._status_of: object = None
        self._makes = False  # An answer, in the server's thread.
        observers.on_new_cycle(self._forget)

    def version(self) -> object:
        board = self.observers.status
        return self.observers.version, board.cycled_at_s, board.acting

    def snapshot(self) -> StatusSnapshot:
        version, snapshot = self.version(), self._look
        if snapshot is None or version != self._version:
            observers = self.observers
            board = observers.status
            snapshot = self._look = StatusSnapshot(
                observers.snapshot(), observers.history.peaks(), board.objective, board.dry_run
            )
            self._version = version
        return snapshot

    def _forget(self) -> None:
        """In the loop's thread. One that was made since is of the newest cycle."""
        snapshot = self._look
        if snapshot is not None and snapshot.cycle.version != self.observers.version:
            self._look = None

    def cached_json(self, make: Callable[[], object], *, each_s: bool = False, also: Stamp = no_stamp) -> Response:
        """
        Args:
            make: what holds until the next cycle, for JSON.
            each_s: what it says goes with the clock.
            also: other than the last cycle's, a value that changes when the answer does.
        """
        return self.cached_response(lambda: json_bytes(make()), JSON, each_s=each_s, also=also)

    def cached_response(
        self, make: Callable[[], bytes], media_type: str, *, each_s: bool = False, also: Stamp = no_stamp
    ) -> Response:
        board = self.observers.status

        def stamp() -> object:
            return self.version(), board.now_ms() // 1000 if each_s else None, also()

        # Before: what comes while it is being made is in the next one.
        stamped = stamp()
        self._makes = True
        try:
            return CachedResponse(make(), media_type, stamped, stamp)
        finally:
            self._makes = False

    def make_yielder(self) -> Callable[[], None]:
        """For who works beside the server for nobody in a hurry: each call waits while an answer is made, a tenth of a second
        in all. Of two threads each has half of the interpreter, of three a third, and behind the answer others wait.
        """
        left_s = _PATIENCE_S

        def give_way() -> None:
            nonlocal left_s
            began_s = time.monotonic()
            ends_s = began_s + left_s
            while self._makes and time.monotonic() < ends_s:
                time.sleep(
                    _POLL_S
                )  # In the scrape's own thread; an answer owes it no signal, and costs nothing more for it.
            left_s -= time.monotonic() - began_s

        return give_way

    def status(self, role: str) -> dict[str, Any]:
        board, snapshot = self.observers.status, self.snapshot()
        ready, why = board.ready()
        # Only what goes with the clock is made anew every second.
        shown = self.plans.snapshot()
        made_of = (self._version, shown.number)
        if made_of != self._status_of:
            self._status, self._status_of = views.status_json(snapshot, plan_progress(shown)), made_of
        return {
            "cluster": board.cluster,
            "version": self._program,
            "ready": ready,
            "ready_text": why,
            "acting": board.acting,
            "dry_run": board.dry_run,
            "dry_run_by_default": board.dry_run_by_default,
            "role": role,
            "now_ms": board.now_ms(),
            "last_cycle_at_ms": round(board.cycled_at_s * 1000) if board.cycled_at_s is not None else None,
            "cycle_s": board.cycle_s,
            **self._status,
        }
