"""Makes the decisions of an idle cycle, in which nothing moves.

First the cycle cleans up after the moves, then it records the throttles that are set although nothing moves. Reassignment tools
move partitions in batches, with pauses of some seconds. So the cleanup waits for several idle cycles in a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

from streaming.shared.contract import Side
from streaming.shared.throttle_settings import TopicThrottle
from streaming.shared.units import rate_text
from tuner.control.throttle.cleanup_rules import belong_to_ended_moves, cleanup_after_moves, unreadable_participants
from tuner.control.throttle.decision import Decision, Hold, Reason, RestoreRate
from tuner.control.throttle.isr_recovery import sides_possibly_blocking_writes
from tuner.control.throttle.recovery import partitions_below_minimum
from tuner.control.throttle.replica_lists.list_rules import external_lists, remove_unneeded_pairs
from tuner.control.throttle.state import IdleThrottles, Memory, OwnedRate, RateSince
from tuner.core.cluster import BrokerSide, LiveCluster, Observation, side_name
from tuner.core.freshness import fresh_signals
from tuner.core.throttle_limits import ThrottleLimits

_LISTS_TRACKED_MAX = 1_000  # The record of the state in the journal must stay small.


def decide_without_moves(
    observation: Observation, live: LiveCluster, memory: Memory, limits: ThrottleLimits
) -> tuple[Memory, Sequence[Decision]]:
    """Returns the next state, and the decisions that clean up the moves' throttles once enough cycles in a row were idle."""
    # New list entries mean that another tool has begun its next batch. Its moves may have been so short that no cycle has seen
    # them. So the count of idle snapshots starts again.
    last_idle = memory.after_moves
    tool_is_active = last_idle is not None and _has_new_entries(external_lists(live, memory), last_idle.listed)
    idle_snapshots = 1 if tool_is_active else memory.idle_snapshots + 1
    memory = replace(
        memory,
        after_moves=_record_idle_throttles(live, memory),
        idle_snapshots=idle_snapshots,
        unmeasured_since_ms={},
        decayed_at_ms={},
    )
    # Without moves the lists need none of the tuner's entries.
    removals = remove_unneeded_pairs(memory, required={}, below_minimum=partitions_below_minimum(live))
    if idle_snapshots < limits.idle_snapshots_before_cleanup:
        return memory, removals
    sides_not_to_lower = _find_sides_not_to_lower(observation, live, limits)
    # ``removals`` has the managed entries, so the cleanup gets only the entries of other owners.
    external = replace(live, lists=external_lists(live, memory))
    cleanup: list[Decision] = [*removals]
    for decision in cleanup_after_moves(external, memory, limits):
        if _is_lowering(decision) and (decision.broker, decision.side) in sides_not_to_lower:
            cleanup.append(_hold_current_rate(decision))
        else:
            cleanup.append(decision)
    memory = replace(memory, stalls={}, rescued=frozenset())
    absent = [
        _hold_for_absent_broker(side, owned)
        for side, owned in sorted(memory.owned.items())
        if side[0] not in live.brokers
    ]
    # The state keeps the moves until no cleanup is left, so that a failed write is tried again.
    if not cleanup:
        memory = _track_idle_throttles(external, _forget_ended_moves(external, memory, limits), observation.now_ms)
    return memory, [*cleanup, *absent]


def _find_sides_not_to_lower(
    observation: Observation, live: LiveCluster, limits: ThrottleLimits
) -> frozenset[BrokerSide]:
    """Returns the sides whose throttle the cleanup must not lower.

    Lost replicas catch up through these throttles, and writes may be blocked until they are back in sync. Sides with an operator's
    override are not returned: the override applies in any case.
    """
    fresh_brokers = fresh_signals(observation.broker_signals, observation.now_ms, limits.signal_age_s_max)
    overridden = {side for side, order in observation.orders.overrides.items() if observation.now_ms < order.until_ms}
    return sides_possibly_blocking_writes(live, fresh_brokers) - overridden


def _hold_current_rate(decision: RestoreRate) -> Hold:
    side = (decision.broker, decision.side)
    return Hold(
        *side,
        Reason.ISR_RECOVERY,
        f"{side_name(side)}: keeps {rate_text(decision.current_bytes_per_s)} although nothing moves: out-of-sync replicas catch "
        "up through this throttle, and until then their partitions may reject writes",
    )


def _is_lowering(decision: Decision) -> TypeGuard[RestoreRate]:
    """Whether the decision lowers a throttle. A removal does not: replicas return to the ISR fastest without a throttle."""
    if not isinstance(decision, RestoreRate) or decision.value_bytes_per_s is None:
        return False
    return decision.value_bytes_per_s < decision.current_bytes_per_s


