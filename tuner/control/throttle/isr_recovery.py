"""Finds the throttles that slow stalled moves, and the throttles that slow lost replicas.

A lost replica has fallen out of the ISR although its broker is alive. A throttled-replica list of another tool often names all
replicas of a moving partition, or "*", which includes partitions that do not move. Then the throttle also slows a lost replica, for
which producers may wait. The tuner's own lists do not name lost replicas (replica_lists/list_rules.py). If a list of another tool
names a lost replica, the tuner raises the throttle.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from streaming.shared.contract import BrokerSignal, Side
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide, LiveCluster, PartitionMove

_NONE = frozenset[int]()


def sides_of_stalled_moves(live: LiveCluster, memory: Memory) -> frozenset[BrokerSide]:
    """Returns the leader's and the destination's side of every stalled move."""
    stalled = {broker for broker, state in memory.stalls.items() if state.stalled}
    if not stalled:
        return frozenset()
    sides: set[BrokerSide] = set()
    for move in live.moves:
        for destination in stalled.intersection(move.destinations):
            sides |= {(destination, Side.FOLLOWER), (move.leader, Side.LEADER)}
    return frozenset(sides)


def find_lost_replicas(move: PartitionMove, live: LiveCluster) -> frozenset[int]:
    """Returns the lost replicas of a partition on live brokers; empty without a leader, because the ISR is then unknown."""
    if move.leader < 0:
        return _NONE
    isr, adding = move.isr, move.adding
    for broker in move.replicas:  # A fast check: nearly all of tens of thousands of moves have no lost replica.
        if broker not in isr and broker not in adding:
            return live.brokers.intersection(move.replicas).difference(isr, adding)
    return _NONE


def sides_blocking_writes(live: LiveCluster, brokers: Mapping[int, BrokerSignal]) -> frozenset[BrokerSide]:
    """Returns the sides whose throttle slows lost replicas for which partitions wait before they accept writes.

    These partitions come from two sources: signals of leaders under min.insync.replicas, and the ISR of each recovering partition,
    which the tuner reads if it throttles recoveries. A side whose list names no lost replica is left out, because a higher rate
    there would only speed up the moves.

    Args:
        brokers: fresh broker signals; a broker without a fresh signal is assumed to accept writes.
    """
    return live.below_minimum_sides | sides_slowing_lost_replicas(live, leaders_under_min_isr(brokers))


def leaders_under_min_isr(brokers: Mapping[int, BrokerSignal]) -> set[int]:
    """Returns the leaders that report partitions under min.insync.replicas, which accept no writes."""
    return {broker for broker, signal in brokers.items() if (signal.under_min_isr_partitions or 0.0) > 0.0}


def leaders_to_inspect(
    live: LiveCluster | None,
    memory: Memory,
    steered: Collection[BrokerSide],
    brokers: Mapping[int, BrokerSignal],
) -> frozenset[int]:
    """Returns the brokers of which the tuner also reads partitions that do not move, because a throttle may slow lost replicas.

    These are

    - leaders under min.insync.replicas, while anything moves or the tuner owns a rate;
    - brokers with a temporary rate, after which another rate must be restored, unless the control law sets the rate.

    Args:
        live: the last snapshot; None: there is none yet.
        steered: the sides that the control law sets.
        brokers: fresh broker signals.
    """
    temporary = {
        side[0]
        for side, owned in memory.owned.items()
        if owned.restore_to_bytes_per_s is not None and side not in steered
    }
    if live is None or not (live.moves or memory.owned):
        return frozenset(temporary)
    return frozenset(temporary) | leaders_under_min_isr(brokers)


def sides_possibly_blocking_writes(live: LiveCluster, brokers: Mapping[int, BrokerSignal]) -> frozenset[BrokerSide]:
    """Returns the sides that slow lost replicas of leaders that are under min.insync.replicas or have no fresh signal.

    Without a fresh signal it is unknown whether writes wait for the lost replicas.

    Args:
        brokers: fresh broker signals.
    """
    return sides_slowing_lost_replicas(live, (live.brokers - brokers.keys()) | leaders_under_min_isr(brokers))


def sides_slowing_lost_replicas(live: LiveCluster, leaders: Collection[int]) -> frozenset[BrokerSide]:
    """Returns the sides whose throttle slows lost replicas of these leaders' partitions."""
    sides: set[BrokerSide] = set()
    if not leaders:
        return frozenset()
    if live.lost_replica_sides:  # Has the partitions that do not move.
        for leader in leaders:
            sides |= live.lost_replica_sides.get(leader, frozenset())
    for move in live.moves:
        lists = live.lists.get(move.topic)
        if move.leader not in leaders or lists is None:
            continue
        lost = find_lost_replicas(move, live)
        if lost and lists.leader.includes(move.partition, move.leader):
            sides.add((move.leader, Side.LEADER))
        sides |= {(broker, Side.FOLLOWER) for broker in lost if lists.follower.includes(move.partition, broker)}
    return frozenset(sides)
