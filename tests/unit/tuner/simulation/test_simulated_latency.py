"""Latency signals of the simulated stream: the p99 of the last step, and the mean of the whole window."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tuner.simulation.cluster import Cluster
from tuner.simulation.latency import client_mean_ms, client_p99_ms
from tuner.simulation.policy import SimulatedEnvironment
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


def test_simulated_mean_fits_p99_of_exponential_tail() -> None:
    used = np.array([0.0, 0.5, 0.9])
    assert client_mean_ms(used, MODEL) * math.log(100) == pytest.approx(client_p99_ms(used, MODEL))


@pytest.mark.parametrize("queue_ratio", [0.1, 1.0])
def test_objective_is_the_p99_at_its_utilisation(queue_ratio: float) -> None:
    model = LatencyModel(queue_ratio=queue_ratio)
    [at_objective] = client_p99_ms(np.array([model.objective_utilisation]), model)
    assert at_objective == pytest.approx(model.objective_ms)
    assert client_p99_ms(np.array([0.0]), model)[0] == model.base_ms


def test_client_burst_stays_in_mean_for_its_window() -> None:
    """Clients use half of the link, and nine tenths from 40 s to 50 s: two of the five steps of a window."""
    world = World(
        seed=1,
        brokers=tuple(BrokerSpec(b, 100e6, 100e6, 900e6, 900e6) for b in (1, 2)),
        partitions=(PartitionSpec("t", 0, 1e9, 0.0, (1,)),),
        loads=(ClientLoad(1, 50e6, 50e6),),
        disturbances=(LoadStep(40.0, 50.0, (1,), 1.8),),
        delivery=SignalDelivery(loss_ratio=0.0, delay_s_min=0.0, delay_s_max=0.0),
        duration_s_max=200.0,
    )
    simulated = SimulatedEnvironment.at(Cluster(world))
    latency_by_s = {}
    while simulated.cluster.now_s < 90.0:
        simulated.stream.advance()
        simulated.signals.poll()
        signal = simulated.signals.brokers.get(1)
        latency_by_s[round(simulated.cluster.now_s)] = (
            (signal.produce_p99_ms, signal.produce_mean_ms) if signal is not None else None
        )
        simulated.cluster.step()
    calm, busy = (10.0 / math.log(100), 50.0 / math.log(100))
    assert latency_by_s[39] == pytest.approx((10.0, calm), rel=0.02)
    assert latency_by_s[52] == pytest.approx((50.0, (3 * calm + 2 * busy) / 5), rel=0.1)
    assert latency_by_s[57] == pytest.approx((10.0, (3 * calm + 2 * busy) / 5), rel=0.1)
    assert latency_by_s[85] == pytest.approx((10.0, calm), rel=0.02)
