"""How a throttle goes from one rate to another.

Intuition: Kafka's quota is a mean over a window of 11 s. After a jump from 5 to 20 MB/s the window is nearly empty by the
new measure, so 160 MB pass within two seconds, then nothing for ten, then it all comes back as an echo; after a jump down
there is silence for eight to ten. Small steps over one window let it fill evenly: in steps of half a second the peak falls from
8 × to 1.6 × and the silence to 1.5 s (measured on Kafka 4.2). Each step lets twelve times its own height through at once, and
Kafka's buckets of a second hold one such lump more or less, as they fall; what is uneven there comes back with every window, for
as long as the rate stands. So steps are as small as the writes allow.

A window that is empty lets as much through at once, and its quota need not even change: twelve seconds' worth, as fast as disks
and links allow. Brought up from a twelfth of itself, by a twelfth each second, it lets its rate through from the first second on.

Invariant: every step lies between the two ends, so stopping anywhere leaves a rate that either end would have allowed; on the way
of a window that fills, between the least that the operator allows and what stood.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

WINDOW_S = 11.0  # replication.quota.window.num × replication.quota.window.size.seconds at their defaults.
STARTING_S = (
    10.0  # Until all of a move's replicas are made and their fetchers run; on busy brokers it was seen to take that.
)
STEP_S_MIN = 0.25
STEPS_MIN = 4  # Four steps of 3 s still halve the peak.
FILL_STEP_S = 1.0  # Kafka's samples are as long.
FILLS_S = WINDOW_S + FILL_STEP_S  # The whole seconds that the quota remembers, and the one that is being filled.


@dataclass(frozen=True, slots=True)
class SlewStep:
    after_s: float  # Since the change was decided.
    rate_bytes_per_s: int


def slew(
    current_bytes_per_s: int,
    setpoint_bytes_per_s: int,
    *,
    sides: int = 1,
    writes_per_s_max: float = 50.0,
    age_s: float = math.inf,
    move_age_s: float = math.inf,
) -> tuple[SlewStep, ...]:
    """From ``live`` to ``wanted`` over one quota window, so that ``wanted`` passes all the way.

    A window that is full asks for a straight line, whose first step comes at once. What a younger one holds nobody knows: a move's
    first bytes flow when its replicas are made and its fetchers run, seconds after it is listed. Up it goes when a window has
    passed since then: sooner, all that did not flow would come within a second, and again every eleven. Down it goes at once, and
    the faster the less there can be of what was before.

    Args:
        age_s: of what the quota counts; a way down goes by it.
        move_age_s: of what moves; a way up waits for it.
        sides: how many throttles slew at the same time. Together with the budget it sets how fine the steps are; where it
            leaves fewer than four steps to a window, the line takes longer than a window.
        writes_per_s_max: the budget. Every write goes into the metadata log and to every broker.
    """
    step_s = max(STEP_S_MIN, sides / writes_per_s_max)
    count = max(STEPS_MIN, round(WINDOW_S / step_s))
    step_s = max(step_s, WINDOW_S / count)
    rise = setpoint_bytes_per_s - current_bytes_per_s
    wait_s = max(0.0, STARTING_S + WINDOW_S - move_age_s) if rise > 0 else 0.0
    steps = []
    for i in range(count):
        new_s = WINDOW_S * (i + 1) / count
        old_s = WINDOW_S - new_s if rise > 0 else min(age_s, WINDOW_S - new_s)
        share = 1.0 if i + 1 == count else new_s / (old_s + new_s)
        steps.append(SlewStep(wait_s + step_s * i, round(current_bytes_per_s + rise * share)))
    # Where all of the way is done at once, there is nothing more to write.
    while age_s < WINDOW_S and len(steps) > 1 and steps[-2].rate_bytes_per_s == steps[-1].rate_bytes_per_s:
        steps.pop()
    return tuple(steps)


def filled(
    rate_bytes_per_s: int,
    least_bytes_per_s: float,
    *,
    sides: int = 1,
    writes_per_s_max: float = 50.0,
    starts_s: float = 0.0,
) -> tuple[SlewStep, ...]:
    """What stands, brought up as its window fills: each second lets through what the mean of it would.

    Args:
        least_bytes_per_s: the first steps are no less; where that is what stands there is only one.
        sides, writes_per_s_max: as of ``slew``.
        starts_s: the first step stands so much longer, until what is to flow does.
    """
    step_s = max(FILL_STEP_S, sides / writes_per_s_max)
    steps: list[SlewStep] = []
    for i in range(max(1, math.ceil(FILLS_S / step_s))):
        share = min(1.0, (i + 1) * step_s / FILLS_S)
        rate = min(rate_bytes_per_s, max(1, round(max(least_bytes_per_s, share * rate_bytes_per_s))))
        if not steps or rate != steps[-1].rate_bytes_per_s:
            steps.append(SlewStep(step_s * i + (starts_s if steps else 0.0), rate))
    return tuple(steps)
