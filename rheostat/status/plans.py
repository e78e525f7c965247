"""The plans of `rheostat reassign` in `rheostat status --watch`: how far each is, what is under way, and what holds it up."""

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

_PLANS_MAX = 3  # A terminal is no longer than that.
_REST_PER_LOOK = 4.0


class PlansPane:
    """The plans that run, in sentences, looked at now and then: a look at a large one takes its time."""

    def __init__(
        self,
        port: ReassignmentActuator,
        monotonic: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._port = port
        self._monotonic = monotonic
        self._wall_clock = wall_clock
        self._due_s = float("-inf")
        self._lines: list[str] = []
        self.progress: dict[
            str, Progress
        ] = {}  # Of the last look; the end of everything is told of it once, in the headline.
        self._seen: list[str] = []  # Of the last look that saw them.
        self._seen_at_ms: int | None = None

    def told(self, plans: Sequence[Plan] | None) -> list[str]:
        """
        Args:
            plans: all on record; None: not known.
        """
        began_s = self._monotonic()
        if began_s >= self._due_s:
            self._lines = self._looked(plans)
            self._due_s = self._monotonic() + _REST_PER_LOOK * (self._monotonic() - began_s)
        return self._lines

    def _looked(self, plans: Sequence[Plan] | None) -> list[str]:
        if plans is None:
            return self._unknown("the journal could not be read whole")
        active = [plan for plan in plans if plan.is_active]
        lines: list[str] = []
        self.progress = {plan.id: UNKNOWN for plan in active}
        for plan in active[:_PLANS_MAX]:
            found = self._port.read_snapshot({topic for topic, _ in plan.partitions}, partitions_to_measure(plan))
            if isinstance(found, ClusterError):
                return self._unknown(f"the cluster is not seen now: {found}")
            shown = measure_progress(plan, found, self._now_ms())
            self.progress[plan.id] = shown.progress
            lines += describe_plan(shown, with_eta=False)
        if len(active) > _PLANS_MAX:
            lines.append(more_text(len(active) - _PLANS_MAX, "plans (`rheostat reassign status` has each)"))
        self._seen, self._seen_at_ms = lines, self._now_ms()
        return lines

    def _unknown(self, why: str) -> list[str]:
        """What was seen last stays, but not as if it were so now."""
        if self._seen_at_ms is None:
            return [f"How the plans are is not known: {why}"]
        last = "; as they were seen last:" if self._seen else ""
        return [f"How the plans are is not known since {moment(self._seen_at_ms)}: {why}{last}", *self._seen]

    def _now_ms(self) -> int:
        return round(self._wall_clock() * 1000)
