"""The arrays of the simulation: their types, and the one comparison of times that has to forgive rounding."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NEARLY_ZERO = 1e-9


def sums(index: Ints, values: Floats, count: int) -> Floats:
    """Per target 0 … count − 1 the sum of the values that point at it."""
    # With weights it is of floats already, which numpy's types do not say.
    return np.bincount(index, values, count).astype(np.float64, copy=False)
