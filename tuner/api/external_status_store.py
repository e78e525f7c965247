"""Counts how services outside rheostat answer: the checks of ``tuner.vetoes`` and the receivers of ``tuner.webhooks``."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streaming.shared.metric_defs import TunerMetric
from streaming.shared.metric_page import Labels, metric_family
from tuner.core.vetoes import VetoReport

DELIVERY_RESULTS = ("delivered", "failed", "dropped")


class ExternalStatusStore:
    """The state of the checks, and counts since the start of the process. Thread-safe.

    Attributes:
        reports: returns the state of each check; empty while this tuner does not lead.
        queue_lengths: returns the number of events that wait, by receiver.
    """

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.reports: Callable[[], Sequence[VetoReport]] = tuple
        self.queue_lengths: Callable[[], Mapping[str, int]] = dict
        self._lock = threading.Lock()
        self._failures: Counter[tuple[str, str]] = Counter()
        self._deliveries: Counter[tuple[str, str]] = Counter()

    def count_failure(self, check: str, kind: str) -> None:
        """Counts a request of a check without a valid answer."""
        with self._lock:
            self._failures[check, kind] += 1

    def count_delivery(self, webhook: str, result: str) -> None:
        """Counts the result of a delivery: one of ``DELIVERY_RESULTS``. A delivery that failed is tried again."""
        with self._lock:
            self._deliveries[webhook, result] += 1

    def counts(self) -> tuple[dict[tuple[str, str], int], dict[tuple[str, str], int]]:
        """Returns the failures of checks by name and kind, and the deliveries by receiver and result."""
        with self._lock:
            return dict(self._failures), dict(self._deliveries)


class ExternalCollector(Collector):
    """Collects the metrics of vetoes and webhooks."""

    def __init__(self, store: ExternalStatusStore) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        cluster = self._store.cluster
        reports = self._store.reports()
        failures, deliveries = self._store.counts()
        active: dict[Labels, float] = {(cluster, r.name, r.effect): float(r.vetoes) for r in reports}
        yield metric_family(TunerMetric.VETO_ACTIVE, active)
        unknown: dict[Labels, float] = {(cluster, r.name): float(r.is_unknown) for r in reports}
        yield metric_family(TunerMetric.VETO_UNKNOWN, unknown)
        yield metric_family(TunerMetric.VETO_FAILURES, {(cluster, *key): float(n) for key, n in failures.items()})
        waiting: dict[Labels, float] = {(cluster, name): float(n) for name, n in self._store.queue_lengths().items()}
        # Prometheus sees an increase only after a first value, so each count begins at 0.
        counts: dict[Labels, float] = {(*labels, result): 0.0 for labels in waiting for result in DELIVERY_RESULTS}
        counts |= {(cluster, *key): float(n) for key, n in deliveries.items()}
        yield metric_family(TunerMetric.WEBHOOK_DELIVERIES, counts)
        yield metric_family(TunerMetric.WEBHOOK_QUEUE, waiting)
