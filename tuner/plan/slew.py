"""How a throttle goes from one rate to another.

Intuition: Kafka's quota is a mean over a window of 11 s. After a jump from 5 to 20 MB/s the window is nearly empty by the
new measure, so 160 MB pass within two seconds, then nothing for ten, then it all comes back as an echo; after a jump down
there is silence for eight to ten. Half-second steps over one window let it fill evenly: the peak falls from 8 × to 1.6 ×
and the silence to 1.5 s (measured on Kafka 4.2).

Invariant: every step lies between the two ends, so stopping anywhere leaves a rate that either end would have allowed.
"""

from __future__ import annotations

from dataclasses import dataclass

WINDOW_S = 11.0  # replication.quota.window.num × replication.quota.window.size.seconds at their defaults.
STEP_S_MIN = 0.5
STEPS_MIN = 4  # Four steps of 3 s still halve the peak.


@dataclass(frozen=True, slots=True)
class SlewStep:
    after_s: float  # Since the start of the slew.
    rate_bytes_per_s: int


def slew(
    live_bytes_per_s: int, wanted_bytes_per_s: int, *, sides: int = 1, writes_per_s_max: float = 50.0
) -> tuple[SlewStep, ...]:
    """A straight line from ``live`` to ``wanted`` over one quota window; the first step comes at once.

    Args:
        sides: how many throttles slew at the same time. Together with the budget it sets how fine the steps are; where it
            leaves fewer than four steps to a window, the line takes longer than a window.
        writes_per_s_max: the budget. Every write goes into the metadata log and to every broker.
    """
    step_s = max(STEP_S_MIN, sides / writes_per_s_max)
    count = max(STEPS_MIN, round(WINDOW_S / step_s))
    step_s = max(step_s, WINDOW_S / count)
    rise = wanted_bytes_per_s - live_bytes_per_s
    return tuple(SlewStep(step_s * i, round(live_bytes_per_s + rise * (i + 1) / count)) for i in range(count))
