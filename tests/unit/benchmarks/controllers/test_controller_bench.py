"""The verdicts of the storm benchmark on given results."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.controllers import large
from benchmarks.controllers.figures import (
    best_static,
    jain,
    missed,
    presses_less_than_statics,
    settled_after_s,
    static_goodput_at,
    writes_per_tenant_min,
)


def row(policy: str, **changes: Any) -> dict[str, Any]:
    return {
        "policy": policy, "pressure_p99": 0.9, "goodput_partitions_per_s": 100.0, "jain_index": 0.99,
        "well_behaved_ratio": 1.2, "writes_per_tenant_min": 1.0,
    } | changes  # fmt: skip


def test_results_within_every_bound_report_nothing() -> None:
    assert missed([row("none", pressure_p99=9.0), row("static-20"), row("rheostat")]) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pressure_p99": 1.01}, "pressure_p99 1.01 is above"),
        ({"pressure_p99": None}, "pressure_p99 unknown is above"),
        (
            {"goodput_partitions_per_s": 89.0},
            "goodput 89.0/s is below 0.9 of what static quotas let through at its pressure, 100.0/s",
        ),
        ({"jain_index": 0.94}, "jain_index 0.94 is below"),
        ({"well_behaved_ratio": 1.6}, "1.60 × what it is alone"),
        ({"well_behaved_ratio": None}, "unknown × what it is alone"),
        ({"writes_per_tenant_min": 3.0}, "3 writes for one tenant in a minute"),
    ],
)
def test_missed_bounds_are_named(changes: dict[str, Any], said: str) -> None:
    [found] = missed([row("static-20"), row("rheostat", **changes)])
    assert said in found


def test_best_static_ignores_quotas_over_the_objective() -> None:
    rows = [row("static-80", pressure_p99=1.2, goodput_partitions_per_s=900.0), row("static-20")]
    assert best_static(rows) == rows[1]
    assert best_static([row("none"), row("rheostat")]) is None


def test_static_quotas_are_compared_at_equal_pressure() -> None:
    rows = [
        row(f"static-{p}", pressure_p99=p, goodput_partitions_per_s=g)
        for p, g in ((0.8, 20.0), (1.0, 40.0), (1.4, 60.0))
    ]
    assert static_goodput_at(rows, 0.8) == 20.0
    assert static_goodput_at(rows, 0.9) == pytest.approx(30.0)
    assert static_goodput_at(rows, 1.0) == 40.0
    assert static_goodput_at(rows, 1.2) == pytest.approx(50.0)
    assert static_goodput_at(rows, 2.0) == 60.0
    assert static_goodput_at(rows, 0.4) == 20.0
    assert static_goodput_at([row("none")], 0.9) is None
    # What lets less through at more pressure is nobody's rival.
    assert static_goodput_at([*rows, row("static-odd", pressure_p99=0.85, goodput_partitions_per_s=1.0)], 0.9) == 30.0
    assert missed([*rows, row("rheostat", goodput_partitions_per_s=27.1)]) == []
    assert len(missed([*rows, row("rheostat", goodput_partitions_per_s=26.9)])) == 1


def test_smaller_static_quota_is_requested_below_lowest_pressure() -> None:
    statics, ours = [row("static-10", pressure_p99=1.03), row("static-5", pressure_p99=0.92)], ("rheostat", "late")
    within, below = row("rheostat", pressure_p99=0.95), row("late", pressure_p99=0.89)
    assert not presses_less_than_statics([*statics, within], ours)
    assert presses_less_than_statics([*statics, within, below], ours)
    assert not presses_less_than_statics([*statics, within, below, row("static-2.5", pressure_p99=0.8)], ours)
    assert not presses_less_than_statics([within, below], ours)
    assert not presses_less_than_statics([*statics, row("late", pressure_p99=None)], ours)


def test_settled_after_s_is_time_of_last_miss() -> None:
    assert settled_after_s([(10.0, 2.0), (20.0, 0.5), (30.0, 0.9)], 5.0) == 5.0
    assert settled_after_s([(10.0, 0.5)], 5.0) == 0.0
    assert settled_after_s([(10.0, 0.5), (20.0, 2.0)], 5.0) is None
    assert settled_after_s([], 5.0) is None


def test_writes_per_tenant_min_counts_the_busiest_minute() -> None:
    assert writes_per_tenant_min({"a": [1.0, 100.0, 130.0, 159.0, 161.0], "b": [200.0]}, 50.0) == 3.0


def test_jain_index_is_1_for_equal_shares() -> None:
    assert jain([5.0, 5.0]) == 1.0
    assert jain([10.0, 0.0]) == 0.5
    assert jain([0.0, 0.0]) is None


def test_cycle_of_thousand_tenants_gives_max_min_shares() -> None:
    found = large.measure()
    assert found["off_optimum_max"] <= large.OFF_OPTIMUM_MAX
    assert large.missed({**found, "cycle_ms_max": 101.0}) == ["large: the worst cycle takes 101.0 ms (100)"]
