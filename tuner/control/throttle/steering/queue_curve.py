"""Estimates from a broker's latency how full its link may be before clients miss their objective.

A queue in front of a link or disk has a latency of

    latency = base ÷ (1 − u ÷ pole)

u is the utilisation, as a share of the capacity in the settings. The base is the latency of an idle broker. The pole is the
utilisation at which the latency grows without limit: 1 if the capacity in the settings is right, and 0.5 if the true capacity is
half of it. A broker that is lightly used shows the base, and a broker that is nearly full shows the pole. An extended Kalman filter
follows both; its state is their logarithms, because both are factors.

Invariant: the pole is at most 1, or 1.25 times the measured utilisation if that is more. A single measurement counts as at most
1.1 times the pole, because it may be wrong.
"""

from __future__ import annotations

import math

from tuner.core.value import value

# Standard deviations, all of logarithms (0.3 is a factor of 1.35 either way).
_LATENCY = 0.2  # Of a measured latency, from the curve: requests differ in size, and the seconds of a step in load.
_BASE_START = 3.0  # Nothing is known of the base at first.
POLE_TOLD, POLE_GUESSED = 0.3, 1.0  # Of a capacity in the settings, and of a guess.
_BASE_DRIFT, _POLE_DRIFT = 0.03, 0.01  # In one step: requests become larger, and neighbours use the same link.
_FULL_RATIO = 0.99  # A measured utilisation is at most this share of the pole.
# A broker that is lightly used shows little of its pole. So the pole exceeds the capacity in the settings only if the broker has
# used it, and is then at most this multiple of what it used.
_POLE_RATIO_MAX = 1.25
_RISE_RATIO_MAX = 1.1  # From one measurement to the next.
_ERROR_MAX = 2.0  # Larger errors of the latency (a factor of 7) count as this one: a single pause says little.
_BASE_RATIO_MAX = 2.0  # A base above this multiple of the newest latency has diverged.


@value
class QueueCurve:
    """Base (ms) and pole as logarithms, and the covariance of their errors."""

    log_base: float
    log_pole: float
    base_variance: float
    covariance: float
    pole_variance: float


def first_curve(utilisation: float, latency_ms: float, pole_deviation: float) -> QueueCurve:
    """Returns the curve through the first measurement, if the capacity is right.

    Args:
        utilisation: share of the capacity; above 0.
        latency_ms: latency at this utilisation; above 0.
        pole_deviation: ``POLE_TOLD`` or ``POLE_GUESSED``.
    """
    free = 1.0 - min(utilisation, _FULL_RATIO)
    return QueueCurve(math.log(latency_ms * free), 0.0, _BASE_START**2, 0.0, pole_deviation**2)


def update_curve(curve: QueueCurve, utilisation: float, latency_ms: float) -> QueueCurve:
    """Returns the curve after a measurement; the arguments are those of ``first_curve``."""
    # A single wrong sample must not raise the pole far.
    utilisation = min(utilisation, _RISE_RATIO_MAX * max(1.0, pole(curve)))
    log_pole_min = math.log(utilisation / _FULL_RATIO)
    log_pole = max(curve.log_pole, log_pole_min)
    share = utilisation / math.exp(log_pole)
    expected = curve.log_base - math.log(1.0 - share)
    error = _clip(math.log(latency_ms) - expected, -_ERROR_MAX, _ERROR_MAX)
    slope = -share / (1.0 - share)  # d log(latency) ÷ d log(pole)
    base_variance, pole_variance = curve.base_variance + _BASE_DRIFT**2, curve.pole_variance + _POLE_DRIFT**2
    base_with_latency = base_variance + slope * curve.covariance
    pole_with_latency = curve.covariance + slope * pole_variance
    latency_variance = base_with_latency + slope * pole_with_latency + _LATENCY**2
    base_gain, pole_gain = base_with_latency / latency_variance, pole_with_latency / latency_variance
    return QueueCurve(
        min(curve.log_base + base_gain * error, math.log(_BASE_RATIO_MAX * latency_ms)),
        _clip(log_pole + pole_gain * error, log_pole_min, max(0.0, math.log(utilisation * _POLE_RATIO_MAX))),
        base_variance - base_gain * base_with_latency,
        curve.covariance - base_gain * pole_with_latency,
        pole_variance - pole_gain * pole_with_latency,
    )


def utilisation_at(curve: QueueCurve, latency_ms: float, used_ratio: float = math.inf) -> float:
    """Returns the utilisation at which the latency is ``latency_ms``; 0 if an idle broker is slower.

    Args:
        used_ratio: utilisation of one direction in the newest step. The curve is that of the busier direction, so a pole above 1
            counts for another direction only as far as that direction was used.
    """
    return pole(curve, used_ratio) * max(0.0, 1.0 - math.exp(curve.log_base) / latency_ms)


def pole(curve: QueueCurve, used_ratio: float = math.inf) -> float:
    """Returns the utilisation at which the latency grows without limit; ``used_ratio`` is that of ``utilisation_at``."""
    return min(math.exp(curve.log_pole), max(1.0, _POLE_RATIO_MAX * used_ratio))


def _clip(value: float, low: float, high: float) -> float:
    return min(high, max(low, value))
