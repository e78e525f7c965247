"""Counts orphaned throttles: rates and throttled-replica lists that serve no move and that the tuner will not remove.

While nothing moves, every throttle is orphaned. While something moves, a throttle on brokers that no move uses is orphaned, except

- a throttle that the tuner manages;
- a throttle that was set for an ended move: the tuner removes it when all moves have ended (cleanup_rules.py);
- a list of "*", which names no broker. It counts only after all moves have ended.

A recovery that the tuner throttles counts as a move.
"""

from __future__ import annotations

from itertools import chain, islice

from tuner.control.throttle.recovery import with_recoveries
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide, LiveCluster
from tuner.core.throttle_limits import ThrottleLimits

_BATCH = 1_000


def count_orphaned_settings(live: LiveCluster, memory: Memory, limits: ThrottleLimits) -> int:
    """Returns the number of orphaned rates and lists. A rate for all brokers (``<default>``) counts once per side."""
    live = with_recoveries(live, limits, memory)
    participants = _BrokersOfMoves(live, memory, limits)
    return _count_rates(live, memory, participants) + _count_lists(live, memory, participants)


def count_orphaned_rates(live: LiveCluster, memory: Memory, limits: ThrottleLimits) -> int:
    """Returns the number of orphaned rates, counted as in ``count_orphaned_settings``."""
    live = with_recoveries(live, limits, memory)
    return _count_rates(live, memory, _BrokersOfMoves(live, memory, limits))


class _BrokersOfMoves:
    """The brokers with a replica of a running move, or of an ended move whose throttle the tuner will remove.

    The set grows only as far as the look-ups need. A large cluster moves tens of thousands of partitions, and the first thousand of
    them use nearly every broker.
    """

    def __init__(self, live: LiveCluster, memory: Memory, limits: ThrottleLimits) -> None:
        self._brokers: set[int] = set()
        running = (move.replicas for move in live.moves)
        ended = memory.moving_replicas.values() if live.moves and limits.clears_finished and memory.throttled else ()
        self._replicas = chain(running, ended)

    def __contains__(self, broker: object) -> bool:
        while broker not in self._brokers:
            batch = list(islice(self._replicas, _BATCH))
            if not batch:
                return False
            self._brokers.update(*batch)
        return True


def _count_rates(live: LiveCluster, memory: Memory, participants: _BrokersOfMoves) -> int:
    """Returns the number of rates that no move uses; a rate for all brokers counts once per side."""
    # Without moves the tuner's own rates serve no move, so they count too.
    excluded = memory.owned.keys() if live.moves else frozenset[BrokerSide]()
    unused = {
        side: setting for side, setting in live.rates.items() if side not in excluded and side[0] not in participants
    }
    if not unused:
        return 0
    # A rate for all brokers is in use if a move uses any broker that inherits it.
    used_defaults = {
        side for (broker, side), rate in live.rates.items() if not rate.is_set_on_broker and broker in participants
    }
    unused_defaults = {side for (_, side), setting in unused.items() if not setting.is_set_on_broker} - used_defaults
    return sum(setting.is_set_on_broker for setting in unused.values()) + len(unused_defaults)


def _count_lists(live: LiveCluster, memory: Memory, participants: _BrokersOfMoves) -> int:
    lists = [
        (topic, replicas)
        for topic, throttle in live.lists.items()
        for replicas in (throttle.leader, throttle.follower)
        if replicas
    ]
    if not live.moves:
        return len(lists)
    return sum(
        not replicas.all_replicas
        and topic not in memory.listed
        and not any(broker in participants for _, broker in replicas.pairs)
        for topic, replicas in lists
    )
