"""Plans the steps in which a throttle changes from one rate to another.

Kafka's quota is a mean over a window of 11 s. After a jump from 5 to 20 MB/s, the window has far fewer bytes than the new rate
allows. So 160 MB pass within two seconds, then nothing for ten seconds, and the burst repeats with each window. A jump down stops
the copy for 8 to 10 s. A ramp is a change in steps of half a second over one window, so that the window fills evenly. With a ramp
the peak falls from 8 × the rate to 1.6 ×, and the pause falls to 1.5 s (Kafka 4.2). After each step, twelve times the step's height
passes at once, and again with every window. So the steps are as small as the budget of writes allows.

An empty window passes the bytes of twelve seconds at once, even if the rate does not change. A fill prevents this: it lowers the
throttle to a twelfth of its rate, and raises it by a twelfth each second. Then the rate passes from the first second on.

Invariant: every step of a ramp lies between the first and the last rate, so an interrupted ramp leaves a rate between the two.
Every step of a fill lies between the operator's minimum and the rate that was set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

WINDOW_S = 11.0  # replication.quota.window.num × replication.quota.window.size.seconds at their defaults.
STARTING_S = 10.0  # Time until all replicas of a move exist and their fetchers run, as measured on busy brokers.
STEP_S_MIN = 0.25
STEP_COUNT_MIN = 4  # Even a ramp of four steps, of 3 s each, halves the peak.
FILL_STEP_S = 1.0  # The length of Kafka's samples.
FILL_S = WINDOW_S + FILL_STEP_S  # The whole seconds that the quota counts, and the second in progress.


@dataclass(frozen=True, slots=True)
class RampStep:
    """One write of a ramp.

    Attributes:
        after_s: seconds after the change was decided.
    """

    after_s: float
    rate_bytes_per_s: int


def plan_ramp(
    current_bytes_per_s: int,
    setpoint_bytes_per_s: int,
    *,
    sides: int = 1,
    writes_per_s_max: float = 50.0,
    age_s: float = math.inf,
    move_age_s: float = math.inf,
    window_s: float = WINDOW_S,
) -> tuple[RampStep, ...]:
    """Returns the steps from the current rate to the setpoint over one quota window.

    With a full window, a linear ramp starts at once. With a younger window, a rise and a reduction differ:

    - A rise waits for ``STARTING_S``, in which the move's replicas and fetchers start, and then for a whole window. If it began
      earlier, the bytes that the throttle had allowed but that had not flowed would all pass within a second, and again every 11 s.
    - A reduction starts at once. The younger the window, the fewer bytes of the old rate it has, and the faster the reduction.

    Args:
        current_bytes_per_s: the rate that is set.
        setpoint_bytes_per_s: the rate at the end.
        sides: how many throttles change at the same time. They share the budget, so each has fewer steps. If the budget permits
            fewer than four steps in a window, the ramp takes longer than a window.
        writes_per_s_max: the budget of writes. Each write goes into the metadata log and to every broker.
        age_s: the time for which the quota has counted bytes; used for a reduction.
        move_age_s: the time for which the move has run; used for a rise.
        window_s: the length of the broker's quota window.
    """
    step_s = max(STEP_S_MIN, sides / writes_per_s_max)
    count = max(STEP_COUNT_MIN, round(window_s / step_s))
    step_s = max(step_s, window_s / count)
    rise = setpoint_bytes_per_s - current_bytes_per_s
    wait_s = max(0.0, STARTING_S + window_s - move_age_s) if rise > 0 else 0.0
    steps = []
    for i in range(count):
        # The seconds of the window at the new and at the old rate when this step ends.
        new_s = window_s * (i + 1) / count
        old_s = window_s - new_s if rise > 0 else min(age_s, window_s - new_s)
        share = 1.0 if i + 1 == count else new_s / (old_s + new_s)
        steps.append(RampStep(wait_s + step_s * i, round(current_bytes_per_s + rise * share)))
    # In a young window an early step may already reach the setpoint. Later steps would write the same rate again.
    while age_s < window_s and len(steps) > 1 and steps[-2].rate_bytes_per_s == steps[-1].rate_bytes_per_s:
        steps.pop()
    return tuple(steps)


def plan_fill(
    rate_bytes_per_s: int,
    min_bytes_per_s: float,
    *,
    sides: int = 1,
    writes_per_s_max: float = 50.0,
    starts_s: float = 0.0,
) -> tuple[RampStep, ...]:
    """Returns the steps that raise a throttle with an empty window to its rate, so that the rate passes in each second.

    Args:
        rate_bytes_per_s: the rate that is set, which is also the rate of the last step.
        min_bytes_per_s: the lowest rate of a step. If it equals ``rate_bytes_per_s``, there is a single step.
        sides: how many throttles change at the same time.
        writes_per_s_max: the budget of writes.
        starts_s: seconds until the first bytes flow. The first step lasts longer by this time.
    """
    step_s = max(FILL_STEP_S, sides / writes_per_s_max)
    steps: list[RampStep] = []
    for i in range(max(1, math.ceil(FILL_S / step_s))):
        share = min(1.0, (i + 1) * step_s / FILL_S)
        rate = max(1, round(max(min_bytes_per_s, share * rate_bytes_per_s)))  # A throttle of 0 would stop the move.
        rate = min(rate_bytes_per_s, rate)
        after_s = step_s * i + (starts_s if steps else 0.0)
        if not steps or rate != steps[-1].rate_bytes_per_s:
            steps.append(RampStep(after_s, rate))
    return tuple(steps)
