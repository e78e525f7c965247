"""What decisions are made by besides what is observed: a person's settings, and on record only those.

Intuition: whoever asks whether today's program would decide as that one did wants today's constants, with the numbers that
the operator had set then. So what was a constant of the program is not on record, and what differed from it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from tuner.journal.shapes import shape_of
from tuner.model.limits import Limits, StallLimits
from tuner.model.objectives import LawLimits, Objective


@dataclass(frozen=True, slots=True)
class InForce:
    """What the decisions are made by, besides what is observed; ``law`` and ``objective`` are None where none is steered."""

    limits: Limits
    stall: StallLimits
    objective: Objective | None = None
    law: LawLimits | None = None
    writes_max: int = 50
    dry_run: bool = False

    def body(self) -> dict[str, Any]:
        """Only what differs from this program's own constants, so that other constants are another answer."""
        return {
            "limits": _differing(self.limits),
            "stall": _differing(self.stall),
            "objective": None if self.objective is None else shape_of(Objective).put([self.objective]),
            "law": None if self.law is None else _differing(self.law),
            "writes_max": self.writes_max,
            "dry_run": self.dry_run,
        }

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> InForce:
        """Raises KeyError, TypeError or ValueError for what is no such body."""
        objective = body["objective"]
        return cls(
            Limits(**_known(Limits, body["limits"])),
            StallLimits(**_known(StallLimits, body["stall"])),
            None if objective is None else shape_of(Objective).got(objective)[0],
            None if body["law"] is None else LawLimits(**_known(LawLimits, body["law"])),
            body["writes_max"],
            body["dry_run"],
        )


def _known(kind: type[Limits | StallLimits | LawLimits], body: Mapping[str, Any]) -> dict[str, Any]:
    """Without what this program has no use for any more: if it mattered, the decisions tell."""
    return {f.name: body[f.name] for f in fields(kind) if f.name in body}


def _differing(limits: Limits | StallLimits | LawLimits) -> dict[str, Any]:
    found = {f.name: (getattr(limits, f.name), f.default) for f in fields(limits)}
    return {name: value for name, (value, default) in found.items() if default is MISSING or value != default}
