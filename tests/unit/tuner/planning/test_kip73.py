"""KIP-73's formula and its rule for responses, with the KIP's own examples."""

from __future__ import annotations

import pytest

from tuner.core.drain_time import RateVerdict, drain_s, estimate_rate
from tuner.core.throttle_limits import MB
from tuner.planning.kip73 import RESPONSE_BYTES_MAX, Kip73Figures, ResponseRule, kip73_figures

GB, TB = 1000 * MB, 1_000_000 * MB


def rule(brokers: int, response: float, *, window: float = 10.0, network: float | None = 100.0 * MB) -> ResponseRule:
    return ResponseRule(brokers, response, window, network)


def test_five_nodes_at_1_mb_s_on_gigabit_may_have_responses_of_10_mb() -> None:
    """Question 5: "the largest permissible would be 1MB/s * 10s = 10MB"."""
    five = rule(5, 10 * MB)
    assert five.response_bytes_bound(1 * MB) == 10 * MB
    assert five.first_responses_s(1 * MB) == 10.0


@pytest.mark.parametrize("brokers", [2, 5, 50])
def test_where_the_throttles_bind_the_number_of_brokers_does_not_matter(brokers: int) -> None:
    """Question 5: "Note that this calculation is independent of the number of brokers"."""
    assert rule(brokers, 10 * MB).response_bytes_bound(1 * MB) == 10 * MB


def test_five_hundred_nodes_are_bound_by_the_network_to_2_mb() -> None:
    """Question 5: "10s * 100MB/s / 500 = 2MB"."""
    assert rule(500, 10 * MB).response_bytes_bound(1 * MB) == 2 * MB
    assert not rule(500, 10 * MB).holds(1 * MB)
    assert rule(500, 1.99 * MB).holds(1 * MB)


def test_the_rule_is_less_than_the_window() -> None:
    assert not rule(5, 10 * MB).holds(1 * MB)
    assert rule(5, 10 * MB).holds(1 * MB + 1)
    assert rule(5, 10 * MB).rate_bytes_per_s_min() == 1_000_001


def test_the_defaults_allow_rates_above_about_1_mb_s() -> None:
    """The KIP: "the default value, of 10MB, is small enough to support leader quotas over 1MB/s", in a window of 11 s."""
    defaults = ResponseRule(12, RESPONSE_BYTES_MAX, 11.0)
    assert defaults.rate_bytes_per_s_min() == 953_251
    assert defaults.holds(953_251)
    assert not defaults.holds(953_250)


def test_a_network_that_is_too_slow_leaves_no_rate() -> None:
    assert rule(500, 10 * MB).rate_bytes_per_s_min() is None
    assert rule(99, 10 * MB).rate_bytes_per_s_min() == 1_000_001


# -- the formula ---------------------------------------------------------------------------------------------------------


def test_move_time() -> None:
    """10 % of 12 brokers × 1 TB at 50 MB/s, 20 of which the writes take: 1.2 TB ÷ 30 MB/s."""
    kip = Kip73Figures(0.10, 1 * TB, 12, 20.0 * MB)
    assert kip.bytes_to_move == pytest.approx(1.2 * TB)
    assert drain_s(kip.load(), 50 * MB) == pytest.approx(40_000.0)


def test_at_max_bytes_in_it_never_ends() -> None:
    kip = {"cluster": Kip73Figures(0.10, 1 * TB, 12, 20.0 * MB).load()}
    assert estimate_rate(kip, rate_bytes_per_s_max=20 * MB).verdict is RateVerdict.NEVER_ENDS
    assert estimate_rate(kip, rate_bytes_per_s_max=20 * MB).rate_bytes_per_s_min == 20_000_001


def test_rate_from_time_is_the_formula_turned_round() -> None:
    kip = {"cluster": Kip73Figures(0.5, 36.0 * GB, 4, 5.0 * MB).load()}
    assert estimate_rate(kip, time_s_max=7200).rate_bytes_per_s == 15_000_000


def test_the_figures_from_a_cluster() -> None:
    """Two of eight partitions move; three brokers, one of them empty; the busiest takes 3 MB/s from clients."""
    kip = kip73_figures(2, 8, [60.0 * MB, 30.0 * MB, 0.0], [3.0 * MB, 1.0 * MB])
    assert kip == Kip73Figures(0.25, 30.0 * MB, 3, 3.0 * MB)
    assert kip.bytes_to_move == 22.5 * MB


def test_a_cluster_that_nobody_writes_to() -> None:
    assert kip73_figures(1, 1, [1.0 * MB], []).bytes_in_per_s_max == 0.0
