"""Announces the steps of an executor cycle to the throttle controller, and waits until their throttles are set.

Kafka starts to copy as soon as it accepts a reassignment. A step is therefore requested only after a throttle cycle has set its
throttle and replica lists, and has answered.

Invariant: a step that waits here is in the journal and has not been requested. It waits until the answer or until a timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tuner.control.reassignment.policy import ExecutorDecision
from tuner.control.throttle.replica_lists.prepared_moves import (
    CANCELLATION_FIRST,
    NONE_DEFERRED,
    Deferred,
    classify_deferred,
    sides_of,
    steps_as_moves,
)
from tuner.core.prepare_handshake import PrepareHandshake
from tuner.core.reassignment_plan import DesiredPlanState, ReassignmentSnapshot, TopicPartition
from tuner.core.reassignment_steps import StepReason

# A step without an answer after this time does not begin. It is the time of two throttle cycles of the default length.
PREPARE_S_MAX = 10.0


class PrepareStep:
    """The executor's end of the handshake with the throttle controller."""

    def __init__(self, handshake: PrepareHandshake | None, wait_s_max: float, monotonic: Callable[[], float]) -> None:
        """
        Args:
            handshake: announces steps to the throttle controller; None if steps begin unthrottled.
        """
        self._handshake = handshake
        self._wait_s_max = wait_s_max
        self._monotonic = monotonic
        # The announced decision, and when it was announced.
        self._waiting: tuple[ExecutorDecision, float] | None = None

    @property
    def is_waiting(self) -> bool:
        return self._waiting is not None

    def begin(self, decision: ExecutorDecision, snapshot: ReassignmentSnapshot) -> Deferred | None:
        """Announces the steps that copy data. Returns the steps that must not begin; None if ``poll`` returns these steps later."""
        throttled = (plan for plan in decision.plans if not plan.plan.head.throttle.unthrottled)
        moves = steps_as_moves((step for plan in throttled for step in plan.starts), snapshot)
        if self._handshake is None or not moves:
            return NONE_DEFERRED
        if any(plan.cancels for plan in decision.plans):
            # A cancel must not wait until throttles are set. So this cycle only cancels, and the steps begin in a later cycle.
            return Deferred(waiting={(move.topic, move.partition): CANCELLATION_FIRST for move in moves})
        self._handshake.submit(moves, urgent_of(decision))
        self._waiting = (decision, self._monotonic())
        return None

    def poll(
        self, desired: Mapping[str, DesiredPlanState], *, paused: bool
    ) -> tuple[ExecutorDecision, Deferred] | None:
        """Returns the announced decision and its steps that must not begin; None if there is no answer yet.

        Call it only while ``is_waiting``.

        Args:
            desired: the state that the newest order asks for, by plan id.
            paused: whether an operator has paused the whole tuner.
        """
        assert self._handshake is not None
        assert self._waiting is not None
        (decision, since_s), deferred = self._waiting, self._handshake.deferred
        if deferred is None and self._monotonic() - since_s < self._wait_s_max:
            return None
        announced = [(move.topic, move.partition) for move in self._handshake.moves]
        waiting_for_capacity = self._handshake.waiting_for_capacity
        self._waiting = None
        if deferred is None:
            deferred = dict.fromkeys(
                announced,
                f"the step did not begin, because its replicas were not throttled within {self._wait_s_max:.0f} s",
            )
        # Kafka rejects writes to these partitions (min.insync.replicas), so their steps begin even if they are not throttled.
        urgent = urgent_of(decision)
        order_changed = [
            (step.topic, step.partition)
            for plan_decision in decision.plans
            for step in plan_decision.starts
            if paused or desired.get(plan_decision.plan.id) is not plan_decision.plan.head.desired
        ]
        return decision, classify_deferred(deferred, urgent, order_changed, waiting_for_capacity)

    def note_running_steps(self, decision: ExecutorDecision, snapshot: ReassignmentSnapshot) -> None:
        """Notes the sides through which steps copy now."""
        if self._handshake is not None:
            running = (step for plan in decision.plans for step in plan.progress.running.values())
            sides = sides_of(steps_as_moves(running, snapshot))
            self._handshake.last_copied_at_s.update(dict.fromkeys(sides, self._monotonic()))

    def note_step_ended(self) -> None:
        """Notes that a step has ended, so that the throttle controller takes its replicas off the throttled-replica lists."""
        if self._handshake is not None:
            self._handshake.step_ended = True

    def clear(self) -> None:
        """Ends the announcement, because its steps were requested or will not be requested."""
        self._waiting = None
        if self._handshake is not None:
            self._handshake.clear()


def urgent_of(decision: ExecutorDecision) -> frozenset[TopicPartition]:
    """Returns the partitions to which Kafka rejects writes until the step has ended (below min.insync.replicas)."""
    steps = (step for plan in decision.plans for step in plan.starts)
    return frozenset((step.topic, step.partition) for step in steps if step.reason is StepReason.MIN_IN_SYNC)
