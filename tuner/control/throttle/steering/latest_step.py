"""The newest step out of a sliding mean: what passed since the last signal, where the signal tells only the mean of a window.

Intuition: a window of five steps that moves on by one drops the oldest and takes in the newest. Whoever remembers the four
in between can take them off its sum, and what is left is the newest, half a window younger than the mean.

What is not known of the first window goes round in what follows, so this is for what does not tell its newest step: signals of a
stream of before, and times of requests.

Invariant: steps are never below 0, and a mean that never changes gives steps that are that mean.
"""

from __future__ import annotations

from tuner.core.value import value

# What is remembered of a step is drawn towards the mean a little, so that an error of the first does not go round for ever.
_KEEPS = 0.97


@value
class Steps:
    """Bytes/s of the last steps of one counter, oldest first."""

    rates: tuple[float, ...] = ()

    @property
    def newest(self) -> float | None:
        return self.rates[-1] if self.rates else None


def with_mean(steps: Steps, mean_bytes_per_s: float, steps_in_window: int) -> Steps:
    """
    Args:
        mean_bytes_per_s: over the window of the newest signal.
        steps_in_window: how many steps of equal length it spans; at least 1.
    """
    known = steps.rates[-(steps_in_window - 1) :] if steps_in_window > 1 else ()
    if len(known) < steps_in_window - 1:
        return Steps((mean_bytes_per_s,) * steps_in_window)
    others = 0.0
    for rate in known:
        others += mean_bytes_per_s + _KEEPS * (rate - mean_bytes_per_s)
    newest = max(0.0, mean_bytes_per_s * steps_in_window - others)
    return Steps((*known, newest))
