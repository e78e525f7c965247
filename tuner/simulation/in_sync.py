"""Simulates in-sync replicas that cannot keep up: they lag, and leave the ISR after ``replica.lag.time.max.ms``.

Clients get their bytes first. If the link or disk then has less capacity than in-sync replication needs, each follower on it gets
the same share of the bytes that it needs. The other bytes become its lag. Once a follower is outside the ISR, a throttle that lists
it limits it too, so a throttle makes a long overload worse.

Invariant: the lag of a follower is exactly the bytes that it needed and did not get. To save time, nothing is computed while every
link carries its demand and no follower lags.

Simplification: all lagging followers share the spare capacity evenly, and take it before any reassignment does.

Terms (see also replicas.py and demand.py):
    row            one replica of one partition on one broker.
    steady         the rows of in-sync followers; ``steady_…`` arrays have one entry for each of these rows.
    steady_weight  mean bytes/s written to the partition of a row.
    factor         current load of a leader ÷ its mean load; steady_weight × factor is the bytes/s that a row needs.
"""

from __future__ import annotations

import numpy as np

from tuner.simulation.demand import Demand
from tuner.simulation.numbers import Floats, Ints, sums
from tuner.simulation.replicas import Replicas

_NO_ROWS: Ints = np.zeros(0, dtype=np.int64)


class InSyncLag:
    """The lag of in-sync replicas."""

    def __init__(self, replicas: Replicas, lag_s_max: float) -> None:
        self._replicas = replicas
        self._lag_s_max = lag_s_max
        # By row: time since the follower was last caught up with its leader.
        self._lagging_s: Floats = np.zeros(len(replicas.partition))
        self._any_lags = False

    def advance(self, dt_s: float, demand: Demand) -> tuple[Floats, Floats, Ints]:
        """Advances by one tick.

        Returns:
            1. By broker: the bytes that in-sync replication received in this tick − the bytes that it needed.
            2. By broker: the bytes that in-sync replication sent in this tick − the bytes that it needed to send.
            3. The rows that leave the ISR now.
        """
        replicas = self._replicas
        zeros = np.zeros(len(replicas.brokers))
        any_overload = bool((demand.spare_in < 0.0).any() or (demand.spare_out < 0.0).any())
        if not any_overload and not self._any_lags:
            return zeros, zeros, _NO_ROWS
        rows, leader, follower = replicas.steady, replicas.steady_leader, replicas.steady_follower
        demanded = demand.factor[leader] * replicas.steady_weight * dt_s
        served_share_in = _served_share(demand.steady_in, demand.spare_in)
        served_share_out = _served_share(demand.steady_out, demand.spare_out)
        missed = demanded * (1.0 - np.minimum(served_share_in[follower], served_share_out[leader]))
        lag = replicas.lag_bytes[rows] + missed
        extra = np.minimum(lag, self._spare(lag, demand, dt_s))
        lag -= extra
        replicas.lag_bytes[rows] = lag
        replicas.reported_lag_bytes[rows] = lag
        self._lagging_s[rows] = np.where(lag > 0.0, self._lagging_s[rows] + dt_s, 0.0)
        self._any_lags = bool((lag > 0.0).any())
        excess, count = extra - missed, len(replicas.brokers)
        too_late = rows[self._lagging_s[rows] > self._lag_s_max]
        self._lagging_s[too_late] = 0.0
        return sums(follower, excess, count), sums(leader, excess, count), too_late

    def _spare(self, lag: Floats, demand: Demand, dt_s: float) -> Floats:
        """Returns the bytes beyond its demand that each steady row may take: an equal share of both brokers' spare capacity."""
        replicas, count = self._replicas, len(self._replicas.brokers)
        leader, follower = replicas.steady_leader, replicas.steady_follower
        lags = (lag > 0.0).astype(np.float64)
        part_in = np.maximum(demand.spare_in, 0.0) / np.maximum(sums(follower, lags, count), 1.0)
        part_out = np.maximum(demand.spare_out, 0.0) / np.maximum(sums(leader, lags, count), 1.0)
        part: Floats = np.minimum(part_in[follower], part_out[leader]) * dt_s
        return part


def _served_share(demanded: Floats, spare: Floats) -> Floats:
    """Returns the share of ``demanded`` that can be served: below 1 where ``spare`` is negative."""
    share: Floats = np.clip(1.0 + np.minimum(spare, 0.0) / np.maximum(demanded, 1.0), 0.0, 1.0)
    return share
