"""Counts the collector's events since its start, for the log's summary and for Prometheus."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from streaming.collector.jmx import Cause

# Upper bounds of the histogram of scrape durations.
SCRAPE_S_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(slots=True)
class Counts:
    """Event counts. The loop's thread writes them unless noted otherwise; any thread reads."""

    active: bool = False  # Whether this collector has the lease.
    rounds: int = 0
    late_rounds: int = 0
    round_s: float = 0.0  # Duration of the last round.
    records: int = 0
    admin_failures: int = 0
    # The full scan's thread writes ``full_scans`` and ``full_scan_s``.
    full_scans: int = 0
    full_scan_s: float = 0.0  # Duration of the last full scan.
    access_valid: bool = True  # Whether certificates and password were valid when last read.
    scrape_failures_by_cause: Counter[tuple[int, Cause]] = field(default_factory=Counter)  # By node and cause.
    scraped_at_s: dict[int, float] = field(default_factory=dict)  # Last good scrape by node, epoch seconds.
    scrape_s_sum: float = 0.0
    # Scrapes by bucket; the last count is of scrapes longer than every bound.
    scrape_s_counts: list[int] = field(default_factory=lambda: [0] * (len(SCRAPE_S_BUCKETS) + 1))
    _records_failed: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def scrape_failures(self) -> dict[int, int]:
        """Failed scrapes by node."""
        totals: dict[int, int] = {}
        for (node, _), count in self.scrape_failures_by_cause.copy().items():
            totals[node] = totals.get(node, 0) + count
        return totals

    @property
    def records_failed(self) -> int:
        return self._records_failed

    def add_failed_record(self) -> int:
        """Counts a record that Kafka did not accept; any thread may call it. Returns the new number of such records."""
        with self._lock:
            self._records_failed += 1
            return self._records_failed

    def add_scrape(self, seconds: float) -> None:
        self.scrape_s_sum += seconds
        self.scrape_s_counts[bisect_left(SCRAPE_S_BUCKETS, seconds)] += 1

    def add_scrape_failure(self, node: int, cause: Cause) -> None:
        self.scrape_failures_by_cause[(node, cause)] += 1

    def keep_only(self, nodes: Collection[int]) -> None:
        """Removes nodes that no longer exist."""
        for node in self.scraped_at_s.keys() - set(nodes):
            del self.scraped_at_s[node]
        for key in [key for key in self.scrape_failures_by_cause if key[0] not in nodes]:
            del self.scrape_failures_by_cause[key]
