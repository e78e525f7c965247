"""Which throttles the law should hurry: those of a move that stalls, and those that keep lost replicas from coming back.

Intuition: a throttle that is put on for a move also holds back a replica that was in sync and fell out, for the lists name all
replicas of a moving partition. Such a replica is not a part of the move but of what producers rely on.
"""

from __future__ import annotations

from streaming.contract import Side
from tuner.model.cluster import BrokerSide, LiveCluster
from tuner.model.memory import Memory


def stalled_ends(live: LiveCluster, memory: Memory) -> frozenset[BrokerSide]:
    """Both ends of every move that the judge calls stalled."""
    stalled = {broker for broker, state in memory.stalls.items() if state.stalled}
    ends: set[BrokerSide] = set()
    for move in live.moves:
        for destination in stalled.intersection(move.destinations):
            ends |= {(destination, Side.FOLLOWER), (move.leader, Side.LEADER)}
    return frozenset(ends)


def recovering(live: LiveCluster) -> frozenset[BrokerSide]:
    """Both ends of what brings replicas back that have been in the ISR and are not now. Those of a dead broker wait for it."""
    ends: set[BrokerSide] = set()
    for move in live.moves:
        lost = (live.brokers & {*move.replicas}) - {*move.adding, *move.isr}
        if lost and move.leader >= 0:
            ends |= {(move.leader, Side.LEADER), *((broker, Side.FOLLOWER) for broker in lost)}
    return frozenset(ends)
