"""An event-driven model of one pair of brokers: a fetcher thread under a throttle, as in Kafka's classes, without ticks.

Four partitions that always lag, one fetcher thread, no writes: a reference for the simulator, not a replacement. The thread's
loop: check the follower's quota, send the fetch, the leader checks its quota, receive the response.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from lab_worlds import LINE_BYTES_PER_S, ROUND_TRIP_S, F, L

from benchmarks.bursts.methods import END_S, Bytes, Method, Phases, changes, phases_of
from streaming.shared.contract import Side
from tuner.simulation.world import MIB

_RESPONSE_BYTES = 4 * MIB
_HEADER_BYTES = 100.0
_WAIT_S, _BACKOFF_S = 0.5, 1.0
_PROPAGATION_S = 0.03
_BIN_S = 0.05


class Sensor:
    """The quota of Kafka's SampledStat and SimpleRate."""

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self.buckets: list[list[float]] = []  # [bytes, start, last], times in s.
        self.current = 0
        self.bound_bytes_per_s = np.inf

    def record(self, now_s: float, count: float) -> None:
        if not self.buckets:
            self.buckets.append([0.0, now_s, now_s])
        elif now_s - self.buckets[self.current][1] >= 1.0:
            self.current = (self.current + 1) % (self.samples + 1)
            if self.current == len(self.buckets):
                self.buckets.append([0.0, now_s, now_s])
            self.buckets[self.current] = [0.0, now_s, now_s]
        self.buckets[self.current][0] += count
        self.buckets[self.current][2] = now_s

    def exceeded(self, now_s: float) -> bool:
        for bucket in self.buckets:
            # Who has slept for whole seconds since the last drop wakes just as it leaves, and finds it gone.
            if now_s - bucket[2] >= self.samples - 1e-9:
                bucket[:] = [0.0, now_s, now_s]
        oldest_s = min([now_s, *(bucket[1] for bucket in self.buckets)])
        held = sum(bucket[0] for bucket in self.buckets)
        return held / max(now_s - oldest_s, 1.0) > self.bound_bytes_per_s


def exact_phases(
    method: Method, sides: Sequence[Side], moments: tuple[float, float], *, samples: int = 11, seed: int = 1
) -> Phases:
    """Like ``lab_worlds.phases``; the seed draws response times within a tenth of the link's."""
    rates = changes(moments)
    end_s = rates[-1][0] + END_S
    writes = [write for change in rates for write in method(*change)]
    sensors = {side: Sensor(samples) for side in (L, F)}
    rng = random.Random(seed)
    bins = np.zeros(round(end_s / _BIN_S) + 100)

    def exceeded(side: Side, now_s: float) -> bool:
        stands = [rate for at_s, rate in writes if at_s == 0.0 or at_s + _PROPAGATION_S <= now_s]
        if side in sides:
            sensors[side].bound_bytes_per_s = stands[-1]
        return sensors[side].exceeded(now_s)

    now_s = 0.0
    while now_s < end_s:
        if exceeded(F, now_s):
            now_s += _BACKOFF_S
            continue
        now_s += ROUND_TRIP_S
        if exceeded(L, now_s):
            now_s += _WAIT_S
            if exceeded(L, now_s):
                sensors[L].record(now_s, _HEADER_BYTES)
                continue
        sensors[L].record(now_s, _RESPONSE_BYTES + _HEADER_BYTES)
        takes_s = _RESPONSE_BYTES / LINE_BYTES_PER_S * rng.uniform(0.9, 1.1)
        _spread(bins, now_s, takes_s)
        now_s += takes_s
        sensors[F].record(now_s, _RESPONSE_BYTES)
    return phases_of(Bytes(bins, _BIN_S), moments)


def _spread(bins: np.ndarray[tuple[int], np.dtype[np.float64]], from_s: float, takes_s: float) -> None:
    edges = np.arange(int(from_s / _BIN_S), int((from_s + takes_s) / _BIN_S) + 2) * _BIN_S
    inside = np.diff(np.clip(edges, from_s, from_s + takes_s))
    first = round(edges[0] / _BIN_S)
    bins[first : first + len(inside)] += inside / takes_s * _RESPONSE_BYTES
