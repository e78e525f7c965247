"""What decisions are made by besides what is observed: a person's settings, and on record only those.

Intuition: whoever asks whether today's program would decide as that one did wants today's constants, with the numbers that
the operator had set then. So what was a constant of the program is not on record, and what differed from it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from tuner.control.mutation_quota.entity import QuotaEntity
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy, TenantRule
from tuner.control.throttle.objective import LawLimits, Objective
from tuner.core.controller import ControllerObjective
from tuner.core.throttle_limits import Limits, StallLimits
from tuner.journal.type_codec import shape_of


@dataclass(frozen=True, slots=True)
class SettingsSnapshot:
    """What the decisions are made by, besides what is observed; ``law`` and ``objective`` are None where none is steered, and
    ``quotas`` where none is asked for."""

    limits: Limits
    stall: StallLimits
    objective: Objective | None = None
    law: LawLimits | None = None
    writes_max: int = 50
    dry_run: bool = False
    quotas: MutationPolicy | None = None

    def body(self) -> dict[str, Any]:
        """Only what differs from this program's own constants, so that other constants are another answer."""
        return {
            "limits": _differing(self.limits),
            "stall": _differing(self.stall),
            "objective": None if self.objective is None else shape_of(Objective).put([self.objective]),
            "law": None if self.law is None else _differing(self.law),
            "writes_max": self.writes_max,
            "dry_run": self.dry_run,
            "quotas": None if self.quotas is None else _quotas_body(self.quotas),
        }

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> SettingsSnapshot:
        """Raises KeyError, TypeError or ValueError for what is no such body. Older ones do not speak of quotas."""
        objective, quotas = body["objective"], body.get("quotas")
        return cls(
            Limits(**_known(Limits, body["limits"])),
            StallLimits(**_known(StallLimits, body["stall"])),
            None if objective is None else shape_of(Objective).got(objective)[0],
            None if body["law"] is None else LawLimits(**_known(LawLimits, body["law"])),
            body["writes_max"],
            body["dry_run"],
            None if quotas is None else _quotas_of(quotas),
        )


# What of the quotas' policy is a person's as a whole, or is not to be said in JSON as it is.
_QUOTA_SHAPES: Mapping[str, Any] = {
    "objective": ControllerObjective,
    "rules": tuple[TenantRule, ...],
    "default_entity": QuotaEntity | None,
}


def _quotas_body(policy: MutationPolicy) -> dict[str, Any]:
    body = {name: shape_of(kind).put([getattr(policy, name)]) for name, kind in _QUOTA_SHAPES.items()}
    plain = {f.name: getattr(policy, f.name) for f in fields(policy) if f.name not in {*_QUOTA_SHAPES, "limits"}}
    return {**body, "limits": _differing(policy.limits), **plain}


def _quotas_of(body: Mapping[str, Any]) -> MutationPolicy:
    shaped = {name: shape_of(kind).got(body[name])[0] for name, kind in _QUOTA_SHAPES.items()}
    plain = {f.name: body[f.name] for f in fields(MutationPolicy) if f.name in body.keys() - {*_QUOTA_SHAPES, "limits"}}
    return MutationPolicy(**shaped, limits=MutationLimits(**_known(MutationLimits, body["limits"])), **plain)


def _known(kind: type[Limits | StallLimits | LawLimits | MutationLimits], body: Mapping[str, Any]) -> dict[str, Any]:
    """Without what this program has no use for any more: if it mattered, the decisions tell."""
    return {f.name: body[f.name] for f in fields(kind) if f.name in body}


def _differing(limits: Limits | StallLimits | LawLimits | MutationLimits) -> dict[str, Any]:
    found = {f.name: (getattr(limits, f.name), f.default) for f in fields(limits)}
    return {name: value for name, (value, default) in found.items() if default is MISSING or value != default}
