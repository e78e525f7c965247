"""Throttles that serve no move: rates and lists on brokers where nothing is being reassigned.

While nothing moves that is every throttle, whoever has put it there: it holds back replicas that fall behind, and nothing else.
While something moves it is those on brokers that no move touches. Not among them is what goes by itself when the moves have
ended: what is our own, and what came with a move of which other partitions are still under way (decide/ending.py takes it off
with the last). A list of "*" names no broker, so that of it nothing is said before all moves have ended.
"""

from __future__ import annotations

from collections.abc import Set

from tuner.model.cluster import LiveCluster
from tuner.model.limits import Limits
from tuner.model.memory import Memory


def idle_keys(live: LiveCluster, memory: Memory, limits: Limits) -> int:
    """Settings: a rate for all brokers (``<default>``) is one a side, a list one a topic and side."""
    if not live.rates and not live.lists:
        return 0
    touched = _touched(live, memory, limits)
    return _rates(live, memory, touched) + _lists(live, memory, touched)


def idle_rates(live: LiveCluster, memory: Memory, limits: Limits) -> int:
    return _rates(live, memory, _touched(live, memory, limits)) if live.rates else 0


def _rates(live: LiveCluster, memory: Memory, touched: Set[int]) -> int:
    ours = memory.owned if live.moves else ()
    standing = {side: setting for side, setting in live.rates.items() if side[0] not in touched and side not in ours}
    # What holds for all brokers serves a move on any of them.
    serving = {side for (broker, side), setting in live.rates.items() if broker in touched and not setting.own}
    return sum(setting.own for setting in standing.values()) + len(
        {side for (_, side), setting in standing.items() if not setting.own} - serving
    )


def _lists(live: LiveCluster, memory: Memory, touched: Set[int]) -> int:
    each = [(topic, one) for topic, both in live.lists.items() for one in (both.leader, both.follower) if one]
    if not live.moves:
        return len(each)
    return sum(
        not one.every and topic not in memory.listed and not any(broker in touched for _, broker in one.pairs)
        for topic, one in each
    )


def _touched(live: LiveCluster, memory: Memory, limits: Limits) -> Set[int]:
    """Brokers with a replica of what moves, and of what has moved since nothing did where its end takes the throttle with it."""
    if not live.moves:
        return frozenset()
    found = frozenset[int]().union(*(move.replicas for move in live.moves))
    if limits.clear_finished and memory.throttled and not live.brokers <= found:
        found = found.union(*memory.seen.values())
    return found
