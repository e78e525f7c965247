"""Array types of the simulation, the tolerance for rounding errors in times, and a grouped sum."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NEARLY_ZERO = 1e-9


def sums(index: Ints, values: Floats, count: int) -> Floats:
    """Returns for each i from 0 to count − 1 the sum of the values whose ``index`` is i."""
    # With weights, bincount returns floats already, but numpy's type annotations do not say so.
    return np.bincount(index, values, count).astype(np.float64, copy=False)
