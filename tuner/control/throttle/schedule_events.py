"""Reports the rules of ``tuner.schedule`` that have begun or ended since the last cycle.

The limits of a cycle say which rules apply, and already have their ceiling. So these decisions change nothing themselves: they tell
an operator why rates change from now on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from streaming.shared.units import rate_text
from tuner.control.throttle.decision import FollowSchedule, Reason
from tuner.control.throttle.state import Memory
from tuner.core.throttle_limits import ThrottleLimits


def report_schedule(memory: Memory, limits: ThrottleLimits) -> tuple[Memory, Sequence[FollowSchedule]]:
    """Returns the state with the rules that apply, and a decision for each rule that has ended or begun."""
    if memory.schedule_rules == limits.schedule_rules:
        return memory, ()
    before, now = _names(memory.schedule_rules), _names(limits.schedule_rules)
    in_force = limits.schedule_text or f"ceiling {rate_text(limits.rate_bytes_per_s_max)}"
    ended = [
        FollowSchedule(Reason.SCHEDULE_ENDED, f"rule {name} of the schedule has ended: {in_force}")
        for name in before
        if name not in now
    ]
    began = [
        FollowSchedule(Reason.SCHEDULE_BEGAN, f"rule {name} of the schedule applies: {in_force}")
        for name in now
        if name not in before
    ]
    return replace(memory, schedule_rules=limits.schedule_rules), [*ended, *began]


def _names(rules: str) -> list[str]:
    return rules.split(", ") if rules else []
