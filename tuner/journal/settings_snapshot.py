"""Encodes the settings that decisions are made with, for the recording.

A replay asks whether today's program, with the operator's settings of that time, decides the same. So limits are stored only where
they differ from the program's defaults; the others take today's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from tuner.control.cruise_control.policy import MovementLimits
from tuner.control.leadership.policy import LeadershipLimits
from tuner.control.mutation_quota.entity import QuotaEntity
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy, TenantRule
from tuner.control.throttle.objective import ControlLimits, Objective
from tuner.core.controller import ControllerObjective
from tuner.core.throttle_limits import StallLimits, ThrottleLimits
from tuner.journal.type_codec import codec_of


@dataclass(frozen=True, slots=True)
class SettingsSnapshot:
    """All settings that decisions depend on.

    Attributes:
        objective: the latency objective; None if the tuner only rescues stalled moves, and does not steer.
        law: the limits of the control law; None if, and only if, ``objective`` is None.
        writes_max: maximum number of config writes of one steering tick.
        quotas: the mutation quota policy; None if mutation quotas are not managed.
        leadership: the limits of elections of preferred leaders; None if there was no decision about an election.
        movements: the limits of Cruise Control's concurrency; None if there was no decision about it.
    """

    limits: ThrottleLimits
    stall: StallLimits
    objective: Objective | None = None
    law: ControlLimits | None = None
    writes_max: int = 50
    dry_run: bool = False
    quotas: MutationPolicy | None = None
    leadership: LeadershipLimits | None = None
    movements: MovementLimits | None = None

    def body(self) -> dict[str, Any]:
        """Returns the JSON body. It has only the limits that differ from the program's defaults."""
        return {
            "limits": _non_defaults(self.limits),
            "stall": _non_defaults(self.stall),
            "objective": None if self.objective is None else codec_of(Objective).encode([self.objective]),
            "law": None if self.law is None else _non_defaults(self.law),
            "writes_max": self.writes_max,
            "dry_run": self.dry_run,
            "quotas": None if self.quotas is None else _quotas_body(self.quotas),
            "leadership": codec_of(LeadershipLimits | None).encode([self.leadership]),
            "movements": codec_of(MovementLimits | None).encode([self.movements]),
        }

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> SettingsSnapshot:
        """Returns the settings that ``body()`` has encoded.

        Raises:
            KeyError, TypeError, ValueError: not a body of settings.
        """
        objective, quotas = body["objective"], body.get("quotas")
        return cls(
            limits=ThrottleLimits(**_known_values(ThrottleLimits, body["limits"])),
            stall=StallLimits(**_known_values(StallLimits, body["stall"])),
            objective=None if objective is None else codec_of(Objective).decode(objective)[0],
            law=None if body["law"] is None else ControlLimits(**_known_values(ControlLimits, body["law"])),
            writes_max=body["writes_max"],
            dry_run=body["dry_run"],
            quotas=None if quotas is None else _quotas_of(quotas),
            leadership=codec_of(LeadershipLimits | None).decode(body["leadership"])[0],
            movements=codec_of(MovementLimits | None).decode(body["movements"])[0],
        )


# Types of the fields of the mutation quota policy for which JSON has no type. A codec encodes a list, so each value is encoded as a
# list with one element.
_QUOTA_FIELD_TYPES: Mapping[str, Any] = {
    "objective": ControllerObjective,
    "rules": tuple[TenantRule, ...],
    "default_entity": QuotaEntity | None,
}


def _quotas_body(policy: MutationPolicy) -> dict[str, Any]:
    body = {name: codec_of(kind).encode([getattr(policy, name)]) for name, kind in _QUOTA_FIELD_TYPES.items()}
    plain = {f.name: getattr(policy, f.name) for f in fields(policy) if f.name not in {*_QUOTA_FIELD_TYPES, "limits"}}
    return {**body, "limits": _non_defaults(policy.limits), **plain}


def _quotas_of(body: Mapping[str, Any]) -> MutationPolicy:
    typed = {name: codec_of(kind).decode(body[name])[0] for name, kind in _QUOTA_FIELD_TYPES.items()}
    plain_names = body.keys() - {*_QUOTA_FIELD_TYPES, "limits"}
    plain = {f.name: body[f.name] for f in fields(MutationPolicy) if f.name in plain_names}
    limits = MutationLimits(**_known_values(MutationLimits, body["limits"]))
    return MutationPolicy(**typed, limits=limits, **plain)


def _known_values(
    kind: type[ThrottleLimits | StallLimits | ControlLimits | MutationLimits], body: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns only the values that this version knows.

    If a decision depended on a value that is left out, the replay shows a different decision.
    """
    return {f.name: body[f.name] for f in fields(kind) if f.name in body}


def _non_defaults(limits: ThrottleLimits | StallLimits | ControlLimits | MutationLimits) -> dict[str, Any]:
    values = {f.name: (getattr(limits, f.name), f.default) for f in fields(limits)}
    return {name: value for name, (value, default) in values.items() if default is MISSING or value != default}
