"""Decides which replicas to add to and remove from the throttled-replica lists, and at which rate each side starts.

A throttle consists of two rates and two lists, and applies only to replicas on the lists. required.py computes which replicas
belong there. A rate without a list throttles nothing, so a side gets its rate first and its list entries after it.

The leader's list would also throttle a replica that fell out of sync, although producers depend on it and it is no part of the
move. While this replica catches up, its partition is not on the leader's list; the adding replicas stay on the follower's list.

Invariant: every removed entry was added by the tuner, and every added entry belongs to a move in progress. A "*" lists all
replicas.

Vocabulary:
    pair      (partition, broker), as on a list.
    required  pairs that the moves in progress need, no matter which tool lists them.
    managed   pairs that the tuner has added. Entries of other tools are externally owned, even if they are equal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import NamedTuple

from streaming.shared.contract import Side
from streaming.shared.short_lists import join_names
from streaming.shared.throttle_settings import (
    LIST_CHARS_MAX,
    Pair,
    ThrottledReplicas,
    TopicThrottle,
    replica_list_text,
)
from streaming.shared.units import rate_text
from tuner.control.throttle.decision import AddPairs, Hold, Reason, RemovePairs, StartRate
from tuner.control.throttle.incremental.cycle_cache import CycleCache
from tuner.control.throttle.operator_overrides import limit_override
from tuner.control.throttle.quota_window.ramp import plan_fill
from tuner.control.throttle.recovery import is_recovery, partitions_below_minimum
from tuner.control.throttle.replica_lists.required import RequiredReplicas, without_recovering
from tuner.control.throttle.state import Memory
from tuner.control.throttle.view import MovesView
from tuner.core.cluster import BrokerSide, LiveCluster, PartitionMove, side_name
from tuner.core.reassignment_plan import TopicPartition

EMPTY_LISTS = TopicThrottle()
_NOTHING_REQUIRED = RequiredReplicas()
# The lowest multiple of W at which a move still ends.
DRAIN_OVER_STEADY_STATE = 1.05
# Two numbers of ten digits, a colon, a comma. With this upper bound most lists need not be counted exactly.
_PAIR_CHARS_MAX = 22


def required_by_topic(live: LiveCluster, cache: CycleCache | None = None) -> dict[str, RequiredReplicas]:
    """Returns the required replicas of each topic with moves that still copy."""
    cache = cache or CycleCache()
    cache.follow(live.moves)
    required = {
        topic: without_recovering(cache.required.result_for(topic, moves), live)
        for topic, moves in cache.topics.items()
    }
    return {topic: replicas for topic, replicas in required.items() if replicas.follower}


def external_lists(live: LiveCluster, memory: Memory, cache: CycleCache | None = None) -> Mapping[str, TopicThrottle]:
    """Returns the current lists without the managed pairs."""
    if not memory.listed:
        return live.lists
    memo = (cache or CycleCache()).external
    external = {
        topic: memo.result_for(topic, throttle, memory.listed.get(topic, EMPTY_LISTS))
        for topic, throttle in live.lists.items()
    }
    memo.retain(live.lists)
    return {topic: throttle for topic, throttle in external.items() if throttle}


def decide_list_changes(
    view: MovesView, memory: Memory, cleared_rates: Mapping[BrokerSide, int], cache: CycleCache | None = None
) -> list[Hold | StartRate | AddPairs | RemovePairs]:
    """Returns the changes for all moves that have to be throttled: start rates first, then removals and additions.

    Args:
        cleared_rates: managed rates (bytes/s) that another tool has removed together with the lists.
    """
    live, cache = view.live, cache or CycleCache()
    if view.moves_to_list is not live.moves:
        live, cache = replace(live, moves=view.moves_to_list), cache.for_listed_moves()
    required = required_by_topic(live, cache)
    missing = {
        topic: cache.missing.result_for(topic, replicas, live.lists.get(topic, EMPTY_LISTS))
        for topic, replicas in required.items()
    }
    starts = _start_rates(view, memory, required, missing, cleared_rates)
    removals = remove_unneeded_pairs(memory, required, below_minimum=partitions_below_minimum(live), cache=cache)
    removed: dict[str, TopicThrottle] = {}
    for removal in removals:
        removed[removal.topic] = removed.get(removal.topic, EMPTY_LISTS).plus(removal.pairs)
    adds: list[AddPairs] = []
    full_topics: list[str] = []
    sides_with_rate = live.rates.keys() | {(start.broker, start.side) for start in starts}
    for topic in _in_order_of_moves({topic for topic, pairs in missing.items() if any(pairs.values())}, live):
        # A list without a rate throttles nothing, so only pairs of sides with a rate are added.
        addable = {side: {pair for pair in missing[topic][side] if (pair[1], side) in sides_with_rate} for side in Side}
        current = live.lists.get(topic, EMPTY_LISTS).without(removed.get(topic, EMPTY_LISTS))
        fitting = {side: _fit(addable[side], current.for_side(side), required[topic].current_leaders) for side in Side}
        if any(len(fitting[side]) < len(addable[side]) for side in Side):
            full_topics.append(topic)
        if any(fitting.values()):
            adds.append(_add_pairs(topic, fitting, recover=all(map(is_recovery, cache.topics.get(topic, ())))))
    cache.required.retain(cache.topics)
    cache.missing.retain(required)
    return [*_report_full_lists(full_topics), *starts, *removals, *adds]


def _in_order_of_moves(topics: Collection[str], live: LiveCluster) -> Sequence[str]:
    """Returns the topics in the order of their first moves."""
    if len(topics) < 2:
        return [*topics]
    return [*dict.fromkeys(move.topic for move in live.moves if move.topic in topics)]


def remove_unneeded_pairs(
    memory: Memory,
    required: Mapping[str, RequiredReplicas],
    reason: Reason = Reason.IN_SYNC,
    why: str = "the replicas are in sync, no longer move, or are copied without a throttle from now on",
    *,
    below_minimum: Collection[TopicPartition] = (),
    cache: CycleCache | None = None,
) -> list[RemovePairs]:
    """Returns the removals of managed pairs that are not required.

    Args:
        below_minimum: partitions whose replicas nothing may hold back; see control/throttle/recovery.py.
    """
    removals, memo = [], (cache or CycleCache()).unneeded
    for topic, managed in sorted(memory.listed.items(), key=itemgetter(0)):
        replicas = required.get(topic, _NOTHING_REQUIRED)
        unneeded = {**memo.result_for(topic, managed, replicas)}
        if not any(unneeded.values()):
            continue
        recovering = frozenset(pair for pair in unneeded[Side.LEADER] if pair[0] in replicas.recovering)
        if recovering:
            removals.append(_remove_recovering(topic, recovering))
            unneeded[Side.LEADER] = unneeded[Side.LEADER] - recovering
        urgent = {side: frozenset(p for p in unneeded[side] if (topic, p[0]) in below_minimum) for side in Side}
        if below_minimum and any(urgent.values()):
            removals.append(_remove_below_minimum(topic, urgent))
            unneeded = {side: unneeded[side] - urgent[side] for side in Side}
        if any(unneeded.values()):
            count = sum(map(len, unneeded.values()))
            text = f"topic {topic}: removes {count} managed entries from its throttled-replica lists: {why}"
            leader, follower = _sorted(unneeded[Side.LEADER]), _sorted(unneeded[Side.FOLLOWER])
            removals.append(RemovePairs(topic, leader, follower, reason, text))
    memo.retain(memory.listed)
    return removals


def without_sides(adds: Sequence[AddPairs], failed: Collection[BrokerSide]) -> list[AddPairs]:
    """Returns the additions without the pairs of sides whose rate could not be set."""
    remaining = []
    for add in adds:
        leader = tuple(pair for pair in add.leader if (pair[1], Side.LEADER) not in failed)
        follower = tuple(pair for pair in add.follower if (pair[1], Side.FOLLOWER) not in failed)
        if leader or follower:
            remaining.append(replace(add, leader=leader, follower=follower))
    return remaining


def record_pairs_to_add(memory: Memory, adds: Iterable[AddPairs]) -> Memory:
    """Returns the state before these pairs are written. From now on the pairs may be on the lists, and count as managed."""
    listed = {add.topic: memory.listed.get(add.topic, EMPTY_LISTS).plus(add.pairs) for add in adds}
    return replace(memory, listed={**memory.listed, **listed}) if listed else memory


def record_removed_pairs(memory: Memory, removals: Iterable[RemovePairs]) -> Memory:
    """Returns the state after the removals were written."""
    listed = dict(memory.listed)
    for removal in removals:
        remaining = listed.pop(removal.topic, EMPTY_LISTS).without(removal.pairs)
        if remaining:
            listed[removal.topic] = remaining
    return replace(memory, listed=listed)


def _start_rates(
    view: MovesView,
    memory: Memory,
    required: Mapping[str, RequiredReplicas],
    missing: Mapping[str, Mapping[Side, frozenset[Pair]]],
    cleared_rates: Mapping[BrokerSide, int],
) -> list[StartRate]:
    """Returns the start of a rate for every side without one that has missing or managed pairs."""
    live = view.live
    brokers = live.brokers - live.unreadable
    without_rate = {(broker, side) for broker in brokers for side in Side} - live.rates.keys()
    without_rate -= memory.externally_owned_until_ms.keys() | memory.missing_rates | view.ramping
    # On these sides a list of another tool names recovering replicas that nothing may hold back. Without a rate the list has no
    # effect.
    without_rate -= live.below_minimum_sides
    if not without_rate:
        return []
    needed: set[BrokerSide] = set()
    for topic, replicas in required.items():
        managed = memory.listed.get(topic, EMPTY_LISTS)
        for side in Side:
            required_managed = managed.for_side(side).pairs & replicas.for_side(side)
            needed.update((broker, side) for _, broker in missing[topic][side] | required_managed)
    copies = count_copies(view.moves_to_list)
    return [
        _start_rate(side, view, copies.get(side[0], ONE_COPY), cleared_rates) for side in sorted(needed & without_rate)
    ]


def _start_rate(
    side: BrokerSide, view: MovesView, copies: Copies, cleared_rates: Mapping[BrokerSide, int]
) -> StartRate:
    """Returns the start of a rate: the ordered rate, the cleared one, the plan's, or the lowest that drains, in this order."""
    limits = view.limits_of(side)
    override = limit_override(view.orders.overrides.get(side), view.limits)
    if override is not None and view.now_ms < override.until_ms:
        rate, why = override.bytes_per_s, f"by order of {override.by}"
        if not limits.closed_loop and side in view.empty_windows:
            rate = plan_fill(rate, limits.warmup_start_bytes_per_s)[0].rate_bytes_per_s
    elif side in cleared_rates:
        cleared = round(min(cleared_rates[side], limits.rate_bytes_per_s_max))
        rate, why = cleared, "another tool removed this rate, so the tuner sets it again"
        # Producers may write more by now. A cleared rate that does not even carry the fewest copies is not set again.
        draining = draining_rate_bytes_per_s(side, view, copies)
        if cleared < draining:
            rate, why = (
                draining,
                f"another tool removed the rate of {rate_text(cleared)}, at which the move would no longer end",
            )
    elif not view.limits.closed_loop:
        ceiling = round(limits.rate_bytes_per_s_max)
        rate, why = ceiling, "a plan of rheostat moves partitions through this throttle"
        # On an idle side the bytes of a whole quota window would pass at once, so its rate starts low.
        if side in view.empty_windows or side not in view.side_set:
            rate = plan_fill(ceiling, limits.warmup_start_bytes_per_s)[0].rate_bytes_per_s
            why += f"; the rate rises to {rate_text(ceiling)} while its quota window fills"
    else:
        rate = start_rate_bytes_per_s(side, view, copies)
        what = "replicas that catch up copy" if side in view.recovery_sides else "a move without a throttle copies"
        why = f"{what} through this throttle; the control law adjusts the rate from now on"
    reason = Reason.RECOVERY_FOUND if side in view.recovery_sides else Reason.MOVE_FOUND
    text = f"{side_name(side)}: {rate_text(rate)}, where no rate was set: {why}"
    return StartRate(*side, rate, reason, text)


