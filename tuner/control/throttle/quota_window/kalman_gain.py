"""Which of the last seconds was it that brought more, or less, than the replay of a quota's window had made of them?

Intuition: what passes in a second passes again twelve seconds later, for then the window lets it go. So an uneven second comes
back for ever, and is only to be told from a step of five seconds if what the steps before have told is not forgotten: five
and twelve have no common measure, and after twelve steps every second has been told apart from its neighbours. That is a
Kalman filter whose state is the seconds that the window holds:

    a new second  = what the bound lets through − Σ of those seconds, give or take part of a response
    a step's sum  = Σ of its seconds, give or take what was under way at its ends

How much of a difference belongs to which second then depends on the lengths alone, and not on what was measured.

Invariant: a share is a number without a unit: no rate, no time and no broker is in it.
"""

from __future__ import annotations

from functools import lru_cache

# Of a step's measure, over the error of a second, both squared: a response of some MiB straddles either end, and a step
# that is not told is taken out of a mean of half a minute. On simulated brokers a quarter or twice of it knows the seconds
# nearly as well.
_MEASURE_NOISE = 4.0
_SECOND_NOISE_START = 25.0
_STEPS = 40  # From there on the shares stay the same.


@lru_cache(maxsize=64)
def shares(samples: int, step_s: int) -> tuple[float, ...]:
    """Of what a step brought more than was replayed, each second's share, up to the step's last one.

    Args:
        samples: whole seconds that the window remembers.
        step_s: whole seconds in the step; both at least 1.

    Returns:
        One share for each of the last ``max(samples, step_s)`` seconds, oldest first; those before the step have some, too.
    """
    count = max(samples, step_s)
    kept = range(count - samples, count)
    covariance = [[_SECOND_NOISE_START * (i == j) for j in range(count)] for i in range(count)]
    found = [0.0] * count
    for _ in range(_STEPS):
        for _ in range(step_s):
            together = [-sum(row[k] for k in kept) for row in covariance]
            alone = 1.0 - sum(together[k] for k in kept)
            covariance = [[*row[1:], new] for row, new in zip(covariance[1:], together[1:], strict=True)]
            covariance.append([*together[1:], alone])
        told = [sum(row[count - step_s :]) for row in covariance]
        spread = sum(told[count - step_s :]) + _MEASURE_NOISE
        found = [each / spread for each in told]
        covariance = [
            [each - share * other for each, other in zip(row, told, strict=True)]
            for row, share in zip(covariance, found, strict=True)
        ]
    return tuple(found)
