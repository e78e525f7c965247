"""Keeps the sums of each node's lags over five minutes, so that a scrape can bring them to the stream.

The stream keeps the rows of two windows. With five minutes of rows, its state would be five times as large, for one figure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from streaming.shared.contract import Metric, Sample, age_label

SPAN_S = 300.0
STEP_S = 25.0  # A bit less than a window, so that each window has a scrape with earlier sums.


class LagHistory:
    """Sums of the lags of each node, one per ``STEP_S``. They are lost with the process."""

    def __init__(self) -> None:
        self._sums: dict[int, deque[tuple[float, float]]] = {}

    def samples(self, node: int, lags: Iterable[Sample], now_s: float) -> list[Sample]:
        """Returns the earlier sums of a node if the newest is ``STEP_S`` old, and keeps the sum of this scrape.

        Args:
            lags: the samples about the lags of this scrape.
            now_s: time of the scrape by the sender's clock. If that clock was set back, the earlier sums are dropped.
        """
        sum_now = next((sample.value for sample in lags if sample.name == Metric.LAG_SUM), None)
        if sum_now is None:
            return []
        kept = self._sums.setdefault(node, deque())
        if kept and now_s < kept[-1][0]:
            kept.clear()
        if kept and now_s - kept[-1][0] < STEP_S:
            return []
        while kept and now_s - kept[0][0] > SPAN_S:
            kept.popleft()
        earlier = [Sample(Metric.LAG_EARLIER_SUM, age_label(now_s - at_s), lag_sum) for at_s, lag_sum in kept]
        kept.append((now_s, sum_now))
        return earlier

    def keep_only(self, nodes: Iterable[int]) -> None:
        """Forgets all other nodes."""
        known = set(nodes)
        self._sums = {node: sums for node, sums in self._sums.items() if node in known}
