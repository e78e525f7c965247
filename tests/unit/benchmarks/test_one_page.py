"""The law of one page ends a move at about its shortest time, and keeps to its own rules."""

from __future__ import annotations

import pytest

from benchmarks.laws.one_page import _ends_s, _Load, _wanted
from benchmarks.laws.rivals import policies
from benchmarks.laws.worlds import worlds
from streaming.shared.contract import MoveSignal, Side
from tuner.simulation.run import run

MB = 1e6


def move_of(remaining: float, steady_state: float) -> MoveSignal:
    return MoveSignal(
        "c", 1, Side.LEADER, window_end_ms=0, sampled_at_ms=0, samples=6, completeness=1.0,
        moving_partitions=1, listed_partitions=1, remaining_bytes=remaining, steady_state_bytes_per_s=steady_state,
    )  # fmt: skip


def test_one_page_ends_a_move_in_time() -> None:
    world = worlds(2)["kip73-2node"]
    (law,) = [policy for policy in policies(world) if policy.name == "one page"]
    summary = run(world, law, settle_s=0.0).summary
    assert summary.completed
    assert summary.ratio_to_optimum is not None
    assert summary.ratio_to_optimum < 1.5


def test_leader_is_bound_by_its_link_and_follower_only_guards() -> None:
    move = move_of(1_000 * MB, 10 * MB)
    assert _ends_s(60 * MB, move) == 20.0
    assert _wanted(Side.LEADER, 60 * MB, move, 20.0) == 60 * MB
    assert _wanted(Side.LEADER, 90 * MB, move, 20.0) == pytest.approx(61.5 * MB)
    assert _wanted(Side.FOLLOWER, 60 * MB, move, 20.0) == pytest.approx(75 * MB)
    assert _wanted(Side.LEADER, 1 * MB, move, 20.0) == 12 * MB, "it has to keep up"


def test_forecast_of_load_follows_a_trend() -> None:
    load = _Load(10 * MB)
    for second in range(5, 200, 5):
        load.add((10 + second / 10) * MB, second * 1000)
    assert load.ahead(195_000) == pytest.approx((10 + 20) * MB, rel=0.05)
