"""What the law for mutation quotas remembers from cycle to cycle: a value, for the journal and for a replay.

Rates are partitions/s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tuner.control.mutation_quota.entity import QuotaEntity, Tenant


@dataclass(frozen=True, slots=True)
class LearnedCost:
    """Of the controller's one thread; see control/mutation_quota/cost_model.py."""

    topic_ms: float
    partition_ms: float
    partitions_per_topic: float = 1.0
    other_busy_ratio: float = 0.0  # Busy with everything else.
    steps: int = 0

    @property
    def partition_total_ms(self) -> float:
        """A partition, with its part of its topic."""
        return self.partition_ms + self.topic_ms / self.partitions_per_topic


@dataclass(frozen=True, slots=True)
class TotalRate:
    """What all tenants together are meant to have."""

    rate_per_s: float
    raised_at_ms: int = 0
    cut_at_ms: int = 0
    known_limit_per_s: float | None = (
        None  # At most what was borne when the objective was missed last; None: it never was.
    )
    known_limit_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class TenantState:
    rate_per_s: float = 0.0  # What it does, slowly forgotten.
    backlogged: bool = False  # Held back, so that nobody knows what it would do.
    active_at_ms: int = 0  # When it last did anything, or was known for the first time.
    sampled_at_ms: int = 0  # Of its newest signal; 0: nothing was heard of it yet.
    written_at_ms: int = 0
    previous_write_at_ms: int = 0  # The write before that.


@dataclass(frozen=True, slots=True)
class OwnedQuota:
    """A quota that we wrote. ``may_stand`` as for a throttle: all that a write under way may leave (None: nothing)."""

    before_per_s: float | None
    setpoint_per_s: float
    possible_per_s: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class UnconfirmedChange:
    """Something else stands than what is ours, and it may be only that a broker is behind."""

    found_per_s: float | None
    since_ms: int


@dataclass(frozen=True, slots=True)
class ProbeTrend:
    """Of what others feel; see control/mutation_quota/probe_margin.py."""

    ratio: float | None = None  # Of what they may; None: not asked for, or not known.
    since_ms: int = 0  # From when on it was known with every look.
    spread: float | None = None  # How much it wavers at one total, as a share of it; None: not seen yet.
    learned_s: float = 0.0  # For how long that was seen.
    near_cut_at_ms: int = (
        0  # When the total went down a step as it, or what lines are taken for, was near its objective.
    )


@dataclass(frozen=True, slots=True)
class ControllerWindow:
    """What the newest judged window of the active controller said, to compare with the next."""

    node: int
    sampled_at_ms: int
    topics: float | None = None
    partitions: float | None = None
    idle_ratio: float | None = None  # Evened out.
    pressure: float | None = None
    apply_lag_ms: float | None = None
    no_headroom_at_ms: int = (
        0  # When others last felt so much, or lines were taken for so long, that there was no room.
    )
    active_since_ms: int = 0  # When this node was first seen to be active, after another one; 0: it was when we came.
    felt: ProbeTrend | None = None


@dataclass(frozen=True, slots=True)
class MutationMemory:
    total: TotalRate | None = None
    cost: LearnedCost | None = None
    window: ControllerWindow | None = None
    tenants: Mapping[Tenant, TenantState] = field(default_factory=dict)
    owned: Mapping[QuotaEntity, OwnedQuota] = field(default_factory=dict)
    unconfirmed: Mapping[QuotaEntity, UnconfirmedChange] = field(default_factory=dict)
    externally_owned_until_ms: Mapping[QuotaEntity, int] = field(default_factory=dict)
    idle_baselines_ms: Mapping[str, float] = field(
        default_factory=dict
    )  # ms: what a measure is when nobody asks for anything.
    last_step_at_ms: int = 0
    orders_at_ms: int = 0  # Of the newest orders that were acknowledged.
    default_written_at_ms: int = 0
    foreign_per_s: Mapping[QuotaEntity, float] = field(
        default_factory=dict
    )  # What stood with the last look and was not ours.
    quotas_were_read: bool = False  # Whether there was one: of the first nobody can tell who has just set what.
