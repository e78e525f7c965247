"""Runs the rounds of a calibration: creates topics, adds partitions, deletes the topics, and judges each phase.

Invariant: a phase ends at once when the objective is exceeded. Trouble of brokers, or an error of a request, ends the calibration.
The caller removes the topics that are left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rheostat.quotas.calibrate.guard import CalibrationGuard, GuardVerdict
from rheostat.quotas.calibrate.mutation_load import Mutation, MutationLoad, PhaseResult
from rheostat.quotas.calibrate.own_topics import RunTopics
from streaming.shared.kafka.topic_mutations import MutationRefused
from streaming.shared.kafka.values import ClusterError
from tuner.planning.calibration_steps import (
    CalibrationBounds,
    CalibrationRound,
    MutationKind,
    StepResult,
    plan_round,
    safe_rate_per_s,
)

_SETTLE_S = 1.0
# Shorter than the time for which another run watches the topics (command.py), so that a run never seems to be dead.
_RECOVER_S_MAX = 15.0
_RECOVER_STEP_S = 2.5
_DELETE_TRIES = 3


class CalibrationEnded(Exception):
    """The calibration cannot continue; the text says why."""


@dataclass(frozen=True, slots=True)
class _Topic:
    name: str
    partitions: int


class CalibrationRun:
    """The state of one run."""

    def __init__(
        self,
        topics: RunTopics,
        bounds: CalibrationBounds,
        load: MutationLoad,
        guard: CalibrationGuard,
        *,
        deadline_s: float,
        notify: Callable[[str], None],
    ) -> None:
        """
        Args:
            deadline_s: no round begins after this time of the monotonic clock.
            notify: gets a line for each step.
        """
        self.steps: list[StepResult] = []
        self._topics = topics
        self._bounds = bounds
        self._load = load
        self._guard = guard
        self._deadline_s = deadline_s
        self._notify = notify
        self._number = 1  # Number of the last topic; 0 is the probe's, and 1 the trial's.

    def run(self) -> str | None:
        """Measures until all rates are known. Returns why the run ended early; None if it is complete."""
        try:
            while (next_round := plan_round(self.steps, self._bounds)) is not None:
                if time.monotonic() >= self._deadline_s:
                    return "the time is over"
                self._run_round(next_round)
        except CalibrationEnded as ended:
            return str(ended)
        return None

    def _run_round(self, planned: CalibrationRound) -> None:
        size = planned.size
        new = [_Topic(self._topics.name(self._number + n), size) for n in range(1, planned.topics + 1)]
        self._number += planned.topics
        topics = self._phase(MutationKind.CREATE, planned, new)
        if MutationKind.ADD in planned.rates_per_s and topics:
            extended = self._phase(MutationKind.ADD, planned, topics)
            grown = {topic.name for topic in extended}
            topics = [_Topic(t.name, 2 * size if t.name in grown else size) for t in topics]
        if topics:
            self._delete(planned, topics)

    def _delete(self, planned: CalibrationRound, topics: Sequence[_Topic]) -> None:
        """Deletes the topics: first as planned, and then, without measuring and ever more slowly, the topics that are left."""
        left = set(topics) - set(self._phase(MutationKind.DELETE, planned, topics))
        rate_per_s = safe_rate_per_s(self.steps, MutationKind.DELETE, planned.size, self._bounds)
        for _ in range(_DELETE_TRIES):
            if not left:
                return
            slower = CalibrationRound(planned.size, len(left), {MutationKind.DELETE: rate_per_s})
            left -= set(self._phase(MutationKind.DELETE, slower, sorted(left, key=lambda topic: topic.name)))
            rate_per_s /= 2
        if left:
            raise CalibrationEnded(f"deletions exceed the objective even at {2 * rate_per_s:.3g} partitions/s")

    def _phase(self, kind: MutationKind, planned: CalibrationRound, topics: Sequence[_Topic]) -> list[_Topic]:
        """Runs one phase, and adds its step if it is measured. Returns the topics that were created, extended or deleted."""
        # If an earlier phase stopped, there are too few topics for a step.
        is_measured = kind in planned.measured and 2 * len(topics) >= planned.topics
        rate_per_s = planned.rates_per_s[kind]
        if kind in planned.measured and not is_measured:
            rate_per_s = min(rate_per_s, safe_rate_per_s(self.steps, kind, planned.size, self._bounds))
        mutated = sum(topic.partitions for topic in topics)
        verdicts: list[GuardVerdict] = []

        def is_stopped() -> bool:
            verdict = self._guard.check()
            if verdict is not None:
                verdicts.append(verdict)
            return verdict is not None

        self._guard.begin_step()
        mutations = [self._mutation(kind, topic) for topic in topics]
        result = self._load.run_phase(mutations, rate_per_s * len(topics) / mutated, is_stopped)
        done = [topics[number] for number in result.done]
        for verdict in verdicts:
            if verdict.pressure is None:
                raise CalibrationEnded(verdict.text)
        if result.error is not None:
            raise CalibrationEnded(_error_text(result.error))
        if is_measured:
            self._judge(kind, planned.size, rate_per_s, done, result, verdicts)
        self._settle(is_exceeded=bool(verdicts) or (is_measured and self.steps[-1].failed))
        return done

    def _judge(
        self,
        kind: MutationKind,
        size: int,
        rate_per_s: float,
        done: Sequence[_Topic],
        result: PhaseResult,
        verdicts: Sequence[GuardVerdict],
    ) -> None:
        pressure = next((verdict.pressure for verdict in verdicts), None) or self._guard.step_pressure()
        step = StepResult(
            kind,
            size,
            rate_per_s,
            achieved_per_s=sum(topic.partitions for topic in done) / result.duration_s,
            duration_s=result.duration_s,
            pressure=None if pressure is None else pressure.ratio,
            text="" if pressure is None else str(pressure),
            was_stopped=bool(verdicts),
        )
        self.steps.append(step)
        self._notify(step_text(step))

    def _mutation(self, kind: MutationKind, topic: _Topic) -> Mutation:
        match kind:
            case MutationKind.CREATE:
                return lambda client, broker: self._topics.create(client, broker, topic.name, topic.partitions)
            case MutationKind.ADD:
                return lambda client, broker: client.add_partitions_through(broker, topic.name, 2 * topic.partitions)
            case MutationKind.DELETE:
                return lambda client, broker: self._topics.delete(client, broker, topic.name)

    def _settle(self, *, is_exceeded: bool) -> None:
        """Waits until the effect of the phase is over.

        Raises:
            CalibrationEnded: after 15 s the objective is still exceeded or not measured, or there is trouble.
        """
        if not is_exceeded:
            time.sleep(_SETTLE_S)
            return
        until_s = time.monotonic() + _RECOVER_S_MAX
        while True:
            self._guard.begin_step()
            time.sleep(_RECOVER_STEP_S)
            pressure, trouble = self._guard.step_pressure(), self._guard.trouble()
            if trouble is not None:
                raise CalibrationEnded(trouble)
            if pressure is not None and pressure.ratio <= 1:
                return
            if time.monotonic() >= until_s:
                state = "is not measured" if pressure is None else f"is still exceeded: {pressure}"
                raise CalibrationEnded(f"{_RECOVER_S_MAX:.0f} s after a step the objective {state}")


def _error_text(error: ClusterError) -> str:
    if isinstance(error, MutationRefused):
        return (
            "a mutation quota refuses requests of the calibration, so the calibration would measure this quota "
            "and not the controller: see `rheostat quotas`"
        )
    return f"a request failed: {error}"


_VERBS = {MutationKind.CREATE: "create", MutationKind.ADD: "add", MutationKind.DELETE: "delete"}


def step_text(step: StepResult) -> str:
    """Returns the result of a step as one line."""
    partitions = "1 partition" if step.size == 1 else f"{step.size} partitions"
    if step.exceeds_objective:
        verdict = "exceeds the objective" + (", stopped" if step.was_stopped else "")
    elif step.is_unmeasured:
        verdict = "not measured, counts as failed"
    elif step.failed:
        verdict = f"the requests did not keep up: {step.achieved_per_s:.3g}/s"
    else:
        verdict = "kept"
    measure = f"; {step.text}" if step.text else ""
    return f"{_VERBS[step.kind]} {step.rate_per_s:.3g}/s, {partitions} per topic: {verdict}{measure}."
