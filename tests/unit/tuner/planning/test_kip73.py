"""KIP-73's formula and its rule for responses, with the KIP's own examples."""

from __future__ import annotations

import pytest

from tuner.core.drain_time import RateVerdict, drain_s, estimate_rate
from tuner.core.throttle_limits import MB
from tuner.planning.kip73 import RESPONSE_BYTES_MAX, Kip73Figures, ResponseRule, kip73_figures

GB, TB = 1000 * MB, 1_000_000 * MB


def rule(brokers: int, response: float, *, window: float = 10.0, network: float | None = 100.0 * MB) -> ResponseRule:
    return ResponseRule(brokers, response, window, network)


@pytest.mark.parametrize(
    ("brokers", "bound_bytes"),
    [
        (2, 10 * MB),  # "Note that this calculation is independent of the number of brokers."
        (5, 10 * MB),  # "The largest permissible would be 1MB/s * 10s = 10MB."
        (50, 10 * MB),
        (500, 2 * MB),  # The network is the limit: "10s * 100MB/s / 500 = 2MB".
    ],
)
def test_response_bytes_bound_matches_kip_73_question_5(brokers: int, bound_bytes: float) -> None:
    assert rule(brokers, 10 * MB).response_bytes_bound(1 * MB) == bound_bytes


@pytest.mark.parametrize(
    ("brokers", "response_bytes", "rate", "holds"),
    [
        (5, 10 * MB, 1 * MB, False),  # 10 s, the length of the window: not below it.
        (5, 10 * MB, 1 * MB + 1, True),
        (500, 10 * MB, 1 * MB, False),
        (500, 1.99 * MB, 1 * MB, True),
    ],
)
def test_response_rule_holds_below_the_window(brokers: int, response_bytes: float, rate: int, holds: bool) -> None:
    assert rule(brokers, response_bytes).holds(rate) is holds


def test_first_responses_s_five_brokers_fill_the_window() -> None:
    assert rule(5, 10 * MB).first_responses_s(1 * MB) == 10.0


def test_response_rule_defaults_hold_above_about_1_mb_s() -> None:
    """The KIP: "the default value, of 10MB, is small enough to support leader quotas over 1MB/s", in a window of 11 s."""
    defaults = ResponseRule(12, RESPONSE_BYTES_MAX, 11.0)
    assert defaults.rate_bytes_per_s_min() == 953_251
    assert defaults.holds(953_251)
    assert not defaults.holds(953_250)


@pytest.mark.parametrize(("brokers", "min_rate"), [(5, 1_000_001), (99, 1_000_001), (500, None)])
def test_rate_bytes_per_s_min_slow_network_leaves_no_rate(brokers: int, min_rate: int | None) -> None:
    assert rule(brokers, 10 * MB).rate_bytes_per_s_min() == min_rate


# -- the formula ---------------------------------------------------------------------------------------------------------


def test_drain_s_kip73_move_time() -> None:
    """10 % of 12 brokers × 1 TB at 50 MB/s, 20 of which the writes take: 1.2 TB ÷ 30 MB/s."""
    kip = Kip73Figures(0.10, 1 * TB, 12, 20.0 * MB)
    assert kip.bytes_to_move == pytest.approx(1.2 * TB)
    assert drain_s(kip.load(), 50 * MB) == pytest.approx(40_000.0)


def test_estimate_rate_at_bytes_in_never_ends() -> None:
    kip = {"cluster": Kip73Figures(0.10, 1 * TB, 12, 20.0 * MB).load()}
    assert estimate_rate(kip, rate_bytes_per_s_max=20 * MB).verdict is RateVerdict.NEVER_ENDS
    assert estimate_rate(kip, rate_bytes_per_s_max=20 * MB).rate_bytes_per_s_min == 20_000_001


def test_estimate_rate_from_time_inverts_the_formula() -> None:
    kip = {"cluster": Kip73Figures(0.5, 36.0 * GB, 4, 5.0 * MB).load()}
    assert estimate_rate(kip, time_s_max=7200).rate_bytes_per_s == 15_000_000


def test_kip73_figures_of_a_cluster() -> None:
    """Two of eight partitions move; three brokers, one of them empty; the busiest takes 3 MB/s from clients."""
    kip = kip73_figures(2, 8, [60.0 * MB, 30.0 * MB, 0.0], [3.0 * MB, 1.0 * MB])
    assert kip == Kip73Figures(0.25, 30.0 * MB, 3, 3.0 * MB)
    assert kip.bytes_to_move == 22.5 * MB


def test_kip73_figures_without_writes_are_zero() -> None:
    assert kip73_figures(1, 1, [1.0 * MB], []).bytes_in_per_s_max == 0.0
