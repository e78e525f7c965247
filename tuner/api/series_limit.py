"""Limits the number of series of a metric, so that the metrics page stays small on large clusters.

Up to the limit nothing is left out. Beyond it only the largest values are exported: they show where a problem is.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nsmallest

from streaming.shared.metric_page import Labels

SERIES_MAX = 100


def largest_values(values: Mapping[Labels, float], count: int = SERIES_MAX) -> Mapping[Labels, float]:
    """Returns the largest ``count`` values. Ties are broken by label, so that the same series stay while nothing changes."""
    if len(values) <= count:
        return values
    return dict(nsmallest(count, values.items(), key=lambda item: (-item[1], item[0])))


def nonzero_values(values: Mapping[Labels, float]) -> Mapping[Labels, float]:
    """Returns all nonzero values, so that their sum is right, and at most 100 values if all are 0."""
    nonzero = {labels: value for labels, value in values.items() if value}
    return {**largest_values(values), **nonzero} if len(values) > SERIES_MAX else values
