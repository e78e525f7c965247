"""Under a constant throttle the throughput per second varies by at most one response in either direction.

Measured on Kafka 4.2.0: six partitions, 40 MB/s on both sides, and one in-sync partition that is written fifty times a second.
In the first twenty seconds 37.6 MB passed per second, with a deviation of 1.8 MB; a response is 6.3 MB.
"""

from __future__ import annotations

import numpy as np
import pytest
from lab_worlds import LINE_BYTES_PER_S, ROUND_TRIP_S, F, L, machine

from benchmarks.bursts.methods import MB
from tuner.simulation.cluster import Cluster
from tuner.simulation.numbers import Floats
from tuner.simulation.world import MIB, FetchSettings, InitialRate, PartitionSpec, TopicLists, World

RESPONSE_MB = 6 * MIB / MB


def seconds_mb(
    leader_mb_per_s: int, follower_mb_per_s: int, tick_ms: int, *, written_bytes_per_s: float = 50_000.0
) -> Floats:
    """Returns MB per second of one pair of brokers for half a minute.

    Args:
        written_bytes_per_s: writes to an in-sync partition, in records of 1 kB.
    """
    names = range(6)
    cluster = Cluster(
        World(
            seed=1,
            brokers=machine(2),
            partitions=(
                *(PartitionSpec("t", i, 5e9, 0.0, (1,), (2,)) for i in names),
                PartitionSpec("rest", 0, 1e6, written_bytes_per_s, (1, 2)),
            ),
            lists=(TopicLists("t", ",".join(f"{i}:1" for i in names), ",".join(f"{i}:2" for i in names)),),
            rates=(InitialRate(1, L, round(leader_mb_per_s * MB)), InitialRate(2, F, round(follower_mb_per_s * MB))),
            fetch=FetchSettings(round_trip_s=ROUND_TRIP_S),
            tick_ms=tick_ms,
        )
    )
    found = []
    for _ in range(30):
        before = cluster.replicas.gained_bytes.sum()
        for _ in range(1000 // tick_ms):
            cluster.step()
        found.append((cluster.replicas.gained_bytes.sum() - before) / MB)
    return np.array(found)


@pytest.mark.parametrize("tick_ms", [50, 250])
def test_throughput_per_second_varies_by_less_than_a_response(tick_ms: int) -> None:
    passed = seconds_mb(40, 40, tick_ms)[1:21]
    assert passed.mean() == pytest.approx(37.6, rel=0.25)
    assert passed.std() <= 0.6 * RESPONSE_MB
    assert passed.max() - passed.min() <= 2.1 * RESPONSE_MB


@pytest.mark.parametrize("rates", [(40, 40), (40, 52), (80, 104)])
def test_longer_tick_does_not_increase_variation(rates: tuple[int, int]) -> None:
    """A waiting fetcher is woken when data arrives, not at the next tick."""
    fine, coarse = (seconds_mb(*rates, tick_ms)[1:] for tick_ms in (50, 250))
    assert coarse.mean() == pytest.approx(fine.mean(), rel=0.02)
    assert coarse.std() <= fine.std() + 0.2 * RESPONSE_MB


def test_rarely_written_partition_wakes_no_fetcher() -> None:
    """One record in two seconds: the fetcher waits its full half second, and the mean stays below the throttle."""
    often, seldom = seconds_mb(40, 52, 50)[1:], seconds_mb(40, 52, 50, written_bytes_per_s=500.0)[1:]
    assert seldom.std() > 1.2 * often.std()
    assert seldom.mean() < often.mean() < LINE_BYTES_PER_S / MB
