"""Learns from the latency of a broker's clients how full its link may be.

The allowed utilisation starts below the capacity in the settings. Each measured latency moves it: up while clients wait less
than the objective allows and the link is as full as it may be, and down while they wait longer. The steps end where the
measured latency meets the aim, whatever the latency is at other utilisations. Each step is a share of the measured utilisation,
so it does not depend on the capacity in the settings. A wrong capacity costs clients or the move some time at the start.

Invariant: the allowed utilisation never rises above 95 % of ``full_utilisation``, and never falls below the load of clients.

Terms:
    utilisation  share of the capacity in the settings, in the busier direction of the broker.
"""

from __future__ import annotations

from tuner.control.throttle.objective import ControlLimits

# A capacity in the settings is near the true one. A guessed capacity is twice the traffic of the first step, so moves start at that
# traffic.
START_TOLD, START_GUESSED = 0.85, 0.5
# Share of the objective. It leaves room for seconds that are fuller than the mean.
_AIM_RATIO = 0.85
# Time constants. Clients that wait are relieved soon; a rise waits for the quota's window to show the rise before it.
_FALL_S, _RISE_S = 10.0, 30.0
# A link that is used so much less than allowed does not show whether more would pass. So the allowed utilisation does not rise
# above its start then, and a fall begins at most so far above the used one.
_NEAR_RATIO = 0.1
# A step per unit of (latency ÷ aimed latency − 1). Near the aim of a queue of random arrivals, 1 % more traffic makes the
# latency about 8 % longer, so this step just meets the aim.
_STEP_RATIO = 0.13
# Clients that hardly wait on a full link show that the link is much larger: steps up by this × (1 − latency ÷ aimed latency)².
_RISE_RATIO_MAX = 0.5
_FALL_RATIO_MAX = 0.3  # The longest step down: a single pause of a broker says little about its link.
# A link that carries more than the capacity in the settings is larger than they say, but perhaps not by much.
_FULL_RATIO_MAX = 1.25


def full_utilisation(used_ratio: float) -> float:
    """Returns the utilisation that counts as a full link: 1, or more if the link carries more than the settings say.

    Args:
        used_ratio: the utilisation in the newest step.
    """
    return max(1.0, _FULL_RATIO_MAX * used_ratio)


def update_allowed(
    allowed: float, used_ratio: float, load_ratio: float, latency_ratio: float, step_s: float, limits: ControlLimits
) -> float:
    """Returns the allowed utilisation after one more measured latency.

    Args:
        allowed: the allowed utilisation before.
        used_ratio: the utilisation in the newest step; above 0.
        load_ratio: the utilisation by clients and in-sync replication. Replication may use nothing at this allowed utilisation, and
            a lower one would only delay the next rise.
        latency_ratio: latency in this step ÷ objective; above 0.
        step_s: length of the step.
        limits: the constants of the law.
    """
    used_ratio = min(used_ratio, full_utilisation(allowed))  # A single wrong sample must not move it far.
    slack = 1.0 - latency_ratio / _AIM_RATIO
    if slack < 0.0:
        reached = min(allowed, used_ratio + _NEAR_RATIO)
        fall = min(1.0, step_s / _FALL_S) * used_ratio * min(_FALL_RATIO_MAX, -_STEP_RATIO * slack)
        return max(reached - fall, min(reached, load_ratio))
    if allowed >= START_TOLD and used_ratio <= allowed - _NEAR_RATIO:
        return allowed
    rise = min(1.0, step_s / _RISE_S) * used_ratio * max(_STEP_RATIO, _RISE_RATIO_MAX * slack) * slack
    return max(allowed, min(limits.utilisation_max * full_utilisation(used_ratio), allowed + rise))
