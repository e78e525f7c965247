"""One cycle's thinking, from an observation to decisions.

The order is the order of urgency: what we cannot see, what is not ours, what has ended; only then what could be faster.
Nothing here acts and nothing here remembers by itself: memory comes in and goes out as a value.

    decide    observation, memory → memory with the new judgements, decisions
    intend    memory → memory as it must be on record before a decision is carried out
    settle    memory → memory after it was carried out
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

from streaming.shared.contract import Side
from streaming.shared.short_lists import join_names
from streaming.shared.throttle_settings import TopicThrottle
from streaming.shared.units import rate_text
from tuner.control.throttle.cleanup_rules import (
    cleanup_after_moves,
    drop_restored_rates,
    is_throttle_of_move,
    unreadable_participants,
)
from tuner.control.throttle.decision import (
    Decision,
    Hold,
    Reason,
    RemovePairs,
    RestoreRate,
    SetRate,
    StartRate,
)
from tuner.control.throttle.incremental.cycle_cache import CycleCache
from tuner.control.throttle.incremental.delta_mapping import DeltaMapping
from tuner.control.throttle.isr_recovery import sides_possibly_blocking_writes
from tuner.control.throttle.operator_overrides import apply_new_orders, decide_while_paused, drop_external_holds
from tuner.control.throttle.ownership import (
    correct_late_writes,
    find_cleared_rates,
    forget_cleared_rates,
    relinquish_changed_rates,
)
from tuner.control.throttle.plan_moves import throttles_any_move
from tuner.control.throttle.rate_changes import track_rate_changes
from tuner.control.throttle.replica_lists.list_rules import decide_list_changes, external_lists, remove_unneeded_pairs
from tuner.control.throttle.safety_rungs import decide_sides, decide_sides_without_moves, warm_up_started_rates
from tuner.control.throttle.state import IdleThrottles, Memory, OwnedRate
from tuner.control.throttle.view import MovesView, judge_stalls
from tuner.core.cluster import BrokerSide, ClusterUnreadable, LiveCluster, Observation, side_name
from tuner.core.freshness import fresh_signals
from tuner.core.operator_orders import Pause
from tuner.core.throttle_limits import Limits, StallLimits

_TEMPORARY = frozenset({Reason.OVERRIDDEN, Reason.ISR_RECOVERY, Reason.WINDOW_WARMUP, Reason.PLAN_RATE})
RESCUE_REASONS = frozenset({Reason.STALLED_BELOW_STEADY_STATE, Reason.STALLED_THROTTLE_BOUND, Reason.RESCUE_NEEDS_MORE})
# As long as it has not come back, whatever cuts the way short, it still is to.
_KEEPS_RESTORE_RATE = frozenset({Reason.RESTORED, Reason.STALE_DECAY, Reason.AT_CEILING, Reason.LATE_PREDECESSOR_WRITE})


def decide(
    observation: Observation,
    memory: Memory,
    limits: Limits,
    stall_limits: StallLimits,
    kept: CycleCache | None = None,
) -> tuple[Memory, tuple[Decision, ...]]:
    """
    Args:
        kept: by whoever decides again and again, so that it takes less; it changes no decision.
    """
    live, kept = observation.live, kept or CycleCache()
    orders = observation.orders
    memory, news = apply_new_orders(orders, memory, limits, observation.now_ms)
    # Nothing is seen, so nothing is known: neither that a move runs nor that it ended. Nor is anything done about orders.
    if isinstance(live, ClusterUnreadable):
        return memory, (Hold(None, None, Reason.CLUSTER_NOT_SEEN, f"the cluster is not seen: {live.reason}"),)
    memory = replace(
        memory,
        orders_at_ms=max(memory.orders_at_ms, orders.at_ms),
        rates_since=track_rate_changes(observation, live, memory),
    )
    again: Mapping[BrokerSide, int] = {}
    told: Sequence[Decision] = ()
    throttles = throttles_any_move(live.moves, observation.plan_moves, limits, memory.listed)
    if throttles and orders.pause is None and live.moves:
        # Lists that are not ours were seen to throttle what moves, and do not any more.
        unlisted = memory.throttled and not _lists_name_any(external_lists(live, memory, kept), memory.moving_replicas)
        again = find_cleared_rates(live, memory, observation.now_ms, limits, unlisted=unlisted)
        memory, told = forget_cleared_rates(memory, again, observation.now_ms)
    memory, let_go = relinquish_changed_rates(live, memory, observation.now_ms, limits, throttles=throttles)
    # Of a change by hand and an order that are both news the order counts: it is the plainer word.
    memory = drop_external_holds(memory, news)
    changed = [*told, *let_go]
    if orders.pause is not None:
        return _decide_paused(live, memory, orders.pause, changed, kept)
    if not live.moves:
        return _decide_without_moves(live, memory, limits, changed, _find_sides_kept_open(observation, live, limits))
    seen = _record_moving_replicas(live, memory, kept)
    throttled = memory.throttled or _lists_name_any(external_lists(live, memory, kept), seen)
    memory = replace(memory, idle_snapshots=0, after_moves=None, moving_replicas=seen, throttled=throttled)
    view = MovesView(observation, live, limits, kept, memory.rates_since, memory.listed)
    # Where the law steers it knows itself since when.
    untold = [] if limits.closed_loop else [side for side in memory.owned if view.signal(side) is None]
    if untold:
        untold = [side for side in view.sides if side in {*untold}]
    memory = replace(
        memory,
        stalls=judge_stalls(view, memory, stall_limits),
        unmeasured_since_ms={side: memory.unmeasured_since_ms.get(side, observation.now_ms) for side in untold},
    )
    listing = decide_list_changes(view, memory, again, kept) if throttles else remove_unneeded_pairs(memory, {})
    started = {(d.broker, d.side): d for d in listing if isinstance(d, StartRate)}
    decisions = decide_sides((side for side in view.sides if side not in started), view, memory, stall_limits)
    decisions = [*decisions, *warm_up_started_rates(started, view)]
    decisions = [*decisions, *decide_sides_without_moves(view, memory)]
    if (
        memory.late_predecessor_writes and not limits.closed_loop
    ):  # Where the law steers, its next second sets it right.
        decisions = _replace_holds_by_corrections(decisions, view, memory, limits)
    answered = {
        destination
        for decision in decisions
        if isinstance(decision, SetRate) and decision.reason in RESCUE_REASONS
        for destination in view.destinations_through((decision.broker, decision.side))
        if memory.stalls[destination].stalled
    }
    rescued = (memory.rescued | answered) & view.destinations
    sunk = {(d.broker, d.side) for d in decisions if isinstance(d, SetRate) and d.reason is Reason.STALE_DECAY}
    sunk_at_ms = {side: at_ms for side, at_ms in memory.decayed_at_ms.items() if side in memory.owned}
    memory = replace(memory, decayed_at_ms=sunk_at_ms | dict.fromkeys(sunk, observation.now_ms))
    return replace(memory, rescued=rescued), (*changed, *_find_leaderless_moves(live, kept), *listing, *decisions)


def _replace_holds_by_corrections(
    decisions: Sequence[Decision], view: MovesView, memory: Memory, limits: Limits
) -> list[Decision]:
    holds = {
        (d.broker, d.side): d for d in decisions if isinstance(d, Hold) and d.broker is not None and d.side is not None
    }
    changes = correct_late_writes(holds, view.live, view.loads, memory, limits)
    instead = {holds[change.broker, change.side]: change for change in changes}
    return [instead.get(d, d) if isinstance(d, Hold) else d for d in decisions]


def _decide_paused(
    live: LiveCluster, memory: Memory, pause: Pause, changed: Sequence[Decision], kept: CycleCache
) -> tuple[Memory, tuple[Decision, ...]]:
    """Looks on, so that what moves meanwhile is known when the pause is over."""
    seen = _record_moving_replicas(live, memory, kept)
    throttled = memory.throttled or _lists_name_any(external_lists(live, memory, kept), seen)
    memory = replace(
        memory,
        stalls={},
        rescued=frozenset(),
        idle_snapshots=0,
        after_moves=None,
        moving_replicas=seen,
        throttled=throttled,
        unmeasured_since_ms={},
        decayed_at_ms={},
    )
    removals: list[RemovePairs] = []
    if pause.released:
        memory = drop_restored_rates(live, memory)
        removals = remove_unneeded_pairs(memory, {}, Reason.RELEASED, f"released by {pause.by}")
    return memory, (*changed, *removals, *decide_while_paused(pause, live, memory))


def _find_leaderless_moves(live: LiveCluster, kept: CycleCache) -> list[Hold]:
    """Moves that cannot go on at all, whatever any throttle says."""
    if not kept.paths.leaderless:
        return []
    names = [f"{move.topic}-{move.partition}" for move in live.moves if move.leader < 0]
    text = (
        f"{join_names(names, 5)}: moving, but without a leader, so nothing can be copied: bring a broker of its in-sync replicas "
        "back"
    )
    return [Hold(None, None, Reason.NO_LEADER, text)]


def _find_sides_kept_open(observation: Observation, live: LiveCluster, limits: Limits) -> frozenset[BrokerSide]:
    """Throttles that the end of the moves does not lower: writes may wait for what comes back through them. Who has ordered
    otherwise is acknowledged."""
    heard_of = fresh_signals(observation.brokers, observation.now_ms, limits.signal_age_s_max)
    ordered = {s for s, order in observation.orders.overrides.items() if observation.now_ms < order.until_ms}
    return sides_possibly_blocking_writes(live, heard_of) - ordered


def _hold_open(decision: RestoreRate) -> Hold:
    side = (decision.broker, decision.side)
    text = "nothing moves any more, and partitions may take no writes until replicas are back that come through it"
    return Hold(
        *side, Reason.ISR_RECOVERY, f"{side_name(side)}: {text}: it stays at {rate_text(decision.current_bytes_per_s)}"
    )


def _is_lowering(decision: Decision) -> TypeGuard[RestoreRate]:
    """Without any throttle everything comes back as fast as it can."""
    if not isinstance(decision, RestoreRate) or decision.value_bytes_per_s is None:
        return False
    return decision.value_bytes_per_s < decision.current_bytes_per_s


def _decide_without_moves(
    live: LiveCluster,
    memory: Memory,
    limits: Limits,
    changed: Sequence[Decision],
    keeps_open: frozenset[BrokerSide],
) -> tuple[Memory, tuple[Decision, ...]]:
    """Args: keeps_open: throttles that are not lowered yet."""
    # Who puts more on the lists goes on: batches of what is small are over before anybody has seen them move.
    goes_on = memory.after_moves is not None and _has_new_entries(
        external_lists(live, memory), memory.after_moves.listed
    )
    looks = 1 if goes_on else memory.idle_snapshots + 1
    memory = replace(
        memory,
        after_moves=_record_after_move(live, memory),
        idle_snapshots=looks,
        unmeasured_since_ms={},
        decayed_at_ms={},
    )
    removals = remove_unneeded_pairs(memory, {})
    if looks < limits.idle_snapshots_before_cleanup:
        return memory, (*changed, *removals)  # Perhaps just the moment between two batches.
    live = replace(live, lists=external_lists(live, memory))
    endings: list[Decision] = [*removals, *cleanup_after_moves(live, memory, limits)]
    if keeps_open:
        endings = [_hold_open(e) if _is_lowering(e) and (e.broker, e.side) in keeps_open else e for e in endings]
    memory = replace(memory, stalls={}, rescued=frozenset())
    # What was seen is forgotten only once nothing is left to do with it: a write that failed is tried again.
    left = [
        _hold_for_absent_broker(side, owned)
        for side, owned in sorted(memory.owned.items())
        if side[0] not in live.brokers
    ]
    return memory if endings else _forget_ended_moves(live, memory, limits), (*changed, *endings, *left)


def _record_after_move(live: LiveCluster, memory: Memory) -> IdleThrottles | None:
    """A throttle that was gone and is there again is not the one of the moves that have ended, though it may look the same."""
    if not memory.moving_replicas:
        return None
    rates, lists = frozenset(side for side, setting in live.rates.items() if setting.is_own), frozenset(live.lists)
    join_names = external_lists(live, memory)
    before, readable = memory.after_moves, live.brokers - live.unreadable
    if before is None:
        return IdleThrottles(readable, rates, lists, listed=join_names)
    # Of a broker that could not be read nobody knows whether it had one.
    new = {side for side in rates - before.rates - memory.owned.keys() if side[0] in before.brokers}
    rates_came = (before.new_rates | new) - {
        side for side in before.new_rates if side[0] in readable and side not in rates
    }
    lists_came = before.new_lists | (lists - before.lists - memory.listed.keys())
    return IdleThrottles(readable, rates, lists, rates_came, lists_came & lists, join_names)


def _has_new_entries(now: Mapping[str, TopicThrottle], before: Mapping[str, TopicThrottle]) -> bool:
    for topic, lists in now.items():
        stood = before.get(topic, TopicThrottle())
        sides = ((lists.for_side(side), stood.for_side(side)) for side in Side)
        if lists != stood and any(new.pairs - old.pairs or new.all_replicas > old.all_replicas for new, old in sides):
            return True
    return False


def _hold_for_absent_broker(side: BrokerSide, owned: OwnedRate) -> Hold:
    """Its settings are the cluster's, and outlive it: whoever gets its number gets them."""
    text = (
        f"{side_name(side)}: {rate_text(owned.setpoint_bytes_per_s)} of ours may stand there, and broker {side[0]} is away: what "
        "stood before does again when it is back"
    )
    return Hold(*side, Reason.BROKER_DOWN, text)


