"""Will the move be done when it was promised? Deadline mode: said while something can still be done about it, and what.

Intuition: the law takes as long as it may, so a side that would be late at the rate that is meant for it gets all that clients and
the operator leave. Another law would be as late. What has to give is the moment, the ceiling, the clients' latency, or the
bytes; a person decides which, and needs the numbers.

All sides that wait for the slowest end with it, so one is named: the slowest. It is only asked once what came before us and our own
way up are out of what is known.

Invariant: it is only ever a word; no rate follows from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from streaming.shared.units import rate_text, size_text, span_text
from tuner.core.cluster import BrokerSide, Setpoint, side_name
from tuner.core.drain_time import SideLoad, drain_s, rate_for_time
from tuner.core.throttle_limits import Limits
from tuner.core.value import value

# The signals of a move that was found running look back half a minute, and the law goes up for ten seconds.
OBSERVED_S_MIN = 45.0
# What remains is known to some seconds; the law plans to be done as much before.
LATE_S_MIN = 15.0
_NEVER_S = 366 * 86_400.0
# A side at this share of the ceiling is held by it, and not by its clients.
_AT_CEILING = 0.9


@value
class DeadlineMiss:
    """The side that ends last, too late."""

    side: BrokerSide
    load: SideLoad
    rate_bytes_per_s: float  # That is meant for it.
    ends_s: float  # From now on; infinite: never at that rate.
    left_s: float  # Until it was to be done; below 0 that is over.
    ceiling_bytes_per_s: float

    @property
    def late_s(self) -> float:
        return self.ends_s - self.left_s

    def __str__(self) -> str:
        load = self.load
        rate = f"{rate_text(self.rate_bytes_per_s)}, of which {rate_text(load.steady_state_bytes_per_s)} keep up"
        due = f"is in {span_text(self.left_s)}" if self.left_s >= 0 else f"was {span_text(-self.left_s)} ago"
        if math.isinf(self.ends_s):
            return f"{size_text(load.remaining_bytes)} remain and never end at {rate}; finish_at {due}; {self._what_gives()}"
        return (
            f"{size_text(load.remaining_bytes)} remain, at {rate}, so it ends in {span_text(self.ends_s)}; "
            f"finish_at {due}: {span_text(self.late_s)} late; {self._what_gives()}"
        )

    def _what_gives(self) -> str:
        needed = rate_for_time(self.load, self.left_s) if self.left_s > 0 else None
        takes = "no rate makes up for it" if needed is None else f"in time takes {rate_text(needed)}"
        later = "" if math.isinf(self.ends_s) else f", or set finish_at {span_text(self.late_s)} later or more"
        if self.rate_bytes_per_s >= _AT_CEILING * self.ceiling_bytes_per_s:
            held = f"the ceiling is {rate_text(self.ceiling_bytes_per_s)}: raise tuner.rate_bytes_per_s_max"
        else:
            held = "the links and their clients leave no more: allow clients a higher objective.latency_ms"
        return f"{takes}, {held}{later}, or move fewer partitions"


def find_deadline_miss(
    loads: Mapping[BrokerSide, SideLoad],
    courses: Mapping[BrokerSide, Setpoint],
    watched: Iterable[BrokerSide],
    now_ms: int,
    limits: Limits,
) -> DeadlineMiss | None:
    """
    Args:
        watched: sides that have been looked at for long enough.

    Returns:
        The slowest of those that are steered, where it misses the deadline; None where there is none, or it is kept.
    """
    if limits.finish_at_ms is None:
        return None
    ends = {
        side: drain_time_or_inf_s(loads[side], courses[side])
        for side in watched
        # A side that is blind sinks; that is said of it, and what it will have is not known.
        if side in loads and side in courses and not courses[side].inputs_stale
    }
    if not ends:
        return None
    slowest = max(sorted(ends), key=ends.__getitem__)
    found = DeadlineMiss(
        slowest,
        loads[slowest],
        courses[slowest].bytes_per_s,
        ends[slowest],
        (limits.finish_at_ms - now_ms) / 1000,
        limits.rate_bytes_per_s_max,
    )
    return found if found.late_s >= LATE_S_MIN else None


def drain_time_or_inf_s(load: SideLoad, course: Setpoint) -> float:
    """From now on, at the rate that is meant; infinite where that is not in anybody's time."""
    found = drain_s(load, course.bytes_per_s)
    return math.inf if found is None or found > _NEVER_S else found


def explain_deadline_miss(found: DeadlineMiss, side: BrokerSide, load: SideLoad, course: Setpoint) -> str | None:
    """Of one side: the numbers, or for which other it waits; None where it is in time."""
    if side == found.side:
        return f"too late for the deadline: {found}"
    if drain_time_or_inf_s(load, course) - found.left_s < LATE_S_MIN:
        return None
    by = "never ends" if math.isinf(found.ends_s) else f"ends {span_text(found.late_s)} after finish_at"
    return f"too late for the deadline, with the {side_name(found.side)}, which {by}: see there what has to give"
