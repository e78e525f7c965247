"""Learns from the latency of a broker's clients the utilisation to which its link may be filled.

Terms:
    utilisation   traffic ÷ capacity, in the busier direction of the broker. Without a capacity in the settings, each direction has
                  its own utilisation, and its capacity is the traffic that was measured first.
    latency rise  used share of the permitted rise of the latency: 0 without copies, 1 at the objective.
    target        the latency rise that the search aims at (``_AIM_RATIO``).

Each measured latency changes the allowed utilisation: up while the latency rise is below the target, and down while it is above. So
the search ends where the latency rise meets the target, without a model of the latency. A step is a share of the measured
utilisation, so a wrong capacity in the settings only makes the search longer. With a capacity, the search starts slightly below it.
Without a capacity, the search starts at the throttle that is set, or slightly below the value that an earlier move has learned.

Invariant: except at its start, the allowed utilisation never rises above ``_AHEAD_RATIO`` × the measured utilisation. It never
falls below the utilisation by clients.
"""

from __future__ import annotations

import math

START_TOLD = 0.85  # Start of the search with a capacity in the settings, which is assumed to be near the true capacity.
# The value that an earlier move has learned may be out of date. So a move starts at _RESUME_RATIO × this value, and the value
# decays with the time constant _FORGET_S.
_RESUME_RATIO, _FORGET_S = 0.85, 14 * 86_400.0
# Target of the latency rise. It leaves room for seconds with more load than the mean.
_AIM_RATIO = 0.72
# Time constants of steps down and up. A step up takes longer, because its effect shows only after a quota window.
_FALL_S, _RISE_S = 10.0, 30.0
# Step per unit of (latency rise ÷ target − 1). In a queue of random arrivals near the target, 1 % more traffic makes the latency
# about 8 % longer. So a step of 0.13 corrects the whole difference to the target.
_STEP_RATIO = 0.13
# Step up per unit of (1 − latency rise ÷ target)³, if this is larger: with a latency as low as without copies, the link can carry
# far more. The third power keeps the steps small between the two: the latency of a queue rises late, and it is measured late.
_RISE_RATIO_MAX = 0.8
_FALL_RATIO_MAX = 0.3  # Largest step down, because a single pause of a broker says little about its link.
# Traffic below the allowed utilisation does not show whether the link could carry more. So the allowed utilisation rises at most to
# _AHEAD_RATIO × the measured utilisation. A step down begins at _NEAR_RATIO × the measured utilisation or lower.
_AHEAD_RATIO, _NEAR_RATIO = 1.5, 1.1


def resume_allowed(before: float | None, present_ratio: float, elapsed_s: float, carried_ratio: float = 0.0) -> float:
    """Returns the allowed utilisation at the start of a move, without a capacity in the settings.

    Args:
        before: the allowed utilisation at the end of the last move; 0 or None: there was no move.
        present_ratio: the utilisation in the newest step, or the utilisation with the present throttles in full use if it is
            higher. An operator has chosen these throttles. If they are too high, the first latency above the target lowers the
            result.
        elapsed_s: seconds since the last move.
        carried_ratio: the highest utilisation with normal latency in the history of the last weeks; 0: not known.
    """
    learned_ratio = max((before or 0.0) * math.exp(-elapsed_s / _FORGET_S), carried_ratio)
    return max(present_ratio, _RESUME_RATIO * learned_ratio)


def update_allowed(allowed: float, used_ratio: float, load_ratio: float, latency_rise: float, step_s: float) -> float:
    """Returns the allowed utilisation after one more measured latency.

    Args:
        allowed: the allowed utilisation before.
        used_ratio: the utilisation in the newest step; above 0.
        load_ratio: the utilisation by clients and in-sync replication, the lowest useful result: nothing is then left for copies.
        latency_rise: the latency rise in this step; at least 0.
        step_s: length of the step.
    """
    used_ratio = min(used_ratio, _AHEAD_RATIO * allowed)  # Limits the effect of a single wrong sample.
    slack = 1.0 - latency_rise / _AIM_RATIO
    if slack < 0.0:
        reached = min(allowed, _NEAR_RATIO * used_ratio)
        fall = min(1.0, step_s / _FALL_S) * used_ratio * min(_FALL_RATIO_MAX, -_STEP_RATIO * slack)
        return max(reached - fall, min(reached, load_ratio))
    # The link carries ``used_ratio`` with a latency rise of at most the target.
    reached = max(allowed, used_ratio)
    rise = min(1.0, step_s / _RISE_S) * used_ratio * max(_STEP_RATIO, _RISE_RATIO_MAX * slack * slack) * slack
    return max(reached, min(_AHEAD_RATIO * used_ratio, reached + rise))
