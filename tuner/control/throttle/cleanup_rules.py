"""Decides which throttles to remove and which to restore after the moves have ended.

There are three kinds of throttles:

ended move's   Every list names a replica that moved, and no list existed before the move. The tuner removes the lists, then the
               rates of the brokers that took part, except rates from before the moves. ``kafka-reassign-partitions --verify``
               would remove these lists and the rates of all brokers.
preexisting    At least one list existed before the move, is "*", or names no replica that moved. The rates serve this list too.
               So the tuner leaves all lists, and restores every rate that it has changed.
next move's    The throttle appeared in a cycle without moves, so another move is about to begin. The tuner leaves the throttle.

Invariants: the tuner changes only throttles that it has written, or that were set for the ended moves. It removes lists before
rates, because listed replicas without a rate would be unlimited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from streaming.shared.contract import Side
from streaming.shared.units import rate_text
from tuner.control.throttle.decision import ClearLists, Reason, RestoreRate
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide, LiveCluster, side_name
from tuner.core.throttle_limits import ThrottleLimits


def cleanup_after_moves(
    live: LiveCluster, memory: Memory, limits: ThrottleLimits
) -> Sequence[ClearLists | RestoreRate]:
    """Returns the removals and restores that are still needed; empty if the cleanup is complete."""
    to_clear = memory.brokers_to_clear
    if belong_to_ended_moves(live, memory, limits):
        to_clear = _participants(memory) | to_clear
        return [
            *_clear_lists(live),
            *_remove_rates(live, memory, to_clear),
            *_restore_rates(live, memory, except_brokers=to_clear),
        ]
    return [*_restore_rates(live, memory, except_brokers=to_clear), *_remove_rates(live, memory, to_clear)]


def may_need_cleanup(memory: Memory, live: LiveCluster | None) -> bool:
    """Whether the moves may have just ended, so that the next snapshot has to be a full scan.

    An owned rate on a broker that is down is ignored. Otherwise a broker that never returns would cause full scans for ever.

    Args:
        live: the last snapshot; None: there is none yet.
    """
    if memory.idle_snapshots == 0:  # The last snapshot still had moves.
        return False
    return bool(memory.moving_replicas) or any(live is None or broker in live.brokers for broker, _ in memory.owned)


def belong_to_ended_moves(live: LiveCluster, memory: Memory, limits: ThrottleLimits) -> bool:
    """Whether the current throttles belong to the ended moves and may be removed."""
    return limits.clears_finished and memory.throttled and not _any_list_serves_others(live, memory)


def unreadable_participants(live: LiveCluster, memory: Memory) -> frozenset[int]:
    """Returns the brokers that took part in ended moves and whose settings cannot be read now."""
    return (_participants(memory) | memory.brokers_to_clear) - _readable(live)


def _participants(memory: Memory) -> frozenset[int]:
    return frozenset(broker for brokers in memory.moving_replicas.values() for broker in brokers)


def _readable(live: LiveCluster) -> frozenset[int]:
    return live.brokers - live.unreadable


def _any_list_serves_others(live: LiveCluster, memory: Memory) -> bool:
    """Whether any list serves replicas that did not move.

    A list serves other replicas in three cases:

    - it existed before the move;
    - it appeared after the moves;
    - it names no replica that moved: another tool may throttle replicas of this topic that catch up.

    A list that names some replicas that moved belongs to the move. Its other replicas moved before the first snapshot.
    """
    new_lists = memory.after_moves.new_lists if memory.after_moves is not None else ()
    for topic, throttle in live.lists.items():
        if throttle.leader.all_replicas or throttle.follower.all_replicas or topic in new_lists:
            return True
        if memory.preexisting_lists is not None and topic in memory.preexisting_lists:
            return True
        pairs = throttle.leader.pairs | throttle.follower.pairs
        if not any(broker in memory.moving_replicas.get((topic, partition), ()) for partition, broker in pairs):
            return True
    return False


def _clear_lists(live: LiveCluster) -> list[ClearLists]:
    decisions = []
    for topic, throttle in sorted(live.lists.items()):
        sides = tuple(side for side in (Side.LEADER, Side.FOLLOWER) if throttle.for_side(side))
        text = f"topic {topic}: its move has ended, so its throttled-replica lists are removed"
        decisions.append(ClearLists(topic, sides, Reason.MOVE_ENDED, text))
    return decisions


def _remove_rates(live: LiveCluster, memory: Memory, brokers: frozenset[int]) -> list[RestoreRate]:
    """Returns the removal of all rates of ``brokers``, or the restore of a rate that was set before the moves."""
    decisions = []
    rates_of_next_move = memory.after_moves.new_rates if memory.after_moves is not None else frozenset[BrokerSide]()
    kept = memory.externally_owned_until_ms.keys() | rates_of_next_move
    for side in ((broker, side) for broker in sorted(brokers & _readable(live)) for side in Side):
        setting = live.rates.get(side)
        if setting is None or not setting.is_set_on_broker or side in kept:
            continue
        before = memory.preexisting_rates.get(side)
        if before is None:
            cause = "the move has ended, and the throttle was set for this move"
            decisions.append(_restore(side, setting.bytes_per_s, restore_to=None, why=cause))
        elif setting.bytes_per_s != before and side in memory.owned:
            cause = f"the move has ended; {rate_text(before)} was set before the move"
            decisions.append(_restore(side, setting.bytes_per_s, restore_to=before, why=cause))
    return decisions


def restore_all(live: LiveCluster, memory: Memory, reason: Reason, why: str) -> list[RestoreRate]:
    """Returns the restore of every owned rate on a readable broker.

    On a broker that was down when its move ended, the move's rate is removed too, unless the broker takes part in a move now.
    """
    participants = {b for move in live.moves for b in (*move.replicas, *move.adding, *move.removing)}
    decisions = [
        *_restore_rates(live, memory, why, except_brokers=memory.brokers_to_clear),
        *_remove_rates(live, memory, memory.brokers_to_clear - participants),
    ]
    return [replace(decision, reason=reason) for decision in decisions]


def drop_restored_rates(live: LiveCluster, memory: Memory) -> Memory:
    """Returns the state without owned rates that are already restored, and without brokers whose rates are all removed."""

    def own_rate(side: BrokerSide) -> int | None:
        setting = live.rates.get(side)
        return setting.bytes_per_s if setting is not None and setting.is_set_on_broker else None

    readable = _readable(live)
    owned = {
        side: rate
        for side, rate in memory.owned.items()
        if side[0] not in readable or own_rate(side) != rate.before_bytes_per_s
    }
    # A broker without rates needs no cleanup. A rate that appears on it later does not belong to the ended move.
    to_clear = {
        b for b in memory.brokers_to_clear if b not in readable or any(own_rate((b, s)) is not None for s in Side)
    }
    return replace(memory, owned=owned, brokers_to_clear=frozenset(to_clear))


def _restore_rates(
    live: LiveCluster, memory: Memory, why: str = "the move has ended", *, except_brokers: frozenset[int]
) -> list[RestoreRate]:
    """Returns the restore of every owned rate, except on ``except_brokers``."""
    decisions, readable = [], _readable(live)
    for side, owned in sorted(memory.owned.items()):
        setting = live.rates.get(side)
        # A broker keeps its dynamic settings while it is down. Its rate is restored when it is back.
        if side[0] not in readable or side[0] in except_brokers or setting is None or not setting.is_set_on_broker:
            continue
        before = owned.before_bytes_per_s
        if setting.bytes_per_s == before:
            continue
        earlier = "no rate was set before" if before is None else f"{rate_text(before)} was set before"
        decisions.append(_restore(side, setting.bytes_per_s, restore_to=before, why=f"{why}; {earlier}"))
    return decisions


def _restore(side: BrokerSide, current: int, *, restore_to: int | None, why: str) -> RestoreRate:
    target = "removed" if restore_to is None else f"→ {rate_text(restore_to)}"
    text = f"{side_name(side)} {rate_text(current)} {target}: {why}"
    return RestoreRate(*side, current, restore_to, Reason.MOVE_ENDED, text)
