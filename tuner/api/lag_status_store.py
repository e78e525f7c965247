"""The lag diagnoses of the last evaluation, for the API, the page and the metrics. The loop writes them, the server reads them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streaming.shared.contract import ReplicationSignal
from streaming.shared.fetcher_threads import client_id
from streaming.shared.metric_defs import TunerMetric
from streaming.shared.metric_page import metric_family
from tuner.control.replication_lag.decision import LagDiagnosis, LagReason
from tuner.control.replication_lag.view import LagView

# Limits the number of series and of rows: after a failure of a rack, hundreds of brokers may lag. The largest lags come first.
BROKERS_NAMED_MAX = 50
_SOURCES_MAX = 12  # Source brokers in a row of the matrix.


@dataclass(frozen=True, slots=True)
class LagSnapshot:
    """One evaluation of the lag of all brokers."""

    view: LagView
    diagnoses: Sequence[LagDiagnosis]


class LagStatusStore:
    """Holds the newest evaluation. Thread-safe."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self._lock = threading.Lock()
        self._snapshot: LagSnapshot | None = None
        self.number = 0  # Changes with each update.

    def publish(self, view: LagView, diagnoses: Sequence[LagDiagnosis]) -> None:
        self._set(LagSnapshot(view, diagnoses))

    def evaluation_failed(self) -> None:
        """Drops the snapshot after an error, as its values become outdated."""
        self._set(None)

    def clear(self) -> None:
        """Drops the snapshot, because this tuner has become a standby."""
        self._set(None)

    def _set(self, snapshot: LagSnapshot | None) -> None:
        with self._lock:
            self._snapshot = snapshot
            self.number += 1

    def snapshot(self) -> LagSnapshot | None:
        """Returns the newest evaluation; None if there is none, or it is outdated."""
        return self._snapshot


def lag_json(snapshot: LagSnapshot | None) -> dict[str, Any]:
    """Returns the diagnoses as JSON values. ``lagging`` is None if nothing was evaluated, and empty if no broker lags."""
    if snapshot is None:
        return {"observed_at_ms": None, "lagging_brokers": None, "lagging": None}
    return {
        "observed_at_ms": snapshot.view.now_ms,
        "lagging_brokers": len(snapshot.diagnoses),
        "lagging": [
            {
                "broker": d.broker,
                "reason": d.reason.value,
                "text": d.text,
                "growing": d.growing,
                "lag_messages": d.lag_messages,
                "lag_s": d.lag_s,
                "usual_messages": d.usual_messages,
                "since_ms": d.since_ms,
                "sources": list(d.sources),
                "client_id": d.thread,
                "topic": d.topic,
                "partition": d.partition,
                "better_fetchers": d.better_fetchers,
            }
            for d in snapshot.diagnoses[:BROKERS_NAMED_MAX]
        ],
    }


def fetcher_matrix(snapshot: LagSnapshot, followers_max: int) -> list[dict[str, Any]]:
    """Returns the fetcher threads of the lagging brokers by source broker, for the page.

    Args:
        followers_max: number of rows, the largest lags first.
    """
    return [
        _matrix_row(snapshot.view.signals[d.broker], d.thread)
        for d in snapshot.diagnoses[:followers_max]
        if snapshot.view.signals[d.broker].threads
    ]


def _matrix_row(signal: ReplicationSignal, worst_thread: str | None) -> dict[str, Any]:
    by_source: dict[int, list[dict[str, Any]]] = {}
    for thread in sorted(signal.threads, key=lambda thread: (thread.source, thread.fetcher)):
        name = client_id(thread.fetcher, thread.source)
        by_source.setdefault(thread.source, []).append(
            {
                "client_id": name,
                "fetcher": thread.fetcher,
                "lag_messages": thread.lag_sum_messages,
                "bytes_per_s": thread.fetched_bytes_per_s,
                "partitions": thread.partitions,
                "worst": name == worst_thread,
            }
        )
    largest_first = sorted(by_source.items(), key=lambda item: -max(t["lag_messages"] or 0.0 for t in item[1]))
    cells = [{"source": source, "threads": threads} for source, threads in largest_first[:_SOURCES_MAX]]
    return {"follower": signal.broker, "sources": cells}


class LagCollector(Collector):
    """Collects the metrics of lag diagnoses."""

    def __init__(self, store: LagStatusStore) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        snapshot = self._store.snapshot()
        if snapshot is None:
            return
        counts = Counter(d.reason for d in snapshot.diagnoses)
        cluster = self._store.cluster
        yield metric_family(
            TunerMetric.LAGGING_BROKERS, {(cluster, reason.value): float(counts[reason]) for reason in LagReason}
        )
        named = snapshot.diagnoses[:BROKERS_NAMED_MAX]
        yield metric_family(
            TunerMetric.LAG_GROWING, {(cluster, str(d.broker), d.reason.value): float(d.growing) for d in named}
        )
