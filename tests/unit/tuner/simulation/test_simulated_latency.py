"""What the simulated stream says of latency: a p99 of the last step, and the mean of the whole window."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tuner.simulation.cluster import Cluster
from tuner.simulation.latency import client_mean_ms, client_p99_ms
from tuner.simulation.policy import SimulatedCluster
from tuner.simulation.world import (
    BrokerSpec,
    ClientLoad,
    LatencyModel,
    LoadStep,
    PartitionSpec,
    SignalDelivery,
    World,
)

MODEL = LatencyModel()


def test_the_mean_is_that_of_an_exponential_tail() -> None:
    used = np.array([0.0, 0.5, 0.9])
    assert client_mean_ms(used, MODEL) * math.log(100) == pytest.approx(client_p99_ms(used, MODEL))


def test_a_burst_of_clients_is_in_the_mean_as_long_as_in_the_window() -> None:
    """Half of the link, and nine tenths of it from 40 s to 50: two steps of five, and then they are over."""
    world = World(
        seed=1,
        brokers=tuple(BrokerSpec(b, 100e6, 100e6, 900e6, 900e6) for b in (1, 2)),
        partitions=(PartitionSpec("t", 0, 1e9, 0.0, (1,)),),
        loads=(ClientLoad(1, 50e6, 50e6),),
        disturbances=(LoadStep(40.0, 50.0, (1,), 1.8),),
        delivery=SignalDelivery(loss_ratio=0.0, delay_s_min=0.0, delay_s_max=0.0),
        duration_s_max=200.0,
    )
    simulated = SimulatedCluster.at(Cluster(world))
    told = {}
    while simulated.cluster.now_s < 90.0:
        simulated.stream.advance()
        simulated.signals.poll()
        signal = simulated.signals.brokers.get(1)
        told[round(simulated.cluster.now_s)] = (
            (signal.produce_p99_ms, signal.produce_mean_ms) if signal is not None else None
        )
        simulated.cluster.step()
    calm, busy = (10.0 / math.log(100), 50.0 / math.log(100))
    assert told[39] == pytest.approx((10.0, calm), rel=0.02)
    assert told[52] == pytest.approx((50.0, (3 * calm + 2 * busy) / 5), rel=0.1)
    assert told[57] == pytest.approx((10.0, (3 * calm + 2 * busy) / 5), rel=0.1)
    assert told[85] == pytest.approx((10.0, calm), rel=0.02)
