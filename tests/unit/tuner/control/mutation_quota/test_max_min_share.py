"""Max–min fairness: small cases by hand, and agreement with an exact solver in any case."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from exact_sharing import oracle
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.control.mutation_quota.max_min_share import Claim, share_max_min

HUNGRY = math.inf


amounts = st.floats(0, 1e4, allow_nan=False)
claims_of = st.builds(
    Claim, demand=amounts | st.just(HUNGRY), weight=st.floats(0.01, 100), guaranteed=st.just(0.0) | st.floats(0, 100)
)


@settings(deadline=None, max_examples=300)
@given(whole=st.floats(0, 1e5), claims=st.lists(claims_of, min_size=1, max_size=12))
def test_share_equals_exact_solver(whole: float, claims: list[Claim]) -> None:
    found, exact = share_max_min(whole, claims).shares, oracle(Fraction(whole), claims)
    for one, expected in zip(found, exact, strict=True):
        assert one == pytest.approx(float(expected), rel=1e-9, abs=1e-9 * (1 + whole))


@settings(deadline=None)
@given(whole=st.floats(0, 1e5), claims=st.lists(claims_of, min_size=1, max_size=40))
def test_shares_add_up_between_guarantee_and_demand(whole: float, claims: list[Claim]) -> None:
    found = share_max_min(whole, claims)
    wanted = math.fsum(claim.demand for claim in claims)
    assert math.fsum(found.shares) == pytest.approx(min(whole, wanted), rel=1e-9, abs=1e-9)
    for one, claim in zip(found.shares, claims, strict=True):
        assert one <= claim.demand * (1 + 1e-12)
        assert found.guarantees_cut or one >= claim.guaranteed_demand * (1 - 1e-12)


@settings(deadline=None)
@given(whole=st.floats(0, 1e5), claims=st.lists(claims_of, min_size=2, max_size=12), more=st.floats(0, 1e4))
def test_larger_total_lowers_no_share(whole: float, claims: list[Claim], more: float) -> None:
    before, after = share_max_min(whole, claims).shares, share_max_min(whole + more, claims).shares
    for one, other in zip(before, after, strict=True):
        assert other >= one - 1e-7 * (1 + whole)


@pytest.mark.parametrize(
    ("total", "claims", "shares"),
    [
        pytest.param(90, [Claim(HUNGRY)] * 3, (30, 30, 30), id="equal backlogged tenants"),
        pytest.param(
            100, [Claim(10), Claim(HUNGRY, 2), Claim(HUNGRY)], (10, 60, 30), id="weights of backlogged tenants"
        ),
        pytest.param(
            100, [Claim(HUNGRY, 1, 40), *[Claim(HUNGRY, 3)] * 2], (40, 30, 30), id="guarantee above weighted share"
        ),
        pytest.param(100, [Claim(5, 1, 40), Claim(HUNGRY)], (5, 95), id="guarantee above demand"),
        pytest.param(100, [], (), id="no tenants"),
    ],
)
def test_share_max_min_gives_expected_shares(total: float, claims: list[Claim], shares: tuple[float, ...]) -> None:
    assert share_max_min(total, claims).shares == shares


def test_small_demand_is_met_and_others_share_the_rest() -> None:
    found = share_max_min(100, [Claim(10), Claim(HUNGRY), Claim(HUNGRY)])
    assert found.shares == (10, 45, 45)
    assert found.rate_per_weight == 45


def test_guarantees_above_the_total_are_cut_proportionally() -> None:
    found = share_max_min(30, [Claim(HUNGRY, 1, 40), Claim(HUNGRY, 1, 20)])
    assert found.shares == (20, 10)
    assert found.guarantees_cut


def test_rest_remains_when_all_demand_is_met() -> None:
    found = share_max_min(100, [Claim(10), Claim(20)])
    assert found.shares == (10, 20)
    assert found.rate_per_weight == math.inf


def test_shares_of_thousand_tenants_are_close_to_exact_optimum() -> None:
    claims = [Claim((i * 7919) % 97 if i % 3 else HUNGRY, 1 + i % 5, (i % 11) / 10) for i in range(1_000)]
    found, exact = share_max_min(5_000, claims).shares, oracle(Fraction(5_000), claims)
    assert max(abs(one - float(expected)) for one, expected in zip(found, exact, strict=True)) < 1e-8
