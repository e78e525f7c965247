"""Is what may begin now asked for now, or with what comes free in the next seconds?

Intuition: every round costs all brokers something, however few steps it holds: lists are written, the controller tells everybody,
fetchers stop and begin anew; and who produces waits behind it. Slots come free one by one. As long as the vans that are on the
road have enough to do for seconds, those that have come back can wait for each other.

Invariant: nothing waits for more than ``GATHER_S_MAX`` since the last request, and nothing at all for which producers wait, or
whose sides may run dry before the next request is heard of.
"""

from __future__ import annotations

from collections.abc import Sequence

from streaming.contract import Side
from tuner.model.cluster import BrokerSide
from tuner.plan.reassignment_steps import StepReason
from tuner.plan.refill_terms import Running, Start, Terms, sides_of

GATHER_S_MAX = 3.0
# A side with so much under way has enough for the wait, and for what comes after it: a look, the announcement, the request.
_ENOUGH_S = 4.0


def gathers(starts: Sequence[Start], running: Sequence[Running], terms: Terms, starts_max: int) -> bool:
    """Whether ``starts`` wait for more.

    Args:
        starts_max: of one request; a full one has nothing to wait for.
    """
    if terms.asked_ago_s >= GATHER_S_MAX or len(starts) >= starts_max:
        return False
    if any(start.step.reason is StepReason.MIN_IN_SYNC for start in starts):
        return False
    under_way = _under_way_bytes(running)
    sides = {side for start in starts for side in sides_of(start.way.leader, start.step.adding)}
    return all(_lasts(under_way.get(side, 0.0), side, terms) for side in sides)


def _lasts(under_way_bytes: float, side: BrokerSide, terms: Terms) -> bool:
    rate_bytes_per_s = terms.rates.get(side)  # The most that it may be given: it lasts at least so long.
    return rate_bytes_per_s is not None and under_way_bytes >= _ENOUGH_S * rate_bytes_per_s


def _under_way_bytes(running: Sequence[Running]) -> dict[BrokerSide, float]:
    found: dict[BrokerSide, float] = {}
    for one in running:
        copies = max(1, len(one.step.adding))
        for side in sides_of(one.way.leader, one.step.adding):
            passes = one.remaining_bytes / (copies if side[1] is Side.FOLLOWER else 1)
            found[side] = found.get(side, 0.0) + passes
    return found
