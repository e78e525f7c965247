"""What moves, how far it is, and what every throttle stands at, is meant to be, carries and must carry."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest

from prometheus_client.core import Metric

from streaming.shared.contract import MoveSignal, Side
from streaming.shared.metric_defs import TunerMetric
from streaming.shared.metric_page import Labels, metric_family
from tuner.api.decision_families import last_decision_by_side
from tuner.api.series_limit import largest_values
from tuner.api.status_store import CycleResult
from tuner.control.throttle.decision import NOT_THROTTLE_LIMITED, Decision
from tuner.control.throttle.diagnosis.fetcher_bound import count_idle_threads_of_moves
from tuner.core.cluster import LiveCluster, PartitionMove

_LARGE_MOVE = 2_000  # Partitions; up to here counting takes some milliseconds.
_COUNTED_EVERY_MS = 60_000


def move_families(
    snapshot: CycleResult, now_ms: int, collisions: FetcherCollisions, partitions_named_max: int, c: Labels
) -> Iterator[Metric]:
    """
    Args:
        collisions: what was counted of fetcher threads so far.
        partitions_named_max: of how many moving partitions, the largest, each has a series.
    """
    live, seen = snapshot.live, snapshot.observation
    if live is not None:
        yield metric_family(TunerMetric.REASSIGNING_PARTITIONS, {c: float(len(live.moves))})
        yield metric_family(TunerMetric.RECOVERING_PARTITIONS, {c: float(snapshot.recovering_partitions())})
        yield metric_family(TunerMetric.ORPHANED_THROTTLE_SETTINGS, {c: float(snapshot.orphaned_settings())})
        yield metric_family(TunerMetric.RATE_CURRENT, {_of(c, s): float(r.bytes_per_s) for s, r in live.rates.items()})
        idle = collisions.of(live, now_ms)
        yield metric_family(
            TunerMetric.FETCHER_COLLISIONS, largest_values({(*c, str(b)): float(n) for b, n in idle.items() if n})
        )
    yield metric_family(TunerMetric.RATE_SETPOINT, {_of(c, s): float(r) for s, r in snapshot.setpoints.items()})
    courses = seen.setpoints if seen is not None else {}
    yield metric_family(
        TunerMetric.NO_HEADROOM, largest_values({_of(c, s): float(course.no_headroom) for s, course in courses.items()})
    )
    loads = snapshot.loads()
    yield metric_family(
        TunerMetric.STEADY_STATE_BYTES, {_of(c, s): float(round(w.steady_state_bytes_per_s)) for s, w in loads.items()}
    )
    yield metric_family(
        TunerMetric.INFEASIBLE, largest_values({_of(c, s): float(snapshot.infeasible(s)) for s in loads})
    )
    yield from _onto(snapshot, partitions_named_max, c)


def _onto(snapshot: CycleResult, partitions_named_max: int, c: Labels) -> Iterator[Metric]:
    """By destination."""
    stalls = snapshot.memory.stalls
    yield metric_family(TunerMetric.STALLED, {(*c, str(b)): float(s.stalled) for b, s in stalls.items()})
    yield metric_family(TunerMetric.STALL_SCORE_SECONDS, {(*c, str(b)): round(s.lost_s, 3) for b, s in stalls.items()})
    onto = snapshot.destinations()
    newest = last_decision_by_side(snapshot.decided)
    elsewhere = {(*c, str(b)): float(_is_elsewhere(newest.get((b, Side.FOLLOWER)))) for b in snapshot.stalled_brokers()}
    yield metric_family(TunerMetric.BOUND_ELSEWHERE, largest_values(elsewhere))
    remaining = {b: s.remaining_bytes for b, s in onto.items() if s.remaining_bytes is not None}
    yield metric_family(
        TunerMetric.REMAINING_BYTES, {(*c, str(b)): float(round(left)) for b, left in remaining.items()}
    )
    slopes = {b: s.remaining_slope_bytes_per_s for b, s in onto.items() if s.remaining_slope_bytes_per_s is not None}
    yield metric_family(TunerMetric.REMAINING_SLOPE, {(*c, str(b)): float(round(slope)) for b, slope in slopes.items()})
    lags = {(*c, str(b)): float(round(s.lag_messages)) for b, s in onto.items() if s.lag_messages is not None}
    yield metric_family(TunerMetric.LAG_MESSAGES, largest_values(lags))
    yield metric_family(
        TunerMetric.PARTITION_REMAINING_BYTES,
        {
            (*c, str(broker), topic, str(partition)): left
            for left, broker, topic, partition in _largest(onto, partitions_named_max)
        },
    )


class FetcherCollisions:
    """Counted anew where other partitions move than last time; of a large move, which changes all the time, once a minute."""

    def __init__(self) -> None:
        self._moves: tuple[PartitionMove, ...] | None = None
        self._counted_at_ms = 0
        self._found: dict[int, int] = {}

    def of(self, live: LiveCluster, now_ms: int) -> dict[int, int]:
        large = len(live.moves) > _LARGE_MOVE and bool(self._moves)
        young = 0 <= now_ms - self._counted_at_ms < _COUNTED_EVERY_MS
        if live.moves is not self._moves and not (large and young):
            self._found, self._moves, self._counted_at_ms = count_idle_threads_of_moves(live), live.moves, now_ms
        return self._found


def _largest(onto: dict[int, MoveSignal], count: int) -> list[tuple[float, int, str, int]]:
    named = (
        (p.remaining_bytes, broker, p.topic, p.partition)
        for broker, signal in onto.items()
        for p in signal.largest
        if p.remaining_bytes is not None
    )
    return nlargest(count, named) if count else []


def _is_elsewhere(decided: Decision | None) -> bool:
    return decided is not None and decided.reason in NOT_THROTTLE_LIMITED


def _of(c: Labels, side: tuple[int, Side]) -> Labels:
    return (*c, str(side[0]), side[1].value)