def _record_idle_throttles(live: LiveCluster, memory: Memory) -> IdleThrottles | None:
    """Returns the current throttles, and which of them appeared after the moves had ended; None if no move waits for its cleanup.

    A throttle that disappeared and is set again does not belong to the ended moves, even with the same value.
    """
    if not memory.moving_replicas:  # The replicas of the ended moves stay recorded until the cleanup.
        return None
    rates = frozenset(side for side, setting in live.rates.items() if setting.is_set_on_broker)
    topics, external_entries = frozenset(live.lists), external_lists(live, memory)
    last_idle, readable = memory.after_moves, live.brokers - live.unreadable
    if last_idle is None:
        return IdleThrottles(brokers=readable, rates=rates, lists=topics, listed=external_entries)
    # A rate is new only if the previous snapshot has its broker. Otherwise the rate may have been set before.
    appeared = {side for side in rates - last_idle.rates - memory.owned.keys() if side[0] in last_idle.brokers}
    removed = {side for side in last_idle.new_rates if side[0] in readable and side not in rates}
    new_lists = last_idle.new_lists | (topics - last_idle.lists - memory.listed.keys())
    return IdleThrottles(
        brokers=readable,
        rates=rates,
        lists=topics,
        new_rates=(last_idle.new_rates | appeared) - removed,
        new_lists=new_lists & topics,
        listed=external_entries,
    )


def _has_new_entries(current: Mapping[str, TopicThrottle], earlier: Mapping[str, TopicThrottle]) -> bool:
    """Whether the lists have entries, or a "*", that the earlier lists did not have."""
    for topic, lists in current.items():
        earlier_lists = earlier.get(topic, TopicThrottle())
        if lists == earlier_lists:
            continue
        for side in Side:
            new, old = lists.for_side(side), earlier_lists.for_side(side)
            if new.pairs - old.pairs or (new.all_replicas and not old.all_replicas):
                return True
    return False


def _hold_for_absent_broker(side: BrokerSide, owned: OwnedRate) -> Hold:
    """Returns a hold that reports a managed rate on an absent broker.

    The dynamic setting remains in Kafka, and any broker that starts with this id gets the rate.
    """
    return Hold(
        *side,
        Reason.BROKER_DOWN,
        f"{side_name(side)}: rheostat's rate of {rate_text(owned.setpoint_bytes_per_s)} may still be set, because broker "
        f"{side[0]} is down: the tuner restores the earlier rate when the broker is back",
    )


def _forget_ended_moves(live: LiveCluster, memory: Memory, limits: ThrottleLimits) -> Memory:
    """Returns the state after a complete cleanup.

    The throttles that are still set are recorded as preexisting, so that the end of a later move does not remove them.
    """
    readable = live.brokers - live.unreadable
    absent = unreadable_participants(live, memory)
    # The settings of absent brokers are cleared when the brokers are back.
    to_clear = absent & memory.brokers_to_clear
    if memory.moving_replicas and belong_to_ended_moves(live, memory, limits):
        to_clear = absent
    preexisting = {side: rate for side, rate in memory.preexisting_rates.items() if side[0] not in readable}
    externally_owned = memory.externally_owned_until_ms
    current = {
        side: r.bytes_per_s for side, r in live.rates.items() if r.is_set_on_broker and side not in externally_owned
    }
    # kafka-reassign-partitions sets lists and rates a moment before the move starts. So a current rate counts as preexisting
    # - if no list is set;
    # - if all lists are from the last idle cycle or earlier, and the rate had the same value in that cycle;
    # - if there is a new list, only if the rate was preexisting before.
    if not live.lists:
        preexisting |= current
    elif live.lists.keys() <= memory.idle_lists:
        preexisting |= {side: rate for side, rate in current.items() if memory.idle_rates.get(side) == rate}
    else:
        preexisting |= {side: rate for side, rate in memory.preexisting_rates.items() if side in live.rates}
    idle_lists = frozenset(live.lists)
    return replace(
        memory,
        owned={side: owned for side, owned in memory.owned.items() if side[0] not in readable},
        moving_replicas={},
        throttled=False,
        preexisting_rates=preexisting,
        preexisting_lists=idle_lists & memory.idle_lists,
        idle_lists=idle_lists,
        idle_rates=current,
        after_moves=None,
        brokers_to_clear=to_clear,
    )


def _track_idle_throttles(live: LiveCluster, memory: Memory, now_ms: int) -> Memory:
    """Returns the state with the time since which each rate and list has been set while nothing moves.

    The time of a rate starts again when the rate changes. A list keeps its time, because it has no single value.
    """
    known, known_lists = memory.idle_rates_since, memory.idle_lists_since_ms
    # Rates on brokers that cannot be read keep their times.
    rates = {side: before for side, before in known.items() if side[0] not in live.brokers - live.unreadable}
    for side, setting in live.rates.items():
        if not setting.is_set_on_broker or side in rates:
            continue
        before = known.get(side)
        if before is None or before.bytes_per_s != setting.bytes_per_s:
            before = RateSince(setting.bytes_per_s, now_ms)
        rates[side] = before
    # If there are more than _LISTS_TRACKED_MAX lists, the lists with a known time come first.
    topics = [*sorted(live.lists.keys() & known_lists.keys()), *sorted(live.lists.keys() - known_lists.keys())]
    lists = {topic: known_lists.get(topic, now_ms) for topic in topics[:_LISTS_TRACKED_MAX]}
    if rates == known and lists == known_lists:
        return memory
    return replace(memory, idle_rates_since=rates, idle_lists_since_ms=lists)
