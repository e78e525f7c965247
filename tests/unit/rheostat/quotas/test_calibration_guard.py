"""Tests how the load of the controller is computed and judged during a calibration."""

from __future__ import annotations

import pytest

from rheostat.quotas.calibrate.guard import RequestLog, probe_p90_ms
from rheostat.quotas.calibrate.load_sample import LoadSample, grown_troubles, load_sample, pressure_between
from streaming.shared.contract import Metric, Sample
from tuner.control.mutation_quota.probe_window import ProbeRequest
from tuner.core.controller import ControllerObjective
from tuner.core.controller_pressure import Measure


def samples_of(**values: float) -> list[Sample]:
    return [Sample(getattr(Metric, name), "", value) for name, value in values.items()]


ACTIVE = samples_of(
    ACTIVE_CONTROLLER=1, CONTROLLER_IDLE=0.9, EVENT_QUEUE_TIME_MEAN=2.0, EVENT_QUEUE_TIME_COUNT=1000,
    METADATA_LAG=20, FENCED_BROKERS=0, HEARTBEATS_TIMED_OUT=3,
)  # fmt: skip
STANDBY = samples_of(ACTIVE_CONTROLLER=0, CONTROLLER_IDLE=1.0, METADATA_LAG=40)
BROKER = samples_of(BROKER_METADATA_LAG=700, UNDER_MIN_ISR=0)


def test_load_is_that_of_active_controller_and_slowest_node() -> None:
    load = load_sample({100: STANDBY, 101: ACTIVE, 1: BROKER}, at_s=7.0)
    assert (load.node, load.idle_ratio, load.queue, load.apply_lag_ms) == (101, 0.9, (2.0, 1000), 700)
    assert load.troubles == {
        "fenced brokers": 0,
        "broker heartbeats that timed out": 3,
        "partitions below min.insync.replicas": 0,
    }


def test_load_without_controller_has_no_controller_values() -> None:
    load = load_sample({1: BROKER}, at_s=7.0)
    assert (load.node, load.idle_ratio, load.queue) == (None, None, None)


def test_grown_trouble_is_reported_and_absent_metric_is_not() -> None:
    before = LoadSample(0.0, troubles={"fenced brokers": 1, "broker heartbeats that timed out": 3})
    after = LoadSample(1.0, troubles={"fenced brokers": 2, "partitions below min.insync.replicas": 4})
    assert grown_troubles(before, after) == ["2 fenced brokers"]
    assert grown_troubles(after, after) == []


def test_pressure_uses_mean_of_events_in_between() -> None:
    # 1,000 events at a mean of 2 ms, then 1,100 at 92: the 100 events in between waited 992 ms each.
    load = [LoadSample(0.0, queue=(2.0, 1000)), LoadSample(1.0, queue=(92.0, 1100))]
    pressure = pressure_between(load, None, ControllerObjective(queue_ms_max=500), {})
    assert pressure is not None
    assert (pressure.measure, pressure.measured) == (Measure.QUEUE, pytest.approx(992.0))


def test_pressure_ignores_counter_of_new_controller() -> None:
    load = [LoadSample(0.0, queue=(2.0, 1000)), LoadSample(1.0, queue=(5.0, 10))]
    assert pressure_between(load, None, ControllerObjective(), {}) is None


def test_idle_ratio_and_lag_from_before_the_step_do_not_count() -> None:
    load = [LoadSample(0.0, idle_ratio=0.0, apply_lag_ms=9e9), LoadSample(1.0, idle_ratio=0.65, apply_lag_ms=100.0)]
    pressure = pressure_between(load, None, ControllerObjective(apply_lag_ms_max=1_000.0), {})
    assert pressure is not None
    assert (pressure.measure, pressure.ratio) == (Measure.IDLE, pytest.approx(0.5))


def test_probe_alone_gives_pressure() -> None:
    pressure = pressure_between([], 90.0, ControllerObjective(create_probe_p90_ms_max=60.0), {})
    assert pressure is not None
    assert pressure.ratio == 1.5


def test_p90_counts_requests_of_the_step_and_implied_ones() -> None:
    log = RequestLog()
    for at_s, took_s in [(0.0, 9.0), *((10 + n / 10, 0.02) for n in range(9))]:
        log.add(ProbeRequest(at_s, took_s, 1), 0.1)
    assert probe_p90_ms(log.requests, since_s=10.0) == pytest.approx(20.0)
    assert probe_p90_ms(log.requests, since_s=20.0) is None
    log.add(ProbeRequest(11.0, 0.5, 1), 0.1)  # Four further requests were due meanwhile.
    assert probe_p90_ms(log.requests, since_s=10.0) == pytest.approx(400.0)
