"""`rheostat doctor` about throttles that nothing uses."""

from __future__ import annotations

from tuner_cases import F, L, move, owned, throttle

from rheostat.doctor.leftovers import leftover_names
from tuner.control.throttle.audit import RateSource, ThrottleSettings
from tuner.control.throttle.state import Memory
from tuner.core.throttle_limits import MB

RATE = (5 * MB, RateSource.BROKER)
SETTINGS = ThrottleSettings(
    {(1, L): RATE, (9, F): RATE}, {F: 5 * MB}, {"orders": throttle([(0, 1)]), "logs": throttle([(0, 9)], [(1, 9)])}
)


def test_unused_throttles_are_named_without_those_of_moves() -> None:
    moving = ThrottleSettings(SETTINGS.rates, SETTINGS.default_rates, SETTINGS.lists, moves=(move(),))
    assert leftover_names(moving, Memory()) == [
        "broker 9 follower throttle",
        "follower throttle of all brokers",
        "leader list of topic logs",
        "follower list of topic logs",
    ]


def test_managed_throttles_are_not_named() -> None:
    memory = Memory(
        owned={(1, L): owned(None, 5 * MB), (9, F): owned(None, 5 * MB)}, listed={"logs": throttle([(0, 9)])}
    )
    assert leftover_names(SETTINGS, memory) == [
        "follower throttle of all brokers",
        "follower list of topic logs",
        "leader list of topic orders",
    ]
