"""What the quotas for the controller are turned for, and what is seen of it. KIP-599.

Rates are partitions/s, created or deleted. A number that could not be measured is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from streaming.shared.contract import ControllerSignal, TenantSignal
from tuner.control.mutation_quota.entity import DEFAULT, QuotaEntity
from tuner.core.cluster import NotSeen
from tuner.core.controller import ClusterWideMeasures, ControllerObjective
from tuner.core.quota_window import QuotaWindow
from tuner.core.token_bucket import SAMPLES, WINDOW_S

EVERY_USER = QuotaEntity(DEFAULT)

# -- what the operator says -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TenantRule:
    """Weight and floor of the tenants that it names. ``*`` and ``?`` stand for any letters; None: not looked at."""

    user: str | None = None
    client_id: str | None = None
    weight: float = 1.0
    rate_per_s_min: float | None = None  # None: as for everybody.
    exempt: bool = False  # Never held back by a quota of ours; what it does counts all the same.

    def __post_init__(self) -> None:
        # The settings have told the operator already, naming the key; here it guards the core.
        assert self.weight > 0
        assert self.rate_per_s_min is None or self.rate_per_s_min > 0


@dataclass(frozen=True, slots=True)
class MutationLimits:
    """The constants of the law, with the reason for each."""

    samples: int = SAMPLES  # controller.quota.window.num
    window_s: float = WINDOW_S  # controller.quota.window.size.seconds
    # All tenants together. At the start, before anything was learned, a small controller bears the first number.
    rate_per_s_start: float = 50.0
    rate_per_s_max: float = 5_000.0
    rate_per_s_min: float = 1.0
    # What a small controller bears with ease. A fifth of it presses none: one that is pressed all the same is pressed by something
    # else, be it a start, and with less everybody would wait for minutes of doubling.
    rate_per_s_safe: float = 25.0
    light_load_ratio: float = 0.2
    # Below it a single partition is a debt of more than ten seconds (Kafka refuses 0).
    tenant_rate_per_s_min: float = 0.1
    # Quotas add up to this many times what is admitted, as not all tenants come at once (the KIP: "safe to over allocate").
    # At 2 an idle tenant keeps its whole share while others use it.
    over_allocation: float = 2.0
    # A standing share is kept for so many tenants of whom nobody has heard: each has a whole burst of the default's quota.
    new_tenants_expected: float = 10.0
    demand_slack: float = 1.25  # A tenant may do so much more than it did without being held back.

    # AvgIdleRatio is of the seconds between two scrapes, and all else of a window of half a minute: it is evened out over this.
    idle_smoothing_s: float = 15.0

    # The total goes up while something is held back, by half of what the pressure seems to leave, and at most twofold while
    # there is much room; near the objective no more than so much of the cap.
    target_ratio: float = 0.85
    raise_every_s: float = 35.0  # A signal's window, and its way to us: else one raise is judged by what was before it.
    raise_ratio_max: float = 1.0
    raise_cap_ratio: float = 0.05
    # What others feel wavers, and has to stay so many times its spread below its objective (probe_margin.py). The spread is
    # taken to be a tenth, as on the cluster measured, until it is seen, over so long.
    probe_target_ratio: float = 0.9  # Of what it may likely be: a step from here is seen before it is too much.
    probe_margin_spreads: float = 1.5
    probe_spread_start: float = 0.1
    probe_spread_memory_s: float = 60.0
    # So much up while what others feel is between half of what they may and the aim; and down as much at least.
    probe_step_ratio: float = 0.1
    # Up to so many times what they may, what others feel takes nothing from what any controller bears with ease.
    probe_far_ratio: float = 2.0
    # Some three hundred requests in half a minute make the share of the lines that is taken, so it wavers by a twentieth with the
    # same total. Between these it is left alone.
    forwarding_target_ratio: float = 0.8
    forwarding_near_ratio: float = 0.95
    # Over the objective it goes down by as much as it is over, within these; and rests until the window has seen that.
    smallest_cut_factor: float = 0.95
    largest_cut_factor: float = 0.5
    hold_after_cut_s: float = 35.0
    # Nor is it cut further while the pressure comes down by this in a signal: a backlog of half a minute takes that long to apply.
    receding_ratio: float = 0.9
    # What falls behind is cut to this much of what it seems to bear, so that the backlog goes as well.
    drain_ratio: float = 0.85
    # Idle, a controller writes a record every half a second (metadata.max.idle.interval.ms): so late is anybody.
    idle_lag_ms_max: float = 600.0
    # What was too much once is come near to, half of the way at a time, and forgotten with the third power of time as TCP's CUBIC
    # does: 4 % of it in ten minutes, all of it in half an hour.
    known_limit_margin_ratio: float = 0.95
    known_limit_memory_s: float = 1_800.0
    # Heartbeats that time out fence brokers: nothing else matters then.
    heartbeat_cut_factor: float = 0.5

    # A tenant is held back while its bucket is nearly empty, and until it is half full again.
    bucket_empty_ratio: float = 0.1
    bucket_refilled_ratio: float = 0.5
    rate_memory_s: float = 60.0  # In this time what a tenant did once is forgotten by two thirds.

    # Every write goes to every node. A tenant has at most two a minute, but for what has to go down at once.
    deadband_ratio: float = 0.04
    urgent_ratio: float = 0.15
    write_every_s: float = 30.0
    # After the first of the two; a little more than a minute, as whoever counts looks at other moments.
    third_write_after_s: float = 61.0
    tenants_max: int = 2_000  # Beyond it, by name, only the default is turned: client-ids may be random.
    absent_after_s: float = 3_600.0  # Kafka itself forgets a tenant then.

    # Signals older than this hold everything; from the second age on the total sinks.
    hold_age_s: float = 15.0
    decay_age_s: float = 60.0
    decay_per_s: float = 0.993  # 10 % in 15 s.
    external_change_hold_s: float = 3_600.0
    # A broker shows a change within a second or so, in a storm within some; what stands for longer was put there.
    propagation_s_max: float = 20.0

    # What a topic and a partition cost before anything was learned: Kafka 4.2 on a small machine.
    topic_ms_start: float = 0.9
    partition_ms_start: float = 0.06
    learn_gain: float = 0.3
    # Below so many partitions/s a window says what the controller does besides. Less than the least that all are given, or what
    # has brought the total down to that could never be found to cost less.
    learn_rate_per_s_min: float = 0.5
    # A controller busier than this has a queue: its time does not belong to what was admitted in this window.
    learn_busy_max: float = 0.9

    def __post_init__(self) -> None:
        assert self.over_allocation >= 1
        assert self.learn_rate_per_s_min < self.rate_per_s_min <= self.rate_per_s_safe
        assert self.target_ratio <= self.probe_target_ratio < 1
        assert self.forwarding_target_ratio < self.forwarding_near_ratio < 1
        # One signal moves the total once: it is not trusted any more when the next move is due.
        assert self.hold_age_s < min(self.hold_after_cut_s, self.raise_every_s)


@dataclass(frozen=True, slots=True)
class MutationPolicy:
    objective: ControllerObjective = field(default_factory=ControllerObjective)
    rules: tuple[TenantRule, ...] = ()
    limits: MutationLimits = field(default_factory=MutationLimits)
    default_entity: QuotaEntity | None = EVERY_USER  # Whose name nobody knows; None: left alone.
    enable_metering: bool = False  # Where no quota stands at all, one that holds nobody back, so that Kafka counts.
    adopt_existing: bool = True  # Quotas that stood before us are turned and put back; or else left alone.
    partitions_max: int | None = None  # Of the cluster: quotas shrink as it comes near. None: no such brake.
    partitions_near_ratio: float = 0.9
    replicas_max: int | None = (
        None  # The cluster's max.partitions, where the number above is not given: replicas, as KIP-578.
    )


# -- what is seen ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QuotaView:
    """One look: signals by node, and the quotas that stand now, with ``controller_mutation_rate`` of every entity."""

    now_ms: int
    quotas: Mapping[QuotaEntity, float] | NotSeen
    controllers: Mapping[int, ControllerSignal] = field(default_factory=dict)
    tenants: tuple[TenantSignal, ...] = ()
    cluster_wide: ClusterWideMeasures = field(default_factory=ClusterWideMeasures)


def with_broker_window(policy: MutationPolicy, found: Set[QuotaWindow]) -> MutationPolicy:
    """
    Args:
        found: on the brokers; several or none say nothing.
    """
    if len(found) != 1:
        return policy
    (window,) = found
    limits = policy.limits
    if (limits.samples, limits.window_s) == (window.samples, window.window_s):
        return policy
    return replace(policy, limits=replace(limits, samples=window.samples, window_s=window.window_s))
