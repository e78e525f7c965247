"""The plans of `rheostat reassign` in `rheostat status --watch`: how far each is, what is under way, and what holds it up."""

from __future__ import annotations

import time
from collections.abc import Callable

from rheostat.errors import CommandError
from rheostat.reassign.picture import picture, to_measure
from rheostat.reassign.record import Follower
from rheostat.reassign.words import sentences
from streaming.kafka.cluster import ClusterError
from tuner.actuate.reassignments import Reassignments

_PLANS_MAX = 3  # A terminal is no longer than that.
_REST_PER_LOOK = 4.0


class Plans:
    """The plans that run, in sentences, looked at now and then: a look at a large one takes its time."""

    def __init__(
        self, follower: Follower, port: Reassignments, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._follower = follower
        self._port = port
        self._monotonic = monotonic
        self._due_s = float("-inf")
        self._lines: list[str] = []

    def told(self) -> list[str]:
        began_s = self._monotonic()
        if began_s >= self._due_s:
            self._lines = self._looked()
            self._due_s = self._monotonic() + _REST_PER_LOOK * (self._monotonic() - began_s)
        return self._lines

    def _looked(self) -> list[str]:
        try:
            active = self._follower.now().active
        except CommandError as error:
            return [f"Plans cannot be read now: {error}"]
        lines: list[str] = []
        for plan in active[:_PLANS_MAX]:
            found = self._port.look({topic for topic, _ in plan.parts}, to_measure(plan))
            if isinstance(found, ClusterError):
                lines.append(f"Plan {plan.id}: the cluster is not seen now: {found}")
            else:
                lines += sentences(picture(plan, found, round(time.time() * 1000)))
        if len(active) > _PLANS_MAX:
            lines.append(f"and {len(active) - _PLANS_MAX} more plans (`rheostat reassign status` has each)")
        return lines
