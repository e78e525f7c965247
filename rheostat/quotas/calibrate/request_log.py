"""Records the requests of the creation probe during a calibration, including the pending request, so that each step can be judged.

The probe itself reports a request only after it is answered or has timed out. Until then, a hanging controller would not be
noticed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from streaming.shared.kafka.values import ClusterError, Endpoint
from tuner.control.mutation_quota.probe_window import ProbeRequest, ProbeWindow, with_implied_requests
from tuner.runtime.mutation_quota.creation_probe import EVERY_S, ProbeClient


class RequestLog(ProbeWindow):
    """Keeps all requests of the probe. The probe's thread writes; the main thread reads.

    Attributes:
        requests: the requests that are used for the latency, in the order of their answers.
        pending: the request that waits for its answer, with ``took_s`` 0; None if no request waits.
        answered_at_s: when the last answer arrived, even if its request is not used for the latency; None before the first answer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[ProbeRequest] = []
        self.pending: ProbeRequest | None = None
        self.answered_at_s: float | None = None

    def add(self, request: ProbeRequest, interval_s: float | None = None) -> None:
        super().add(request, interval_s)
        self.requests.append(request)

    def took_s(self, since_s: float, now_s: float, limit_s: float | None) -> list[float]:
        """Returns the sorted latencies (s) of all requests that waited at some time since ``since_s``.

        Requests that were due while a slow request waited are included (the implied requests of probe_window.py).

        Args:
            limit_s: a pending request is included once it has waited for longer than this; None means never.
        """
        # A request that began before the step and was answered within the step has waited for the controller in this step.
        waited = [request for request in self.requests if request.at_s + request.took_s >= since_s]
        pending = self.pending  # The other thread may set it to None meanwhile.
        if pending is not None and limit_s is not None and now_s - pending.at_s > limit_s:
            waited.append(replace(pending, took_s=now_s - pending.at_s))
        return sorted(each.took_s for request in waited for each in with_implied_requests(request, EVERY_S))


def p90_ms(took_s: Sequence[float]) -> float | None:
    """Returns the p90 of these latencies (s, sorted) in ms; None if there are none."""
    return 1000 * took_s[math.ceil(0.9 * len(took_s)) - 1] if took_s else None


class LoggedPing:
    """Passes the requests of the probe to its client, and tells the log when each request begins and when it is answered."""

    def __init__(
        self, client: ProbeClient, log: RequestLog, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.timeout_s = client.timeout_s
        self._client = client
        self._log = log
        self._monotonic = monotonic

    def brokers(self) -> Sequence[Endpoint]:
        return self._client.brokers()

    def connect(self, broker: int) -> ClusterError | None:
        return self._client.connect(broker)

    def ping(self, broker: int) -> ClusterError | None:
        self._log.pending = ProbeRequest(self._monotonic(), 0.0, broker)
        try:
            error = self._client.ping(broker)
        finally:
            self._log.pending = None
        if error is None:
            self._log.answered_at_s = self._monotonic()
        return error

    def close(self) -> None:
        self._client.close()
