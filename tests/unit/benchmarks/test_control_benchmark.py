"""The verdicts of the control benchmark on given results, and the rival policies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.control import _print, beaten, measure, missed, totals
from benchmarks.laws.rivals import (
    MB,
    OURS,
    Static,
    _Autothrottle,
    _CruiseControl,
    clairvoyant_bytes_per_s,
    policies,
)
from benchmarks.laws.worlds import worlds
from streaming.shared.contract import BrokerSignal, Side
from tuner.core.cluster import BrokerSide, LiveCluster, RateSetting
from tuner.simulation.policy import RuleInput, RulePolicy
from tuner.simulation.world import BrokerSpec, ClientLoad, P99Source, PartitionSpec, World

SOURCE: BrokerSide = (1, Side.LEADER)
TARGET: BrokerSide = (2, Side.FOLLOWER)


def row(policy: str = OURS, scenario: str = "broker-add", **others: Any) -> dict[str, Any]:
    return {
        "scenario": scenario, "policy": policy, "ratio_to_optimum": 1.2, "slo_violation_ratio_5s": 0.008,
        "slo_violation_ratio_1s": 0.04, "burst_ratio_max": 2.0, "silence_s_max": 3.0, "config_writes_per_broker_min": 10.0,
        "completed": True, **others,
    }  # fmt: skip


# -- who is better than whom -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rival", "better"),
    [
        ({"ratio_to_optimum": 1.1, "slo_violation_ratio_5s": 0.007}, True),  # Sooner, and less on one width: enough.
        ({"ratio_to_optimum": 1.1, "slo_violation_ratio_1s": 0.03}, True),
        ({"ratio_to_optimum": 1.1, "slo_violation_ratio_5s": 0.007, "slo_violation_ratio_1s": 0.09}, True),
        ({"ratio_to_optimum": 1.1}, False),  # Sooner, at the same cost.
        ({"ratio_to_optimum": 1.2, "slo_violation_ratio_5s": 0.0}, False),  # At the same time.
        ({"ratio_to_optimum": 1.3, "slo_violation_ratio_5s": 0.0, "slo_violation_ratio_1s": 0.0}, False),
        ({"ratio_to_optimum": None, "slo_violation_ratio_5s": 0.0, "completed": False}, False),  # It never ends.
    ],
)
def test_rival_wins_when_faster_and_gentler(rival: dict[str, Any], better: bool) -> None:
    rows = [row(), row("static 50%", **rival)]
    assert beaten(rows) == ([("broker-add", "static 50%")] if better else [])


def test_clairvoyant_rate_is_no_rival() -> None:
    rows = [row(), row("clairvoyant", ratio_to_optimum=1.0, slo_violation_ratio_5s=0.0)]
    assert beaten(rows) == []
    assert [r for _, r in beaten([*rows, row("none", ratio_to_optimum=1.0, slo_violation_ratio_5s=0.0)])] == ["none"]


def test_any_finished_rival_beats_an_unfinished_run() -> None:
    ours = row(completed=False, ratio_to_optimum=None)
    rival = row("none", ratio_to_optimum=9.0, slo_violation_ratio_1s=0.01)
    assert beaten([ours, rival]) == [("broker-add", "none")]


def test_rivals_are_compared_within_one_scenario() -> None:
    rows = [
        row(ratio_to_optimum=1.4), row(scenario="diurnal", ratio_to_optimum=1.1),
        row("none", scenario="diurnal", ratio_to_optimum=1.2, slo_violation_ratio_5s=0.0),
    ]  # fmt: skip
    assert beaten(rows) == []


# -- the bounds ----------------------------------------------------------------------------------------------------------


def test_totals_have_mean_and_extremes_over_scenarios() -> None:
    rows = [
        row(ratio_to_optimum=1.0, slo_violation_ratio_5s=0.00, slo_violation_ratio_1s=0.02, config_writes_per_broker_min=6.0),
        row(scenario="b", ratio_to_optimum=1.4, slo_violation_ratio_5s=0.02, slo_violation_ratio_1s=0.06),
        row(scenario="c", ratio_to_optimum=None, slo_violation_ratio_5s=0.01, slo_violation_ratio_1s=0.01, completed=False),
        row("none", ratio_to_optimum=None, completed=False),
    ]  # fmt: skip
    ours, none = totals(rows)
    assert (ours["policy"], ours["scenarios"], ours["completed"]) == (OURS, 3, 2)
    assert ours["ratio_mean"] == pytest.approx(1.2), "of those that end"
    assert ours["ratio_max"] == 1.4
    assert ours["slo_5s_mean"] == pytest.approx(0.01), "of all"
    assert ours["slo_5s_max"] == 0.02
    assert ours["slo_1s_mean"] == pytest.approx(0.03)
    assert ours["writes_mean"] == pytest.approx(26.0 / 3)
    assert (none["policy"], none["ratio_mean"], none["ratio_max"]) == ("none", None, None)


def test_totals_of_calm_leave_out_runs_without_the_figure(capsys: pytest.CaptureFixture[str]) -> None:
    clients = {"clients_before_p99_ms": 10.0, "clients_during_p99_ms": 15.0}
    rows = [
        row(rate_variation_per_min=1.0, undershoot_ratio=0.1, **clients),
        row(scenario="b", rate_variation_per_min=2.0, undershoot_ratio=0.3, burst_ratio_max=3.0, silence_s_max=1.0),
        row("none", rate_variation_per_min=None, undershoot_ratio=None, burst_ratio_max=None),
    ]
    ours, none = totals(rows)
    assert (ours["rate_variation_mean"], ours["undershoot_mean"]) == (1.5, pytest.approx(0.2))
    assert (ours["burst_ratio_max"], ours["silence_s_max"], ours["clients_p99_ratio_mean"]) == (3.0, 3.0, 1.5)
    assert (none["rate_variation_mean"], none["burst_ratio_max"], none["clients_p99_ratio_mean"]) == (None, None, None)
    _print(rows)
    printed = capsys.readouterr().out
    assert "0.80%   4.00%    1.00    2.0   10.0%     3.0s    10.0" in printed
    assert (
        "rates vary by 1.50 a minute, burst at most 3.0, 20.0% below the rate, silence at most 3.0 s; clients' p99 × 1.50"
        in printed
    )
    assert "0.80%   4.00%       -      -       -     3.0s    10.0" in printed


def test_value_equal_to_bound_is_within() -> None:
    at = row(ratio_to_optimum=1.3, slo_violation_ratio_5s=0.01, slo_violation_ratio_1s=0.05)
    assert missed([at]) == []


@pytest.mark.parametrize(
    ("worse", "told"),
    [
        ([{"ratio_to_optimum": 1.31}], ["the mean ratio to the optimum is 1.3100, at most 1.3 is allowed"]),
        (
            [{"ratio_to_optimum": 1.51}, {"ratio_to_optimum": 1.0}],
            ["the largest ratio to the optimum is 1.5100, at most 1.5 is allowed"],
        ),
        (
            [{"slo_violation_ratio_5s": 0.011}],
            ["the mean share over the objective on 5 s bins is 0.0110, at most 0.01 is allowed"],
        ),
        (
            [{"slo_violation_ratio_5s": 0.051}, *[{"slo_violation_ratio_5s": 0.0}] * 9],
            ["the largest share over the objective on 5 s bins is 0.0510, at most 0.05 is allowed"],
        ),
        (
            [{"slo_violation_ratio_1s": 0.051}],
            ["the mean share over the objective on 1 s bins is 0.0510, at most 0.05 is allowed"],
        ),
        ([{"completed": False, "ratio_to_optimum": None}, {}], ["1 of 2 scenarios do not end"]),
    ],
)
def test_missed_bound_is_named(worse: list[dict[str, Any]], told: list[str]) -> None:
    assert missed([row(scenario=str(i), **values) for i, values in enumerate(worse)]) == told


def test_better_rival_counts_as_a_miss() -> None:
    rows = [row(), row("none", ratio_to_optimum=1.0, slo_violation_ratio_1s=0.0)]
    assert missed(rows) == ["none is better in both time and violations in broker-add"]


# -- what others do ------------------------------------------------------------------------------------------------------

WORLD = World(
    seed=1,
    brokers=tuple(BrokerSpec(b, 125 * MB, 125 * MB, 400 * MB, 400 * MB) for b in (1, 2)),
    partitions=(PartitionSpec("t", 0, 11e9, 2 * MB, (1,), (2,)),),
    loads=tuple(ClientLoad(b, 25 * MB, 25 * MB) for b in (1, 2)),
)


def view(rates: dict[BrokerSide, int], *brokers: BrokerSignal) -> RuleInput:
    live = LiveCluster(frozenset({1, 2}), rates={side: RateSetting(rate) for side, rate in rates.items()})
    return RuleInput(0.0, WORLD, live, {b.broker: b for b in brokers}, {})


def signal(broker: int, **values: Any) -> BrokerSignal:
    return BrokerSignal("c", broker, 0, 0, 6, 1.0, **values)


@pytest.mark.parametrize(
    ("link_share", "stands", "network", "rate"),
    [
        (1.0, 50, 90, 76_500_000),  # 125 less the 40 beside the throttle, and nine tenths of that.
        (0.8, 50, 90, None),  # 54 would be: less than a tenth off.
        (0.8, 50, 80, 63_000_000),
        (0.8, 50, 130, 10_000_000),  # 80 beside it and 30 too many on a link of 100 leave nothing: the least.
        (1.0, 50, 10, 112_500_000),  # What the move does not use is not anybody else's.
    ],
)
def test_autothrottle_uses_ninety_percent_of_free_network(
    link_share: float, stands: int, network: int, rate: int | None
) -> None:
    law = _Autothrottle(WORLD, link_share)
    rates = {SOURCE: stands * 1_000_000, TARGET: stands * 1_000_000}
    sent = signal(1, network_out_bytes_per_s=network * MB, network_in_bytes_per_s=0.0)
    came = signal(2, network_in_bytes_per_s=network * MB, network_out_bytes_per_s=0.0)
    expected = {} if rate is None else {SOURCE: rate, TARGET: rate}
    assert law.rates(0.0, view(rates, sent, came)) == expected
    assert law.rates(0.0, view(rates, signal(1), came)) == {s: r for s, r in expected.items() if s == TARGET}, (
        "not measured"
    )
    assert law.rates(0.0, view(rates)) == {}


def test_cruise_control_adds_one_move_and_halves_them() -> None:
    """Each move runs at 10 MB/s; 5 moves at first, at most 12, at least 1. Broker 2 has no measurements."""
    law, rates = _CruiseControl(WORLD, 1.0), {SOURCE: 50_000_000, TARGET: 50_000_000}
    well, unwell = signal(1, produce_p99_ms=50.0), signal(1, produce_p99_ms=50.1)

    def after(now_s: float, heard: BrokerSignal) -> int | None:
        found = law.rates(now_s, view(rates, heard))
        assert found[TARGET] == 50_000_000
        return found[SOURCE]

    assert after(0.0, unwell) == 50_000_000, "nothing is judged at the start"
    assert [after(360.0 * i, well) for i in range(1, 9)] == [
        mb * 1_000_000 for mb in (60, 70, 80, 90, 100, 110, 120, 120)
    ]
    assert [after(360.0 * i, unwell) for i in range(9, 14)] == [
        60_000_000,
        30_000_000,
        15_000_000,
        10_000_000,
        10_000_000,
    ]


def test_static_policy_sets_one_rate_or_none() -> None:
    rates = {SOURCE: 50_000_000, TARGET: 20_000_000}
    assert Static(30_000_000).rates(0.0, view(rates)) == {SOURCE: 30_000_000, TARGET: 30_000_000}
    assert Static(None).rates(0.0, view(rates)) == {SOURCE: None, TARGET: None}


def test_clairvoyant_rate_ends_busiest_side_at_optimum() -> None:
    """Clients use 25 of 125 MB/s and consumers read 2 MB/s; what remains of 112.5 MB/s after that and W copies 11 GB."""
    rate = clairvoyant_bytes_per_s(WORLD)
    assert 80 * MB < rate < 90 * MB
    assert clairvoyant_bytes_per_s(replace(WORLD, loads=())) > rate + 20 * MB
    assert clairvoyant_bytes_per_s(replace(WORLD, duration_s_max=10.0)) == 50 * MB, "no schedule ends: the habit"
    named = {policy.name: policy for policy in policies(WORLD)}
    assert list(named) == [
        OURS, "static 25%", "static 50%", "static 100%", "habit 50 MB/s", "autothrottle 1.0", "autothrottle 0.8",
        "cruise control", "one page", "none",
    ]  # fmt: skip
    half = named["static 50%"]
    assert isinstance(half, RulePolicy)
    assert half.rule == Static(round(0.5 * rate))


def test_named_worlds_exist_and_older_ones_are_unchanged() -> None:
    """The seed of a world is its position in the table, so new worlds must come last."""
    found = worlds(2)
    assert list(found)[14:] == [
        "hot-partition-busy", "kip73-3node-1to2-produce", "kip73-3node-2to1-produce", "brokers-100", "brokers-1000",
    ]  # fmt: skip
    assert {name: len(world.brokers) for name, world in found.items() if len(world.brokers) > 6} == {
        "brokers-100": 100, "brokers-1000": 1000,
    }  # fmt: skip
    for name in ("kip73-3node-1to2-produce", "kip73-3node-2to1-produce"):
        assert sum(p.write_bytes_per_s for p in found[name].moving) == 16e6
        assert sum(p.size_bytes for p in found[name].moving) == pytest.approx(30e9)


def test_measure_kafkas_p99_slows_the_move_down() -> None:
    """Kafka's p99 includes the slowest seconds of the last minutes, so the law keeps more distance from the objective."""
    [step], [reservoir] = (
        measure(2, only=["decommission"], ours_alone=True, p99_source=source)
        for source in (P99Source.STEP, P99Source.RESERVOIR)
    )
    assert reservoir["ratio_to_optimum"] > 1.2 * step["ratio_to_optimum"]
    assert reservoir["slo_violation_ratio_1s"] < step["slo_violation_ratio_1s"]
