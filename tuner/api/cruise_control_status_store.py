"""The newest decision about Cruise Control's concurrency, for the metrics."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streaming.shared.metric_defs import TunerMetric
from streaming.shared.metric_page import Labels, metric_family
from tuner.control.cruise_control.decision import MovementDecision, action_of
from tuner.control.cruise_control.policy import Execution


class CruiseControlStatusStore:
    """Holds the newest state, and counts decisions. Thread-safe."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self._lock = threading.Lock()
        self._execution: Execution | None = None
        self._is_asked = False
        self._decisions: Counter[tuple[str, str]] = Counter()

    def record_movements(self, execution: Execution | None, decision: MovementDecision) -> None:
        """Publishes a decision; the execution is None if Cruise Control has not answered."""
        with self._lock:
            self._execution, self._is_asked = execution, True
            self._decisions[action_of(decision), decision.reason.value] += 1

    def clear(self) -> None:
        """Drops the state, because this tuner has become a standby."""
        with self._lock:
            self._execution, self._is_asked = None, False

    def snapshot(self) -> tuple[Execution | None, bool, dict[tuple[str, str], int]]:
        """Returns the newest state, whether this tuner asks Cruise Control, and the counts of decisions."""
        with self._lock:
            return self._execution, self._is_asked, dict(self._decisions)


class CruiseControlCollector(Collector):
    """Collects the metrics of Cruise Control's execution."""

    def __init__(self, store: CruiseControlStatusStore) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        labels: Labels = (self._store.cluster,)
        execution, is_asked, decisions = self._store.snapshot()
        yield metric_family(
            TunerMetric.CRUISE_CONTROL_ANSWERS, {labels: float(execution is not None)} if is_asked else {}
        )
        movements = execution.movements_max if execution is not None else None
        yield metric_family(
            TunerMetric.CRUISE_CONTROL_MOVEMENTS, {labels: float(movements)} if movements is not None else {}
        )
        yield metric_family(
            TunerMetric.CRUISE_CONTROL_DECISIONS, {(*labels, *key): float(n) for key, n in decisions.items()}
        )
