"""Compares clients before, during and after the moves: their throughput, and the median and p99 of their latency.

The functions only compute; they read no clock and no cluster. On real brokers the samples are the latencies that a client has
measured. In the simulation, the latency model gives a distribution for each broker and second. Its weight is the broker's client
bytes in this second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from tuner.simulation.numbers import Floats

SAMPLES_MIN = 100  # With fewer samples the p99 would be the maximum.
_BINS = 4_000  # Bins of the mean latency on a logarithmic scale; a bin is 0.3 % wide if the means span a factor of 10⁵.
_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class ClientPhase:
    """Clients in one phase.

    Attributes:
        bytes_per_s: client traffic.
        p50_ms, p99_ms: median and 99th percentile of the latency of requests.
    """

    bytes_per_s: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class ClientPhases:
    """Clients before, during and after the moves; None: this phase was not recorded."""

    before: ClientPhase | None = None
    during: ClientPhase | None = None
    after: ClientPhase | None = None

    def flat(self) -> dict[str, float | None]:
        """Returns the figures by name, such as ``clients_during_p99_ms``."""
        missing: dict[str, float | None] = dict.fromkeys(ClientPhase.__slots__)
        phases = {"before": self.before, "during": self.during, "after": self.after}
        return {
            f"clients_{name}_{figure}": None if value is None else round(value, 2)
            for name, phase in phases.items()
            for figure, value in (missing if phase is None else asdict(phase)).items()
        }


def nearest_rank(ordered: Sequence[float], share: float) -> float:
    """Returns the smallest value that at least this share of the values does not exceed.

    Args:
        ordered: at least one value, in rising order.
    """
    return ordered[math.ceil(share * len(ordered)) - 1]


def measured_phase(samples_ms: Sequence[float], bytes_per_s: float) -> ClientPhase | None:
    """Returns a phase from the latencies of requests; None for fewer than ``SAMPLES_MIN`` requests."""
    if len(samples_ms) < SAMPLES_MIN:
        return None
    ordered = sorted(samples_ms)
    return ClientPhase(bytes_per_s=bytes_per_s, p50_ms=nearest_rank(ordered, 0.5), p99_ms=nearest_rank(ordered, 0.99))


def modelled_phase(mean_ms: Floats, client_bytes_per_s: Floats) -> ClientPhase | None:
    """Returns a phase of a simulated run; None if there is no client traffic.

    The latencies of one broker in one second have an exponential distribution with the mean ``mean_ms``, as in latency.py.

    Args:
        mean_ms: mean latency, by second and broker.
        client_bytes_per_s: client traffic, by second and broker; requests are in proportion to it.
    """
    total = float(client_bytes_per_s.sum())
    if total <= 0.0:
        return None
    weights, edges = np.histogram(np.log(mean_ms), bins=_BINS, weights=client_bytes_per_s)
    used = weights > 0
    means = np.exp(0.5 * (edges[1:] + edges[:-1])[used])
    shares = weights[used] / total
    return ClientPhase(
        bytes_per_s=total / len(client_bytes_per_s),
        p50_ms=_quantile(means, shares, 0.5),
        p99_ms=_quantile(means, shares, 0.99),
    )


def _quantile(means: Floats, shares: Floats, share: float) -> float:
    """Returns the quantile of a mixture of exponential distributions with these means."""
    low, high = 0.0, -float(means.max()) * math.log(1.0 - share)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if float(shares @ np.exp(-middle / means)) > 1.0 - share:
            low = middle
        else:
            high = middle
    return high
