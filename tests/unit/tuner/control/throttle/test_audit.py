"""Which throttles serve a move, a recovering replica, or nothing, and which of them rheostat manages."""

from __future__ import annotations

import pytest
from tuner_cases import F, L, move, owned, throttle

from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.control.throttle.audit import (
    LostReplicas,
    RateSource,
    Serves,
    ThrottleSettings,
    audit_lists,
    audit_log_dir_rates,
    audit_rates,
)
from tuner.control.throttle.state import Memory
from tuner.core.throttle_limits import MB

RATE = (5 * MB, RateSource.BROKER)
DEFAULT = (5 * MB, RateSource.DEFAULT)
EVERY = ThrottledReplicas(all_replicas=True)
LOST = LostReplicas("logs", 0, leader=4, brokers=(5,))
MOVES, RECOVERY, NOTHING = Serves.MOVES, Serves.RECOVERY, Serves.NOTHING


@pytest.mark.parametrize(
    ("settings", "served"),
    [
        (ThrottleSettings({(1, L): RATE, (3, F): RATE, (9, L): RATE}, moves=(move(),)), [MOVES, MOVES, NOTHING]),
        (ThrottleSettings({(2, F): RATE}, moves=(move(),)), [MOVES]),  # Broker 2 may become the leader of the move.
        (ThrottleSettings({(5, F): RATE}, lost=(LOST,)), [NOTHING]),  # No list names the lost replica.
        (ThrottleSettings({(5, F): RATE}, lists={"logs": throttle((), [(0, 5)])}, lost=(LOST,)), [RECOVERY]),
        (ThrottleSettings({(4, L): RATE}, lists={"logs": throttle([(0, 4)])}, lost=(LOST,)), [RECOVERY]),
        (ThrottleSettings({(5, L): RATE}, lists={"logs": TopicThrottle(EVERY, EVERY)}, lost=(LOST,)), [NOTHING]),
        (ThrottleSettings({(5, F): RATE}, lists={"logs": TopicThrottle(follower=EVERY)}, lost=(LOST,)), [RECOVERY]),
        (ThrottleSettings({(9, F): (7, RateSource.FILE)}), [NOTHING]),
    ],
    ids=["move", "other-replica", "unlisted", "listed", "leader-side", "wrong-side", "star", "file"],
)  # fmt: skip
def test_rates_serve_what_copies_through_them(settings: ThrottleSettings, served: list[Serves]) -> None:
    assert [rate.serves for rate in audit_rates(settings, Memory())] == served


def test_default_rate_serves_what_brokers_without_their_own_rate_copy() -> None:
    rates = {(3, F): RATE, (8, F): DEFAULT, (8, L): DEFAULT, (1, L): DEFAULT}
    settings = ThrottleSettings(rates, {L: 5 * MB, F: 6 * MB}, moves=(move(),))
    audited = audit_rates(settings, Memory())
    assert [(rate.broker, rate.side, rate.bytes_per_s, rate.serves) for rate in audited] == [
        (3, F, 5 * MB, MOVES),
        (None, F, 6 * MB, NOTHING),
        (None, L, 5 * MB, MOVES),
    ]


@pytest.mark.parametrize(
    ("lists", "serves"),
    [
        (throttle([(0, 1)], [(0, 3)]), [MOVES, MOVES]),
        (throttle([(1, 1)], [(0, 9)]), [NOTHING, NOTHING]),  # Another partition, and a broker that takes no part.
        (TopicThrottle(EVERY, EVERY), [MOVES, MOVES]),
    ],
)
def test_lists_serve_the_moves_that_they_name(lists: TopicThrottle, serves: list[Serves]) -> None:
    audited = audit_lists(ThrottleSettings(lists={"orders": lists}, moves=(move(),)), Memory())
    assert [(replicas.side, replicas.serves) for replicas in audited] == list(zip((L, F), serves, strict=True))


def test_lists_of_other_topics_serve_no_move() -> None:
    settings = ThrottleSettings(lists={"audit": TopicThrottle(EVERY)}, moves=(move(),))
    assert [replicas.serves for replicas in audit_lists(settings, Memory())] == [NOTHING]


def test_lists_serve_lost_replicas_and_their_leader() -> None:
    lists = {"logs": throttle([(0, 4)], [(0, 5), (1, 7)]), "orders": TopicThrottle(EVERY)}
    audited = audit_lists(ThrottleSettings(lists=lists, lost=(LOST,)), Memory())
    assert [replicas.serves for replicas in audited] == [RECOVERY, RECOVERY, NOTHING]


def test_managed_means_that_rheostat_has_set_all_of_it() -> None:
    memory = Memory(owned={(1, L): owned(None, 5 * MB)}, listed={"orders": throttle([(0, 1)], [(0, 3)])})
    settings = ThrottleSettings({(1, L): RATE, (3, F): RATE}, lists={"orders": throttle([(0, 1)], [(0, 3), (1, 3)])})
    assert [rate.managed for rate in audit_rates(settings, memory)] == [True, False]
    audited = audit_lists(settings, memory)
    assert [(replicas.managed, replicas.managed_entries) for replicas in audited] == [(True, 1), (False, 1)]


@pytest.mark.parametrize(
    ("copies", "serves"),
    [((), [NOTHING, NOTHING, NOTHING]), ((1,), [MOVES, NOTHING, NOTHING]), ((3,), [NOTHING, NOTHING, MOVES])],
)
def test_log_dir_rates_serve_copies_on_their_brokers(copies: tuple[int, ...], serves: list[Serves]) -> None:
    """Broker 3 has no rate of its own, so the default limits it."""
    rates = {None: (5 * MB, RateSource.DEFAULT), 2: (7, RateSource.FILE), 1: RATE}
    audited = audit_log_dir_rates(ThrottleSettings(log_dir_rates=rates, log_dir_copies=frozenset(copies)))
    assert [limit.broker for limit in audited] == [1, 2, None]
    assert [limit.serves for limit in audited] == serves
