"""The p99 of a broker's signal covers a step, a moment or minutes, as its source says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
import pytest

from tuner.simulation.cluster import Cluster
from tuner.simulation.latency_signal import P99Signal
from tuner.simulation.numbers import Floats
from tuner.simulation.world import BrokerSpec, LatencyModel, P99Source, World

MODEL = LatencyModel(base_ms=5.0)
BROKERS = tuple(BrokerSpec(b, 1e8, 1e8, 1e8, 1e8) for b in (1, 2))


@dataclass
class Counters:
    """Two brokers whose utilisation a test sets."""

    world: World
    count: int = 2
    now_s: float = 0.0
    totals: list[Floats] = field(default_factory=lambda: [np.zeros(2)])


def p99_after(source: P99Source, *phases: tuple[int, float]) -> Floats:
    """Returns the p99 of both brokers; the second is idle. ``phases`` are seconds and the utilisation of the first."""
    world = World(seed=1, brokers=BROKERS, partitions=(), latency=replace(MODEL, p99_source=source))
    cluster = Counters(world)
    signal = P99Signal(cast("Cluster", cluster))
    for seconds, utilisation in phases:
        for _ in range(2 * seconds):
            signal.advance()
            cluster.now_s += 0.5
            cluster.totals[-1] = cluster.totals[-1] + 0.5 * np.array([utilisation, 0.0])
    signal.advance()
    return signal.p99_ms(np.array([0.5, 0.0]))


def test_step_covers_the_time_since_the_last_scrape() -> None:
    assert p99_after(P99Source.STEP, (20, 0.9)).tolist() == [10.0, 5.0]


def test_moment_covers_the_last_second() -> None:
    assert p99_after(P99Source.MOMENT, (20, 0.0), (1, 0.9)) == pytest.approx([50.0, 5.0])


def test_reservoir_remembers_minutes() -> None:
    steady = p99_after(P99Source.RESERVOIR, (300, 0.9))
    assert steady[0] == pytest.approx(50.0, rel=0.25)
    assert steady[1] == pytest.approx(5.0, rel=0.25)
    # 30 s after the load has ended, more than half of the weight is still that of the load.
    assert p99_after(P99Source.RESERVOIR, (300, 0.9), (30, 0.0))[0] > 35.0
    # A second of load has hardly more than one per cent of the weight.
    assert p99_after(P99Source.RESERVOIR, (300, 0.0), (1, 0.9))[0] < 15.0
