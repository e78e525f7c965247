"""Learns from the latency of a broker's clients how full its link may be.

The allowed utilisation starts below the capacity in the settings. Each measured latency moves it: up while clients wait less than
the objective allows, and down while they wait longer. The steps end where the measured latency meets the aim, whatever the latency
is at other utilisations. Each step is a share of the measured utilisation, so the capacity in the settings is only where the search
begins: a wrong one costs clients or the move some time.

Without a capacity in the settings, the unit is the traffic that was measured first. The search then begins at the throttle that is
set, or a little below what an earlier move has learned.

Invariant: except at its start, the allowed utilisation never rises above ``_AHEAD_RATIO`` times what the link has carried. It never
falls below the load of clients.

Terms:
    utilisation   share of the capacity in the busier direction of the broker; without a capacity in the settings, in each one.
    latency rise  how much of the permitted rise of the latency is used: 0 as without copies, 1 at the objective.
"""

from __future__ import annotations

import math

START_TOLD = 0.85  # A capacity in the settings is near the true one.
# The figure that an earlier move has learned may be out of date: a move resumes at this share of it, and at less after weeks.
_RESUME_RATIO, _FORGET_S = 0.85, 14 * 86_400.0
# Latency rise that is aimed at. It leaves room for seconds that are fuller than the mean.
_AIM_RATIO = 0.75
# Time constants. Clients that wait are relieved soon; a rise waits for the quota's window to show the rise before it.
_FALL_S, _RISE_S = 10.0, 30.0
# A step per unit of (latency rise ÷ aim − 1). Near the aim of a queue of random arrivals, 1 % more traffic makes the latency about
# 8 % longer, so this step just meets the aim.
_STEP_RATIO = 0.13
# Clients that wait as without copies show that the link is much larger: steps up by this × (1 − latency rise ÷ aim)².
_RISE_RATIO_MAX = 0.8
_FALL_RATIO_MAX = 0.3  # The longest step down: a single pause of a broker says little about its link.
# A link that carries less than allowed does not show whether more would pass. So a rise ends at this multiple of what it carries,
# and a fall begins at most so far above it.
_AHEAD_RATIO, _NEAR_RATIO = 1.5, 1.1


def resume_allowed(before: float | None, present_ratio: float, elapsed_s: float, carried_ratio: float = 0.0) -> float:
    """Returns the allowed utilisation at the start of a move, without a capacity in the settings.

    Args:
        before: the allowed utilisation at the end of the last move; 0 or None: there was none.
        present_ratio: the utilisation in the newest step, or with the throttles that are set if that is more. An operator has
            chosen these, and the first latency above the aim lowers the allowed utilisation to the used one.
        elapsed_s: seconds since the last move.
        carried_ratio: the most that the link has carried with latency in order, by the history of the last weeks; 0: not known.
    """
    learned_ratio = max((before or 0.0) * math.exp(-elapsed_s / _FORGET_S), carried_ratio)
    return max(present_ratio, _RESUME_RATIO * learned_ratio)


def update_allowed(allowed: float, used_ratio: float, load_ratio: float, latency_rise: float, step_s: float) -> float:
    """Returns the allowed utilisation after one more measured latency.

    Args:
        allowed: the allowed utilisation before.
        used_ratio: the utilisation in the newest step; above 0.
        load_ratio: the utilisation by clients and in-sync replication. Replication may use nothing at this allowed utilisation, and
            a lower one would only delay the next rise.
        latency_rise: of this step; at least 0.
        step_s: length of the step.
    """
    used_ratio = min(used_ratio, _AHEAD_RATIO * allowed)  # A single wrong sample must not move it far.
    slack = 1.0 - latency_rise / _AIM_RATIO
    if slack < 0.0:
        reached = min(allowed, _NEAR_RATIO * used_ratio)
        fall = min(1.0, step_s / _FALL_S) * used_ratio * min(_FALL_RATIO_MAX, -_STEP_RATIO * slack)
        return max(reached - fall, min(reached, load_ratio))
    reached = max(allowed, used_ratio)  # It was carried while clients waited no longer than aimed at.
    rise = min(1.0, step_s / _RISE_S) * used_ratio * max(_STEP_RATIO, _RISE_RATIO_MAX * slack) * slack
    return max(reached, min(_AHEAD_RATIO * used_ratio, reached + rise))
