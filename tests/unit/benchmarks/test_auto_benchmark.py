"""Worlds without a told objective and capacity: their objectives, three moves, and the bounds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.claims import CLAIMS
from benchmarks.laws.auto import MOVES, measure_moves, missed, totals, with_own_objectives
from benchmarks.laws.worlds import worlds
from tuner.simulation.latency import client_p99_ms


def row(move: int, **changes: float | None) -> dict[str, object]:
    good = {"ratio": 1.2, "has_optimum": True, "slo_5s": 0.005, "slo_1s": 0.02, "twice_5s": 0.0, "writes": 10.0}
    return {"scenario": "kip73-2node", "move": move, **good, **changes}


def test_objective_of_a_broker_is_half_as_much_again_as_without_copies() -> None:
    world, baselines_ms = with_own_objectives(worlds(2)["kip73-2node"])
    assert all(b.configured_capacity_ratio is None for b in world.brokers)
    for baseline_ms, utilisation in zip(baselines_ms, world.latency.own_utilisations, strict=True):
        limit_ms = max(1.5 * baseline_ms, baseline_ms + 5.0)
        assert client_p99_ms(np.array([utilisation]), world.latency).tolist() == pytest.approx([limit_ms])


@pytest.mark.slow
def test_each_move_of_a_cluster_ends_in_time() -> None:
    world = worlds(2)["kip73-2node-produce"]
    low = tuple(replace(rate, rate_bytes_per_s=5_000_000) for rate in world.rates)
    rows = measure_moves("kip73-2node-produce", replace(world, rates=low))
    assert [found["move"] for found in rows] == [*range(1, MOVES + 1)]
    assert all(found["ratio"] < 1.5 for found in rows)
    assert all(found["twice_5s"] == 0.0 for found in rows)


def test_move_that_never_ends_is_not_hidden_by_the_mean() -> None:
    rows = [row(1), row(1, ratio=None), row(2), row(3)]
    assert totals(rows)[0]["ratio_mean"] == math.inf
    assert missed(rows) == [
        "ratio_mean of move 1 is inf, at most 1.5 is allowed",
        "ratio_max of move 1 is inf, at most 2.0 is allowed",
    ]


def test_world_that_no_rates_could_end_is_left_out_of_the_totals() -> None:
    rows = [row(1), row(1, ratio=None, has_optimum=False, slo_5s=0.5), row(2), row(3)]
    assert totals(rows)[0]["ratio_mean"] == 1.2
    assert missed(rows) == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row(1), row(2), row(3)], []),
        ([row(1, slo_5s=0.03), row(2), row(3)], ["slo_5s_mean of move 1 is 0.03, at most 0.02 is allowed"]),
        ([row(1, twice_5s=0.01), row(2), row(3)], ["twice_5s_mean of move 1 is 0.01, at most 0.003 is allowed"]),
        ([row(1), row(2), row(3, ratio=1.4)], ["ratio_mean of move 3 is 1.4, at most 1.3 is allowed"]),
        ([row(1), row(2), row(3, slo_5s=0.015)], ["slo_5s_mean of move 3 is 0.015, at most 0.01 is allowed"]),
    ],
)  # fmt: skip
def test_each_bound_is_told(rows: list[dict[str, object]], said: list[str]) -> None:
    assert missed(rows) == said


def test_claims_are_read_from_a_run_with_auto_alone() -> None:
    rows = [row(1, slo_5s=0.03), row(2), row(3)]
    figures = {"rows": rows, "totals": totals(rows)}
    measured = {claim.name: claim.read(figures) for claim in CLAIMS["control"]}
    assert [value for name, value in measured.items() if "auto" in name] == [1.2, 1.2, 3.0, 0.0, 1.2, 0.5]
    assert measured["duration ÷ optimum, mean of all scenarios"] is None


def test_disturbances_begin_as_long_after_the_begin_of_the_move() -> None:
    told = worlds(2)["flapping-isr"]
    world, _ = with_own_objectives(told)
    assert [d.at_s - world.moves_begin_s for d in world.disturbances] == [d.at_s for d in told.disturbances]
    replaced, _ = with_own_objectives(worlds(2)["broker-replace"])
    assert [d.at_s for d in replaced.disturbances] == [0.0], "the broker is away before the move too"