def start_rate_bytes_per_s(side: BrokerSide, view: MovesView, copies: Copies) -> int:
    """Returns the lowest rate at which the move surely ends. It harms no client, and closed-loop control raises it later."""
    limits = view.limits_of(side)
    # Before any replica is listed, the steady-state replication through the throttle is not measured. It is calculated from the
    # write rate and the number of copies.
    factor = copies.most if side[1] is Side.LEADER else 1
    draining = limits.min_rate_over_steady_state * factor * (_write_bytes_per_s(side, view) or 0.0)
    return round(min(limits.rate_bytes_per_s_max, max(limits.rate_bytes_per_s_min, draining)))


def draining_rate_bytes_per_s(side: BrokerSide, view: MovesView, copies: Copies) -> int:
    """Returns the rate below which the move through the side surely never ends; 0 without a fresh signal."""
    factor = copies.fewest if side[1] is Side.LEADER else 1
    draining = DRAIN_OVER_STEADY_STATE * factor * (_write_bytes_per_s(side, view) or 0.0)
    return round(min(view.limits_of(side).rate_bytes_per_s_max, draining))


def _write_bytes_per_s(side: BrokerSide, view: MovesView) -> float | None:
    signal = view.fresh_signal(side)
    return signal.write_bytes_per_s if signal is not None else None


