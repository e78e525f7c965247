"""Simulates the p99 that a broker's signal reports. ``world.P99Source`` has the kinds of p99 that collectors report."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from tuner.simulation.cluster import Cluster
from tuner.simulation.latency import client_mean_ms, client_p99_ms
from tuner.simulation.numbers import Floats
from tuner.simulation.world import P99Source

# Kafka's histograms (Yammer's ExponentiallyDecayingSample): size of the reservoir, and decay of the weight of a request with its
# age.
_RESERVOIR = 1_028
_DECAY_PER_S = 0.015
_MEMORY_S = 300  # Older requests have a weight below 1 %.
_RANDOM_STREAM = 5  # Streams 1 to 4 of the same seed are for load, controller, signals and layout.


class P99Signal:
    """Follows the utilisation of all brokers second by second."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._source = cluster.world.latency.p99_source
        self._rng = np.random.default_rng([cluster.world.seed, _RANDOM_STREAM])
        self._utilised_s: deque[Floats] = deque(maxlen=_MEMORY_S + 1)  # Counters at each second.
        self._next_s = 0.0

    def advance(self) -> None:
        """Reads the counters if a second has begun; called before every tick."""
        if self._source is not P99Source.STEP and self._cluster.now_s + 1e-9 >= self._next_s:
            self._next_s += 1.0
            self._utilised_s.append(self._cluster.totals[-1].copy())

    def p99_ms(self, step_utilisation: Floats) -> Floats:
        """Returns the p99 of each broker at this scrape.

        Args:
            step_utilisation: mean utilisation since the last scrape, by broker.
        """
        model = self._cluster.world.latency
        if self._source is P99Source.STEP or len(self._utilised_s) < 2:
            return client_p99_ms(step_utilisation, model)
        by_second = np.diff(np.array(self._utilised_s), axis=0)
        if self._source is P99Source.MOMENT:
            return client_p99_ms(by_second[-1], model)
        age_s = np.arange(len(by_second))[::-1]
        weights = np.exp(-_DECAY_PER_S * age_s)
        seconds = self._rng.choice(len(by_second), size=_RESERVOIR, p=weights / weights.sum())
        means_ms = client_mean_ms(by_second[seconds], model)
        drawn_ms = self._rng.standard_exponential((_RESERVOIR, self._cluster.count)) * means_ms
        rank = math.ceil(0.99 * _RESERVOIR) - 1
        p99: Floats = np.partition(drawn_ms, rank, axis=0)[rank]
        return p99
