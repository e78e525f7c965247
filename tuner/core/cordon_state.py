"""Defines the cordons (KIP-1066) as the executor of plans needs them: brokers that take no replicas, and plans that wait for a
cordon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tuner.core.reassignment_plan import PlanHead


@dataclass(frozen=True, slots=True)
class CordonState:
    """The cordons at the newest reading.

    Attributes:
        cordoned: brokers that take no new replicas, cordoned by any tool.
        settled: the ids of the plans whose cordons are in place.
        waits: why an ordered cordon is not in place yet, by broker.
    """

    cordoned: frozenset[int] = frozenset()
    settled: frozenset[str] = frozenset()
    waits: Mapping[int, str] = field(default_factory=dict)

    def wait_text(self, head: PlanHead) -> str | None:
        """Returns why the plan may not start steps yet; None: its cordons are in place, or it ordered none."""
        if not head.cordon or head.id in self.settled:
            return None
        for broker in head.cordon:
            if broker in self.waits:
                return f"no step starts before broker {broker} is cordoned: {self.waits[broker]}"
        return f"no step starts before broker {head.cordon[0]} is cordoned"
