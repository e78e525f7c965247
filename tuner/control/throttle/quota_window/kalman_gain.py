"""Computes how much of a measured step's error belongs to each second of the quota window (a Kalman filter's gains).

The error of a second is the bytes that passed in it minus the bytes of the model. After a second with too many bytes, the same
burst returns twelve seconds later, when the quota window drops this second. The tuner measures steps of five seconds, so it does
not know which second of a step had too many bytes. But five and twelve have no common divisor, so in twelve steps each second of
the window is measured with different neighbours. A Kalman filter uses these measurements. Its state is the errors of the seconds in
the window:

    error of a new second = − Σ errors of the seconds in the window + noise of one second (part of a response)
    error of a step       = Σ errors of its seconds + noise of one measurement (bytes in flight at its ends)

The gains depend only on the lengths of window and step, not on rates, times or brokers.
"""

from __future__ import annotations

from functools import lru_cache

# Variance of a step's measurement ÷ variance of a second. At both ends of a step, a response of some MiB may belong to this step or
# to its neighbour. A step that is not reported is computed from a mean of half a minute. On simulated brokers, a quarter of this
# value or twice this value works nearly as well.
_MEASUREMENT_VARIANCE = 4.0
# Large compared with the variance of a second, which is 1, because at first the errors are unknown.
_INITIAL_VARIANCE = 25.0
_STEPS = 40  # The gains have converged by then.


@lru_cache(maxsize=64)
def kalman_gains(samples: int, step_s: int) -> tuple[float, ...]:
    """Returns each second's share of a step's error (measured minus modelled bytes of the step).

    Args:
        samples: whole seconds that the window remembers; at least 1.
        step_s: whole seconds in the step; at least 1.

    Returns:
        One gain for each of the last ``max(samples, step_s)`` seconds, oldest first. Seconds before the step have a gain too,
        because their errors are correlated with the step.
    """
    count = max(samples, step_s)
    in_window = range(count - samples, count)
    covariance = [[_INITIAL_VARIANCE if i == j else 0.0 for j in range(count)] for i in range(count)]
    gains = [0.0] * count
    for _ in range(_STEPS):
        # Prediction: for each second of a step, a new second enters the window and the oldest one leaves.
        for _ in range(step_s):
            covariance_with_new = [-sum(row[k] for k in in_window) for row in covariance]
            variance_of_new = 1.0 - sum(covariance_with_new[k] for k in in_window)
            covariance = [[*row[1:], entry] for row, entry in zip(covariance[1:], covariance_with_new[1:], strict=True)]
            covariance.append([*covariance_with_new[1:], variance_of_new])
        # Update with the measured bytes of the step.
        step_covariance = [sum(row[count - step_s :]) for row in covariance]
        step_variance = sum(step_covariance[count - step_s :]) + _MEASUREMENT_VARIANCE
        gains = [entry / step_variance for entry in step_covariance]
        covariance = [
            [entry - gain * other for entry, other in zip(row, step_covariance, strict=True)]
            for row, gain in zip(covariance, gains, strict=True)
        ]
    return tuple(gains)
