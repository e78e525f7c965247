"""Computes which moves of rheostat's plans the tuner throttles, and at which rate on each side of a broker.

The tuner throttles every move of a plan, with and without an objective, even if it does not throttle moves of other tools.
Only a plan that an operator started with ``--unthrottled`` runs without a throttle.

A move may still run when the record of its plan is gone: after a rollback, or if the record is unreadable. So a move that the tuner
has throttled stays throttled until it ends.

Invariant: no side gets more than the ceiling, nor more than the lowest throttle of the plans that copy through it. Leaders get a
little less (``PLAN_LEADER_RATIO``). A leader sends each fetch response of up to 10 MB (``replica.fetch.response.max.bytes``) as a
whole, so a leader with several destinations exceeds its rate for some seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streaming.shared.contract import Side
from streaming.shared.throttle_settings import TopicThrottle
from tuner.control.throttle.objective import PLAN_LEADER_RATIO
from tuner.control.throttle.recovery import is_recovery
from tuner.core.cluster import BrokerSide, LiveCluster, PartitionMove
from tuner.core.reassignment_plan import Plan, PlanThrottle, TopicPartition
from tuner.core.throttle_limits import ThrottleLimits

PlanMoves = Mapping[TopicPartition, PlanThrottle]


def list_requested_moves(plans: Iterable[Plan]) -> dict[TopicPartition, PlanThrottle]:
    """Returns the partitions that active plans have requested from Kafka, or are about to, with the throttle of their plan."""
    return {key: plan.head.throttle for plan in plans if plan.is_active for key in plan.requested}


def select_moves_to_list(
    moves: tuple[PartitionMove, ...], plan_moves: PlanMoves, limits: ThrottleLimits, listed: Mapping[str, TopicThrottle]
) -> tuple[PartitionMove, ...]:
    """Returns the moves whose replicas belong on the throttled-replica lists.

    Args:
        listed: the tuner's list entries, by topic. A move with an entry keeps it, even if its plan is unknown.
    """
    if limits.throttles_all_moves and not any(throttle.unthrottled for throttle in plan_moves.values()):
        return moves
    if not (limits.throttles_all_moves or limits.throttles_recoveries or plan_moves or listed):
        return ()

    def is_to_list(move: PartitionMove) -> bool:
        throttle = plan_moves.get((move.topic, move.partition))
        if throttle is None:
            return limits.throttles_all_moves or is_recovery(move) or _is_listed(move, listed)
        return not throttle.unthrottled

    return tuple(move for move in moves if is_to_list(move))


def throttles_any_move(
    moves: tuple[PartitionMove, ...], plan_moves: PlanMoves, limits: ThrottleLimits, listed: Mapping[str, TopicThrottle]
) -> bool:
    """Whether the tuner throttles any of these moves; always true if it throttles all moves."""
    return limits.throttles_all_moves or bool(select_moves_to_list(moves, plan_moves, limits, listed))


def plan_rates(
    moves: Iterable[PartitionMove], plan_moves: PlanMoves, limits: ThrottleLimits, *, may_lead: bool = False
) -> dict[BrokerSide, int]:
    """Returns the rate that plans allow on each side through which they copy, in bytes/s. Leaves out sides that no plan throttles.

    Args:
        may_lead: include the leader sides of the replicas that may become the leader if the present leader fails.
    """
    rates: dict[BrokerSide, int] = {}
    if not plan_moves:
        return rates
    for move in moves:
        throttle = plan_moves.get((move.topic, move.partition))
        rate = None if throttle is None else plan_throttle_rate(throttle, limits.rate_bytes_per_s_max)
        if rate is None:
            continue
        sides = sides_of_move(move)
        if may_lead:
            sides += [(broker, Side.LEADER) for broker in move.replicas if broker not in move.adding]
        for side in sides:
            rates[side] = min(rate, rates.get(side, rate))
    return rates


def plan_setpoints(
    moves: Iterable[PartitionMove], plan_moves: PlanMoves, limits: ThrottleLimits, *, may_lead: bool = False
) -> dict[BrokerSide, int]:
    """Returns the rates that the tuner sets for ``plan_rates``: without an objective leaders get a little less."""
    rates = plan_rates(moves, plan_moves, limits, may_lead=may_lead)
    return {side: leader_margin_rate(rate, side, limits) for side, rate in rates.items()}


def leader_margin_rate(rate_bytes_per_s: int, side: BrokerSide, limits: ThrottleLimits) -> int:
    """Returns the rate of one side under a plan with this rate. With an objective the control law limits leaders itself."""
    if limits.closed_loop or side[1] is Side.FOLLOWER:
        return rate_bytes_per_s
    return max(1, int(PLAN_LEADER_RATIO * rate_bytes_per_s))


def plan_throttle_rate(throttle: PlanThrottle, ceiling_bytes_per_s: float) -> int | None:
    """Returns the rate of one plan's throttle, in bytes/s, at most the current ceiling; None for an unthrottled plan."""
    if throttle.unthrottled:
        return None
    max_rate = throttle.rate_bytes_per_s_max
    return int(ceiling_bytes_per_s if max_rate is None else min(max_rate, ceiling_bytes_per_s))


def sides_of_move(move: PartitionMove) -> list[BrokerSide]:
    """Returns the sides whose throttles count the bytes of a move: its leader's and its destinations'."""
    sides = [(broker, Side.FOLLOWER) for broker in move.destinations]
    return [(move.leader, Side.LEADER), *sides] if move.leader >= 0 else sides


def is_throttled(move: PartitionMove, live: LiveCluster) -> bool:
    """Whether a rate in force counts the bytes of this move, on either side."""
    lists = live.lists.get(move.topic)
    if lists is None:
        return False
    if (move.leader, Side.LEADER) in live.rates and lists.leader.includes(move.partition, move.leader):
        return True
    return any(
        (broker, Side.FOLLOWER) in live.rates and lists.follower.includes(move.partition, broker)
        for broker in move.destinations
    )


def highest_plan_rate_bytes_per_s(plans: Iterable[Plan], limits: ThrottleLimits, now_ms: int) -> float | None:
    """Returns the highest rate of any active plan that has started, in bytes/s.

    None: one of these plans is unthrottled, or there is no such plan.
    """
    rates = [
        plan_throttle_rate(plan.head.throttle, limits.rate_bytes_per_s_max)
        for plan in plans
        if plan.is_active and not plan.head.waits_for_start(now_ms)
    ]
    limited_rates = [rate for rate in rates if rate is not None]
    if len(limited_rates) < len(rates):
        return None
    return max(limited_rates, default=None)


def _is_listed(move: PartitionMove, listed: Mapping[str, TopicThrottle]) -> bool:
    lists = listed.get(move.topic)
    if lists is None:
        return False
    brokers = {*move.replicas, *move.adding, *move.removing}
    return any(lists.for_side(side).includes(move.partition, broker) for side in Side for broker in brokers)
