"""Defines the inputs of the mutation quota controller: the policy, the constants of the control law, and a view of the cluster.

Source: KIP-599. A rate counts the partitions that are created or deleted per second. A value that was not measured is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from streaming.shared.contract import ControllerSignal, TenantSignal
from tuner.control.mutation_quota.entity import DEFAULT, QuotaEntity
from tuner.core.cluster import ClusterUnreadable
from tuner.core.controller import ClusterWideMeasures, ControllerObjective
from tuner.core.quota_window import QuotaWindow
from tuner.core.token_bucket import SAMPLES, WINDOW_S

EVERY_USER = QuotaEntity(DEFAULT)  # The <default> user.

# -- settings of the operator ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TenantRule:
    """An operator's rule: weight, guaranteed rate and exemption of the tenants whose name it matches.

    Attributes:
        user: name or pattern (``*``, ``?``) of the user; None matches any user.
        client_id: the same for the client-id.
        weight: relative share of the total rate.
        rate_per_s_min: guaranteed rate; None: ``tenant_rate_per_s_min`` of the limits.
        exempt: the tenant is never limited by a managed quota. Its mutations still count against the total.
    """

    user: str | None = None
    client_id: str | None = None
    weight: float = 1.0
    rate_per_s_min: float | None = None
    exempt: bool = False

    def __post_init__(self) -> None:
        # The settings model has already refused such values with the name of the key.
        assert self.weight > 0
        assert self.rate_per_s_min is None or self.rate_per_s_min > 0


@dataclass(frozen=True, slots=True)
class MutationLimits:
    """Settings of the operator and of Kafka, and the constants of the control law, each with its meaning and its reason.

    Rates are partitions/s. ``python -m benchmarks.ablation --mutations`` measures the effect of each constant.
    """

    # -- settings
    samples: int = SAMPLES  # controller.quota.window.num
    window_s: float = WINDOW_S  # controller.quota.window.size.seconds
    rate_per_s_max: float = 5_000.0  # Highest total.
    # Quotas may add up to this multiple of the total, because tenants are rarely active at the same time (KIP-599: "safe to over
    # allocate"). With 2, the quotas of the active tenants may add up to the total, and those of the idle tenants as well.
    over_allocation: float = 2.0
    tenants_max: int = 2_000  # Quotas by name. Beyond it only <default> applies, because client-ids may be random.
    external_change_hold_s: float = 3_600.0  # A quota that another tool has set is left alone for this time.

    # -- the total rate of all tenants
    rate_per_s_start: float = 50.0  # First total: a small controller sustains this rate before anything is learned.
    # Lowest total. At a lower total, creations would stop, and the controller could learn nothing.
    rate_per_s_min: float = 1.0
    # Any controller sustains this rate. If the creation probe latency exceeds its objective moderately, the total is not cut below
    # this rate.
    rate_per_s_safe: float = 25.0
    # If mutations arrive at less than this share of the safe rate, they are not the cause of the pressure on the controller.
    light_load_ratio: float = 0.2

    # -- the share of one tenant
    # With a lower quota a tenant would wait more than 10 s for one partition. Kafka refuses a quota of 0.
    tenant_rate_per_s_min: float = 0.1
    # The <default> quota leaves room for this number of tenants that are not known yet.
    new_tenants_expected: float = 10.0
    # Assumed demand of a tenant ÷ its measured rate. The demand may be higher than the rate, which is a mean over up to a minute.
    demand_slack: float = 1.25
    # A tenant counts as backlogged from the moment when its bucket is nearly empty until the bucket is half full again. With one
    # threshold, a tenant that uses exactly its quota would change between backlogged and not backlogged at every signal.
    bucket_empty_ratio: float = 0.1
    bucket_refilled_ratio: float = 0.5

    # -- when the total may change
    # AvgIdleRatio covers one scrape interval; the other signals cover 30 s. Smoothing AvgIdleRatio makes it comparable to them.
    idle_smoothing_s: float = 15.0
    # After a raise or a cut, the total stays unchanged until a signal covers only time after the change. Signals come late.
    settle_s: float = 35.0

    # -- raising the total
    target_ratio: float = 0.85  # Pressure above this share of the objective allows no raise: measures fluctuate.
    probe_target_ratio: float = 0.9  # The same as ``target_ratio`` for the probe latency with its margin.
    # The creation probe latency fluctuates. The law keeps the latency this many standard deviations below its objective
    # (probe_margin.py).
    probe_margin_spreads: float = 1.5
    probe_spread_start: float = 0.1  # Relative standard deviation that is assumed until it is measured.
    # Largest raise and smallest cut of the total while the probe latency is near its objective. A smaller cut would hardly change
    # the latency.
    probe_step_ratio: float = 0.1
    # While the probe latency is below this multiple of its objective, the latency does not cut the total below the safe rate.
    probe_far_ratio: float = 2.0
    # The forwarding ratio is a mean of about 300 requests in 30 s, so it fluctuates by 5 %. While it is between these two values,
    # the total is neither raised nor cut.
    forwarding_target_ratio: float = 0.8
    forwarding_near_ratio: float = 0.95

    # -- cutting the total: in proportion to the excess, within these two factors
    smallest_cut_factor: float = 0.95  # A smaller cut would be lost in the deadband of the quotas.
    # Also the cut if heartbeats time out: Kafka then fences brokers, which is worse than any unfair share. One raise reverses at
    # most one largest cut, so it at most doubles the total.
    largest_cut_factor: float = 0.5
    # No further cut while the pressure falls by 10 % or more per signal, because a backlog takes time to drain.
    receding_ratio: float = 0.9
    # If brokers fall behind, the total is cut to this share of the rate that they sustain, so that their backlog can drain.
    drain_ratio: float = 0.85
    # An idle controller writes a record every 500 ms (metadata.max.idle.interval.ms), so an apply lag of up to 600 ms is normal.
    idle_lag_ms_max: float = 600.0
    # The known limit is the rate that the brokers sustained when the objective was last exceeded. Each raise covers at most half of
    # the distance from the total to ``smallest_cut_factor`` × the known limit.
    # The limit rises with the third power of time, as in TCP CUBIC: by 4 % after 10 min, by 100 % after 30 min.
    known_limit_memory_s: float = 1_800.0

    # -- writing quotas: each write reaches every node, so a tenant's quota is written at most twice a minute, except urgent cuts
    deadband_ratio: float = 0.04  # Smaller relative changes are not written: no tenant would notice them.
    # A larger relative cut of a backlogged tenant does not wait for ``write_every_s``: other tenants need their share at once.
    urgent_ratio: float = 0.15
    # Shortest time between two writes of a tenant's quota. A third write comes more than twice this time after the first, so no
    # minute has more than two writes.
    write_every_s: float = 30.0
    # A broker shows a change within seconds. If it shows a different value for longer than this, another tool has set the value.
    propagation_s_max: float = 20.0

    # -- missing signals
    # Quotas are held while the newest signal is older than this. Signals come every 5 s and some seconds late.
    hold_age_s: float = 15.0
    # The total falls while the newest signal is older than this. It is also the time constant with which past rates of tenants and
    # past spreads of the probe latency fade.
    decay_age_s: float = 60.0
    decay_per_s: float = 0.993  # Factor per second of this fall: 10 % in 15 s, half of the tenants' rate in 100 s.

    # -- learning the cost of topics and partitions (cost_model.py)
    learn_gain: float = 0.3  # The share of the error that one window corrects: three windows correct most of the error.
    # A controller that is busier than this has a queue, so part of its work belongs to mutations of an earlier window.
    learn_busy_max: float = 0.9

    def __post_init__(self) -> None:
        assert self.over_allocation >= 1
        assert self.rate_per_s_min <= self.rate_per_s_safe
        assert self.target_ratio <= self.probe_target_ratio < 1
        assert self.forwarding_target_ratio < self.forwarding_near_ratio < 1
        # A signal expires before the next change is due, so one signal changes the total only once.
        assert self.hold_age_s < self.settle_s

    @property
    def rate_per_s_learnable(self) -> float:
        """The rate below which the busy time of a window counts as other work, not as the cost of mutations.

        It is less than ``rate_per_s_min``, so that learning never stops.
        """
        return self.rate_per_s_min / 2


@dataclass(frozen=True, slots=True)
class MutationPolicy:
    """The operator's policy for mutation quotas: the controller's objective, the tenants' rules, and the limits.

    Attributes:
        default_entity: the entity of the managed ``<default>`` quota for tenants without a quota by name; None: no such quota.
        enable_metering: if no quota exists at all, set an unlimited one, because Kafka meters only tenants with a quota.
        adopt_existing: manage quotas that existed before rheostat, and restore them on release; False leaves them alone.
        partitions_max: number of partitions of the cluster at which quotas reach their minimum; None: partitions do not lower
            quotas.
        partitions_near_ratio: quotas shrink as soon as the cluster has this share of ``partitions_max`` (or ``replicas_max``).
        replicas_max: the same as ``partitions_max`` in replicas (KIP-578's max.partitions); used if ``partitions_max`` is None.
    """

    objective: ControllerObjective = field(default_factory=ControllerObjective)
    rules: tuple[TenantRule, ...] = ()
    limits: MutationLimits = field(default_factory=MutationLimits)
    default_entity: QuotaEntity | None = EVERY_USER
    enable_metering: bool = False
    adopt_existing: bool = True
    partitions_max: int | None = None
    partitions_near_ratio: float = 0.9
    replicas_max: int | None = None


# -- measurements ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QuotaView:
    """Snapshot at the start of a cycle.

    Attributes:
        quotas: ``controller_mutation_rate`` of every entity that has one in Kafka.
        controllers: newest signal by node.
        tenants: newest signals of tenants, from every node.
    """

    now_ms: int
    quotas: Mapping[QuotaEntity, float] | ClusterUnreadable
    controllers: Mapping[int, ControllerSignal] = field(default_factory=dict)
    tenants: tuple[TenantSignal, ...] = ()
    cluster_wide: ClusterWideMeasures = field(default_factory=ClusterWideMeasures)


def with_broker_window(policy: MutationPolicy, windows: Set[QuotaWindow]) -> MutationPolicy:
    """Returns the policy with the quota window that all brokers share; unchanged if they differ or none is known.

    Args:
        windows: the distinct windows in the settings of the brokers.
    """
    if len(windows) != 1:
        return policy
    (window,) = windows
    limits = policy.limits
    if (limits.samples, limits.window_s) == (window.samples, window.window_s):
        return policy
    return replace(policy, limits=replace(limits, samples=window.samples, window_s=window.window_s))
