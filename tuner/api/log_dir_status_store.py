"""Keeps the last cycle's copies between log directories, for the API and the metrics. The loop writes, the server reads."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streaming.shared.metric_def import MetricDef
from streaming.shared.metric_defs import TunerMetric
from streaming.shared.metric_page import Labels, metric_family
from tuner.api.log_dir_views import log_dir_json
from tuner.api.series_limit import SERIES_MAX
from tuner.api.status_store import StatusStore
from tuner.control.log_dir.decision import log_dir_action
from tuner.control.log_dir.model import LogDirStep


class LogDirStatusStore:
    """Holds the result of the newest cycle and the counters. Thread-safe."""

    def __init__(self, cluster: str, throttles: StatusStore | None = None) -> None:
        """
        Args:
            throttles: counts writes of log directory throttles together with writes of replication throttles; None if writes are
                not counted.
        """
        self.cluster = cluster
        self._throttles = throttles
        self._lock = threading.Lock()
        self._step: LogDirStep | None = None
        self._at_ms = 0
        self._decisions: Counter[tuple[str, str]] = Counter()

    def publish(self, step: LogDirStep, at_ms: int) -> None:
        with self._lock:
            self._step, self._at_ms = step, at_ms
            self._decisions.update((log_dir_action(d), d.reason.value) for d in step.decisions)

    def record_writes(self, count: int, failed: int) -> None:
        if self._throttles is not None:
            self._throttles.record_writes(count, failed)

    def clear(self) -> None:
        """Drops the result, because this tuner has become a standby."""
        with self._lock:
            self._step = None

    def newest(self) -> tuple[LogDirStep | None, int]:
        """Returns the result of the newest cycle, and the time of that cycle (epoch ms); None if no cycle has ended."""
        with self._lock:
            return self._step, self._at_ms

    def decision_counts(self) -> dict[tuple[str, str], int]:
        """Returns the number of decisions by action and reason."""
        with self._lock:
            return dict(self._decisions)

    def as_json(self) -> list[dict[str, Any]]:
        """Returns a row for each broker that copies, as JSON values."""
        step, _ = self.newest()
        rows = step.rows if step is not None else ()
        owned = step.memory.owned if step is not None else {}
        return [
            log_dir_json(
                row.broker,
                row.progress,
                row.copied_bytes_per_s,
                row.rate_bytes_per_s,
                managed=row.broker in owned,
                reason=row.decision.reason.value,
                text=row.decision.text,
            )
            for row in rows
        ]


class LogDirCollector(Collector):
    """Collects the metrics of copies between log directories."""

    def __init__(self, store: LogDirStatusStore) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        labels = (self._store.cluster,)
        if decisions := self._store.decision_counts():
            counts: dict[Labels, float] = {(*labels, *key): float(count) for key, count in decisions.items()}
            yield metric_family(TunerMetric.LOG_DIR_DECISIONS, counts)
        step, at_ms = self._store.newest()
        if step is None:
            return
        yield metric_family(TunerMetric.LOG_DIR_THROTTLES_OWNED, {labels: float(len(step.memory.owned))})
        by_size = sorted(step.rows, key=lambda row: (-row.progress.remaining_bytes, row.broker))
        rows = {(*labels, str(row.broker)): row for row in by_size[:SERIES_MAX]}
        ends_s = {key: row.progress.eta_s for key, row in rows.items()}
        values: tuple[tuple[MetricDef, Mapping[Labels, float | None]], ...] = (
            (TunerMetric.LOG_DIR_PARTITIONS, {key: row.progress.partitions for key, row in rows.items()}),
            (TunerMetric.LOG_DIR_REMAINING_BYTES, {key: row.progress.remaining_bytes for key, row in rows.items()}),
            (TunerMetric.LOG_DIR_COPIED_BYTES, {key: row.copied_bytes_per_s for key, row in rows.items()}),
            (TunerMetric.LOG_DIR_RATE, {key: row.rate_bytes_per_s for key, row in rows.items()}),
            (
                TunerMetric.LOG_DIR_EXPECTED_END,
                {key: None if eta_s is None else at_ms / 1000 + eta_s for key, eta_s in ends_s.items()},
            ),
        )
        for definition, by_broker in values:
            known = {key: round(number, 3) for key, number in by_broker.items() if number is not None}
            yield metric_family(definition, known)