class Copies(NamedTuple):
    """How often a leader sends each byte of a partition: once to each in-sync follower and to each adding replica.

    Attributes:
        fewest, most: over all moving partitions of the leader.
    """

    fewest: int
    most: int


ONE_COPY = Copies(1, 1)


def count_copies(moves: Iterable[PartitionMove]) -> dict[int, Copies]:
    """Returns the fewest and the most copies of each leader."""
    by_leader: dict[int, Copies] = {}
    for move in moves:
        copies = len({*move.isr, *move.adding} - {move.leader})
        so_far = by_leader.get(move.leader, Copies(copies, copies))
        by_leader[move.leader] = Copies(min(copies, so_far.fewest), max(copies, so_far.most))
    return by_leader


def _fit(pairs: set[Pair], current: ThrottledReplicas, preferred: frozenset[Pair]) -> tuple[Pair, ...]:
    """Returns as many pairs as Kafka accepts in one list, those in ``preferred`` before the others."""
    if (len(pairs) + len(current.pairs)) * _PAIR_CHARS_MAX <= LIST_CHARS_MAX:
        return _sorted(pairs)
    chars_left = LIST_CHARS_MAX - len(replica_list_text(current.pairs))
    fitting = []
    for pair in (*_sorted(pairs & preferred), *_sorted(pairs - preferred)):
        chars_left -= len(f",{pair[0]}:{pair[1]}")
        if chars_left < 0:
            break
        fitting.append(pair)
    return tuple(sorted(fitting))


