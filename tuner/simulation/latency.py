"""Computes client latency from utilisation: a queue on the broker's busiest direction, world.py has its formula.

The mean latency is that of an exponential distribution with this p99.
"""

from __future__ import annotations

import math

import numpy as np

from tuner.simulation.numbers import Floats
from tuner.simulation.world import LatencyModel


def client_p99_ms(utilisation: Floats, model: LatencyModel) -> Floats:
    used = np.clip(utilisation, 0.0, model.utilisation_max)
    return model.base_ms * (1.0 + model.queue_ratio * used / (1.0 - used))


def client_mean_ms(utilisation: Floats, model: LatencyModel) -> Floats:
    mean: Floats = client_p99_ms(utilisation, model) / math.log(100.0)
    return mean


def objective_utilisations(model: LatencyModel) -> Floats:
    """Returns the utilisation at the objective, one for each broker or one for all."""
    return np.array(model.own_utilisations or (model.objective_utilisation,))


def violation_ratio(
    utilisation: Floats, model: LatencyModel, *, bin_s: int, without_copies: Floats | None = None
) -> float:
    """Returns the share of all bins of all brokers that miss the objective; 0.0 without a whole bin.

    Args:
        utilisation: by second and broker.
        model: gives the objective.
        bin_s: seconds per bin. The mean of a bin is compared with the objective; an incomplete bin at the end is dropped.
        without_copies: the utilisation by clients and in-sync replication alone. Bins in which this utilisation alone misses the
            objective of its broker are left out.
    """
    if len(utilisation) < bin_s:
        return 0.0
    missed = _bin_means(utilisation, bin_s) > objective_utilisations(model)
    if model.own_utilisations and without_copies is not None:
        missed &= _bin_means(without_copies, bin_s) <= objective_utilisations(model)
    return float(missed.mean())


def _bin_means(series: Floats, bin_s: int) -> Floats:
    bins = len(series) // bin_s
    means: Floats = series[: bins * bin_s].reshape(bins, bin_s, -1).mean(axis=1)
    return means
