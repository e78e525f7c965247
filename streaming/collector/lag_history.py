"""Keeps the sums of each node's lags over five minutes, so that a scrape can send them to the stream.

The stream keeps the rows of two windows. To keep the rows of five minutes, for this one value, its state would have to be five
times as large.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from streaming.shared.contract import Metric, Sample, age_label

SPAN_S = 300.0
STEP_S = 24.0  # With a scrape every 5 s, a sum is kept every 25 s.
_DELAY_S = 1.0  # A scrape may be early or late by this time.


class LagHistory:
    """Sums of the lags of each node, one per ``STEP_S``. They are lost with the process."""

    def __init__(self, window_s: float, interval_s: float) -> None:
        """
        Args:
            window_s: length of the stream's windows; each window gets a scrape with earlier sums.
            interval_s: time between two scrapes of a node.
        """
        self._send_every_s = max(0.0, min(STEP_S, window_s - interval_s - _DELAY_S))
        self._sums: dict[int, deque[tuple[float, float]]] = {}
        self._sent_s: dict[int, float] = {}

    def samples(self, node: int, lags: Iterable[Sample], now_s: float) -> list[Sample]:
        """Returns the earlier sums of a node if they are due, and keeps the sum of this scrape if the newest is old enough.

        Args:
            lags: the samples about the lags of this scrape.
            now_s: time of the scrape by the sender's clock. If that clock was set back, the earlier sums are dropped.
        """
        sum_now = next((sample.value for sample in lags if sample.name == Metric.LAG_SUM), None)
        if sum_now is None:
            return []
        kept = self._sums.setdefault(node, deque())
        if kept and now_s < max(kept[-1][0], self._sent_s[node]):
            kept.clear()
        if kept and now_s - self._sent_s[node] < self._send_every_s:
            return []
        while kept and now_s - kept[0][0] > SPAN_S:
            kept.popleft()
        earlier = [Sample(Metric.LAG_EARLIER_SUM, age_label(now_s - at_s), lag_sum) for at_s, lag_sum in kept]
        self._sent_s[node] = now_s
        if not kept or now_s - kept[-1][0] >= STEP_S:
            kept.append((now_s, sum_now))
        return earlier

    def keep_only(self, nodes: Iterable[int]) -> None:
        """Forgets all other nodes."""
        known = set(nodes)
        self._sums = {node: sums for node, sums in self._sums.items() if node in known}
        self._sent_s = {node: at_s for node, at_s in self._sent_s.items() if node in known}
