"""Computes the load of every side from the counters of the newest scrape and of a scrape one window earlier.

The fields have the same meaning as the fields of ``MoveSignal`` in the contract. A side is a broker as leader or as follower. The
sums are computed for all brokers at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streaming.shared.contract import MoveStep, MovingPartition, Side
from tuner.simulation.cluster import Cluster
from tuner.simulation.numbers import Bools, Floats, Ints, sums

_LARGEST = 5  # Number of largest partitions in a signal, as in the stream.


@dataclass(frozen=True, slots=True)
class CounterSample:
    """Copies of all counters at one moment, in bytes. A row is one replica, as in replicas.py."""

    at_ms: int
    written: Floats  # By partition.
    gained: Floats  # Bytes that the replica has copied so far; by row, like the next three fields.
    lag: Floats
    reported_lag: Floats
    adding: Bools
    totals: Floats  # By kind and broker.
    seen: Bools  # By broker: alive, and the scrape was not lost.


class SideLoads:
    """The loads at the newest scrape of ``history``. Each attribute is by side, then by broker; rates are means over the window.

    Attributes:
        remaining: bytes that adding replicas still have to copy.
        moving: number of partitions that add replicas.
        listed: number of partitions whose fetches count against the quota.
        done: number of partitions with an addition that ended within the window.
        steady_state: write rate of the listed partitions.
        write: write rate of the moving partitions.
        largest: the moving partitions with the most remaining bytes.
    """

    def __init__(self, cluster: Cluster, history: Sequence[CounterSample]) -> None:
        replicas, count = cluster.replicas, cluster.count
        oldest, newest = history[0], history[-1]
        window_s = max((newest.at_ms - oldest.at_ms) / 1000, 1e-9)
        rate = (newest.written - oldest.written) / window_s
        row_rate, leader_of_row = rate[replicas.partition], replicas.leader[replicas.partition]
        has_leader = leader_of_row >= 0
        # Three kinds of rows: replicas that are being added, replicas whose addition ended within the window, and replicas whose
        # fetches count against a quota.
        adding = np.flatnonzero(newest.adding & has_leader)
        was_adding = np.logical_or.reduce([s.adding for s in history])
        done_rows = np.flatnonzero(was_adding & ~newest.adding & has_leader)
        counted_on_leader, counted_on_follower = (
            np.flatnonzero(replicas.counted_on_leader),
            np.flatnonzero(replicas.counted_on_follower),
        )
        # The partitions of these rows. On the leader side a partition counts once, also if it adds several replicas.
        moving_partitions, listed_partitions = (
            np.unique(replicas.partition[adding]),
            np.unique(replicas.partition[counted_on_leader]),
        )
        done_partitions = np.unique(replicas.partition[done_rows])
        broker_of_row, leader_of_partition = replicas.broker, replicas.leader

        def by_side(on_followers: Floats | Ints, on_leaders: Floats | Ints) -> dict[Side, list[float]]:
            return {Side.FOLLOWER: on_followers.tolist(), Side.LEADER: on_leaders.tolist()}

        def count_by_broker(brokers: Ints) -> Ints:
            return np.bincount(brokers, minlength=count)

        self.remaining = by_side(
            sums(broker_of_row[adding], newest.lag[adding], count),
            sums(leader_of_row[adding], newest.lag[adding], count),
        )
        self.moving = by_side(
            count_by_broker(broker_of_row[adding]), count_by_broker(leader_of_partition[moving_partitions])
        )
        self.listed = by_side(
            count_by_broker(broker_of_row[counted_on_follower]), count_by_broker(leader_of_partition[listed_partitions])
        )
        self.done = by_side(
            count_by_broker(broker_of_row[done_rows]), count_by_broker(leader_of_partition[done_partitions])
        )
        self.steady_state = by_side(
            sums(broker_of_row[counted_on_follower], row_rate[counted_on_follower], count),
            sums(leader_of_row[counted_on_leader], row_rate[counted_on_leader], count),
        )
        self.write = by_side(
            sums(broker_of_row[adding], row_rate[adding], count),
            sums(leader_of_partition[moving_partitions], rate[moving_partitions], count),
        )
        self.lag_messages = (
            sums(broker_of_row[adding], newest.reported_lag[adding], count) / cluster.world.record_bytes
        ).tolist()
        lag_by_partition = sums(replicas.partition[adding], newest.lag[adding], len(rate))[moving_partitions]
        self.largest = {
            Side.FOLLOWER: _largest(
                cluster, broker_of_row[adding], replicas.partition[adding], newest.lag[adding], rate
            ),
            Side.LEADER: _largest(
                cluster, leader_of_partition[moving_partitions], moving_partitions, lag_by_partition, rate
            ),
        }


def _largest(
    cluster: Cluster, broker: Ints, partition: Ints, remaining: Floats, rate: Floats
) -> dict[int, tuple[MovingPartition, ...]]:
    """Returns each broker's partitions with the most remaining bytes, largest first."""
    order = np.lexsort((partition, -remaining, broker))  # By broker; within a broker by remaining bytes, descending.
    largest: dict[int, list[MovingPartition]] = {}
    for i in order.tolist():
        rows = largest.setdefault(int(broker[i]), [])
        if len(rows) < _LARGEST:
            spec = cluster.replicas.specs[partition[i]]
            rows.append(MovingPartition(spec.topic, spec.partition, float(remaining[i]), float(rate[partition[i]])))
    return {b: tuple(rows) for b, rows in largest.items()}


def fit_slope(steps: Sequence[tuple[MoveStep, float]]) -> tuple[float | None, float | None]:
    """Returns slope (bytes/s) and r² of a least-squares line through the remaining bytes over time; None with too few steps.

    Args:
        steps: each step, and the change of the remaining bytes in it.
    """
    if not steps:
        return None, None
    x = y = sx = sy = sxx = sxy = syy = 0.0  # The first point is (0, 0).
    for step, change in steps:
        x, y = x + step.dt_s, y + change
        sx, sy, sxx, sxy, syy = sx + x, sy + y, sxx + x * x, sxy + x * y, syy + y * y
    points = len(steps) + 1
    xx, xy, yy = points * sxx - sx * sx, points * sxy - sx * sy, points * syy - sy * sy
    r2 = 1.0 if yy <= 0 else min(1.0, xy * xy / (xx * yy))
    return xy / xx, r2 if points > 2 else None  # A line through two points always fits.
