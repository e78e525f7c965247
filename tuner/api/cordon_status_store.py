"""The cordons at the newest reading, for the API and the metrics. The loop writes, the server reads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streaming.shared.metric_defs import TunerMetric
from streaming.shared.metric_page import metric_family
from tuner.api.cordon_views import cordon_rows, count_by_owner
from tuner.control.cordon.model import CordonStep


class CordonStatusStore:
    """Holds the result of the newest cycle. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._step: CordonStep | None = None

    def publish(self, step: CordonStep) -> None:
        with self._lock:
            self._step = step

    def clear(self) -> None:
        """Drops the result, because this tuner has become a standby."""
        with self._lock:
            self._step = None

    def as_json(self) -> list[dict[str, Any]]:
        """Returns a row for each broker with cordoned log directories, as JSON values."""
        step = self.snapshot()
        return [] if step is None else cordon_rows(step.brokers, step.memory)

    def snapshot(self) -> CordonStep | None:
        """Returns the result of the newest cycle; None if there is none."""
        with self._lock:
            return self._step


class CordonCollector(Collector):
    """Collects the metric of cordoned log directories."""

    def __init__(self, store: CordonStatusStore, cluster: str) -> None:
        self._store, self._cluster = store, cluster

    def collect(self) -> Iterator[Metric]:
        step = self._store.snapshot()
        counts = {} if step is None else count_by_owner(step.brokers, step.memory)
        yield metric_family(
            TunerMetric.CORDONED_LOG_DIRS,
            {(self._cluster, str(broker), owner): float(n) for (broker, owner), n in counts.items()},
        )
