"""Extracts the newest step from a sliding mean, for signals that report only the mean of their window.

A step is the interval between two samples. A window of five steps that advances by one drops the oldest step and gains the newest.
The sum of the window minus the four remembered steps is the newest step, which is half a window younger than the mean.

An error in the first remembered steps would return with every window. So this module is only for signals without a step of their
own: request times, and streams that do not report steps.

Invariant: a step is never negative, and a constant mean yields steps equal to that mean.
"""

from __future__ import annotations

from tuner.core.value import value

# Each remembered step is moved 3 % towards the mean, so that an error in the first window fades.
_STEP_RETENTION = 0.97


@value
class StepRates:
    """The last steps of one counter, oldest first; in the unit of the mean (bytes/s, or ms for request times)."""

    rates: tuple[float, ...] = ()

    @property
    def newest(self) -> float | None:
        return self.rates[-1] if self.rates else None


def append_step_from_mean(steps: StepRates, window_mean: float, steps_in_window: int) -> StepRates:
    """Returns the steps of the window after it has advanced by one step.

    Args:
        steps: the previous steps.
        window_mean: the mean that the newest signal reports.
        steps_in_window: how many steps of equal length the window spans; at least 1.
    """
    remembered = steps.rates[-(steps_in_window - 1) :] if steps_in_window > 1 else ()
    if len(remembered) < steps_in_window - 1:  # The first window: all steps count as equal to the mean.
        return StepRates((window_mean,) * steps_in_window)
    remembered_sum = 0.0
    for rate in remembered:
        remembered_sum += window_mean + _STEP_RETENTION * (rate - window_mean)
    newest = max(0.0, window_mean * steps_in_window - remembered_sum)
    return StepRates((*remembered, newest))
