"""The rate step on the simulator: the twin of tests/integration/test_step_response.py, at many moments of the quota's cycle.

A response is 1 MiB as there, two fifths of a second's budget at the lower rate. The median is bounded, because a step at a bad
moment of a pair's cycle is one or two responses off.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from lab_worlds import RECORDED_LINE_BYTES_PER_S, RECORDED_ROUND_TRIP_S, machine

from benchmarks.bursts.law import Law
from benchmarks.bursts.methods import MB, Bytes
from streaming.shared.contract import Side
from tuner.core.cluster import BrokerSide
from tuner.simulation.cluster import Cluster
from tuner.simulation.policy import EPOCH_MS
from tuner.simulation.world import FetchSettings, InitialRate, PartitionSpec, TopicLists, World

LOW, HIGH = round(2.5 * MB), round(10 * MB)
BEFORE_S, UP_S, DOWN_S = 16.0, 24.0, 20.0
TICK_MS = 50
# When the law comes, after the copy has begun, and how much later the steps are.
MOMENTS = tuple((0.05 + 0.1 * i, 1.7 * (i % 7)) for i in range(12))


@dataclass(frozen=True)
class Steps:
    before: Bytes
    up: Bytes
    down: Bytes


@cache
def steps() -> tuple[Steps, ...]:
    return tuple(stepped(comes_s, later_s) for comes_s, later_s in MOMENTS)


def stepped(comes_s: float, later_s: float) -> Steps:
    world = World(
        seed=1,
        brokers=machine(2, RECORDED_LINE_BYTES_PER_S),
        partitions=(PartitionSpec("t", 0, 4e9, 0.0, (1,), (2,)),),
        lists=(TopicLists("t", "*", "*"),),
        rates=(InitialRate(1, Side.LEADER, LOW), InitialRate(2, Side.FOLLOWER, LOW)),
        tick_ms=TICK_MS,
        fetch=FetchSettings(round_trip_s=RECORDED_ROUND_TRIP_S),
    )
    cluster, got = Cluster(world), [0.0]  # Bytes that had come by the end of each tick.
    epoch_s = EPOCH_MS / 1000

    def now_s() -> float:
        return epoch_s + cluster.now_s

    def came_by(at_s: float) -> float:
        return got[min(max(0, round((at_s - epoch_s) / world.tick_s)), len(got) - 1)]

    def write(rates: Mapping[BrokerSide, int]) -> None:
        for side, rate in rates.items():
            cluster.controller.write(cluster.now_s, side, rate)

    def go(until_s: float, act: Callable[[], float] = lambda: 0.0) -> None:
        while cluster.now_s < until_s:
            act()
            got.append(got[-1] + float(cluster.step().catch_up_in_bytes[1]))

    go(comes_s)
    law = Law(write, lambda from_s, to_s: came_by(to_s) - came_by(from_s), now_s, 1, 2, LOW)
    up_s = comes_s + BEFORE_S + later_s
    down_s = up_s + UP_S
    for rate, until_s in ((LOW, up_s), (HIGH, down_s), (LOW, down_s + DOWN_S)):
        law.to(rate)
        go(until_s, law.act)
    flow = Bytes(np.diff(np.array(got)), world.tick_s)
    return Steps(flow.between(comes_s, up_s), flow.between(up_s, down_s), flow.between(down_s, down_s + DOWN_S))


def typical(read: Callable[[Steps], float]) -> float:
    return statistics.median(read(each) for each in steps())


def test_new_throttle_is_not_compensated_for_empty_window() -> None:
    """No rate changes in these seconds, so the throughput is that of a constant throttle."""
    assert min(each.before.mean_mb_per_s() for each in steps()) >= 0.8 * LOW / MB
    assert max(each.before.between(3, BEFORE_S).silence_s() for each in steps()) <= 1.5


def test_step_up_of_four_causes_no_burst_and_no_silence() -> None:
    assert typical(lambda each: each.up.peak_mb()) <= 1.7 * HIGH / MB
    assert max(each.up.peak_mb() for each in steps()) <= 2.0 * HIGH / MB
    assert max(each.up.silence_s() for each in steps()) <= 2.0


def test_step_down_to_quarter_is_silent_only_briefly() -> None:
    assert typical(lambda each: each.down.silence_s()) <= 2.5
    assert typical(lambda each: each.down.mean_mb_per_s()) <= 1.8 * LOW / MB
