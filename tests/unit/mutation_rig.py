"""Signals of a controller and of tenants, and cycles of the mutation quota policy on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from streaming.shared.contract import ControllerSignal, TenantSignal
from tuner.control.mutation_quota.decision import QuotaDecision, QuotaReason, RestoreQuota, SetQuota
from tuner.control.mutation_quota.entity import QuotaEntity
from tuner.control.mutation_quota.model import MutationPolicy, QuotaView
from tuner.control.mutation_quota.ownership import note_confirmed_write, note_pending_write
from tuner.control.mutation_quota.policy import QuotaStep, step
from tuner.control.mutation_quota.state import MutationMemory
from tuner.core.cluster import ClusterUnreadable
from tuner.core.controller import ClusterWideMeasures

START_MS = 1_600_000_000_000
CYCLE_S = 5


def controller(at_ms: int, *, node: int = 1, active: float | None = 1.0, idle: float | None = 0.9, queue: float | None = 1.0,
               partitions: float | None = 1_000.0, late: float | None = 0.0) -> ControllerSignal:  # fmt: skip
    return ControllerSignal(
        "c", node, at_ms, at_ms, 6, 1.0, active=active, idle_ratio=idle, event_queue_time_mean_ms=queue,
        partitions=partitions, topics=100.0, heartbeats_timed_out_per_s=late,
    )  # fmt: skip


def tenant(at_ms: int, rate: float | None = 0.0, tokens: float | None = 1e20, *, node: int = 1, user: str | None = None,
           client_id: str | None = None) -> TenantSignal:  # fmt: skip
    return TenantSignal(
        "c", node, at_ms, at_ms, 1, 1.0, user=user, client_id=client_id, mutation_rate_per_s=rate, tokens=tokens
    )


@dataclass
class Rig:
    """A cluster's quotas, and the policy that changes them. With ``dry`` nothing is written."""

    policy: MutationPolicy = field(default_factory=MutationPolicy)
    quotas: dict[QuotaEntity, float] = field(default_factory=dict)
    memory: MutationMemory = field(default_factory=MutationMemory)
    now_ms: int = START_MS
    dry: bool = False

    def cycle(
        self,
        tenants: Sequence[TenantSignal] = (),
        controllers: Sequence[ControllerSignal] | None = None,
        *,
        beside: ClusterWideMeasures | None = None,
        unseen: bool = False,
    ) -> QuotaStep:
        """Runs one cycle and advances the time by five seconds. Without ``controllers`` there is one healthy controller."""
        found = [controller(self.now_ms)] if controllers is None else controllers
        quotas: Mapping[QuotaEntity, float] | ClusterUnreadable = (
            ClusterUnreadable("no answer") if unseen else self.quotas
        )
        view = QuotaView(
            self.now_ms, quotas, {s.node: s for s in found}, tuple(tenants), beside or ClusterWideMeasures()
        )
        made = step(view, self.memory, self.policy)
        self.memory = made.memory
        for decision in [] if self.dry else made.decisions:
            self._written(decision)
        self.now_ms += CYCLE_S * 1000
        return made

    def _written(self, decision: QuotaDecision) -> None:
        self.memory = note_confirmed_write(note_pending_write(self.memory, decision), decision)
        match decision:
            case SetQuota(entity=entity, setpoint_per_s=value) | RestoreQuota(entity=entity, value_per_s=float(value)):
                self.quotas[entity] = value
            case RestoreQuota(entity=entity):
                self.quotas.pop(entity, None)


def reasons(made: QuotaStep) -> list[QuotaReason]:
    return [decision.reason for decision in made.decisions]


def written(made: QuotaStep) -> dict[QuotaEntity, float]:
    return {d.entity: d.setpoint_per_s for d in made.decisions if isinstance(d, SetQuota)}
