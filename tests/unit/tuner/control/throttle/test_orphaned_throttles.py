"""Which throttles count as orphaned, with and without running moves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tuner_cases import LIMITS, OWN_LISTS, SEEN, SOURCE, TARGET, F, L, live, owned, throttle

from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.control.throttle.orphaned_throttles import count_orphaned_rates, count_orphaned_settings
from tuner.control.throttle.state import Memory
from tuner.core.cluster import LiveCluster, RateSetting
from tuner.core.throttle_limits import MB

FIVE = (1, 2, 3, 4, 5)  # The move is of 1, 2 and 3.
EVERY = TopicThrottle(ThrottledReplicas(all_replicas=True))
MOVES = {SOURCE: 10 * MB, TARGET: 10 * MB}
AWAY = {(4, L): 5 * MB, (5, F): 5 * MB}


def default(cluster: LiveCluster, *brokers: int) -> LiveCluster:
    """With a rate of 5 MB/s for all brokers, in force on these: both sides."""
    everywhere = {(broker, side): RateSetting(5 * MB, is_set_on_broker=False) for broker in brokers for side in (L, F)}
    return replace(cluster, rates={**everywhere, **cluster.rates})


@pytest.mark.parametrize(
    ("cluster", "keys"),
    [
        (live(brokers=FIVE), 0),  # All of it is the move's.
        (live({**MOVES, **AWAY}, brokers=FIVE), 2),
        (live({**MOVES, (2, F): 5 * MB}, brokers=FIVE), 0),  # It has a replica of what moves.
        (live(brokers=FIVE, lists=OWN_LISTS | {"t": throttle([(0, 4)], [(0, 5)])}), 2),
        (live(brokers=FIVE, lists=OWN_LISTS | {"t": throttle([(0, 4), (0, 2)])}), 0),
        (live(brokers=FIVE, lists=OWN_LISTS | {"t": EVERY}), 0),  # Of whichever brokers.
        (default(live(brokers=FIVE), *FIVE), 0),  # It holds the move as well.
        (default(live(brokers=FIVE), 4, 5), 2),  # It counts where no move is: one a side, not one a broker.
        (default(live(brokers=FIVE), 1, 2, 3), 0),
        (default(live({}, moves=(), lists={}), 1, 2, 3), 2),
        (default(live({SOURCE: 5 * MB}, moves=(), lists={"t": EVERY}), 2, 3), 4),
        (live({}, brokers=FIVE, lists={}), 0),
    ],
)  # fmt: skip
def test_throttle_settings_without_moves_are_counted(cluster: LiveCluster, keys: int) -> None:
    assert count_orphaned_settings(cluster, Memory(), LIMITS) == keys


def test_owned_rates_are_orphaned_only_without_moves() -> None:
    memory = Memory(owned={(4, L): owned(None, 5 * MB)}, listed={"t": throttle([(0, 4)])})
    lists = OWN_LISTS | {"t": throttle([(0, 4)])}
    assert count_orphaned_settings(live({**MOVES, **AWAY}, brokers=FIVE, lists=lists), memory, LIMITS) == 1
    assert count_orphaned_settings(live(AWAY, moves=(), lists=lists), memory, LIMITS) == 2 + 3


def test_throttles_of_ended_moves_are_counted_after_the_last_move() -> None:
    """Brokers 4 and 5 have finished their part of a plan."""
    cluster = live({**MOVES, **AWAY}, brokers=FIVE, lists=OWN_LISTS | {"t": throttle([(0, 4)], [(0, 5)])})
    memory = Memory(moving_replicas=SEEN | {("t", 0): frozenset({4, 5})}, throttled=True)
    assert count_orphaned_settings(cluster, memory, LIMITS) == 0
    assert count_orphaned_settings(cluster, replace(memory, throttled=False), LIMITS) == 4
    assert count_orphaned_settings(cluster, memory, replace(LIMITS, clears_finished=False)) == 4, (
        "the tuner would not remove it"
    )
    assert count_orphaned_settings(replace(cluster, moves=()), memory, LIMITS) == 4 + 4


def test_throttles_of_moves_on_dead_brokers_are_not_counted() -> None:
    cluster = live(MOVES, lists=OWN_LISTS | {"t": throttle([(0, 4)])})
    memory = Memory(moving_replicas=SEEN | {("t", 0): frozenset({4, 5})}, throttled=True)
    assert cluster.brokers == {1, 2, 3}
    assert count_orphaned_settings(cluster, memory, LIMITS) == 0


def test_orphaned_rates_are_counted_without_lists() -> None:
    assert count_orphaned_rates(live({**MOVES, **AWAY}, brokers=FIVE), Memory(), LIMITS) == 2
    assert count_orphaned_rates(live({}, moves=()), Memory(), LIMITS) == 0
