"""The expected end of moves and of plans, and moves that never end."""

from __future__ import annotations

import pytest
from tuner_cases import move_signal

from streaming.shared.contract import MoveSignal, Side
from tuner.core.plan_progress import ESTIMATE_AFTER_S, Progress, expected_end


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
def test_moves_end_with_the_slowest_destination(
    remaining: dict[int, float | None], slopes: dict[int, float | None], expected: float | None
) -> None:
    assert expected_end(moves(remaining, slopes), stalled=False, plans={}).eta_s == expected
    assert expected_end(moves(remaining, slopes), stalled=True, plans={}).eta_s is None


HALF = Progress(1000.0, 500.0, 70.0, is_advancing=True)
BEGUN = Progress(1000.0, 0.0, 70.0, is_advancing=True)
PAUSED = Progress(1000.0, 500.0, 70.0, is_advancing=False)


@pytest.mark.parametrize(
    ("plans", "slope", "everything_s", "each_s"),
    [
        ({"a": HALF}, -100.0, 60.0, [60.0]),  # 6 s of moves under way.
        ({"a": HALF}, -2.0, 300.0, [300.0]),  # Not before the moves under way.
        ({"a": HALF}, 5.0, 60.0, [60.0]),
        ({"a": HALF, "b": Progress(100.0, 50.0, 100.0, is_advancing=True)}, -100.0, 90.0, [60.0, 90.0]),
        ({"a": HALF, "b": PAUSED}, -100.0, None, [60.0, None]),
        ({"a": BEGUN}, -100.0, None, [None]),
    ],
)
def test_plans_end_with_the_last_plan(
    plans: dict[str, Progress], slope: float, everything_s: float | None, each_s: list[float | None]
) -> None:
    end = expected_end(moves({3: 600.0}, {3: slope}), stalled=False, plans=plans)
    assert end.eta_s == everything_s
    assert [*end.plans_eta_s.values()] == each_s


@pytest.mark.parametrize(
    ("ratios", "everything_s", "plan_s"),
    [
        ({(3, Side.FOLLOWER): 1.5}, 450.0, 450.0),
        ({(3, Side.FOLLOWER): 0.5}, 150.0, 150.0),
        ({(9, Side.FOLLOWER): 3.0}, 300.0, 300.0),  # Another broker's.
        ({(1, Side.LEADER): 2.0}, 1000.0, 1000.0),  # The leader ends after all destinations.
        ({(1, Side.LEADER): 0.5}, 300.0, 300.0),  # A faster leader does not speed up the destination.
        ({(2, Side.LEADER): 2.0}, 300.0, 300.0),  # Its end is not known.
    ],
)
def test_forecast_ratios_change_the_end(
    ratios: dict[tuple[int, Side], float], everything_s: float, plan_s: float
) -> None:
    signals = [
        *moves({3: 600.0}, {3: -2.0}),
        move_signal(1, Side.LEADER, remaining=1000.0, slope=-2.0),
        move_signal(2, Side.LEADER, remaining=1000.0, slope=None),
    ]
    assert expected_end(signals, stalled=False, plans={}, eta_ratios=ratios).eta_s == everything_s
    end = expected_end(signals, stalled=False, plans={"a": HALF}, eta_ratios=ratios)
    assert end.plans_eta_s == {"a": plan_s}


def test_plan_follows_the_slowest_forecast_of_its_brokers() -> None:
    signals = moves({3: 600.0, 4: 600.0}, {3: -100.0, 4: -100.0})
    ratios = {(3, Side.FOLLOWER): 0.5, (4, Side.FOLLOWER): 0.8}
    end = expected_end(signals, stalled=False, plans={"a": HALF}, eta_ratios=ratios)
    assert end.plans_eta_s == {"a": pytest.approx(0.8 * 60.0)}


TOTAL, RATE = 3000.0, 10.0
LATE_S = 3.0  # A signal tells of so long ago,
SEES_S = 30.0  # and looks back so far.


@pytest.mark.parametrize("waits_s", [0.0, 2.0, 5.0], ids="waits_{}s".format)
@pytest.mark.parametrize("rises_s", [0.0, 15.0], ids="rises_{}s".format)
def test_plan_eta_appears_after_its_start_phase(rises_s: float, waits_s: float) -> None:
    """The rate rises linearly for some seconds and then stays."""

    def copied(at_s: float) -> float:
        copies_s = max(0.0, at_s - waits_s)
        risen_s = min(copies_s, rises_s)
        return RATE * (copies_s - risen_s + (risen_s**2 / (2 * rises_s) if rises_s else 0.0))

    def signal(at_s: float) -> MoveSignal:
        until_s = at_s - LATE_S
        slope = (copied(until_s) - copied(until_s - SEES_S)) / SEES_S
        return move_signal(3, Side.FOLLOWER, remaining=TOTAL - copied(until_s), slope=-slope)

    told = 0
    for at_s in range(1, 280):
        plan = Progress(TOTAL, copied(at_s), float(at_s), is_advancing=True)
        found_s = expected_end([signal(at_s)], stalled=False, plans={"a": plan}).eta_s
        assert (found_s is not None) == (at_s >= ESTIMATE_AFTER_S)
        if found_s is not None:
            told += 1
            left_s = waits_s + rises_s / 2 + TOTAL / RATE - at_s
            assert left_s / 1.5 - LATE_S <= found_s <= 1.5 * left_s + LATE_S, at_s
    assert told > 200
