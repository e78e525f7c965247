"""Tests how a run of a calibration judges its phases: what is not measured is never kept, and silence ends the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from rheostat.quotas.calibrate.guard import CalibrationGuard, GuardVerdict
from rheostat.quotas.calibrate.mutation_load import Mutation, MutationLoad, PhaseResult
from rheostat.quotas.calibrate.own_topics import RunName, RunTopics
from rheostat.quotas.calibrate.run import CalibrationRun
from streaming.shared.kafka.topic_mutations import TopicMutationClient
from streaming.shared.kafka.values import ClusterError, Unreachable
from tuner.core.controller_pressure import Measure, Pressure
from tuner.planning.calibration_steps import CalibrationBounds

LOW, HIGH = (Pressure(ratio, Measure.CREATE_PROBE, ratio * 100, 100.0) for ratio in (0.5, 2.0))
SILENT = "the controller has not answered"


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Guard:
    """Returns these pressures, the last one again and again. ``verdict`` is the answer of ``check``."""

    def __init__(self, *pressures: Pressure | None, verdict: GuardVerdict | None = None, trouble: str | None = None):
        self._pressures, self._verdict, self._trouble = list(pressures), verdict, trouble
        self.asked = 0

    def begin_step(self) -> None:
        pass

    def check(self) -> GuardVerdict | None:
        return self._verdict

    def trouble(self) -> str | None:
        return self._trouble

    def step_pressure(self) -> Pressure | None:
        self.asked += 1
        return self._pressures.pop(0) if len(self._pressures) > 1 else self._pressures[0]


class Load:
    """Sends all mutations of a phase through ``client``, and asks once whether it is stopped."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def run_phase(
        self, mutations: Sequence[Mutation], mutations_per_s: float, is_stopped: Callable[[], bool]
    ) -> PhaseResult:
        errors = [mutation(self._client, 1) for mutation in mutations]
        is_stopped()
        done = tuple(number for number, error in enumerate(errors) if error is None)
        return PhaseResult(done, len(mutations) / mutations_per_s, next((e for e in errors if e is not None), None))


class Topics:
    def __init__(self, create_error: ClusterError | None = None) -> None:
        self._create_error = create_error

    def create_through(self, *_: Any) -> ClusterError | None:
        return self._create_error

    def add_partitions_through(self, *_: Any) -> None:
        return None

    def delete_through(self, *_: Any) -> None:
        return None


def run_of(guard: Guard, client: Topics | None = None) -> tuple[CalibrationRun, RunTopics]:
    topics = RunTopics(RunName("rheostat", "0a1b2c3d"), 1)
    run = CalibrationRun(
        topics,
        CalibrationBounds(partitions_max=40, sizes=(1,)),
        cast("MutationLoad", Load(cast("TopicMutationClient", client or Topics()))),
        cast("CalibrationGuard", guard),
        deadline_s=1e9,
        notify=lambda _: None,
    )
    return run, topics


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("rheostat.quotas.calibrate.run.time", clock)
    return clock


def test_kept_steps_complete_the_run_and_leave_no_topic() -> None:
    run, topics = run_of(Guard(LOW))
    assert run.run() is None
    assert not any(step.failed for step in run.steps)
    assert topics.possible == set()


def test_step_without_pressure_has_failed_and_must_be_measured_again() -> None:
    run, _ = run_of(Guard(None, None, None, LOW))
    run.run()
    assert (run.steps[0].failed, run.steps[0].pressure) == (True, None)
    assert not run.steps[1].failed


def test_exceeded_step_without_recovery_measured_ends_the_run(clock: Clock) -> None:
    run, topics = run_of(Guard(HIGH, None))
    assert run.run() == "15 s after a step the objective is not measured"
    assert clock.now_s >= 15
    assert len(topics.possible) == 20, "the caller deletes them"


def test_silence_after_an_exceeded_step_ends_the_run() -> None:
    run, _ = run_of(Guard(HIGH, LOW, trouble=SILENT))
    assert run.run() == SILENT


def test_silence_during_a_phase_ends_the_run_without_a_step() -> None:
    run, _ = run_of(Guard(LOW, verdict=GuardVerdict(SILENT)))
    assert (run.run(), run.steps) == (SILENT, [])


def test_topics_of_unanswered_creations_may_exist() -> None:
    run, topics = run_of(Guard(LOW), Topics(Unreachable("time-out")))
    assert run.run() == "a request failed: time-out"
    assert topics.possible
