"""What happened since the start: for the summary in the log, and for Prometheus."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from streaming.collector.jmx import Cause

SCRAPE_S_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(slots=True)
class Counts:
    """Written by the loop's thread, but for what says otherwise; read by any."""

    rounds: int = 0
    late_rounds: int = 0
    round_s: float = 0.0  # The last one.
    records: int = 0
    admin_failures: int = 0
    sweeps: int = 0  # By the sweep's thread.
    full_scan_interval_s: float = 0.0
    access_good: bool = True  # Certificates and password, when they were last read.
    failures: Counter[tuple[int, Cause]] = field(default_factory=Counter)
    scraped_at_s: dict[int, float] = field(
        default_factory=dict
    )  # The last good scrape of each node, by the wall clock.
    scrape_s_sum: float = 0.0
    scrape_s_counts: list[int] = field(default_factory=lambda: [0] * (len(SCRAPE_S_BUCKETS) + 1))
    _records_not_taken: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def scrape_failures(self) -> dict[int, int]:
        """By node."""
        found: dict[int, int] = {}
        for (node, _), count in self.failures.copy().items():
            found[node] = found.get(node, 0) + count
        return found

    @property
    def records_not_taken(self) -> int:
        return self._records_not_taken

    def not_taken(self) -> int:
        """A record that the topic did not take, told by any thread; how many that makes."""
        with self._lock:
            self._records_not_taken += 1
            return self._records_not_taken

    def scrape_took(self, seconds: float) -> None:
        self.scrape_s_sum += seconds
        self.scrape_s_counts[bisect_left(SCRAPE_S_BUCKETS, seconds)] += 1

    def failed(self, node: int, cause: Cause) -> None:
        self.failures[(node, cause)] += 1

    def forget_all_but(self, nodes: Collection[int]) -> None:
        """A node that has vanished vanishes here too."""
        for node in self.scraped_at_s.keys() - set(nodes):
            del self.scraped_at_s[node]
        for key in [key for key in self.failures if key[0] not in nodes]:
            del self.failures[key]
