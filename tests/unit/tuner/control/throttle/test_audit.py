"""Which throttles serve a move, a recovering replica, or nothing, and which of them rheostat manages."""

from __future__ import annotations

import pytest
from tuner_cases import F, L, move, owned, throttle

from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.control.throttle.audit import (
    AbsentReplicas,
    LostReplicas,
    RateSource,
    Serves,
    ThrottleSettings,
    audit_lists,
    audit_log_dir_rates,
    audit_rates,
)
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide
from tuner.core.throttle_limits import MB

RATE = (5 * MB, RateSource.BROKER)
DEFAULT = (5 * MB, RateSource.DEFAULT)
EVERY = ThrottledReplicas(all_replicas=True)
LOST = LostReplicas("logs", 0, leader=4, brokers=(5,))
AWAY = AbsentReplicas("logs", 1, replicas=(6, 7, 8), brokers=(7,))
MOVES, RECOVERY, ABSENT, NOTHING = Serves


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
        (ThrottleSettings({(6, L): RATE, (8, L): RATE, (9, L): RATE}, lists={"logs": TopicThrottle(EVERY)}, absent=(AWAY,)),
         [ABSENT, ABSENT, NOTHING]),  # Broker 6 or 8 may lead when broker 7 is back; broker 9 has no replica.
        (ThrottleSettings({(7, F): RATE, (6, F): RATE}, lists={"logs": TopicThrottle(EVERY, EVERY)}, absent=(AWAY,)),
         [NOTHING, ABSENT]),
        (ThrottleSettings({(6, L): RATE}, lists={"logs": throttle([(0, 6)], [(1, 7)])}, absent=(AWAY,)), [NOTHING]),
        (ThrottleSettings({(6, L): RATE}, lists={"logs": TopicThrottle(EVERY)}, absent=(AWAY,), lost=(
            LostReplicas("logs", 1, leader=6, brokers=(8,)),)), [RECOVERY]),
    ],
    ids=["move", "other-replica", "unlisted", "listed", "leader-side", "wrong-side", "star", "file", "absent-leaders",
         "absent-disk", "absent-unlisted", "absent-and-lost"],
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
    ("rates", "serves"),
    [
        ({(6, L): RATE}, [ABSENT, NOTHING]),
        ({(6, L): DEFAULT}, [ABSENT, ABSENT]),
        ({(6, L): RATE, (7, F): RATE}, [NOTHING, NOTHING]),
    ],
    ids=["broker-away", "leader-uses-default", "only-its-disk-is-away"],
)
def test_default_rate_will_hold_back_a_broker_that_is_away(
    rates: dict[BrokerSide, tuple[int, RateSource]], serves: list[Serves]
) -> None:
    """The own rate of a broker that is away cannot be read."""
    lists = {"logs": throttle([(1, 6)], [(1, 7)])}
    settings = ThrottleSettings(rates, {F: 5 * MB, L: 5 * MB}, lists, absent=(AWAY,))
    defaults = [rate.serves for rate in audit_rates(settings, Memory()) if rate.broker is None]
    assert defaults == serves


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


def test_lists_wait_for_absent_replicas_of_their_topic() -> None:
    lists = {"logs": throttle([(1, 6)], [(0, 7), (1, 7)]), "orders": TopicThrottle(EVERY)}
    audited = audit_lists(ThrottleSettings(lists=lists, absent=(AWAY,)), Memory())
    assert [replicas.serves for replicas in audited] == [ABSENT, ABSENT, NOTHING]
    unlisted = audit_lists(ThrottleSettings(lists={"logs": throttle([(0, 6)], [(0, 7)])}, absent=(AWAY,)), Memory())
    assert [replicas.serves for replicas in unlisted] == [NOTHING, NOTHING]


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
