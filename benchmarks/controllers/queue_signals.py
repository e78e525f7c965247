"""Produces the signals of the simulated controller and its tenants: windows of 30 s every 5 s, some seconds late.

The fields are those of the contract. Tenant rates are Kafka's own mean over 30 to 60 s.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from benchmarks.controllers.controller_queue import ControllerQueue, Counted
from streaming.shared.contract import ControllerSignal, TenantSignal
from tuner.control.mutation_quota.probe_window import ProbeRequest, ProbeWindow
from tuner.core.controller import ClusterWideMeasures

WINDOW_S = 30.0
FEEL_EVERY_S = 0.1
EVERY_S = 5.0
_MEAN_S = 45.0  # Of a tenant's rate: two samples of 30 s, the newer one half full on average.
_PARTS = round(WINDOW_S / EVERY_S)
CLUSTER = "made-up"


class ControllerStream:
    def __init__(self, queue: ControllerQueue, epoch_ms: int, late_s: float = 3.0) -> None:
        self._queue = queue
        self._epoch_ms = epoch_ms
        self._late_s = late_s
        self._parts: deque[Counted] = deque(maxlen=_PARTS)
        self._rates: dict[str, deque[tuple[float, float]]] = {}
        self._partitions = self._topics = 0.0
        self._on_the_way: deque[tuple[float, ControllerSignal, tuple[TenantSignal, ...], ClusterWideMeasures]] = deque()
        self._node = 1
        self._felt = ProbeWindow()
        self.newest: tuple[ControllerSignal, tuple[TenantSignal, ...], ClusterWideMeasures] | None = None

    def done(self, now_s: float, client_id: str, partitions: float) -> None:
        """Adds a tenant's mutations to its metered rate."""
        self._rates.setdefault(client_id, deque()).append((now_s, partitions))

    def feel(self, now_s: float) -> None:
        """Makes one probe request of rheostat, which changes nothing and costs almost nothing."""
        self._felt.add(ProbeRequest(now_s, self._queue.felt_s(now_s), 0), FEEL_EVERY_S)

    def fail_over(self) -> None:
        self._node += 1
        self._rates.clear()
        self._parts.clear()

    def scrape(self, now_s: float) -> None:
        self._queue.advance(now_s)
        part = self._queue.taken_count()
        self._parts.append(part)
        self._partitions += part.partitions
        self._topics += part.topics
        self._on_the_way.append(
            (now_s + self._late_s, self._controller(now_s), self._tenants(now_s), self._beside(now_s))
        )

    def arrive(self, now_s: float) -> None:
        while self._on_the_way and self._on_the_way[0][0] <= now_s:
            _, controller, tenants, beside = self._on_the_way.popleft()
            self.newest = (controller, tenants, beside)

    def _sum(self, name: str) -> float:
        return float(sum(getattr(part, name) for part in self._parts))

    def _span_s(self) -> float:
        return len(self._parts) * EVERY_S

    def _controller(self, now_s: float) -> ControllerSignal:
        events, span_s = self._sum("events"), self._span_s()
        mean_s = self._sum("waited_s") / events if events else 0.0
        at_ms = self._epoch_ms + round(now_s * 1000)
        return ControllerSignal(
            CLUSTER,
            self._node,
            at_ms,
            at_ms,
            len(self._parts),
            1.0,
            active=1.0,
            event_queue_time_mean_ms=1000 * mean_s,
            events_per_s=events / span_s,
            queue_depth_mean=self._sum("waited_s") / span_s,
            heartbeats_timed_out_per_s=self._sum("timed_out") / span_s,
            mutations_rejected_per_s=self._sum("refused") / span_s,
            idle_ratio=1 - self._parts[-1].busy_s / EVERY_S,  # Kafka's is of the time since it was last read.
            topics=self._topics,
            partitions=self._partitions,
        )

    def _beside(self, now_s: float) -> ClusterWideMeasures:
        creates, felt_s = self._sum("creates"), self._felt.p90_s(now_s)
        return ClusterWideMeasures(
            create_ms=1000 * self._sum("created_s") / creates if creates else None,
            create_probe_p90_ms=None if felt_s is None else 1000 * felt_s,
        )

    def _tenants(self, now_s: float) -> tuple[TenantSignal, ...]:
        return tuple(self._signals(now_s, sorted(self._rates)))

    def _signals(self, now_s: float, client_ids: Iterable[str]) -> Iterable[TenantSignal]:
        at_ms = self._epoch_ms + round(now_s * 1000)
        for client_id in client_ids:
            books = self._rates[client_id]
            while books and books[0][0] <= now_s - _MEAN_S:
                books.popleft()
            rate = sum(partitions for _, partitions in books) / _MEAN_S
            tokens = self._queue.tokens(client_id, now_s)
            yield TenantSignal(
                CLUSTER,
                self._node,
                at_ms,
                at_ms,
                1,
                1.0,
                client_id=client_id,
                mutation_rate_per_s=rate,
                tokens=1e20 if tokens is None else tokens,
            )
