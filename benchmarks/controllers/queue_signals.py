"""Produces the signals of the simulated controller and its tenants: windows of 30 s, some seconds late.

The fields are those of the contract. Tenant rates are Kafka's own mean over 30 to 60 s. The benchmark itself judges by the same
measures, but every 5 s and without the delay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Delivery:
    """How the signals reach the tuner.

    Attributes:
        every: one of so many scrapes is delivered, and there is a scrape every 5 s.
        late_s: from the scrape to the arrival.
        silences: times (from, until) without a signal.
    """

    every: int = 1
    late_s: float = 3.0
    silences: tuple[tuple[float, float], ...] = ()

    def delivers(self, scrape: int, now_s: float) -> bool:
        return scrape % self.every == 0 and not any(from_s <= now_s < until_s for from_s, until_s in self.silences)


class ControllerStream:
    """The signals of one run.

    Attributes:
        newest: the newest signals that have arrived.
        judged: the controller's newest signal, with the idle ratio of the window, for the benchmark's own judgement.
    """

    def __init__(self, queue: ControllerQueue, epoch_ms: int, delivery: Delivery | None = None) -> None:
        self._queue = queue
        self._epoch_ms = epoch_ms
        self._delivery = delivery or Delivery()
        self._scrapes = 0
        self._parts: deque[Counted] = deque(maxlen=_PARTS)
        self._rates: dict[str, deque[tuple[float, float]]] = {}
        self._done: dict[str, float] = {}  # Sum over each tenant's deque; partitions are whole numbers, so it is exact.
        self._partitions = self._topics = 0.0
        self._on_the_way: deque[tuple[float, ControllerSignal, tuple[TenantSignal, ...], ClusterWideMeasures]] = deque()
        self._node = 1
        self._felt = ProbeWindow()
        self.newest: tuple[ControllerSignal, tuple[TenantSignal, ...], ClusterWideMeasures] | None = None
        self.judged: tuple[ControllerSignal, ClusterWideMeasures] | None = None

    def done(self, now_s: float, client_id: str, partitions: float) -> None:
        """Adds a tenant's mutations to its metered rate."""
        self._rates.setdefault(client_id, deque()).append((now_s, partitions))
        self._done[client_id] = self._done.get(client_id, 0.0) + partitions

    def feel(self, now_s: float, took_s: float, broker: int = 0) -> None:
        """Adds one probe request of rheostat, which changes nothing and costs almost nothing."""
        self._felt.add(ProbeRequest(now_s, took_s, broker), FEEL_EVERY_S)

    def fail_over(self) -> None:
        self._node += 1
        self._rates.clear()
        self._done.clear()
        self._parts.clear()

    def scrape(self, now_s: float) -> None:
        self._queue.advance(now_s)
        part = self._queue.taken_count()
        self._parts.append(part)
        self._partitions += part.partitions
        self._topics += part.topics
        self._scrapes += 1
        beside = self._beside(now_s)
        self.judged = (self._controller(now_s, len(self._parts)), beside)
        if self._delivery.delivers(self._scrapes, now_s):
            signal = self._controller(now_s, self._delivery.every)
            self._on_the_way.append((now_s + self._delivery.late_s, signal, self._tenants(now_s), beside))

    def arrive(self, now_s: float) -> None:
        while self._on_the_way and self._on_the_way[0][0] <= now_s:
            _, controller, tenants, beside = self._on_the_way.popleft()
            self.newest = (controller, tenants, beside)

    def _sum(self, name: str) -> float:
        return float(sum(getattr(part, name) for part in self._parts))

    def _span_s(self) -> float:
        return len(self._parts) * EVERY_S

    def _controller(self, now_s: float, idle_parts: int) -> ControllerSignal:
        """Returns the signal. Kafka's idle ratio covers the time since it was last read: the newest ``idle_parts`` parts."""
        busy = [part.busy_s for part in self._parts][-idle_parts:]
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
            idle_ratio=1 - sum(busy) / len(busy) / EVERY_S if self._queue.model.shows_idle_ratio else None,
            topics=self._topics,
            partitions=self._partitions,
        )

    def _beside(self, now_s: float) -> ClusterWideMeasures:
        creates, felt_s, brokers = self._sum("creates"), self._felt.p90_s(now_s), self._queue.model.brokers
        lag_s = self._queue.apply_lag_s(now_s)
        return ClusterWideMeasures(
            create_ms=1000 * self._sum("created_s") / creates if creates else None,
            apply_lag_ms=None if lag_s is None else 1000 * lag_s,
            create_probe_p90_ms=None if felt_s is None else 1000 * felt_s,
            forwarding_busy_ratio=self._sum("forwarded_s") / self._span_s() / brokers if brokers else None,
        )

    def _tenants(self, now_s: float) -> tuple[TenantSignal, ...]:
        return tuple(self._signals(now_s, sorted(self._rates)))

    def _signals(self, now_s: float, client_ids: Iterable[str]) -> Iterable[TenantSignal]:
        at_ms = self._epoch_ms + round(now_s * 1000)
        for client_id in client_ids:
            books = self._rates[client_id]
            while books and books[0][0] <= now_s - _MEAN_S:
                self._done[client_id] -= books.popleft()[1]
            rate = self._done[client_id] / _MEAN_S
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
