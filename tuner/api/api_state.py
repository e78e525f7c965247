"""The state that routes and page read: one status snapshot per cycle, and the responses cached for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from starlette.responses import Response

from streaming.shared.process_metrics import installed_version
from tuner.api import mutation_views, views
from tuner.api.cordon_status_store import CordonStatusStore
from tuner.api.journal_history import JournalHistory
from tuner.api.lag_status_store import LagStatusStore, lag_json
from tuner.api.leadership_status_store import LeadershipStatusStore
from tuner.api.log_dir_status_store import LogDirStatusStore
from tuner.api.mutation_store import MutationStore
from tuner.api.observers import Observers
from tuner.api.plan_status_store import PlanStatusStore
from tuner.api.plan_views import plan_progress
from tuner.api.quota_status_store import QuotaStatusStore
from tuner.api.response_cache import CachedResponse, StampSource, no_stamp
from tuner.api.responses import json_bytes
from tuner.api.status_snapshot import StatusSnapshot
from tuner.api.week_store import WeekStore

JSON = "application/json"
OtherPages = Sequence[tuple[str, str]]  # Name of a cluster, and address of the status page of its tuner.
_HISTORY_MS = 5_000  # About one cycle. A standby runs no cycles, so its answers expire by time.
_YIELD_S_MAX = 0.1
_POLL_S = 0.001


class ApiState:
    """The snapshot of the newest cycle, the quota and plan snapshots, and the cached responses that are built from them."""

    def __init__(
        self,
        observers: Observers,
        quotas: QuotaStatusStore,
        plans: PlanStatusStore | None = None,
        mutations: MutationStore | None = None,
        log_dirs: LogDirStatusStore | None = None,
        lag: LagStatusStore | None = None,
        weeks: WeekStore | None = None,
        cordons: CordonStatusStore | None = None,
        leadership: LeadershipStatusStore | None = None,
        other_pages: OtherPages = (),
        journal: JournalHistory | None = None,
        grafana_url: str | None = None,
    ) -> None:
        """
        Args:
            plans: None if this tuner executes no plans.
            mutations: None if this tuner reads no signals of controllers.
            log_dirs: None if this tuner does not watch log directories.
            lag: None if this tuner explains no lag.
            weeks: None if this tuner reads no history.
            cordons: None if this tuner does not watch cordons.
            leadership: None if this tuner does not watch preferred leaders.
            other_pages: the status pages of the other clusters that this installation serves.
            journal: None if this tuner reads no journal for the page.
            grafana_url: None if the page does not link to Grafana.
        """
        self._other_clusters = [{"cluster": cluster, "page": page} for cluster, page in other_pages]
        self._grafana_url = grafana_url
        self.observers = observers
        self.quotas = quotas
        self.mutations = mutations or MutationStore(observers.status.cluster)
        self.plans = plans or PlanStatusStore(observers.status.cluster)
        self.log_dirs = log_dirs or LogDirStatusStore(observers.status.cluster)
        self.lag = lag or LagStatusStore(observers.status.cluster)
        self.weeks = weeks or WeekStore(observers.status.cluster)
        self.cordons = cordons or CordonStatusStore()
        self.leadership = leadership or LeadershipStatusStore(observers.status.cluster)
        self.journal = journal or JournalHistory(observers.status.cluster)
        self._rheostat_version = installed_version()
        self._snapshot_version: object = None
        self._snapshot: StatusSnapshot | None = None
        self._status: dict[str, Any] = {}
        self._status_inputs: object = None
        self._is_building = False  # True while the server's thread builds a response.
        observers.on_new_cycle(self._release_old_snapshot)

    def version(self) -> object:
        """Returns a value that changes with each cycle, and when the tuner becomes active or a standby."""
        store = self.observers.status
        return self.observers.version, store.cycled_at_s, store.active

    @property
    def has_other_clusters(self) -> bool:
        """Returns whether the settings file has further clusters, so that a command must name its cluster."""
        return bool(self._other_clusters)

    def snapshot(self) -> StatusSnapshot:
        """Returns the snapshot of the newest cycle; it is built once per cycle."""
        version, snapshot = self.version(), self._snapshot
        if snapshot is None or version != self._snapshot_version:
            observers = self.observers
            store = observers.status
            snapshot = self._snapshot = StatusSnapshot(
                observers.snapshot(), observers.history.peaks(), store.objective, store.dry_run
            )
            self._snapshot_version = version
        return snapshot

    def _release_old_snapshot(self) -> None:
        """Drops the snapshot of an older cycle, which would use memory until the next request. The loop's thread calls it."""
        snapshot = self._snapshot
        if snapshot is not None and snapshot.cycle.version != self.observers.version:
            self._snapshot = None

    def cached_json(
        self, build: Callable[[], object], *, every_second: bool = False, further_stamp: StampSource = no_stamp
    ) -> Response:
        """Returns a JSON response that the response cache reuses until the next cycle.

        Args:
            build: builds the JSON value.
            every_second: whether the value also depends on the clock, so that it is built again every second.
            further_stamp: returns a stamp of the inputs that change between cycles; the response is built again once the stamp
                changes.
        """
        return self.cached_response(
            lambda: json_bytes(build()), JSON, every_second=every_second, further_stamp=further_stamp
        )

    def cached_response(
        self,
        build: Callable[[], bytes],
        media_type: str,
        *,
        every_second: bool = False,
        further_stamp: StampSource = no_stamp,
    ) -> Response:
        store = self.observers.status

        def stamp() -> object:
            return self.version(), store.now_ms() // 1000 if every_second else None, further_stamp()

        # Read before the build, so that a change during the build invalidates the response.
        build_stamp = stamp()
        self._is_building = True
        try:
            return CachedResponse(build(), media_type, build_stamp, stamp)
        finally:
            self._is_building = False

    def history_stamp(self) -> object:
        """Returns a stamp for answers from the history topic and the journal. These answers are at most five seconds old."""
        return self.weeks.revision(), self.journal.revision(), self.observers.status.now_ms() // _HISTORY_MS

    def decisions_stamp(self) -> object:
        """Returns a stamp for the answer about one decision. A later journal entry may be the outcome of the decision."""
        return self.observers.decisions.revision(), self.journal.revision()

    def mutations_json(self) -> dict[str, Any]:
        """Returns the mutation rates of the cluster as JSON values."""
        return mutation_views.mutations_json(self.mutations.snapshot(self.observers.status.now_ms()))

    def make_yielder(self) -> Callable[[], None]:
        """Returns a function that low-priority work calls to let responses go first.

        A call waits while a response is being built, since all threads share one interpreter lock (GIL). All calls together wait
        0.1 s at most.
        """
        left_s = _YIELD_S_MAX

        def yield_to_responses() -> None:
            nonlocal left_s
            began_s = time.monotonic()
            end_s = began_s + left_s
            while self._is_building and time.monotonic() < end_s:
                time.sleep(_POLL_S)  # Polling costs the response nothing; a condition variable would.
            left_s -= time.monotonic() - began_s

        return yield_to_responses

    def status(self, role: str) -> dict[str, Any]:
        store, snapshot = self.observers.status, self.snapshot()
        ready, why = store.ready()
        # Only the values below that depend on the clock are built every second.
        plans = self.plans.snapshot()
        inputs = (self._snapshot_version, plans.number)
        if inputs != self._status_inputs:
            self._status, self._status_inputs = views.status_json(snapshot, plan_progress(plans)), inputs
        return {
            "cluster": store.cluster,
            "other_clusters": self._other_clusters,
            "grafana_url": self._grafana_url,
            "version": self._rheostat_version,
            "ready": ready,
            "ready_text": why,
            "active": store.active,
            "dry_run": store.dry_run,
            "dry_run_by_default": store.dry_run_by_default,
            "role": role,
            "now_ms": store.now_ms(),
            "last_cycle_at_ms": round(store.cycled_at_s * 1000) if store.cycled_at_s is not None else None,
            "cycle_s": store.cycle_s,
            "replication_lag": lag_json(self.lag.snapshot()),
            **self._status,
            "schedule": views.schedule_json(store.schedule),
            "log_dirs": self.log_dirs.as_json(),
            "cordons": self.cordons.as_json(),
            "leadership": self.leadership.as_json(),
        }
