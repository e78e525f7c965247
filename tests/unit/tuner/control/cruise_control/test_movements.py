"""How many partitions Cruise Control should move at a time, and when the number is left alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tuner_cases import NOW_MS, SOURCE, TARGET, live

from tuner.control.cruise_control.decision import CruiseControlReason as R
from tuner.control.cruise_control.decision import HoldMovements, MovementDecision, SetMovements
from tuner.control.cruise_control.policy import (
    RAISE_EVERY_S,
    Execution,
    MovementLimits,
    MovementMemory,
    MovementView,
    decide_movements,
    lowest_rate,
    record_set,
)
from tuner.core.throttle_limits import MB
from tuner.core.vetoes import Veto

MOVES = Execution("INTER_BROKER_REPLICA_MOVEMENT_TASK_IN_PROGRESS", "task-1", 5, 5, in_progress=5, pending=20)
LIMITS = MovementLimits(
    acts=True, rate_per_movement_bytes_per_s=10 * MB, movements_min=1, movements_max=10, external_change_hold_s=3600
)
KNOWN = MovementMemory("task-1", 5)


def decide(
    execution: Execution, rate: float | None, memory: MovementMemory, limits: MovementLimits, now_ms: int, **more: Any
) -> tuple[MovementMemory, MovementDecision]:
    return decide_movements(MovementView(now_ms, execution, rate, **more), memory, limits)


@pytest.mark.parametrize(
    ("rate", "movements"), [(25 * MB, 2), (9 * MB, 1), (1, 1), (80 * MB, 8), (500 * MB, 10), (59 * MB, None)]
)
def test_number_is_the_throttle_divided_by_the_rate_of_a_copy(rate: float, movements: int | None) -> None:
    _, decision = decide(MOVES, rate, KNOWN, LIMITS, NOW_MS)
    if movements is None:
        assert decision.reason is R.FITS_THROTTLE
    else:
        assert isinstance(decision, SetMovements)
        assert (decision.current, decision.movements) == (5, movements)
        assert "partitions per broker at a time: the lowest throttle of its moves is" in decision.text


@pytest.mark.parametrize(
    ("execution", "memory", "more", "reason"),
    [
        (Execution("NO_TASK_IN_PROGRESS"), KNOWN, {}, R.NO_EXECUTION),
        (Execution("LEADER_MOVEMENT_TASK_IN_PROGRESS", "task-1"), KNOWN, {}, R.NO_EXECUTION),
        (MOVES, KNOWN, {"pause": "kim"}, R.PAUSED),
        (replace(MOVES, movements_min=2), KNOWN, {}, R.ADJUSTED_BY_TOOL),
        (MOVES, MovementMemory("task-1", 4), {}, R.ADJUSTED_BY_TOOL),
        (MOVES, replace(KNOWN, left_alone_until_ms=NOW_MS + 1), {}, R.ADJUSTED_BY_TOOL),
        (MOVES, MovementMemory("task-0", 4), {}, R.FOLLOWS_THROTTLE),
    ],
)
def test_number_is_left_alone_when_it_is_not_the_tuners(
    execution: Execution, memory: MovementMemory, more: dict[str, str], reason: R
) -> None:
    _, decision = decide(execution, 80 * MB, memory, LIMITS, NOW_MS, **more)
    assert decision.reason is reason


def test_changed_number_is_left_alone_until_the_hold_ends() -> None:
    memory, _ = decide(MOVES, 80 * MB, MovementMemory("task-1", 4), LIMITS, NOW_MS)
    assert decide(MOVES, 80 * MB, memory, LIMITS, NOW_MS + 3_599_999)[1].reason is R.ADJUSTED_BY_TOOL
    assert decide(MOVES, 80 * MB, memory, LIMITS, NOW_MS + 3_600_000)[1].reason is R.FOLLOWS_THROTTLE


def test_move_without_throttle_is_left_alone() -> None:
    assert decide(MOVES, None, KNOWN, LIMITS, NOW_MS)[1].reason is R.NO_THROTTLE


def test_watch_says_the_number_and_sets_nothing() -> None:
    _, decision = decide(MOVES, 80 * MB, KNOWN, replace(LIMITS, acts=False), NOW_MS)
    assert isinstance(decision, HoldMovements)
    assert decision.text.startswith("Cruise Control 5 → 8 partitions per broker at a time")


def test_veto_holds_a_raise_and_lets_the_number_fall() -> None:
    vetoes = (Veto("budget", "its value 2 is above 1"),)
    assert decide(MOVES, 80 * MB, KNOWN, LIMITS, NOW_MS, vetoes=vetoes)[1].reason is R.VETOED
    assert isinstance(decide(MOVES, 20 * MB, KNOWN, LIMITS, NOW_MS, vetoes=vetoes)[1], SetMovements)


def test_next_raise_waits_a_minute_and_a_decrease_does_not() -> None:
    memory, raised = decide(MOVES, 70 * MB, KNOWN, LIMITS, NOW_MS)
    assert isinstance(raised, SetMovements)
    memory, seven = record_set(memory, 7), replace(MOVES, movements_min=7, movements_max=7)
    assert decide(seven, 90 * MB, memory, LIMITS, NOW_MS + 1)[1].reason is R.RAISED_RECENTLY
    assert isinstance(decide(seven, 20 * MB, memory, LIMITS, NOW_MS + 1)[1], SetMovements)
    later_ms = NOW_MS + round(1000 * RAISE_EVERY_S)
    assert isinstance(decide(seven, 90 * MB, memory, LIMITS, later_ms)[1], SetMovements)


@given(current=st.integers(0, 10_000), rate=st.floats(0, 1e12), expected=st.none() | st.integers(0, 20))
def test_number_that_is_set_stays_within_its_limits(current: int, rate: float, expected: int | None) -> None:
    execution = replace(MOVES, movements_min=current, movements_max=current)
    _, decision = decide(execution, rate, MovementMemory("task-1", expected), LIMITS, NOW_MS)
    if isinstance(decision, SetMovements):
        assert 1 <= decision.movements <= 10
        assert decision.movements != current


def test_lowest_rate_counts_only_sides_of_moves() -> None:
    cluster = live({SOURCE: 10 * MB, TARGET: 40 * MB, (2, SOURCE[1]): 1})
    setpoints = {SOURCE: 20.0 * MB, TARGET: 30.0 * MB, (2, SOURCE[1]): 1.0}
    assert lowest_rate(cluster, setpoints, ()) == 20 * MB
    assert lowest_rate(cluster, {}, ()) == 10 * MB
    assert lowest_rate(cluster, setpoints, (Veto("budget", "cause"),)) == 10 * MB, (
        "a held rate does not reach its setpoint"
    )
    assert lowest_rate(live(moves=()), setpoints, ()) is None
    assert lowest_rate(live({}), setpoints, ()) is None
