"""Which series stand on the page where there could be thousands: enough to see where it is not well, and not all that is.

Of a cluster whose every throttle is in trouble one look at a hundred of them tells as much as at two thousand, and the page has a
length that Prometheus takes. Up to a hundred nothing is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nsmallest

from streaming.shared.metric_page import Labels

SERIES_MAX = 100


def largest_values(values: Mapping[Labels, float]) -> Mapping[Labels, float]:
    """The largest hundred; of equals always the same, so that none comes and goes while nothing changes."""
    if len(values) <= SERIES_MAX:
        return values
    return dict(nsmallest(SERIES_MAX, values.items(), key=lambda one: (-one[1], one[0])))


def nonzero_values(values: Mapping[Labels, float]) -> Mapping[Labels, float]:
    """All that are not 0, so that a sum over them is right; zeros only as far as a hundred go."""
    found = {labels: value for labels, value in values.items() if value}
    return {**largest_values(values), **found} if len(values) > SERIES_MAX else values
