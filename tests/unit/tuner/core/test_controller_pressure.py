"""The pressure on the controller, for latencies that have a minimum even without load."""

from __future__ import annotations

import pytest
from mutation_rig import START_MS, controller

from tuner.core.controller import ClusterWideMeasures, ControllerObjective
from tuner.core.controller_pressure import Measure, Pressure, learn_idle_baselines, worst_pressure

OBJECTIVE = ControllerObjective(idle_ratio_min=None, queue_ms_max=None, create_ms_max=60.0)


def pressed(create_ms: float, rest_ms: float | None = None) -> Pressure:
    rests = {} if rest_ms is None else {Measure.CREATE.value: rest_ms}
    found = worst_pressure(controller(START_MS), ClusterWideMeasures(create_ms=create_ms), OBJECTIVE, rests)
    assert found is not None
    return found


def test_only_time_above_idle_baseline_is_pressure() -> None:
    assert pressed(40.0, 40.0).ratio == 0.0
    assert pressed(50.0, 40.0).ratio == pytest.approx(0.5)
    assert pressed(50.0).ratio == pytest.approx(50 / 60)
    assert pressed(30.0, 40.0).ratio == 0.0


@pytest.mark.parametrize("rest_ms", [None, 0.0, 40.0, 59.0, 500.0])
def test_pressure_at_objective_is_1_for_any_baseline(rest_ms: float | None) -> None:
    assert pressed(60.0, rest_ms).ratio == pytest.approx(1.0)


def test_idle_baseline_is_a_slowly_forgotten_minimum() -> None:
    rests = dict[str, float]()
    for create_ms in (90.0, 40.0, 80.0):
        rests = dict(learn_idle_baselines(ClusterWideMeasures(create_ms=create_ms), rests))
    assert rests[Measure.CREATE.value] == pytest.approx(40.08)
    for _ in range(720):  # An hour, every five seconds.
        rests = dict(learn_idle_baselines(ClusterWideMeasures(create_ms=80.0), rests))
    assert 65.0 < rests[Measure.CREATE.value] < 80.0


def test_missing_measure_keeps_idle_baseline() -> None:
    assert learn_idle_baselines(ClusterWideMeasures(), {Measure.CREATE.value: 40.0}) == {Measure.CREATE.value: 40.0}
    assert learn_idle_baselines(ClusterWideMeasures(apply_lag_ms=5.0), {})[Measure.APPLY_LAG.value] == 5.0


def test_create_probe_has_no_idle_baseline() -> None:
    asked = ControllerObjective(idle_ratio_min=None, queue_ms_max=None, create_probe_p90_ms_max=60.0)
    # Of a journal that a version before has written.
    rests = learn_idle_baselines(
        ClusterWideMeasures(create_probe_p90_ms=20.0), {Measure.CREATE_PROBE.value: 20.0, Measure.CREATE.value: 40.0}
    )
    assert rests == {Measure.CREATE.value: 40.0}
    found = worst_pressure(
        controller(START_MS), ClusterWideMeasures(create_probe_p90_ms=45.0), asked, {Measure.CREATE_PROBE.value: 20.0}
    )
    assert found is not None
    assert (found.measure, found.ratio) == (Measure.CREATE_PROBE, 0.75)
    assert str(found) == "one topic creation in ten takes 45 ms or more (objective: at most 60 ms)"


def test_storm_hardly_raises_idle_baseline() -> None:
    rests = dict(learn_idle_baselines(ClusterWideMeasures(create_ms=16.0), {}))
    for _ in range(120):  # Ten minutes.
        rests = dict(learn_idle_baselines(ClusterWideMeasures(create_ms=400.0), rests))
    assert rests[Measure.CREATE.value] < 21


def test_idle_baseline_of_zero_is_forgotten_too() -> None:
    rests = dict(learn_idle_baselines(ClusterWideMeasures(apply_lag_ms=0.0), {}))
    for _ in range(720):
        rests = dict(learn_idle_baselines(ClusterWideMeasures(apply_lag_ms=300.0), rests))
    assert rests[Measure.APPLY_LAG.value] > 1.0
