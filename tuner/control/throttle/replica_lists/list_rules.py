"""Which replicas have to be on the throttled-replica lists, so that what moves is throttled and nothing else is?

Intuition: a throttle is two numbers and two lists, and counts only what the lists name. The leader's side gets every replica
that may lead and serve the partition, so that a change of leader does not open the gate; the follower's side gets those that
are being added, until they are in sync. A rate without a list throttles nobody, so a rate comes first and its list after it.

A replica that was in sync and fell out would be held back by the leader's side, and it is no part of the move but of what
producers rely on. While one comes back its partition is off the leader's list; what is being added stays on the other.

Invariant: what is taken off was put on by us, and what is put on belongs to a move that runs. A "*" lists everything already.

Vocabulary:
    pair     (partition, broker), as a list has it.
    needed   what has to be listed for the moves that run, whoever lists it.
    ours     what we have put on, by the memory; what others have put on is theirs, also where it is the same pair.
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
from tuner.control.throttle.objective import ControlLimits
from tuner.control.throttle.operator_overrides import limit_override
from tuner.control.throttle.quota_window.ramp import plan_fill
from tuner.control.throttle.replica_lists.required import RequiredReplicas, without_recovering
from tuner.control.throttle.state import Memory
from tuner.control.throttle.view import MovesView
from tuner.core.cluster import BrokerSide, LiveCluster, PartitionMove, side_name

NOTHING = TopicThrottle()
_NOT_NEEDED = RequiredReplicas()
_DRAINS_OVER_STEADY_STATE = ControlLimits().min_rate_over_steady_state_low_headroom  # The law never means less.
_PAIR_CHARS_MAX = 22  # Two numbers of ten digits, a colon, a comma: beyond that much of a list it is counted exactly.


def required_by_topic(live: LiveCluster, kept: CycleCache | None = None) -> dict[str, RequiredReplicas]:
    """What has to be listed, by topic."""
    kept = kept or CycleCache()
    kept.follow(live.moves)
    found = {
        topic: without_recovering(kept.required.answer_for(topic, moves), live) for topic, moves in kept.topics.items()
    }
    return {topic: needed for topic, needed in found.items() if needed.follower}


def external_lists(live: LiveCluster, memory: Memory, kept: CycleCache | None = None) -> Mapping[str, TopicThrottle]:
    """The lists as others have made them."""
    if not memory.listed:
        return live.lists
    others = (kept or CycleCache()).others
    left = {
        topic: others.answer_for(topic, throttle, memory.listed.get(topic, NOTHING))
        for topic, throttle in live.lists.items()
    }
    others.retain(live.lists)
    return {topic: throttle for topic, throttle in left.items() if throttle}


def decide_list_changes(
    view: MovesView, memory: Memory, again: Mapping[BrokerSide, int], kept: CycleCache | None = None
) -> list[Hold | StartRate | AddPairs | RemovePairs]:
    """What the moves that are to be throttled need: first the rates, then what counts against them, and what does not any more.

    Args:
        again: rates that stood there until somebody swept them away, lists and all.
    """
    live, kept = view.live, kept or CycleCache()
    if view.moves_to_list is not live.moves:
        live, kept = replace(live, moves=view.moves_to_list), kept.for_listed_moves()
    needed = required_by_topic(live, kept)
    missing = {
        topic: kept.missing.answer_for(topic, each, live.lists.get(topic, NOTHING)) for topic, each in needed.items()
    }
    starts = _starts(view, memory, needed, missing, again)
    removals = remove_unneeded_pairs(memory, needed, kept=kept)
    going: dict[str, TopicThrottle] = {}
    for removal in removals:
        going[removal.topic] = going.get(removal.topic, NOTHING).plus(removal.pairs)
    adds: list[AddPairs] = []
    full: list[str] = []
    rated = live.rates.keys() | {(start.broker, start.side) for start in starts}
    for topic in _as_they_move({topic for topic, pairs in missing.items() if any(pairs.values())}, live):
        pairs = missing[topic]
        counted = {side: {pair for pair in pairs[side] if (pair[1], side) in rated} for side in Side}
        stands = live.lists.get(topic, NOTHING).without(going.get(topic, NOTHING))
        fits = {side: _that_fit(counted[side], stands.for_side(side), needed[topic].first) for side in Side}
        if any(len(fits[side]) < len(counted[side]) for side in Side):
            full.append(topic)
        if any(fits.values()):
            adds.append(_add(topic, fits))
    kept.required.retain(kept.topics)
    kept.missing.retain(needed)
    return [*_full(full), *starts, *removals, *adds]


def _as_they_move(topics: Collection[str], live: LiveCluster) -> Sequence[str]:
    """In the order in which the cluster tells of them."""
    if len(topics) < 2:
        return [*topics]
    return [*dict.fromkeys(move.topic for move in live.moves if move.topic in topics)]


def remove_unneeded_pairs(
    memory: Memory,
    needed: Mapping[str, RequiredReplicas],
    reason: Reason = Reason.IN_SYNC,
    why: str = "in sync, or no longer moving",
    *,
    kept: CycleCache | None = None,
) -> list[RemovePairs]:
    """Of ours what is not needed."""
    removals, answers = [], (kept or CycleCache()).unneeded
    for topic, ours in sorted(memory.listed.items(), key=itemgetter(0)):
        of_topic = needed.get(topic, _NOT_NEEDED)
        done = {**answers.answer_for(topic, ours, of_topic)}
        if not any(done.values()):
            continue
        back = frozenset(pair for pair in done[Side.LEADER] if pair[0] in of_topic.recovering)
        if back:
            removals.append(_remove_recovering(topic, back))
            done[Side.LEADER] = done[Side.LEADER] - back
        if any(done.values()):
            count = sum(map(len, done.values()))
            text = f"topic {topic}: {count} of our entries leave its throttled-replica lists: {why}"
            removals.append(RemovePairs(topic, _sorted(done[Side.LEADER]), _sorted(done[Side.FOLLOWER]), reason, text))
    answers.retain(memory.listed)
    return removals


def without_sides(adds: Sequence[AddPairs], failed: Collection[BrokerSide]) -> list[AddPairs]:
    """Without the pairs that would count against a rate that could not be set."""
    kept = []
    for add in adds:
        leader = tuple(pair for pair in add.leader if (pair[1], Side.LEADER) not in failed)
        follower = tuple(pair for pair in add.follower if (pair[1], Side.FOLLOWER) not in failed)
        if leader or follower:
            kept.append(replace(add, leader=leader, follower=follower))
    return kept


def intend_pairs(memory: Memory, adds: Iterable[AddPairs]) -> Memory:
    """From now on these may be on the lists, and are ours there."""
    more = {add.topic: memory.listed.get(add.topic, NOTHING).plus(add.pairs) for add in adds}
    return replace(memory, listed={**memory.listed, **more}) if more else memory


def settle_pairs(memory: Memory, removals: Iterable[RemovePairs]) -> Memory:
    """After they were taken off."""
    join_names = dict(memory.listed)
    for removal in removals:
        left = join_names.pop(removal.topic, NOTHING).without(removal.pairs)
        if left:
            join_names[removal.topic] = left
    return replace(memory, listed=join_names)


# -- what is missing --------------------------------------------------------------------------------------------------


def _starts(
    view: MovesView,
    memory: Memory,
    needed: Mapping[str, RequiredReplicas],
    missing: Mapping[str, Mapping[Side, frozenset[Pair]]],
    again: Mapping[BrokerSide, int],
) -> list[StartRate]:
    """A rate on every side where something of ours is to count, and none is in force."""
    live = view.live
    brokers = live.brokers - live.unreadable
    bare = {(broker, side) for broker in brokers for side in Side} - live.rates.keys()
    bare -= memory.externally_owned_until_ms.keys() | memory.missing_rates | view.ramping
    if not bare:
        return []
    wanted: set[BrokerSide] = set()
    for topic, of_topic in needed.items():
        ours = memory.listed.get(topic, NOTHING)
        for side in Side:
            pairs = missing[topic][side] | (ours.for_side(side).pairs & of_topic.of(side))
            wanted.update((broker, side) for _, broker in pairs)
    copies = copies_of(view.moves_to_list)
    return [_start(side, view, copies.get(side[0], ONE_COPY), again) for side in sorted(wanted & bare)]


def _start(side: BrokerSide, view: MovesView, copies: Copies, again: Mapping[BrokerSide, int]) -> StartRate:
    limits = view.limits_of(side)
    order = limit_override(view.orders.overrides.get(side), view.limits)
    if order is not None and view.now_ms < order.until_ms:
        rate, why = order.bytes_per_s, f"by order of {order.by}"
        if not limits.closed_loop and side in view.empty_windows:
            rate = plan_fill(rate, limits.warmup_start_bytes_per_s)[0].rate_bytes_per_s
    elif side in again:
        stood = round(min(again[side], limits.rate_bytes_per_s_max))
        rate, why = stood, "as it stood until it was swept away"
        # Producers may write more by now. The law may have meant it to be as little as it may be; what does not even carry
        # the fewest copies is meant by nobody.
        drains = drains_bytes_per_s(side, view, copies)
        if stood < drains:
            rate, why = drains, f"{rate_text(stood)} stood until it was swept away, and would not drain any more"
    elif not view.limits.closed_loop:
        # The rate of the plan, whose step waits for it; a whole window of it would pass at once where nothing has moved.
        most = round(limits.rate_bytes_per_s_max)
        rate, why = most, "a plan of rheostat moves partitions through it"
        if side in view.empty_windows or side not in view.side_set:
            rate = plan_fill(most, limits.warmup_start_bytes_per_s)[0].rate_bytes_per_s
            why += f"; the rate rises to {rate_text(most)} as the window of its quota fills"
    else:
        rate, why = (
            start_bytes_per_s(side, view, copies),
            "a move that nobody throttles takes part here; the law goes on from it",
        )
    text = f"{side_name(side)}: {rate_text(rate)}, where none stood: {why}"
    return StartRate(*side, rate, Reason.MOVE_FOUND, text)


def start_bytes_per_s(side: BrokerSide, view: MovesView, copies: Copies) -> int:
    """The least that drains, as far as it is known: the law takes it up from there, and nobody is hurt meanwhile."""
    limits = view.limits_of(side)
    # Before anything is listed only the writes are measured, and not what keeping up will take of the throttle.
    factor = copies.most if side[1] is Side.LEADER else 1
    least = max(limits.rate_bytes_per_s_min, limits.min_rate_over_steady_state * factor * (_write(side, view) or 0.0))
    return round(min(limits.rate_bytes_per_s_max, least))


def drains_bytes_per_s(side: BrokerSide, view: MovesView, copies: Copies) -> int:
    """Below this it surely does not drain; 0 where nothing fresh is known of it."""
    factor = copies.fewest if side[1] is Side.LEADER else 1
    least = _DRAINS_OVER_STEADY_STATE * factor * (_write(side, view) or 0.0)
    return round(min(view.limits_of(side).rate_bytes_per_s_max, least))


def _write(side: BrokerSide, view: MovesView) -> float | None:
    signal = view.fresh_signal(side)
    return signal.write_bytes_per_s if signal is not None else None


class Copies(NamedTuple):
    """How often a broker sends the bytes of a partition that it leads: to followers in sync, and to those that are added."""

    fewest: int
    most: int


ONE_COPY = Copies(1, 1)


def copies_of(moves: Iterable[PartitionMove]) -> dict[int, Copies]:
    """By leader."""
    found: dict[int, Copies] = {}
    for move in moves:
        copies = len({*move.isr, *move.adding} - {move.leader})
        before = found.get(move.leader)
        found[move.leader] = (
            Copies(copies, copies) if before is None else Copies(min(copies, before.fewest), max(copies, before.most))
        )
    return found


def _that_fit(pairs: set[Pair], stands: ThrottledReplicas, first: frozenset[Pair]) -> tuple[Pair, ...]:
    """As many as Kafka takes in one list: of what counts now before what might."""
    if (len(pairs) + len(stands.pairs)) * _PAIR_CHARS_MAX <= LIST_CHARS_MAX:
        return _sorted(pairs)
    left = LIST_CHARS_MAX - len(replica_list_text(stands.pairs))
    taken = []
    for pair in sorted(pairs, key=lambda pair: (pair not in first, pair)):
        left -= len(f",{pair[0]}:{pair[1]}")
        if left < 0:
            break
        taken.append(pair)
    return tuple(sorted(taken))


# -- in words ---------------------------------------------------------------------------------------------------------


def _add(topic: str, fits: Mapping[Side, tuple[Pair, ...]]) -> AddPairs:
    leader, follower = fits[Side.LEADER], fits[Side.FOLLOWER]
    partitions = len({partition for partition, _ in (*leader, *follower)})
    text = (
        f"topic {topic}: {partitions} of its partitions move and are not on its throttled-replica lists: "
        f"{len(leader)} entries on the leader side, {len(follower)} on the follower side"
    )
    return AddPairs(topic, leader, follower, Reason.MOVE_FOUND, text)


def _remove_recovering(topic: str, pairs: frozenset[Pair]) -> RemovePairs:
    partitions = sorted({partition for partition, _ in pairs})
    some = join_names(partitions, 5)
    text = (
        f"topic {topic}: replicas of partition {some} that were in sync come back, and are not held up: off the leader's list "
        "until they are"
    )
    return RemovePairs(topic, _sorted(pairs), (), Reason.ISR_RECOVERY, text)


def _full(topics: Sequence[str]) -> list[Hold]:
    if not topics:
        return []
    some = join_names(topics, 3)
    text = (
        f"topic {some}: more replicas move than fit on one throttled-replica list ({LIST_CHARS_MAX} characters), so the rest "
        "is not throttled until others are done: move fewer partitions at a time"
    )
    return [Hold(None, None, Reason.LIST_FULL, text)]


def _sorted(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    return tuple(sorted(pairs))
