"""Computes the creation probe latency: the 90th percentile of the latency of topic creations over the last 30 s.

The probe sends a CreateTopics request at regular intervals through several brokers. While a slow request waits for its answer, the
probe does not send the requests that are due. Without them, slow phases would count too little (coordinated omission). Therefore
the window gets an implied request for each request that was not sent. Its latency is the time from when it was due until the slow
request was answered.

A stalled controller delays the requests through every broker. A broker whose median is far above the other brokers' medians is
therefore slow by itself, and its requests are left out.

Invariant: fewer than ``COUNT_MIN`` requests give no latency. One slow or silent broker does not count as a slow controller.
Times are seconds on one monotonic clock.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

WINDOW_S = 30.0  # As long as the windows of the other signals, and shorter than the hold after a change of the total.
QUANTILE = 0.9  # A higher quantile would be twice as uncertain within 30 s, and would react later.
COUNT_MIN = 40  # Four of 40 requests are above the quantile, so a single outlier changes little.
# A broker is slow by itself if its median exceeds _SLOW_RATIO × the median of all brokers' medians + _SLOW_S.
_SLOW_RATIO, _SLOW_S = 3.0, 0.05


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """One CreateTopics request of the probe.

    Attributes:
        at_s: time at which the request was sent or due.
        took_s: time until the answer, or until the time-out if there was no answer.
        implied: the request was due while an earlier request waited, and was not sent. It does not count for the broker's median.
    """

    at_s: float
    took_s: float
    broker: int
    implied: bool = False


def with_implied_requests(request: ProbeRequest, interval_s: float) -> list[ProbeRequest]:
    """Returns the request and the implied requests that were due while it waited."""
    count = max(1, math.ceil(request.took_s / interval_s))
    return [
        ProbeRequest(request.at_s + n * interval_s, request.took_s - n * interval_s, request.broker, implied=n > 0)
        for n in range(count)
    ]


class ProbeWindow:
    """The requests of the last 30 s."""

    def __init__(self) -> None:
        self._requests: deque[ProbeRequest] = deque()

    def add(self, request: ProbeRequest, interval_s: float | None = None) -> None:
        """Adds a request.

        Args:
            interval_s: time between two requests; None: the probe sends each request after the answer to the previous request, so
                no request is implied.
        """
        self._requests.extend([request] if interval_s is None else with_implied_requests(request, interval_s))

    def p90_s(self, now_s: float) -> float | None:
        """Returns the 90th percentile of the latency; None if there are too few requests."""
        while self._requests and self._requests[0].at_s <= now_s - WINDOW_S:
            self._requests.popleft()
        by_broker: dict[int, list[ProbeRequest]] = {}
        for request in self._requests:
            by_broker.setdefault(request.broker, []).append(request)
        took_s = sorted(request.took_s for request in _without_slow_brokers(by_broker.values()))
        return _quantile(took_s, QUANTILE) if len(took_s) >= COUNT_MIN else None


def _without_slow_brokers(by_broker: Iterable[Sequence[ProbeRequest]]) -> Iterator[ProbeRequest]:
    """Returns the requests of the brokers that are not slow by themselves.

    Args:
        by_broker: the requests through each broker.
    """
    medians = [(_median_sent_s(requests), requests) for requests in by_broker]
    # With two brokers, ``middle_s`` is the lower of the two medians, because the other broker may be slow by itself.
    middle_s = _quantile(sorted(median_s for median_s, _ in medians), 0.5) if medians else 0.0
    return chain.from_iterable(
        requests for median_s, requests in medians if median_s <= _SLOW_RATIO * middle_s + _SLOW_S
    )


def _median_sent_s(requests: Sequence[ProbeRequest]) -> float:
    return _quantile(sorted(request.took_s for request in requests if not request.implied), 0.5)


def _quantile(ordered: Sequence[float], quantile: float) -> float:
    """Returns the quantile; 0 for an empty sequence, so that a broker with only implied requests is not left out as slow."""
    return ordered[math.ceil(quantile * len(ordered)) - 1] if ordered else 0.0
