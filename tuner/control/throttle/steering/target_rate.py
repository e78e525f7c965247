"""Computes the rate of each side so that all moves end together, as early as possible.

Terms (all rates in bytes/s):
    side          the leader or the follower throttle of one broker.
    W             steady-state replication: the part of a throttle that the replication of new writes uses.
    B             bytes that a side still has to copy.
    minimum rate  the rate that a side gets even if clients leave less, because at a lower rate the move would never end.
    ceiling       the rate, including W, that the headroom of the side allows now.
    maximum rate  the rate that the operator allows.
    T             seconds in which the moves should end: the time that the slowest side needs at its ceiling.

Every side gets W + B ÷ T. With a higher rate the moves would not end earlier, and the broker's clients would lose bandwidth. There
are two exceptions:

    decoupled rate  If something other than its throttle limits the slowest side, such as a shared link or disk, the other sides do
                    not wait for the slowest side. They end in half of T, and then leave the link or disk to the slowest side.
    ISR recovery    A side that delays lost replicas, which are not in the ISR, gets the rate that the operator and the link allow.

The leader's throttle should limit the copy. So the follower's rate is higher by a margin, within its ceiling. The follower's
throttle then limits the copy only if several leaders together send more than the follower's link can take.

Invariant: a setpoint lies between the minimum rate and the ceiling. If the ceiling is below the minimum rate, the setpoint is the
minimum rate. If the ceiling is not above W, the side is reported as infeasible. No rate exceeds the maximum rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from streaming.shared.contract import Side
from tuner.control.throttle.objective import ControlLimits, Mode, Objective
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import SideLoad, drain_s
from tuner.core.value import value


@value
class TargetRate:
    """The mean rate that a side should have, in bytes/s.

    Attributes:
        infeasible: the ceiling is not above W.
        at_ceiling: the side needs its whole ceiling, or nearly.
    """

    rate_bytes_per_s: float
    infeasible: bool = False
    at_ceiling: bool = False


def max_rate_bytes_per_s(
    in_sync_bytes_per_s: float, link_bytes_per_s: float, objective: Objective, limits: ControlLimits
) -> float:
    """Returns the maximum rate of a side: the operator's maximum; in share mode also at most the share of the link.

    Args:
        in_sync_bytes_per_s: the rate at which in-sync followers fetch. It is added to the share of the link, because the throttle
            counts these bytes, and the share applies to copies only.
        link_bytes_per_s: the capacity of the link in this direction; infinite if it is not known.
        objective: has mode and share.
        limits: has the operator's maximum rate.
    """
    max_rate = limits.rate_bytes_per_s_max
    if objective.mode is Mode.SHARE and objective.share_max is not None:
        max_rate = min(max_rate, objective.share_max * link_bytes_per_s + in_sync_bytes_per_s)
    return max_rate


def min_rate_bytes_per_s(load: SideLoad, limits: ControlLimits, *, max_bytes_per_s: float = math.inf) -> float:
    """Returns the minimum rate of a side, which is at most its maximum rate.

    Args:
        load: B and W of the side.
        limits: has the operator's limits and the factors on W.
        max_bytes_per_s: the side's maximum rate; infinite: only the operator's maximum applies.
    """
    draining = limits.min_rate_over_steady_state * load.steady_state_bytes_per_s
    return min(limits.rate_bytes_per_s_max, max_bytes_per_s, max(limits.rate_bytes_per_s_min, draining))


def ceiling_bytes_per_s(
    headroom_bytes_per_s: float, in_sync_bytes_per_s: float, max_bytes_per_s: float, objective: Objective
) -> float:
    """Returns the ceiling of a side, in bytes/s.

    Args:
        headroom_bytes_per_s: the headroom for the bytes of copies; gentle mode uses a share of it.
        in_sync_bytes_per_s: the rate at which in-sync followers fetch. It is added to the headroom, because the throttle counts
            these bytes, and the headroom is for copies only.
        max_bytes_per_s: the side's maximum rate. Without this limit T would be shorter than any throttle allows.
        objective: has the mode.
    """
    if objective.mode is Mode.GENTLE:
        headroom_bytes_per_s *= objective.gentle_ratio
    return min(max_bytes_per_s, headroom_bytes_per_s + in_sync_bytes_per_s)


def drain_times_s(
    loads: Mapping[BrokerSide, SideLoad],
    min_rates: Mapping[BrokerSide, float],
    ceilings: Mapping[BrokerSide, float],
) -> dict[BrokerSide, float]:
    """Returns how many seconds each side takes at its ceiling, without the sides that never end."""
    times = {}
    for side, load in loads.items():
        time_s = drain_s(load, max(ceilings[side], min_rates[side]))
        if time_s is not None:
            times[side] = time_s
    return times


def drain_target_s(
    times_s: Mapping[BrokerSide, float], objective: Objective, now_ms: int, limits: ControlLimits
) -> float:
    """Returns T in seconds: the time of the slowest side; in deadline mode at least the time until the deadline."""
    target_s = max([limits.drain_s_min, *times_s.values()])
    if objective.mode is Mode.DEADLINE and objective.finish_at_ms is not None:
        target_s = max(target_s, deadline_left_s(objective.finish_at_ms, now_ms, limits))
    return target_s


def deadline_left_s(finish_at_ms: int, now_ms: int, limits: ControlLimits) -> float:
    """Returns the seconds in which moves should end to meet a deadline (epoch); 0 or less if it is too late."""
    return limits.deadline_ratio * ((finish_at_ms - now_ms) / 1000 - limits.deadline_reserve_s)


def target_rate(
    side: Side,
    load: SideLoad,
    min_bytes_per_s: float,
    ceiling_bytes_per_s: float,
    target_s: float,
    limits: ControlLimits,
    boost: float = 1.0,
    max_bytes_per_s: float = math.inf,
    *,
    planned: bool = False,
) -> TargetRate:
    """Returns the rate with which a side ends in ``target_s``, limited to its minimum rate, ceiling and maximum rate.

    Args:
        side: leader or follower.
        load: B and W of the side.
        min_bytes_per_s: the side's minimum rate.
        ceiling_bytes_per_s: the side's ceiling.
        target_s: T.
        limits: the constants of the law.
        boost: factor on the needed rate, for a side whose move has stalled at a full throttle.
        max_bytes_per_s: the side's maximum rate; infinite: only the operator's maximum applies.
        planned: a plan still has partitions to start on this side.
    """
    slack = margin_ratio(side, limits, planned=planned)
    needed = boost * (load.steady_state_bytes_per_s + slack * load.remaining_bytes / target_s)
    highest = min(ceiling_bytes_per_s, limits.rate_bytes_per_s_max, max_bytes_per_s)
    infeasible = highest <= load.steady_state_bytes_per_s
    if planned and side is Side.LEADER:
        # A follower should have a higher rate than its leader, but at most the maximum rate. So the leader stays below the maximum.
        highest = min(highest, limits.plan_leader_ratio * min(limits.rate_bytes_per_s_max, max_bytes_per_s))
    rate = max(min_bytes_per_s, min(highest, needed))
    return TargetRate(rate, infeasible, at_ceiling=needed >= limits.at_ceiling_ratio * highest)


def margin_ratio(side: Side, limits: ControlLimits, *, planned: bool) -> float:
    """Returns the factor on B ÷ T for this side. B ÷ T is the copy rate with which the side would end exactly at T."""
    ratio = 1.0 if side is Side.LEADER else limits.follower_margin_ratio
    return max(ratio, limits.plan_margin_ratio) if planned else ratio


def decoupled_rate(
    side: Side,
    load: SideLoad,
    min_bytes_per_s: float,
    ceiling_bytes_per_s: float,
    target_s: float,
    limits: ControlLimits,
    boost: float = 1.0,
    max_bytes_per_s: float = math.inf,
    *,
    planned: bool = False,
) -> TargetRate:
    """Returns the rate of a side that does not wait for the slowest side, which something other than its throttle limits.

    The arguments have the same meaning as in ``target_rate``. The rate is at most the ceiling, also on a follower side.
    """
    decoupled_s = limits.decoupled_time_ratio * target_s
    rate = target_rate(
        side,
        load,
        min_bytes_per_s,
        ceiling_bytes_per_s,
        decoupled_s,
        limits,
        boost,
        max_bytes_per_s,
        planned=planned,
    )
    highest = max(min_bytes_per_s, ceiling_bytes_per_s)
    return TargetRate(min(rate.rate_bytes_per_s, highest), rate.infeasible, rate.at_ceiling)


def isr_recovery_rate(min_bytes_per_s: float, link_bytes_per_s: float, limits: ControlLimits) -> TargetRate:
    """Returns the highest rate that the operator and the link allow, for replicas that have to return to the ISR."""
    return TargetRate(max(min_bytes_per_s, min(link_bytes_per_s, limits.rate_bytes_per_s_max)))


def next_boost(boost: float, stalled: bool, throttle_full: bool, limits: ControlLimits) -> float:
    """Returns the boost for the next ``boost_interval_s``.

    The boost rises while the move stalls although its throttle is full, and falls once the move progresses. If the throttle of a
    stalled move is not full, something else limits the move, and the boost stays the same.
    """
    if stalled:
        return min(limits.stall_boost_max, boost * limits.stall_boost) if throttle_full else boost
    return max(1.0, boost / limits.stall_boost)


def limit_takeover(target: TargetRate, initial_bytes_per_s: float, since_s: float, limits: ControlLimits) -> TargetRate:
    """Returns ``target``, limited to a ramp up from the rate at the takeover; a lower target applies at once.

    Args:
        target: the rate without the ramp.
        initial_bytes_per_s: the rate at the takeover.
        since_s: seconds since the takeover.
        limits: has the length of the ramp.
    """
    progress = min(1.0, max(0.0, since_s / limits.takeover_ramp_s))  # At least 0, because the clock may be set back.
    rate = target.rate_bytes_per_s
    ramp_rate = min(rate, initial_bytes_per_s + progress * (rate - initial_bytes_per_s))
    if ramp_rate >= rate:
        return target
    # A side on the ramp is not at its ceiling, so an unused rate does not show another limit.
    return TargetRate(ramp_rate, target.infeasible)
