"""How fetches share the links and disks that they pass: max–min fairness, in a few rounds of filling.

Every flow takes from two pools, what its source can send and what its destination can take. All grow at the same pace
until one of their pools is empty; the others then share what is left.
"""

from __future__ import annotations

import numpy as np

from tuner.simulation.numbers import NEARLY_ZERO, Floats, Ints, sums

_ROUNDS = 3  # More of them move less than one per cent of the bytes.


def max_min(source: Ints, target: Ints, out_bytes_per_s: Floats, in_bytes_per_s: Floats, flow_max: float) -> Floats:
    """The rate of every flow.

    Args:
        source: index into ``out_bytes_per_s`` of every flow.
        target: index into ``in_bytes_per_s`` of every flow.
        flow_max: bytes/s that one flow, that is one fetcher thread, can do at most.
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
