"""When everything ends: of moves alone, of plans, and of what has no end."""

from __future__ import annotations

import pytest
from tuner_cases import move_signal

from streaming.contract import MoveSignal, Side
from tuner.plan.ends import Progress, end_of


def moves(remaining: dict[int, float | None], slopes: dict[int, float | None]) -> list[MoveSignal]:
    return [
        move_signal(broker, Side.FOLLOWER, remaining=left, slope=slopes.get(broker))
        for broker, left in remaining.items()
    ]


@pytest.mark.parametrize(
    ("remaining", "slopes", "expected"),
    [
        ({}, {}, None),
        ({3: 600.0}, {3: -2.0}, 300.0),
        ({3: 600.0, 4: 900.0}, {3: -2.0, 4: -1.0}, 900.0),
        ({3: 600.0, 4: 900.0}, {3: -2.0, 4: 0.0}, None),
        ({3: 600.0}, {}, None),
        ({3: None}, {3: -2.0}, None),
        ({3: 0.0, 4: 10.0}, {3: 5.0, 4: -1.0}, 10.0),
        ({3: 0.0}, {3: 0.0}, 0.0),
    ],
)
def test_end_of_moves_is_that_of_the_slowest(
    remaining: dict[int, float | None], slopes: dict[int, float | None], expected: float | None
) -> None:
    assert end_of(moves(remaining, slopes), stalled=False, plans={}).eta_s == expected
    assert end_of(moves(remaining, slopes), stalled=True, plans={}).eta_s is None


HALF = Progress(1000.0, 500.0, 60.0, goes_on=True)
BEGUN = Progress(1000.0, 0.0, 60.0, goes_on=True)
PAUSED = Progress(1000.0, 500.0, 60.0, goes_on=False)


@pytest.mark.parametrize(
    ("plans", "slope", "everything_s", "each_s"),
    [
        ({"a": HALF}, -100.0, 60.0, [60.0]),  # 6 s of moves under way.
        ({"a": HALF}, -2.0, 300.0, [300.0]),  # Not before the moves under way.
        ({"a": HALF}, 5.0, 60.0, [60.0]),
        ({"a": HALF, "b": Progress(100.0, 50.0, 90.0, goes_on=True)}, -100.0, 90.0, [60.0, 90.0]),
        ({"a": HALF, "b": PAUSED}, -100.0, None, [60.0, None]),
        ({"a": BEGUN}, -100.0, None, [None]),
    ],
)
def test_end_of_plans_is_that_of_the_last(
    plans: dict[str, Progress], slope: float, everything_s: float | None, each_s: list[float | None]
) -> None:
    end = end_of(moves({3: 600.0}, {3: slope}), stalled=False, plans=plans)
    assert end.eta_s == everything_s
    assert [*end.plans_s.values()] == each_s
