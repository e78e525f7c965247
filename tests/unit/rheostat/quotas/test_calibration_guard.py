"""Tests how the load of the controller is computed and judged during a calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from rheostat.quotas.agents import AgentReader
from rheostat.quotas.calibrate.guard import CalibrationGuard
from rheostat.quotas.calibrate.load_sample import LoadSample, grown_troubles, load_sample, pressure_between
from rheostat.quotas.calibrate.request_log import LoggedPing, RequestLog, p90_ms
from streaming.shared.contract import Metric, Sample
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.values import ClusterError, Endpoint, Unreachable
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


def test_p90_counts_requests_answered_in_the_step_and_implied_ones() -> None:
    log = RequestLog()
    for at_s, took_s in [(0.0, 9.0), *((10 + n / 10, 0.02) for n in range(9))]:
        log.add(ProbeRequest(at_s, took_s, 1), 0.1)
    assert p90_ms(log.took_s(10.0, 11.0, None)) == pytest.approx(20.0)
    assert p90_ms(log.took_s(20.0, 21.0, None)) is None
    log.add(ProbeRequest(11.0, 0.5, 1), 0.1)  # Four further requests were due meanwhile.
    assert p90_ms(log.took_s(10.0, 12.0, None)) == pytest.approx(400.0)


def test_request_that_began_before_the_step_counts_when_answered_in_it() -> None:
    log = RequestLog()
    log.add(ProbeRequest(9.95, 8.5, 1), 0.1)
    assert p90_ms(log.took_s(10.0, 20.0, None)) == pytest.approx(7_700.0)
    assert p90_ms(log.took_s(18.5, 20.0, None)) is None


def test_pending_request_counts_once_it_waited_longer_than_the_limit() -> None:
    log = RequestLog()
    log.pending = ProbeRequest(9.95, 0.0, 1)
    assert log.took_s(10.0, 10.04, 0.1) == []
    assert log.took_s(10.0, 12.0, None) == [], "without a limit its latency is unknown"
    assert p90_ms(log.took_s(10.0, 12.0, 0.1)) == pytest.approx(1_850.0)


class Client:
    """A client that observes the log during its requests."""

    timeout_s = 5.0

    def __init__(self, log: RequestLog, *answers: ClusterError | None) -> None:
        self.seen: list[ProbeRequest | None] = []
        self._log, self._answers = log, list(answers)

    def brokers(self) -> Sequence[Endpoint]:
        return [Endpoint(1, "a", 1)]

    def connect(self, broker: int) -> ClusterError | None:  # noqa: ARG002 - a fixed signature
        return None

    def ping(self, broker: int) -> ClusterError | None:  # noqa: ARG002 - a fixed signature
        self.seen.append(self._log.pending)
        if not self._answers:
            raise ValueError("a broken answer")
        return self._answers.pop(0)

    def close(self) -> None:
        pass


def test_ping_is_pending_until_its_answer_and_only_answers_count() -> None:
    log = RequestLog()
    client = Client(log, Unreachable("silent"), None)
    ping = LoggedPing(client, log, monotonic=lambda: 7.0)
    ping.ping(2)
    assert (log.pending, log.answered_at_s) == (None, None), "an error is no answer"
    ping.ping(3)
    assert (log.pending, log.answered_at_s) == (None, 7.0)
    with pytest.raises(ValueError, match="broken"):
        ping.ping(1)
    assert log.pending is None
    assert client.seen == [ProbeRequest(7.0, 0.0, broker) for broker in (2, 3, 1)]


class Controller:
    """A guard on a simulated clock. The probe's request takes 10 ms; without an agent, it is the only measure."""

    def __init__(self, limit_ms: float = 100.0) -> None:
        self.now_s = 90.0
        self.log = RequestLog()
        self.guard = CalibrationGuard(
            cast("ClusterClient", Client(self.log)),
            cast("AgentReader", _NoAgents),
            self.log,
            ControllerObjective(create_probe_p90_ms_max=limit_ms),
            monotonic=lambda: self.now_s,
        )
        self.guard.start()
        self.answer_until(100.0)
        self.guard.begin_step()

    def answer_until(self, until_s: float) -> None:
        self.log.pending = None
        while self.now_s < until_s:
            self.log.add(ProbeRequest(self.now_s, 0.01, 1), 0.1)
            self.log.answered_at_s = self.now_s + 0.01
            self.now_s += 0.1

    def hang_until(self, until_s: float) -> None:
        self.log.pending = self.log.pending or ProbeRequest(self.now_s, 0.0, 1)
        self.now_s = until_s


class _NoAgents:
    are_known = False


def test_answers_in_time_are_no_verdict() -> None:
    controller = Controller()
    controller.answer_until(105.0)
    assert controller.guard.check() is None
    pressure = controller.guard.step_pressure()
    assert pressure is not None
    assert pressure.ratio == pytest.approx(0.1)


def test_controller_that_hangs_exceeds_the_objective_before_it_answers() -> None:
    controller = Controller()
    controller.answer_until(102.0)
    controller.hang_until(102.5)
    verdict = controller.guard.check()
    assert verdict is not None
    assert verdict.pressure is not None
    assert verdict.pressure.ratio > 2


def test_controller_that_hangs_from_the_beginning_stops_the_load() -> None:
    controller = Controller()
    controller.hang_until(101.0)
    assert controller.guard.check() is None, "too few requests yet"
    controller.hang_until(102.1)
    verdict = controller.guard.check()
    assert verdict is not None
    assert verdict.pressure is not None


def test_silence_ends_calibration_also_while_probe_pauses() -> None:
    controller = Controller()
    controller.now_s = 102.9
    assert controller.guard.check() is None
    controller.now_s = 103.2
    verdict = controller.guard.check()
    assert verdict is not None
    assert (verdict.pressure, "has not answered" in verdict.text) == (None, True)
    assert controller.guard.trouble() == verdict.text


def test_high_limit_allows_a_longer_silence() -> None:
    controller = Controller(limit_ms=4_000.0)
    controller.hang_until(103.9)
    assert controller.guard.check() is None
    controller.hang_until(107.9)
    assert controller.guard.trouble() is None
    controller.hang_until(108.2)
    assert controller.guard.trouble() is not None


def test_hang_counts_in_the_steps_during_and_after_it() -> None:
    controller = Controller()
    controller.hang_until(102.5)
    controller.guard.begin_step()
    controller.hang_until(102.9)
    during = controller.guard.step_pressure()
    assert during is not None
    assert during.ratio > 1
    controller.log.add(ProbeRequest(100.0, 3.0, 1), 0.1)
    controller.answer_until(103.5)
    after = controller.guard.step_pressure()
    assert after is not None
    assert after.ratio > 1