def _forget_ended_moves(live: LiveCluster, memory: Memory, limits: Limits) -> Memory:
    """Nothing moves and nothing is left to do on the brokers that can be seen: what stands now is how things are."""
    readable = live.brokers - live.unreadable
    away = unreadable_participants(live, memory)
    to_clear = away & memory.brokers_to_clear
    if memory.moving_replicas and is_throttle_of_move(live, memory, limits):
        to_clear = away
    standing = {side: rate for side, rate in memory.preexisting_rates.items() if side[0] not in readable}
    theirs = memory.externally_owned_until_ms
    stands = {side: r.bytes_per_s for side, r in live.rates.items() if r.is_own and side not in theirs}
    # A rate next to a list may be the throttle of a move that is about to start, where either was not there a look ago.
    if not live.lists:
        standing |= stands
    elif live.lists.keys() <= memory.idle_lists:
        standing |= {side: rate for side, rate in stands.items() if memory.idle_rates.get(side) == rate}
    else:
        standing |= {side: rate for side, rate in memory.preexisting_rates.items() if side in live.rates}
    idle_lists = frozenset(live.lists)
    return replace(
        memory,
        owned={side: owned for side, owned in memory.owned.items() if side[0] not in readable},
        moving_replicas={},
        throttled=False,
        preexisting_rates=standing,
        preexisting_lists=idle_lists & memory.idle_lists,
        idle_lists=idle_lists,
        idle_rates=stands,
        after_moves=None,
        brokers_to_clear=to_clear,
    )


