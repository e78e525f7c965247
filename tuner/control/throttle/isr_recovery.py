"""Which throttles the law should hurry: those of a move that stalls, and those that keep lost replicas from coming back.

Intuition: a throttle that is put on for a move also holds back a replica that was in sync and fell out, where the lists name
all replicas of a moving partition, or "*". Such a replica is not a part of the move but of what producers rely on. Our own lists
do not name it (replica_lists/list_rules.py); where others' do, the throttle itself is opened. A "*" names also what does not move
at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from streaming.shared.contract import BrokerSignal, Side
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide, LiveCluster, PartitionMove

_NONE = frozenset[int]()


def sides_of_stalled_moves(live: LiveCluster, memory: Memory) -> frozenset[BrokerSide]:
    """Both ends of every move that the judge calls stalled."""
    stalled = {broker for broker, state in memory.stalls.items() if state.stalled}
    ends: set[BrokerSide] = set()
    for move in live.moves if stalled else ():
        for destination in stalled.intersection(move.destinations):
            ends |= {(destination, Side.FOLLOWER), (move.leader, Side.LEADER)}
    return frozenset(ends)


def find_lost_replicas(move: PartitionMove, live: LiveCluster) -> frozenset[int]:
    """Replicas on living brokers that were in sync and are not; nobody knows where no broker leads."""
    if move.leader < 0:
        return _NONE
    isr, adding = move.isr, move.adding
    for broker in move.replicas:  # Of tens of thousands of moves next to none gets past here.
        if broker not in isr and broker not in adding:
            return live.brokers.intersection(move.replicas).difference(isr, adding)
    return _NONE


def sides_blocking_writes(live: LiveCluster, brokers: Mapping[int, BrokerSignal]) -> frozenset[BrokerSide]:
    """Sides whose throttle holds back what brings such replicas back, where partitions take no writes until they are.

    Args:
        brokers: what is fresh of their signals: old news opens nothing.

    A side whose list does not name them is in nobody's way, and to open it would only let the moves through.
    """
    return sides_holding_lost_replicas(live, leaders_under_min_isr(brokers))


def leaders_under_min_isr(brokers: Mapping[int, BrokerSignal]) -> set[int]:
    """Leaders of partitions that take no writes until replicas are back, by their own word."""
    return {broker for broker, signal in brokers.items() if (signal.under_min_isr_partitions or 0.0) > 0.0}


def leaders_to_inspect(
    live: LiveCluster | None,
    memory: Memory,
    steered: Collection[BrokerSide],
    brokers: Mapping[int, BrokerSignal],
) -> frozenset[int]:
    """Brokers whose partitions are looked at also where they do not move: a throttle may hold their lost replicas back.

    Those are the leaders that writes wait for, while anything moves or is rheostat's own, and the brokers with a throttle that is
    open for a while and that the law does not turn.

    Args:
        live: as seen last; None: not yet.
        steered: the sides that the law turns.
        brokers: what is fresh of their signals.
    """
    opened = {
        side[0]
        for side, ours in memory.owned.items()
        if ours.restore_to_bytes_per_s is not None and side not in steered
    }
    if live is None or not (live.moves or memory.owned):
        return frozenset(opened)
    return frozenset(opened) | leaders_under_min_isr(brokers)


def sides_possibly_blocking_writes(live: LiveCluster, brokers: Mapping[int, BrokerSignal]) -> frozenset[BrokerSide]:
    """Sides that writes may still wait for: a leader that has not said of late that it has no such partition may have one.

    Args:
        brokers: what is fresh of their signals.
    """
    return sides_holding_lost_replicas(live, (live.brokers - brokers.keys()) | leaders_under_min_isr(brokers))


def sides_holding_lost_replicas(live: LiveCluster, leaders: Collection[int]) -> frozenset[BrokerSide]:
    """Sides whose throttle holds back lost replicas of what these lead, whether writes wait for them or not."""
    ends: set[BrokerSide] = set()
    for leader in leaders if live.lost_replica_sides else ():
        ends |= live.lost_replica_sides.get(leader, frozenset())
    for move in live.moves if leaders else ():
        lists = live.lists.get(move.topic)
        if move.leader not in leaders or lists is None:
            continue
        lost = find_lost_replicas(move, live)
        if lost and lists.leader.includes(move.partition, move.leader):
            ends.add((move.leader, Side.LEADER))
        ends |= {(broker, Side.FOLLOWER) for broker in lost if lists.follower.includes(move.partition, broker)}
    return frozenset(ends)
