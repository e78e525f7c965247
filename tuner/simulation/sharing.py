"""Shares links and disks among fetches by max–min fairness, in a few rounds of progressive filling.

Each flow draws on two pools: its source's capacity to send and its destination's capacity to receive. All flows grow equally. A
flow stops growing when one of its pools is empty; the other flows then share the remaining capacity.
"""

from __future__ import annotations

import numpy as np

from tuner.simulation.numbers import NEARLY_ZERO, Floats, Ints, sums

_ROUNDS = 3  # Further rounds change less than one per cent of the bytes.


def max_min(source: Ints, target: Ints, out_bytes_per_s: Floats, in_bytes_per_s: Floats, flow_max: float) -> Floats:
    """Returns the rate of every flow in bytes/s.

    Args:
        source: each flow's index into ``out_bytes_per_s``.
        target: each flow's index into ``in_bytes_per_s``.
        out_bytes_per_s: capacity of each broker to send.
        in_bytes_per_s: capacity of each broker to receive.
        flow_max: bytes/s that one flow (one fetcher thread) can carry.
    """
    brokers = len(out_bytes_per_s)
    rate = np.zeros(len(source))
    growing = np.ones(len(source))
    left_out, left_in = out_bytes_per_s.copy(), in_bytes_per_s.copy()
    for _ in range(_ROUNDS):
        share_out = left_out / np.maximum(sums(source, growing, brokers), 1.0)
        share_in = left_in / np.maximum(sums(target, growing, brokers), 1.0)
        more = np.minimum(np.minimum(share_out[source], share_in[target]), flow_max - rate) * growing
        rate += more
        left_out = np.maximum(left_out - sums(source, more, brokers), 0.0)
        left_in = np.maximum(left_in - sums(target, more, brokers), 0.0)
        growing = ((left_out[source] > 1.0) & (left_in[target] > 1.0) & (rate < flow_max)).astype(np.float64)
        if not growing.any():
            break
    return np.maximum(rate, NEARLY_ZERO)