def _record_moving_replicas(
    live: LiveCluster, memory: Memory, kept: CycleCache
) -> Mapping[tuple[str, int], frozenset[int]]:
    """The same mapping as before where nothing new moves: what does not differ need not be on record again."""
    kept.follow(live.moves)
    new = {}
    for move in kept.moves_not_in(memory.moving_replicas):
        key = (move.topic, move.partition)
        known = memory.moving_replicas.get(key)
        if known is None or not (
            known.issuperset(move.replicas) and known.issuperset(move.adding) and known.issuperset(move.removing)
        ):
            new[key] = frozenset((*(known or ()), *move.replicas, *move.adding, *move.removing))
    seen = DeltaMapping(memory.moving_replicas, new) if new else memory.moving_replicas
    kept.mark_recorded(seen)
    return seen


def _lists_name_any(lists: Mapping[str, TopicThrottle], seen: Mapping[tuple[str, int], frozenset[int]]) -> bool:
    """Does a throttled-replica list name one of the replicas that move?"""
    return bool(lists) and any(
        topic in lists and (lists[topic].leader.includes(p, b) or lists[topic].follower.includes(p, b))
        for (topic, p), brokers in seen.items()
        for b in brokers
    )


def record_start_intent(memory: Memory, decision: StartRate) -> Memory:
    """From now on it may stand where nothing stood."""
    side, value = (decision.broker, decision.side), decision.value_bytes_per_s
    return replace(memory, owned=memory.with_owned(side, OwnedRate(None, value, (None, value))))


