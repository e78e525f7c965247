"""Clients before, during and after a move: percentiles of samples and of the simulator's latency model."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tuner.simulation.client_phases import ClientPhase, ClientPhases, measured_phase, modelled_phase, nearest_rank


def test_percentiles_are_values_of_samples() -> None:
    samples = [float(ms) for ms in range(200, 0, -1)]
    assert measured_phase(samples, 5e6) == ClientPhase(bytes_per_s=5e6, p50_ms=100.0, p99_ms=198.0)
    assert measured_phase(samples[:99], 5e6) is None
    assert nearest_rank([1.0, 2.0, 3.0], 0.5) == 2.0
    assert nearest_rank([7.0], 0.99) == 7.0


def test_model_with_one_mean_has_percentiles_of_its_exponential() -> None:
    found = modelled_phase(np.full((10, 3), 4.0), np.full((10, 3), 2e6))
    assert found is not None
    assert found.bytes_per_s == pytest.approx(6e6)
    assert found.p50_ms == pytest.approx(4.0 * math.log(2.0), rel=1e-3)
    assert found.p99_ms == pytest.approx(4.0 * math.log(100.0), rel=1e-3)


def test_model_weighs_brokers_by_their_traffic() -> None:
    """A tenth of the requests has a mean of 100 ms, the others 1 ms: the p99 is that of the slow ones' slowest tenth."""
    means, traffic = np.array([[1.0, 100.0, 1e4]]), np.array([[9e6, 1e6, 0.0]])
    found = modelled_phase(means, traffic)
    assert found is not None
    assert found.p99_ms == pytest.approx(100.0 * math.log(10.0), rel=5e-3)
    assert found.p50_ms == pytest.approx(0.81, abs=0.02)


def test_model_without_requests_has_no_phase() -> None:
    assert modelled_phase(np.ones((5, 2)), np.zeros((5, 2))) is None
    assert modelled_phase(np.ones((0, 2)), np.zeros((0, 2))) is None


def test_flat_names_have_phase_and_unit() -> None:
    flat = ClientPhases(before=ClientPhase(1e6, 1.234, 9.876), during=ClientPhase(2e6, 2.0, 20.0)).flat()
    assert list(flat)[:3] == ["clients_before_bytes_per_s", "clients_before_p50_ms", "clients_before_p99_ms"]
    assert (flat["clients_before_p50_ms"], flat["clients_during_p99_ms"]) == (1.23, 20.0)
    assert [name for name, value in flat.items() if value is None] == [
        "clients_after_bytes_per_s", "clients_after_p50_ms", "clients_after_p99_ms",
    ]  # fmt: skip
