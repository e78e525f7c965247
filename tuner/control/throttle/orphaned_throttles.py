"""Throttles that serve no move: rates and lists on brokers where nothing is being reassigned.

While nothing moves that is every throttle, whoever has put it there: it holds back replicas that fall behind, and nothing else.
While something moves it is those on brokers that no move touches. Not among them is what goes by itself when the moves have
ended: what is our own, and what came with a move of which other partitions are still under way (cleanup_rules.py takes it off
with the last). A list of "*" names no broker, so that of it nothing is said before all moves have ended.
"""

from __future__ import annotations

from itertools import chain, islice

from tuner.control.throttle.state import Memory
from tuner.core.cluster import LiveCluster
from tuner.core.throttle_limits import Limits

_BATCH = 1_000


def count_orphaned_settings(live: LiveCluster, memory: Memory, limits: Limits) -> int:
    """Settings: a rate for all brokers (``<default>``) is one a side, a list one a topic and side."""
    touched = _BrokersOfMoves(live, memory, limits)
    return _count_rates(live, memory, touched) + _count_lists(live, memory, touched)


def count_orphaned_rates(live: LiveCluster, memory: Memory, limits: Limits) -> int:
    return _count_rates(live, memory, _BrokersOfMoves(live, memory, limits))


class _BrokersOfMoves:
    """Brokers with a replica of what moves, and of what has moved since nothing did where its end takes the throttle with it.

    Asked one by one: a large cluster moves tens of thousands of partitions, and nearly every broker has a replica of one of the
    first thousand.
    """

    def __init__(self, live: LiveCluster, memory: Memory, limits: Limits) -> None:
        self._found: set[int] = set()
        moves = (move.replicas for move in live.moves)
        ended = memory.moving_replicas.values() if live.moves and limits.clears_finished and memory.throttled else ()
        self._replicas = chain(moves, ended)

    def __contains__(self, broker: object) -> bool:
        while broker not in self._found:
            some = list(islice(self._replicas, _BATCH))
            if not some:
                return False
            self._found.update(*some)
        return True


def _count_rates(live: LiveCluster, memory: Memory, touched: _BrokersOfMoves) -> int:
    ours = memory.owned if live.moves else ()
    others = {side: setting for side, setting in live.rates.items() if side not in ours}
    if not others:
        return 0
    standing = {side: setting for side, setting in others.items() if side[0] not in touched}
    # What holds for all brokers serves a move on any of them.
    serving = {side for (broker, side), setting in live.rates.items() if not setting.is_own and broker in touched}
    return sum(setting.is_own for setting in standing.values()) + len(
        {side for (_, side), setting in standing.items() if not setting.is_own} - serving
    )


def _count_lists(live: LiveCluster, memory: Memory, touched: _BrokersOfMoves) -> int:
    each = [(topic, one) for topic, both in live.lists.items() for one in (both.leader, both.follower) if one]
    if not live.moves:
        return len(each)
    return sum(
        not one.all_replicas and topic not in memory.listed and not any(broker in touched for _, broker in one.pairs)
        for topic, one in each
    )
