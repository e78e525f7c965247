"""A turn of the executor of plans whose steps wait for their throttle: announced, and let go once they have been seen to.

Invariant: what waits here is on record and not asked for. A turn leaves once: when a cycle of the tuner has seen to its steps,
or when none has for too long.
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

PREPARE_S_MAX = 10.0  # At least two cycles of the tuner; what it has not seen to by then is not begun.


class PrepareStep:
    def __init__(
        self, announcing: PrepareHandshake | None, announced_s_max: float, monotonic: Callable[[], float]
    ) -> None:
        """
        Args:
            announcing: to whom steps are announced; None: nobody throttles them.
        """
        self._announcing = announcing
        self._s_max = announced_s_max
        self._monotonic = monotonic
        self._waiting: tuple[ExecutorDecision, float] | None = None  # And since when.

    @property
    def is_waiting(self) -> bool:
        return self._waiting is not None

    def begin(self, made: ExecutorDecision, look: ReassignmentSnapshot) -> Deferred | None:
        """What of the turn is not to be asked for, where it need not wait; None: it waits."""
        throttled = (each for each in made.plans if not each.plan.head.throttle.unthrottled)
        moves = steps_as_moves((step for each in throttled for step in each.starts), look)
        if self._announcing is None or not moves:
            return NONE_DEFERRED
        if any(each.cancels for each in made.plans):
            # Whoever cancels waits for nobody's throttle.
            return Deferred(waiting={(move.topic, move.partition): CANCELLATION_FIRST for move in moves})
        self._announcing.submit(moves, urgent_of(made))
        self._waiting = (made, self._monotonic())
        return None

    def poll(self, wanted: Mapping[str, DesiredPlanState], *, paused: bool) -> tuple[ExecutorDecision, Deferred] | None:
        """The turn, and what of it is not to be asked for; None: it still waits.

        Args:
            wanted: the newest word about each plan, by its id.
            paused: all plans are, by a word to the tuner.
        """
        assert self._announcing is not None
        assert self._waiting is not None
        (made, since_s), found = self._waiting, self._announcing.deferred
        if found is None and self._monotonic() - since_s < self._s_max:
            return None
        announced, without_room = (
            [(m.topic, m.partition) for m in self._announcing.moves],
            self._announcing.waiting_for_capacity,
        )
        self._waiting = None
        if found is None:
            found = dict.fromkeys(announced, f"not begun: not throttled within {self._s_max:.0f} s")
        steps = [(each.plan, step) for each in made.plans for step in each.starts]
        # Producers that are refused wait for these: they are throttled where that can be, and begin all the same.
        urgent = urgent_of(made)
        unsaid = [
            (step.topic, step.partition)
            for plan, step in steps
            if paused or wanted.get(plan.id) is not plan.head.desired
        ]
        return made, classify_deferred(found, urgent, unsaid, without_room)

    def note_running_steps(self, made: ExecutorDecision, look: ReassignmentSnapshot) -> None:
        """Notes through which sides steps run at this look."""
        if self._announcing is not None:
            running = steps_as_moves((step for each in made.plans for step in each.progress.running.values()), look)
            self._announcing.last_copied_at_s.update(dict.fromkeys(sides_of(running), self._monotonic()))

    def note_step_ended(self) -> None:
        """A step that ran has, and others go on: what it has on the throttled-replica lists is to leave them."""
        if self._announcing is not None:
            self._announcing.step_ended = True

    def clear(self) -> None:
        """Its steps have been asked for, or never will be."""
        self._waiting = None
        if self._announcing is not None:
            self._announcing.clear()


def urgent_of(made: ExecutorDecision) -> frozenset[TopicPartition]:
    """What producers that are refused wait for."""
    steps = (step for each in made.plans for step in each.starts)
    return frozenset((step.topic, step.partition) for step in steps if step.reason is StepReason.MIN_IN_SYNC)
