"""What clients feel: a queue that grows as the busiest direction of their broker fills, p99 = base ÷ (1 − u).

Their mean is what an exponential tail with that p99 has.
"""

from __future__ import annotations

import math

import numpy as np

from tuner.simulation.numbers import Floats
from tuner.simulation.world import LatencyModel


def client_p99_ms(utilisation: Floats, model: LatencyModel) -> Floats:
    return model.base_ms / (1.0 - np.clip(utilisation, 0.0, model.utilisation_max))


def client_mean_ms(utilisation: Floats, model: LatencyModel) -> Floats:
    mean: Floats = client_p99_ms(utilisation, model) / math.log(100.0)
    return mean


def violation_ratio(utilisation: Floats, model: LatencyModel, *, bin_s: int) -> float:
    """Share of the bins, of all brokers, in which the objective is missed; 0.0 without a whole bin.

    Args:
        utilisation: by second and broker.
        bin_s: seconds whose mean is judged; what is left over at the end is not.
    """
    bins = len(utilisation) // bin_s
    if bins == 0:
        return 0.0
    means = utilisation[: bins * bin_s].reshape(bins, bin_s, -1).mean(axis=1)
    return float((means > model.objective_utilisation).mean())