def record_change_intent(memory: Memory, decision: SetRate, steps: Sequence[int]) -> Memory:
    """From now on any of ``steps`` may stand there, and so may what stood there until now."""
    side = (decision.broker, decision.side)
    before = memory.owned.get(side)
    stands = decision.current_bytes_per_s if decision.is_own else None
    earlier = before.restore_to_bytes_per_s if before else None
    over = earlier if decision.reason in _TEMPORARY | _KEEPS_RESTORE_RATE else None
    # One may follow another; what stood before the first of them is what the tuner goes on from.
    if over is None and decision.reason in _TEMPORARY:
        over = decision.current_bytes_per_s
    owned = OwnedRate(
        before_bytes_per_s=before.before_bytes_per_s if before else stands,
        setpoint_bytes_per_s=decision.setpoint_bytes_per_s,
        possible_rates=tuple(dict.fromkeys((stands, *steps))),
        restore_to_bytes_per_s=over,
    )
    return replace(memory, owned=memory.with_owned(side, owned))


def record_restore_intent(memory: Memory, decision: RestoreRate) -> Memory:
    """The same for a rate of ours that is put back; of others' we keep no account."""
    side = (decision.broker, decision.side)
    ours = memory.owned.get(side)
    if ours is None:
        return memory
    others = [value for value in ours.possible_rates if value != decision.value_bytes_per_s]
    may_stand = (*others, decision.value_bytes_per_s)  # In the order in which they may come.
    return replace(memory, owned=memory.with_owned(side, replace(ours, possible_rates=may_stand)))


