"""Describes the plans of `rheostat reassign` for `rheostat status --watch`: progress, steps in progress, and blockers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rheostat.reassign.progress import measure_progress, partitions_to_measure
from rheostat.reassign.text import describe_plan
from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.short_lists import more_text
from tuner.api.sentences import moment
from tuner.core.plan_progress import UNKNOWN, Progress
from tuner.core.reassignment_plan import Plan
from tuner.runtime.reassignment.actuator import ReassignmentActuator

_PLANS_MAX = 3  # Limited by the height of a terminal.
_PAUSE_PER_READ = 4.0  # The pause after a read, relative to the duration of that read.


class PlansPane:
    """Describes the active plans. It reads them less often than the screen is drawn, because reading a large plan takes long."""

    def __init__(
        self,
        reassignments: ReassignmentActuator,
        monotonic: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._reassignments = reassignments
        self._monotonic = monotonic
        self._wall_clock = wall_clock
        self._due_s = float("-inf")  # When to read again.
        self._lines: list[str] = []  # The lines that the pane shows.
        self.progress: dict[str, Progress] = {}  # By plan id; the headline of the status shows the progress.
        self._read_lines: list[str] = []  # Result of the last successful read.
        self._read_at_ms: int | None = None  # Time of the last successful read.

    def lines(self, plans: Sequence[Plan] | None) -> list[str]:
        """Returns the lines of the pane.

        Args:
            plans: all recorded plans; None if unknown.
        """
        began_s = self._monotonic()
        if began_s >= self._due_s:
            self._lines = self._read(plans)
            self._due_s = self._monotonic() + _PAUSE_PER_READ * (self._monotonic() - began_s)
        return self._lines

    def _read(self, plans: Sequence[Plan] | None) -> list[str]:
        if plans is None:
            return self._outdated_lines("the journal could not be read completely")
        active = [plan for plan in plans if plan.is_active]
        lines: list[str] = []
        self.progress = {plan.id: UNKNOWN for plan in active}
        for plan in active[:_PLANS_MAX]:
            snapshot = self._reassignments.read_snapshot(
                {topic for topic, _ in plan.partitions}, partitions_to_measure(plan)
            )
            if isinstance(snapshot, ClusterError):
                return self._outdated_lines(f"the cluster cannot be read now: {snapshot}")
            plan_progress = measure_progress(plan, snapshot, self._now_ms())
            self.progress[plan.id] = plan_progress.progress
            lines += describe_plan(plan_progress, with_eta=False)
        if len(active) > _PLANS_MAX:
            lines.append(more_text(len(active) - _PLANS_MAX, "plans (`rheostat reassign status` has each)"))
        self._read_lines, self._read_at_ms = lines, self._now_ms()
        return lines

    def _outdated_lines(self, why: str) -> list[str]:
        """Returns the last known lines, marked as outdated."""
        if self._read_at_ms is None:
            return [f"The state of the plans is unknown: {why}"]
        last = "; last known state:" if self._read_lines else ""
        return [f"The state of the plans is unknown since {moment(self._read_at_ms)}: {why}{last}", *self._read_lines]

    def _now_ms(self) -> int:
        return round(self._wall_clock() * 1000)
