"""Prometheus metric families of moves and throttles: progress, stalls, current rate, setpoint, steady-state replication."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import nlargest

from prometheus_client.core import Metric

from streaming.shared.contract import MoveSignal, Side
from streaming.shared.metric_defs import TunerMetric
from streaming.shared.metric_page import Labels, metric_family
from tuner.api.decision_families import last_decision_by_side, side_labels
from tuner.api.series_limit import largest_values
from tuner.api.status_store import CycleResult
from tuner.control.throttle.decision import NOT_THROTTLE_LIMITED, Decision
from tuner.control.throttle.diagnosis.fetcher_bound import count_idle_threads_of_moves
from tuner.core.cluster import LiveCluster, PartitionMove

_LARGE_MOVE = 2_000  # With more moving partitions, counting their collisions takes too long to do it for each scrape.
_COUNT_INTERVAL_MS = 60_000  # Between two counts of a large move.


def move_families(
    result: CycleResult, now_ms: int, collisions: FetcherCollisions, partitions_named_max: int, labels: Labels
) -> Iterator[Metric]:
    """Yields the families of moves and throttles.

    Args:
        collisions: counts the collisions of moving partitions on fetcher threads, and keeps the counts between scrapes.
        partitions_named_max: the number of moving partitions, the largest first, that get a series of their own.
    """
    live, observation = result.live, result.observation
    if live is not None:
        yield metric_family(TunerMetric.REASSIGNING_PARTITIONS, {labels: float(len(live.moves))})
        yield metric_family(TunerMetric.RECOVERING_PARTITIONS, {labels: float(result.recovering_partitions())})
        recoveries = Counter(broker for recovery in live.recoveries for broker in recovery.adding)
        yield metric_family(
            TunerMetric.RECOVERY_PARTITIONS,
            largest_values({(*labels, str(b)): float(n) for b, n in recoveries.items()}),
        )
        yield metric_family(TunerMetric.ORPHANED_THROTTLE_SETTINGS, {labels: float(result.orphaned_settings())})
        yield metric_family(
            TunerMetric.RATE_CURRENT, {side_labels(labels, s): float(r.bytes_per_s) for s, r in live.rates.items()}
        )
        collisions_by_broker = collisions.count(live, now_ms)
        yield metric_family(
            TunerMetric.FETCHER_COLLISIONS,
            largest_values({(*labels, str(b)): float(n) for b, n in collisions_by_broker.items() if n}),
        )
    yield metric_family(
        TunerMetric.RATE_SETPOINT, {side_labels(labels, s): float(r) for s, r in result.setpoints.items()}
    )
    setpoints = observation.setpoints if observation is not None else {}
    yield metric_family(
        TunerMetric.NO_HEADROOM,
        largest_values({side_labels(labels, s): float(setpoint.no_headroom) for s, setpoint in setpoints.items()}),
    )
    lacking = {
        (*labels, str(b)): float(signal.recovering_bytes)
        for (b, side), signal in result.moves().items()
        if side is Side.FOLLOWER and signal.recovering_partitions and signal.recovering_bytes is not None
    }
    yield metric_family(TunerMetric.RECOVERY_REMAINING_BYTES, largest_values(lacking))
    loads = result.loads()
    yield metric_family(
        TunerMetric.STEADY_STATE_BYTES,
        {side_labels(labels, s): float(round(w.steady_state_bytes_per_s)) for s, w in loads.items()},
    )
    yield metric_family(
        TunerMetric.INFEASIBLE, largest_values({side_labels(labels, s): float(result.infeasible(s)) for s in loads})
    )
    yield from _destination_families(result, partitions_named_max, labels)


def _destination_families(result: CycleResult, partitions_named_max: int, labels: Labels) -> Iterator[Metric]:
    """Yields the families that have one series per destination broker."""
    stalls = result.memory.stalls
    yield metric_family(TunerMetric.STALLED, {(*labels, str(b)): float(s.stalled) for b, s in stalls.items()})
    yield metric_family(
        TunerMetric.STALL_SCORE_SECONDS,
        largest_values({(*labels, str(b)): round(s.lost_s, 3) for b, s in stalls.items()}),
    )
    destinations = result.destinations()
    last_decisions = last_decision_by_side(result.cycle_decisions)
    not_limited = {
        (*labels, str(b)): float(_is_not_throttle_limited(last_decisions.get((b, Side.FOLLOWER))))
        for b in result.stalled_brokers()
    }
    yield metric_family(TunerMetric.BOUND_ELSEWHERE, largest_values(not_limited))
    remaining = {b: s.remaining_bytes for b, s in destinations.items() if s.remaining_bytes is not None}
    yield metric_family(
        TunerMetric.REMAINING_BYTES, {(*labels, str(b)): float(round(left)) for b, left in remaining.items()}
    )
    slopes = {
        b: s.remaining_slope_bytes_per_s for b, s in destinations.items() if s.remaining_slope_bytes_per_s is not None
    }
    yield metric_family(
        TunerMetric.REMAINING_SLOPE, {(*labels, str(b)): float(round(slope)) for b, slope in slopes.items()}
    )
    lags = {
        (*labels, str(b)): float(round(s.lag_messages)) for b, s in destinations.items() if s.lag_messages is not None
    }
    yield metric_family(TunerMetric.LAG_MESSAGES, largest_values(lags))
    yield metric_family(
        TunerMetric.PARTITION_REMAINING_BYTES,
        {
            (*labels, str(broker), topic, str(partition)): left
            for left, broker, topic, partition in _largest(destinations, partitions_named_max)
        },
    )


class FetcherCollisions:
    """Counts, per broker, the fetcher threads that idle while moving partitions collide on another thread.

    The counts are kept until the set of moving partitions changes. In a large move that set changes in every cycle, so the counts
    of a large move are kept for a minute.
    """

    def __init__(self) -> None:
        self._moves: tuple[PartitionMove, ...] | None = None
        self._counted_at_ms = 0
        self._counts: dict[int, int] = {}

    def count(self, live: LiveCluster, now_ms: int) -> dict[int, int]:
        is_large = len(live.moves) > _LARGE_MOVE and bool(self._moves)  # The first moves are counted at once.
        is_recent = 0 <= now_ms - self._counted_at_ms < _COUNT_INTERVAL_MS  # Negative if the clock was set back.
        if live.moves is not self._moves and not (is_large and is_recent):
            self._counts, self._moves, self._counted_at_ms = count_idle_threads_of_moves(live), live.moves, now_ms
        return self._counts


def _largest(destinations: dict[int, MoveSignal], count: int) -> list[tuple[float, int, str, int]]:
    """Returns remaining bytes, destination, topic and partition of the ``count`` largest moving partitions."""
    partitions = (
        (p.remaining_bytes, broker, p.topic, p.partition)
        for broker, signal in destinations.items()
        for p in signal.largest
        if p.remaining_bytes is not None
    )
    return nlargest(count, partitions) if count else []


def _is_not_throttle_limited(decision: Decision | None) -> bool:
    return decision is not None and decision.reason in NOT_THROTTLE_LIMITED