def narrow_possible_rates(memory: Memory, side: BrokerSide, values: Sequence[int | None]) -> Memory:
    """A change stopped on the way: of all that might have stood there, only these still may."""
    ours = memory.owned.get(side)
    if ours is None:
        return memory
    if _is_only_previous_rate(ours, values) and ours.restore_to_bytes_per_s in (None, ours.before_bytes_per_s):
        return replace(memory, owned=memory.with_owned(side, None))
    return replace(memory, owned=memory.with_owned(side, replace(ours, possible_rates=tuple(dict.fromkeys(values)))))


def _is_only_previous_rate(ours: OwnedRate, values: Sequence[int | None]) -> bool:
    """Whether nothing of ours stands there any more: only what stood before we came."""
    return set(values) == {ours.before_bytes_per_s}


def narrow_to_current(memory: Memory, live: LiveCluster, now_ms: int, limits: Limits) -> Memory:
    """After a start: what stands there now and is ours is all that may stand there from now on, but for what comes late."""
    readable, owned = live.brokers - live.unreadable, dict(memory.owned)
    # What the one before us still waited for may come to us, and no longer than to it.
    late = dict(memory.predecessor_writes) if now_ms < memory.predecessor_writes_until_ms else {}
    ends_ms = now_ms + round(1000 * limits.predecessor_write_s)
    until_ms = min(memory.predecessor_writes_until_ms, ends_ms)
    for side, ours in memory.owned.items():
        setting = live.rates.get(side)
        found = setting.bytes_per_s if setting is not None and setting.is_own else None
        if side[0] not in readable:
            continue
        others: tuple[int | None, ...] = ()
        if found in ours.possible_rates:
            owned[side] = replace(ours, possible_rates=(found,))
            # In the order in which they were to come: what is behind it has been, and does not come again.
            others = ours.possible_rates[ours.possible_rates.index(found) + 1 :]
            if found != ours.setpoint_bytes_per_s and ours.setpoint_bytes_per_s not in others:
                others = (*others, ours.setpoint_bytes_per_s)  # Of a way that ends where it began.
        elif found in late.get(side, ()):
            # It is of the one before the one before us, and says nothing of how far that one had come.
            others = ours.possible_rates
        if others:
            late[side], until_ms = tuple(dict.fromkeys((*late.get(side, ()), *others))), ends_ms
    return replace(memory, owned=owned, predecessor_writes=late, predecessor_writes_until_ms=until_ms)


def record_success(memory: Memory, decision: Decision) -> Memory:
    """After it went well: a rate that was put back is no longer ours; one that was set stands at what was wanted."""
    match decision:
        case RestoreRate(broker=broker, side=side):
            return replace(memory, owned=memory.with_owned((broker, side), None))
        case (
            SetRate(broker=broker, side=side, setpoint_bytes_per_s=wanted)
            | StartRate(broker=broker, side=side, value_bytes_per_s=wanted)
        ):
            owned = memory.owned.get((broker, side))
            if owned is None:
                return memory
            over = owned.restore_to_bytes_per_s
            # Where more than that had to be left for the move to drain, the rest of the way is still to go.
            filled = decision.reason is Reason.WINDOW_WARMUP and wanted == over
            if filled or (decision.reason is Reason.RESTORED and over is not None and wanted <= over):
                if _is_only_previous_rate(owned, (wanted,)):
                    return replace(memory, owned=memory.with_owned((broker, side), None))
                # Of a rate for all brokers a setting of our own is left, which is as good as that until the end of the moves.
                over = over if owned.before_bytes_per_s is None else None
            settled = replace(owned, possible_rates=(wanted,), restore_to_bytes_per_s=over)
            return replace(memory, owned=memory.with_owned((broker, side), settled))
        case _:
            return memory
