"""Computes the decisions of one cycle of the throttle controller, and the next state, from an observation and the previous state.

The controller first handles an unreadable cluster, then rates that other clients have changed, operator orders, the cleanup after
moves, and only then the rates of running moves. All functions are pure: the state comes in and goes out as a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from streaming.shared.kafka_names import QUOTA_SAMPLE_S
from streaming.shared.short_lists import join_names
from streaming.shared.throttle_settings import TopicThrottle
from tuner.control.throttle.cleanup_rules import drop_restored_rates
from tuner.control.throttle.decision import Decision, Hold, Reason, RemovePairs, SetRate, StartRate
from tuner.control.throttle.idle_cycle import decide_without_moves
from tuner.control.throttle.incremental.cycle_cache import CycleCache
from tuner.control.throttle.incremental.delta_mapping import DeltaMapping
from tuner.control.throttle.operator_overrides import apply_new_orders, decide_while_paused, drop_external_holds
from tuner.control.throttle.ownership import (
    correct_late_writes,
    find_cleared_rates,
    forget_cleared_rates,
    relinquish_changed_rates,
)
from tuner.control.throttle.plan_moves import throttles_any_move
from tuner.control.throttle.rate_changes import track_rate_changes
from tuner.control.throttle.recovery import UNMEASURED_S_MAX, is_recovery, track_unmeasured, with_recoveries
from tuner.control.throttle.recovery_reports import report_recoveries
from tuner.control.throttle.replica_lists.list_rules import decide_list_changes, external_lists, remove_unneeded_pairs
from tuner.control.throttle.replica_lists.reverted_lists import report_reverted_lists
from tuner.control.throttle.schedule_events import report_schedule
from tuner.control.throttle.side_rules import decide_sides, decide_sides_without_moves
from tuner.control.throttle.stall_states import judge_stalls
from tuner.control.throttle.state import Memory
from tuner.control.throttle.temporary_rates import warm_up_started_rates
from tuner.control.throttle.view import MovesView
from tuner.core.cluster import BrokerSide, ClusterUnreadable, LiveCluster, Observation
from tuner.core.operator_orders import Pause
from tuner.core.throttle_limits import StallLimits, ThrottleLimits

RESCUE_REASONS = frozenset({Reason.STALLED_BELOW_STEADY_STATE, Reason.STALLED_THROTTLE_BOUND, Reason.RESCUE_NEEDS_MORE})


def decide(
    observation: Observation,
    memory: Memory,
    limits: ThrottleLimits,
    stall_limits: StallLimits,
    cache: CycleCache | None = None,
) -> tuple[Memory, tuple[Decision, ...]]:
    """Returns the next state and the decisions of one cycle.

    Args:
        cache: results of earlier cycles. It makes a cycle faster and changes no decision.
    """
    live, now_ms, cache = observation.live, observation.now_ms, cache or CycleCache()
    orders = observation.orders
    memory, newly_ordered = apply_new_orders(orders, memory, limits, now_ms)
    # Without the cluster it is unknown whether a move runs or has ended, so operator orders wait as well.
    if isinstance(live, ClusterUnreadable):
        return memory, (Hold(None, None, Reason.CLUSTER_NOT_SEEN, f"the cluster cannot be read: {live.reason}"),)
    memory, schedule_changes = report_schedule(memory, limits)
    recovers = limits.throttles_recoveries and bool(live.recoveries)
    window_hold = _hold_for_quota_window(live) if limits.closed_loop and (live.moves or recovers) else None
    if window_hold is not None:  # This cycle decides as if there were no objective.
        limits = replace(limits, closed_loop=False, throttles_all_moves=False, throttles_recoveries=False)
    memory = _track_unmeasured_recoveries(observation, live, memory, limits)
    recovery_reports = report_recoveries(observation, live, memory, limits)
    live = with_recoveries(live, limits, memory)
    # Lists of other tools may hold back replicas of partitions that accept no writes, even if the tuner throttles nothing itself.
    opens_others = limits.throttles_recoveries and bool(live.recoveries and live.lost_replica_sides)
    memory = replace(
        memory,
        orders_at_ms=max(memory.orders_at_ms, orders.at_ms),
        rates_since=track_rate_changes(observation, live, memory),
    )
    cleared: Mapping[BrokerSide, int] = {}  # The tuner's rates that another tool has cleared.
    cleared_holds: Sequence[Decision] = ()
    throttles = throttles_any_move(live.moves, observation.plan_moves, limits, memory.listed)
    if throttles and orders.pause is None and live.moves:
        external_lists_cleared = memory.throttled and not _lists_name_any(
            external_lists(live, memory, cache), memory.moving_replicas
        )
        cleared = find_cleared_rates(live, memory, now_ms, limits, external_lists_cleared=external_lists_cleared)
        memory, cleared_holds = forget_cleared_rates(memory, cleared, now_ms)
    reverted_lists: Sequence[Decision] = ()
    if orders.pause is None and live.moves:
        memory, reverted_lists = report_reverted_lists(live, memory, cleared)
    memory, relinquished = relinquish_changed_rates(live, memory, now_ms, limits, throttles=throttles)
    # If an external change and an order are both new, the order has precedence: it states what the operator wants.
    memory = drop_external_holds(memory, newly_ordered)
    external_changes = [*cleared_holds, *reverted_lists, *relinquished]
    if orders.pause is not None:
        memory, decisions = _decide_paused(live, memory, orders.pause, cache)
    elif not live.moves and not opens_others:
        memory, decisions = decide_without_moves(observation, live, memory, limits)
    else:
        memory = _record_moves(live, memory, cache)
        view = MovesView(observation, live, limits, cache, memory.rates_since, memory.listed)
        memory = _judge(view, memory, stall_limits)
        if throttles:
            list_changes = decide_list_changes(view, memory, cleared, cache)
        else:
            list_changes = [*remove_unneeded_pairs(memory, required={})]
        started = {(d.broker, d.side): d for d in list_changes if isinstance(d, StartRate)}
        rate_decisions = _decide_rates(started, view, memory, stall_limits)
        memory = _record_rescues_and_decays(rate_decisions, view, memory)
        window_holds = [] if window_hold is None else [window_hold]
        decisions = [*window_holds, *_report_leaderless_moves(live, cache), *list_changes, *rate_decisions]
    return memory, (*schedule_changes, *external_changes, *recovery_reports, *decisions)


def _track_unmeasured_recoveries(
    observation: Observation, live: LiveCluster, memory: Memory, limits: ThrottleLimits
) -> Memory:
    since_ms = track_unmeasured(observation, live, memory, limits)
    too_long = frozenset(
        side for side, at_ms in since_ms.items() if observation.now_ms - at_ms > 1000 * UNMEASURED_S_MAX
    )
    return replace(memory, recovery_unmeasured_since_ms=since_ms, unmeasured_recovery_sides=too_long)


def _hold_for_quota_window(live: LiveCluster) -> Hold | None:
    """Returns a hold if a broker's quota has samples of another length than one second.

    The control law computes Kafka's quota second by second. With longer samples its compensation would be wrong, and traffic
    could exceed the setpoint for a whole window.
    """
    if not live.quota_sample_s:
        return None
    brokers = join_names((f"broker {b}: {s} s" for b, s in sorted(live.quota_sample_s.items())), 5)
    text = (
        f"{QUOTA_SAMPLE_S} is not 1 ({brokers}), and the control law supports only 1: the tuner only raises the throttles of "
        "stalled moves, as without tuner.objective. Set it to 1 in server.properties of these brokers, and restart them"
    )
    return Hold(None, None, Reason.QUOTA_WINDOW_UNSUPPORTED, text)


def _record_moves(live: LiveCluster, memory: Memory, cache: CycleCache) -> Memory:
    replicas = _moving_replicas(live, memory, cache)
    throttled = memory.throttled or _lists_name_any(external_lists(live, memory, cache), replicas)
    return replace(memory, idle_snapshots=0, after_moves=None, moving_replicas=replicas, throttled=throttled)


def _moving_replicas(live: LiveCluster, memory: Memory, cache: CycleCache) -> Mapping[tuple[str, int], frozenset[int]]:
    """Returns the replicas that have moved since the last end of all moves, by partition.

    If nothing new moves, the result is the earlier mapping itself: an unchanged object is not written to the journal again.
    """
    cache.follow(live.moves)
    new_replicas = {}
    for move in cache.moves_not_in(memory.moving_replicas):
        if is_recovery(move):
            continue
        key = (move.topic, move.partition)
        recorded = memory.moving_replicas.get(key)
        if recorded is None or not (
            recorded.issuperset(move.replicas)
            and recorded.issuperset(move.adding)
            and recorded.issuperset(move.removing)
        ):
            new_replicas[key] = frozenset((*(recorded or ()), *move.replicas, *move.adding, *move.removing))
    replicas = DeltaMapping(memory.moving_replicas, new_replicas) if new_replicas else memory.moving_replicas
    cache.mark_recorded(replicas)
    return replicas


def _lists_name_any(
    lists: Mapping[str, TopicThrottle], moving_replicas: Mapping[tuple[str, int], frozenset[int]]
) -> bool:
    """Whether a throttled-replica list names a replica that moves."""
    if not lists:
        return False
    for (topic, partition), brokers in moving_replicas.items():
        throttle = lists.get(topic)
        if throttle is None:
            continue
        if any(throttle.leader.includes(partition, b) or throttle.follower.includes(partition, b) for b in brokers):
            return True
    return False


def _judge(view: MovesView, memory: Memory, stall_limits: StallLimits) -> Memory:
    """Returns the state with the stalls of this cycle, and the tuner's own sides that have no signal.

    With an objective no side counts as unmeasured here, because the control law tracks missing signals itself.
    """
    unmeasured: list[BrokerSide] = []
    if not view.limits.closed_loop:
        unmeasured = [side for side in view.sides if side in memory.owned and view.signal(side) is None]
    return replace(
        memory,
        stalls=judge_stalls(view, memory, stall_limits),
        unmeasured_since_ms={side: memory.unmeasured_since_ms.get(side, view.now_ms) for side in unmeasured},
    )


def _decide_rates(
    started: Mapping[BrokerSide, StartRate], view: MovesView, memory: Memory, stall_limits: StallLimits
) -> list[Decision]:
    """Returns the decisions for the sides whose throttle does not start in this cycle, and the warm-ups of the started ones."""
    decisions = [
        *decide_sides((side for side in view.sides if side not in started), view, memory, stall_limits),
        *warm_up_started_rates(started, view),
        *decide_sides_without_moves(view, memory),
    ]
    # A late write of the previous tuner is corrected here; with an objective the control law corrects it within a second.
    if not memory.late_predecessor_writes or view.limits.closed_loop:
        return decisions
    holds = {
        (d.broker, d.side): d for d in decisions if isinstance(d, Hold) and d.broker is not None and d.side is not None
    }
    changes = correct_late_writes(holds, view.live, view.loads, memory, view.limits)
    corrections = {holds[change.broker, change.side]: change for change in changes}
    return [corrections.get(d, d) if isinstance(d, Hold) else d for d in decisions]


def _record_rescues_and_decays(decisions: Sequence[Decision], view: MovesView, memory: Memory) -> Memory:
    """Returns the state with the stalled destinations for which a decision raises a rate, and with the time of each decay."""
    changes = [d for d in decisions if isinstance(d, SetRate)]
    rescued = {
        destination
        for change in changes
        if change.reason in RESCUE_REASONS
        for destination in view.destinations_through((change.broker, change.side))
        if memory.stalls[destination].stalled
    }
    decayed = {(change.broker, change.side) for change in changes if change.reason is Reason.STALE_DECAY}
    earlier = {side: at_ms for side, at_ms in memory.decayed_at_ms.items() if side in memory.owned}
    return replace(
        memory,
        decayed_at_ms=earlier | dict.fromkeys(decayed, view.now_ms),
        rescued=(memory.rescued | rescued) & view.destinations,
    )


def _decide_paused(
    live: LiveCluster, memory: Memory, pause: Pause, cache: CycleCache
) -> tuple[Memory, Sequence[Decision]]:
    """Returns the state with the moves during the pause, and a hold; after a release also the removals and restores."""
    memory = replace(
        _record_moves(live, memory, cache), stalls={}, rescued=frozenset(), unmeasured_since_ms={}, decayed_at_ms={}
    )
    removals: list[RemovePairs] = []
    if pause.released:
        memory = drop_restored_rates(live, memory)
        removals = remove_unneeded_pairs(memory, required={}, reason=Reason.RELEASED, why=f"released by {pause.by}")
    return memory, [*removals, *decide_while_paused(pause, live, memory)]


def _report_leaderless_moves(live: LiveCluster, cache: CycleCache) -> list[Hold]:
    """Returns a hold that names the moves without a leader, which cannot progress under any throttle; empty if there are none."""
    if not cache.paths.leaderless:
        return []
    names = [f"{move.topic}-{move.partition}" for move in live.moves if move.leader < 0]
    text = (
        f"{join_names(names, 5)}: moving, but without a leader, so nothing can be copied: start a broker that has an "
        "in-sync replica"
    )
    return [Hold(None, None, Reason.NO_LEADER, text)]
