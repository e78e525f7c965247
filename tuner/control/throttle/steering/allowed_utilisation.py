"""Learns from the latency of a broker's clients the utilisation to which its link may be filled.

The allowed utilisation starts below the capacity in the settings. Each measured latency moves it: up while the latency is below the
target, and down while it is above. The steps end where the measured latency meets the target, so no model of the latency is needed.
Each step is a share of the measured utilisation, so the capacity in the settings is only the start of the search: a wrong capacity
costs clients or the move some time.

Without a capacity in the settings, the unit is the traffic that was measured first. The search then begins at the throttle that is
set, or slightly below the value that an earlier move has learned.

Invariant: except at its start, the allowed utilisation never rises above ``_AHEAD_RATIO`` times the carried utilisation. It never
falls below the load of clients.

Terms:
    utilisation   share of the capacity in the busier direction of the broker; without a capacity in the settings, in each.
    latency rise  used share of the permitted rise of the latency: 0 without copies, 1 at the objective.
"""

from __future__ import annotations

import math

START_TOLD = 0.85  # A capacity in the settings is assumed to be near the true one.
# The value that an earlier move has learned may be out of date: a move starts at this share of it, and at less after weeks.
_RESUME_RATIO, _FORGET_S = 0.85, 14 * 86_400.0
# Target of the latency rise. It leaves room for seconds with more load than the mean.
_AIM_RATIO = 0.75
# Time constants. A reduction takes effect soon; a raise waits until the quota's window shows the effect of the previous raise.
_FALL_S, _RISE_S = 10.0, 30.0
# Step per unit of (latency rise ÷ target − 1). In a queue of random arrivals near the target, 1 % more traffic makes the latency
# about 8 % longer, so this step just meets the target.
_STEP_RATIO = 0.13
# If the latency is as low as without copies, the link is much larger: steps up by this × (1 − latency rise ÷ target)².
_RISE_RATIO_MAX = 0.8
_FALL_RATIO_MAX = 0.3  # Largest step down: a single pause of a broker says little about its link.
# A link that carries less than allowed does not show whether more would pass. So a raise ends at this multiple of the carried
# utilisation, and a reduction starts at no more than this multiple.
_AHEAD_RATIO, _NEAR_RATIO = 1.5, 1.1


def resume_allowed(before: float | None, present_ratio: float, elapsed_s: float, carried_ratio: float = 0.0) -> float:
    """Returns the allowed utilisation at the start of a move, without a capacity in the settings.

    Args:
        before: the allowed utilisation at the end of the last move; 0 or None: there was none.
        present_ratio: the utilisation in the newest step, or with full throttles if that is higher. An operator has chosen the
            throttles, and the first latency above the target lowers the allowed utilisation to the used one.
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
        load_ratio: the utilisation by clients and in-sync replication. At this allowed utilisation nothing is left for replication;
            a lower one would only delay the next raise.
        latency_rise: the latency rise in this step; at least 0.
        step_s: length of the step.
    """
    used_ratio = min(used_ratio, _AHEAD_RATIO * allowed)  # Limits the effect of a single wrong sample.
    slack = 1.0 - latency_rise / _AIM_RATIO
    if slack < 0.0:
        reached = min(allowed, _NEAR_RATIO * used_ratio)
        fall = min(1.0, step_s / _FALL_S) * used_ratio * min(_FALL_RATIO_MAX, -_STEP_RATIO * slack)
        return max(reached - fall, min(reached, load_ratio))
    reached = max(
        allowed, used_ratio
    )  # The link has carried this utilisation while the latency was at most the target.
    rise = min(1.0, step_s / _RISE_S) * used_ratio * max(_STEP_RATIO, _RISE_RATIO_MAX * slack) * slack
    return max(reached, min(_AHEAD_RATIO * used_ratio, reached + rise))
