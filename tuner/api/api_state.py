"""What the routes and the page read: one status snapshot per cycle, and the responses that are cached for it."""

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
_YIELD_S_MAX, _POLL_S = 0.1, 0.001


class ApiState:
    """The snapshot of the newest cycle, the quota and plan snapshots, and the cached responses that are built from them."""

    def __init__(self, observers: Observers, quotas: QuotaStatusStore, plans: PlanStatusStore) -> None:
        self.observers = observers
        self.quotas = quotas
        self.plans = plans
        self._program = installed_version()
        self._version: object = None
        self._look: StatusSnapshot | None = None
        self._status: dict[str, Any] = {}
        self._status_inputs: object = None
        self._is_building = False  # A response, in the server's thread.
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
        """Drops the snapshot of an older cycle; called in the loop's thread."""
        snapshot = self._look
        if snapshot is not None and snapshot.cycle.version != self.observers.version:
            self._look = None

    def cached_json(self, make: Callable[[], object], *, each_s: bool = False, also: Stamp = no_stamp) -> Response:
        """Returns a JSON response that the response cache reuses until the next cycle.

        Args:
            make: builds the JSON value.
            each_s: the value also depends on the clock, so it is built again every second.
            also: returns a stamp of further inputs; the response is built again once the stamp changes.
        """
        return self.cached_response(lambda: json_bytes(make()), JSON, each_s=each_s, also=also)

    def cached_response(
        self, make: Callable[[], bytes], media_type: str, *, each_s: bool = False, also: Stamp = no_stamp
    ) -> Response:
        board = self.observers.status

        def stamp() -> object:
            return self.version(), board.now_ms() // 1000 if each_s else None, also()

        # Taken before the build, so that a change during the build invalidates the response.
        stamped = stamp()
        self._is_building = True
        try:
            return CachedResponse(make(), media_type, stamped, stamp)
        finally:
            self._is_building = False

    def make_yielder(self) -> Callable[[], None]:
        """Returns a function that low-priority work calls to let responses go first.

        A call waits while a response is being built; all calls together wait 0.1 s at most. The threads share one interpreter (GIL),
        so low-priority work would slow the response down.
        """
        left_s = _YIELD_S_MAX

        def give_way() -> None:
            nonlocal left_s
            began_s = time.monotonic()
            ends_s = began_s + left_s
            while self._is_building and time.monotonic() < ends_s:
                time.sleep(_POLL_S)  # Polling costs the response nothing; a condition variable would.
            left_s -= time.monotonic() - began_s

        return give_way

    def status(self, role: str) -> dict[str, Any]:
        board, snapshot = self.observers.status, self.snapshot()
        ready, why = board.ready()
        # Only the values below that depend on the clock are built every second.
        shown = self.plans.snapshot()
        inputs = (self._version, shown.number)
        if inputs != self._status_inputs:
            self._status, self._status_inputs = views.status_json(snapshot, plan_progress(shown)), inputs
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