def _add_pairs(topic: str, fitting: Mapping[Side, tuple[Pair, ...]], *, recover: bool) -> AddPairs:
    leader, follower = fitting[Side.LEADER], fitting[Side.FOLLOWER]
    partitions = len({partition for partition, _ in (*leader, *follower)})
    text = (
        f"topic {topic}: {partitions} of its partitions {'recover' if recover else 'move'}, so the tuner adds "
        f"{len(leader)} entries to the topic's leader throttled-replica list and {len(follower)} to its follower "
        "throttled-replica list"
    )
    return AddPairs(topic, leader, follower, Reason.RECOVERY_FOUND if recover else Reason.MOVE_FOUND, text)


def _remove_recovering(topic: str, pairs: frozenset[Pair]) -> RemovePairs:
    partitions = sorted({partition for partition, _ in pairs})
    text = (
        f"topic {topic}: replicas of partition {join_names(partitions, 5)} fell out of sync, so they are removed from the "
        "leader's throttled-replica list until they are in sync, and catch up without a throttle"
    )
    return RemovePairs(topic, _sorted(pairs), (), Reason.ISR_RECOVERY, text)


def _remove_below_minimum(topic: str, pairs: Mapping[Side, frozenset[Pair]]) -> RemovePairs:
    partitions = sorted({partition for replicas in pairs.values() for partition, _ in replicas})
    text = (
        f"topic {topic}: partition {join_names(partitions, 5)} has fewer than min.insync.replicas replicas in sync, so its "
        "recovering replicas are removed from the throttled-replica lists, and catch up without a throttle"
    )
    return RemovePairs(topic, _sorted(pairs[Side.LEADER]), _sorted(pairs[Side.FOLLOWER]), Reason.ISR_RECOVERY, text)


def _report_full_lists(topics: Sequence[str]) -> list[Hold]:
    if not topics:
        return []
    text = (
        f"topic {join_names(topics, 3)}: more replicas move than fit on one throttled-replica list ({LIST_CHARS_MAX} characters), "
        "so the other replicas are copied without a throttle until moves end: move fewer partitions at a time"
    )
    return [Hold(None, None, Reason.LIST_FULL, text)]


def _sorted(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    return tuple(sorted(pairs))
