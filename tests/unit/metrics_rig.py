"""A process in a state in which every metric has a value, so that every panel shows something. No single cluster has this state.

The metrics classes are the real ones; only the values are invented. Brokers 1 and 2 lead, 3 and 4 are destinations. The move onto 3
has stalled because of its throttle, the move onto 4 for another reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from prometheus_client import CollectorRegistry
from week_cases import broker_profile, change_event

from learning.runtime.learn_counts import LearnCounts
from learning.runtime.learn_metrics import LearnCollector
from streaming.collector import metrics as collector_metrics
from streaming.collector.counts import Counts
from streaming.collector.jmx import Cause
from streaming.shared.contract import (
    BrokerSignal,
    ControllerSignal,
    FetcherThreadLag,
    LaggingPartition,
    LagTrend,
    MoveSignal,
    MovingPartition,
    ReplicationSignal,
    Side,
    TenantSignal,
)
from streaming.shared.cordons import BrokerCordon, CordonSource
from streaming.shared.process_metrics import ConfigState, ProcessMetricsCollector
from streaming.shared.thread_watch import ThreadWatch
from streaming.stream_counts import StreamCounts
from streaming.stream_metrics import registry_of as stream_registry_of
from tuner.api.cordon_status_store import CordonStatusStore
from tuner.api.cruise_control_status_store import CruiseControlStatusStore
from tuner.api.external_status_store import ExternalStatusStore
from tuner.api.lag_status_store import LagStatusStore
from tuner.api.leadership_status_store import LeadershipStatusStore
from tuner.api.log_dir_status_store import LogDirStatusStore
from tuner.api.metrics import make_registry
from tuner.api.mutation_store import MutationStore
from tuner.api.plan_status_store import PlanStatusStore
from tuner.api.quota_status_store import QuotaStatusStore
from tuner.api.status_store import StatusStore
from tuner.control.cordon.model import CordonMemory, CordonStep
from tuner.control.cruise_control.decision import CruiseControlReason, SetMovements
from tuner.control.cruise_control.policy import Execution
from tuner.control.leadership.decision import HoldElection, LeadershipReason
from tuner.control.leadership.survey import LeaderSurvey
from tuner.control.log_dir.decision import LogDirReason, SetLogDirRate
from tuner.control.log_dir.model import LogDirMemory, LogDirRow, LogDirStep
from tuner.control.log_dir.progress import CopyProgress
from tuner.control.mutation_quota.decision import QuotaReason, SetQuota, TenantShare, TotalRateReport
from tuner.control.mutation_quota.entity import QuotaEntity, Tenant
from tuner.control.mutation_quota.model import QuotaView
from tuner.control.mutation_quota.policy import QuotaStep
from tuner.control.mutation_quota.state import MutationMemory, OwnedQuota, TotalRate
from tuner.control.reassignment.partition_progress import PartitionProgress
from tuner.control.reassignment.policy import PlanDecision
from tuner.control.replication_lag.decision import LagDiagnosis, LagReason
from tuner.control.replication_lag.view import LagView
from tuner.control.throttle.decision import AllowSteering, Decision, Hold, Reason, Relinquish, SetRate
from tuner.control.throttle.objective import Capacity, Mode, Objective
from tuner.control.throttle.state import Memory, OwnedRate, StallState
from tuner.core.batch_limits import BatchLimits
from tuner.core.cluster import LiveCluster, Observation, PartitionMove, RateSetting, Setpoint
from tuner.core.controller import ClusterWideMeasures, ControllerObjective
from tuner.core.cordon_state import CordonState
from tuner.core.operator_orders import Orders, Override, Pause
from tuner.core.partition_limits import PartitionLimits
from tuner.core.reassignment_plan import Plan, PlanHead, PlanPartition
from tuner.core.reassignment_steps import PartitionTransition, ReassignmentStep, StepReason
from tuner.core.throttle_limits import MB, ThrottleLimits
from tuner.core.vetoes import VetoReport

CLUSTER = "lab"
L, F = Side.LEADER, Side.FOLLOWER
SIDES = ((1, L), (2, L), (3, F), (4, F))


@dataclass
class Backlog:
    remaining_records: int = 500
    lost_records: int = 3


@dataclass
class HistoryFigures:
    newest_end_ms: int
    periods: int = 1
    refused: int = 1
    took_s: float = 0.4


@dataclass
class Everything:
    """The stores of all processes. ``beat`` advances every counter, as a cycle, a round and a batch do."""

    wall_clock: Callable[[], float]
    named: int = 2
    beats: int = 0
    has_end: bool = False  # No move stalls and no plan waits, so the expected end is known.
    board: StatusStore = field(init=False)
    quotas: QuotaStatusStore = field(init=False)
    mutations: MutationStore = field(default_factory=lambda: MutationStore(CLUSTER))
    plans: PlanStatusStore = field(default_factory=lambda: PlanStatusStore(CLUSTER))
    log_dirs: LogDirStatusStore = field(default_factory=lambda: LogDirStatusStore(CLUSTER))
    lag: LagStatusStore = field(default_factory=lambda: LagStatusStore(CLUSTER))
    external: ExternalStatusStore = field(default_factory=lambda: ExternalStatusStore(CLUSTER))
    cruise_control: CruiseControlStatusStore = field(default_factory=lambda: CruiseControlStatusStore(CLUSTER))
    leadership: LeadershipStatusStore = field(default_factory=lambda: LeadershipStatusStore(CLUSTER))
    cordons: CordonStatusStore = field(default_factory=CordonStatusStore)
    counts: Counts = field(default_factory=Counts)
    stream: StreamCounts = field(default_factory=StreamCounts)
    learned: LearnCounts = field(default_factory=LearnCounts)

    def __post_init__(self) -> None:
        self.board = StatusStore(
            CLUSTER, ThrottleLimits(50.0 * MB, closed_loop=True), dry_run=False, wall_clock=self.wall_clock,
            objective=Objective(50.0, Mode.DEADLINE, 1_900_000_000_000), capacity=Capacity(125.0 * MB, 125.0 * MB),
            capacity_by_broker={4: Capacity(60.0 * MB, 125.0 * MB)},
            partition_limits=PartitionLimits(4_000, 9_000), partitions_named_max=self.named,
        )  # fmt: skip
        self.board.cycle_s = 0.012
        self.board.become_active()
        self.board.refused["signals"] = lambda: self.beats
        self.quotas = QuotaStatusStore(
            CLUSTER, ControllerObjective(create_probe_p90_ms_max=60.0, forwarding_busy_ratio_max=0.1)
        )

    def registries(self) -> dict[str, CollectorRegistry]:
        """Returns the Prometheus registry of each process, by its command."""

        def own(part: str) -> ProcessMetricsCollector:
            state = ConfigState(is_valid=True, valid_at_s=self.wall_clock(), is_applied=True)
            return ProcessMetricsCollector(CLUSTER, part, lambda: state, self.wall_clock, ThreadWatch())

        learn = CollectorRegistry(auto_describe=False)
        learn.register(LearnCollector({CLUSTER: self.learned}, self.wall_clock))
        learn.register(own("learn"))
        return {
            "learn": learn,
            "collect": collector_metrics.registry_of({CLUSTER: self.counts}, own("collect")),
            "stream": stream_registry_of(CLUSTER, self.stream, 5.0, own("stream")),
            "tune": make_registry(
                self.board,
                self.quotas,
                own("tune"),
                self.plans,
                self.mutations,
                self.log_dirs,
                self.lag,
                self.external,
                self.cruise_control,
                self.leadership,
                self.cordons,
            ),
        }

    def beat(self) -> None:
        self.beats += 1
        now_ms = round(self.wall_clock() * 1000)
        seen, decided = observation(now_ms), decisions()
        remembered = memory(now_ms)
        self.board.record_cycle(seen, replace(remembered, stalls={}) if self.has_end else remembered, decided)
        self.board.record_actions([(decided[0], None)])
        self.board.record_actions([(decided[0], "refused")])
        self.board.cycle_failed("plans", "a bug", 0.0)
        self.plans.record_step(() if self.has_end else (plan(),), BatchLimits())
        self.quotas.publish(quota_view(now_ms), turn(), quota_memory())
        self.quotas.record_failures(1)
        for earlier_s in (12, 0):
            self.mutations.update(StormSignals(now_ms), now_ms - 1_000 * earlier_s)
        self.log_dirs.publish(log_dir_step(), now_ms)
        self.lag.publish(
            LagView(now_ms, seen.replication_signals, {}, LiveCluster(frozenset())), (lag_diagnosis(now_ms),)
        )
        self.external.reports = lambda: (VetoReport("error-budget", "hold", vetoes=True, is_unknown=False),)
        self.external.queue_lengths = lambda: {"chat": 1}
        self.external.count_failure("error-budget", "timeout")
        self.external.count_delivery("chat", "delivered")
        execution = Execution("INTER_BROKER_REPLICA_MOVEMENT_TASK_IN_PROGRESS", "task", 5, 5)
        decision = SetMovements(5, 2, CruiseControlReason.FOLLOWS_THROTTLE, "text")
        self.cruise_control.record_movements(execution, decision)
        self.cordons.publish(
            CordonStep((), CordonMemory(), CordonState(), {4: BrokerCordon(("/a",), ("/a",), CordonSource.BROKER)})
        )
        self.leadership.record_election(
            LeaderSurvey({1: 1}, {1: (("orders", 0),)}), HoldElection(1, LeadershipReason.CATCHES_UP, "text")
        )
        self._collected()
        self._streamed()
        self._learned()

    def _collected(self) -> None:
        counts, now_s = self.counts, self.wall_clock()
        counts.rounds += 1
        counts.late_rounds += 1
        counts.full_scans += 1
        counts.admin_failures += 1
        counts.records += 5
        counts.round_s, counts.full_scan_s = 0.4, 0.7
        counts.add_scrape(0.03)
        counts.add_scrape_failure(2, Cause.TIMEOUT)
        counts.add_failed_record()
        counts.scraped_at_s |= dict.fromkeys((1, 2, 3, 4, 100), now_s)

    def _streamed(self) -> None:
        now_s = self.wall_clock()
        self.stream.add_batch(
            {
                "batch_ms": 240, "newest_input_at_s": now_s - 0.8, "watermark_at_s": now_s - 11, "behind_records": 7,
                "state_rows": 42, "input_rows": 5, "late_rows_dropped": 1, "refused": 2, "refused_not_written": 1,
                "backlog_remaining_records": 500,
            },
            now_s,
        )  # fmt: skip
        self.stream.add_restart()
        self.stream.set_backlog(Backlog())
        self.stream.add_history(HistoryFigures(round(now_s * 1000)))
        self.stream.add_history_failure()

    def _learned(self) -> None:
        learned, now_s = self.learned, self.wall_clock()
        now_ms = round(now_s * 1000)
        learned.records += 1
        learned.refused += 1
        learned.written += 1
        learned.failed += 1
        learned.learned_to_s, learned.learn_s = now_s, 0.2
        learned.profiles = (broker_profile(CLUSTER, 3, now_ms),)
        change = replace(change_event(CLUSTER, 3, now_ms), found_at_ms=now_ms)
        learned.events = (change, replace(change, is_unusual=True))


def observation(now_ms: int) -> Observation:
    moves = tuple(
        PartitionMove("orders", p, 1 + p % 2, (t, 1, 2), (t,), (2,), isr=(1,) if p == 0 else (1, 2))
        for p, t in (
            (0, 3),
            (2, 3),
            (1, 4),
            (3, 4),
        )  # Both partitions of each destination share one of its two fetcher threads.
    )
    live = LiveCluster(
        frozenset({1, 2, 3, 4}),
        moves,
        {side: RateSetting(10 * MB) for side in SIDES},
        fetchers=dict.fromkeys((1, 2, 3, 4), 2),
        recoveries=(PartitionMove("audit", 0, 1, (1, 4), (4,), (), isr=(1,), recovering=(4,)),),
        min_in_sync={"audit": 1},
    )
    return Observation(
        now_ms,
        live,
        broker_signals={b: _broker(b, now_ms) for b in (1, 2, 3, 4)},
        move_signals={side: _move(side, now_ms) for side in SIDES},
        replication_signals={b: replication_signal(b, now_ms) for b in (3, 4)},
        setpoints={(1, L): Setpoint(12.0 * MB), (2, L): Setpoint(5.0 * MB, no_headroom=True)},
        orders=Orders(
            now_ms,
            pause=Pause(now_ms - 60_000, "kim@desk", released=True),
            overrides=dict.fromkeys(((1, L), (3, F)), Override(8 * MB, now_ms + 600_000, "kim@desk")),
        ),
    )


def decisions() -> tuple[Decision, ...]:
    return (
        SetRate(3, F, 10 * MB, 20 * MB, Reason.STALLED_THROTTLE_BOUND, "raise it"),
        Hold(4, F, Reason.STALLED_NOT_THROTTLE_BOUND, "not by the throttle"),
        AllowSteering(1, L, 10 * MB, Reason.FOLLOWS_CLIENTS, "follows"),
        Relinquish(2, L, 10 * MB, 11 * MB, 0, Reason.EXTERNAL_CHANGE, "theirs"),
        Hold(None, None, Reason.WATCHING, "in all"),
    )


def memory(now_ms: int) -> Memory:
    stalled = StallState(lost_s=20.0, stalled=True, stalled_since_ms=now_ms, judged_until_ms=now_ms, observed_s=60.0)
    return Memory(
        stalls={3: stalled, 4: replace(stalled, lost_s=18.0)},
        owned={(3, F): OwnedRate(None, 20 * MB, (20 * MB,))},
        externally_owned_until_ms={(2, L): now_ms + 3_600_000},
    )


def _broker(broker: int, now_ms: int) -> BrokerSignal:
    return BrokerSignal(
        CLUSTER, broker, now_ms + 1_000, now_ms - 2_000, 6, 1.0,
        leader_throttled_bytes_per_s=9.5 * MB, follower_throttled_bytes_per_s=6.0 * MB,
        client_in_bytes_per_s=20.0 * MB, client_out_bytes_per_s=30.0 * MB,
        produce_p99_ms=9.0, produce_mean_ms=2.5, isr_shrinks_per_s=0.1, under_min_isr_partitions=1.0, partitions=600.0, link_speed_bytes_per_s=125.0 * MB,
    )  # fmt: skip


def lag_diagnosis(now_ms: int) -> LagDiagnosis:
    return LagDiagnosis(
        broker=4, reason=LagReason.FETCHER_BOUND, text="the replicas on broker 4 lag", growing=True, lag_messages=900.0,
        lag_s=4.0, usual_messages=None, since_ms=now_ms - 60_000, sources=(1,), thread="ReplicaFetcherThread-0-1",
        topic="orders", partition=3, better_fetchers=5,
    )  # fmt: skip


def replication_signal(broker: int, now_ms: int, cluster: str = CLUSTER) -> ReplicationSignal:
    """A follower that falls behind on thread 0 of source 1, while thread 1 has little to do."""
    trend = LagTrend(slope_messages_per_s=120.0, span_s=25.0, points=6, r2=0.97)
    return ReplicationSignal(
        cluster, broker, now_ms + 1_000, now_ms - 2_000, 6, 1.0,
        partitions=200.0, lag_sum_messages=5_000.0, lag_max_messages=4_800.0, lag_sum_bytes=5.0 * MB, lag_max_s=24.0,
        adding_partitions=2.0, adding_lag_sum_messages=60_000.0, thread_count=2.0,
        trend=trend, trend_5min=replace(trend, slope_messages_per_s=15.0, span_s=290.0, points=30, r2=0.8),
        threads=(
            FetcherThreadLag(1, 0, 100.0, 5_000.0, 4_800.0, 2.0, 60_000.0, 12.0 * MB, 24.0, trend),
            FetcherThreadLag(1, 1, 100.0, 0.0, 0.0, 0.0, 0.0, 0.1 * MB, 0.0, replace(trend, slope_messages_per_s=0.0, r2=1.0)),
        ),
        worst=(LaggingPartition("orders", 7, 4_800.0, 1, 0, 200.0, 0.2 * MB, 24.0, 4.8 * MB),),
    )  # fmt: skip


def _move(side: tuple[int, Side], now_ms: int) -> MoveSignal:
    return MoveSignal(
        CLUSTER, *side, now_ms + 1_000, now_ms - 2_000, 6, 1.0, moving_partitions=2, listed_partitions=2,
        remaining_bytes=600.0 * MB, recovering_partitions=1 if side == (4, F) else 0, recovering_bytes=50.0 * MB if side == (4, F) else None, lag_messages=60_000.4 if side[1] is F else None, remaining_slope_bytes_per_s=-2.0 * MB, steady_state_bytes_per_s=6.0 * MB,
        largest=(MovingPartition("orders", 0, 400.0 * MB), MovingPartition("orders", 1, 200.0 * MB)),
    )  # fmt: skip


def plan(name: str = "move-7") -> PlanDecision:
    """Returns a plan of five partitions: one has arrived, one moves, one starts now, one waits, and one no longer exists."""
    keys = [("orders", partition) for partition in range(5)]
    way = PartitionTransition("orders", 2, (1, 2), (3, 1), 1, frozenset({1, 2}))
    step = ReassignmentStep("orders", 2, (3, 1, 2), (3,), (), StepReason.REPLICAS, False, False, False)
    parts = PartitionProgress(
        arrived=[keys[0]], running={keys[1]: step}, ready=dict.fromkeys(keys[2:4], way), dropped={keys[4]: "it is gone"}
    )
    head = PlanHead(name, "kim@desk", 0, 0, len(keys))
    return PlanDecision(Plan(head, dict.fromkeys(keys, PlanPartition((3, 1), (1, 2)))), parts, starts=(step,))


def log_dir_step() -> LogDirStep:
    written = SetLogDirRate(2, 20 * MB, 25 * MB, LogDirReason.CLIENTS_WELL, "clients are well")
    progress = CopyProgress(
        partitions=3, remaining_bytes=900 * MB, copied_bytes_per_s=20.0 * MB, written_bytes_per_s=MB, eta_s=47.0
    )
    memory = LogDirMemory(owned={2: OwnedRate(None, 25 * MB, (20 * MB, 25 * MB))})
    return LogDirStep(memory, (written,), (LogDirRow(2, progress, 20.0 * MB, 20 * MB, written),))


def quota_view(now_ms: int) -> QuotaView:
    controller = ControllerSignal(
        CLUSTER, 100, now_ms + 1_000, now_ms - 2_000, 6, 1.0, active=1.0, event_queue_time_mean_ms=120.0, idle_ratio=0.4,
        operations_per_s=35.0, mutations_rejected_per_s=2.0,
    )  # fmt: skip
    books = TenantSignal(CLUSTER, 100, now_ms + 1_000, now_ms - 2_000, 6, 1.0, "alice", None, 5.0, -12.0)
    beside = ClusterWideMeasures(create_probe_p90_ms=41.5)
    return QuotaView(now_ms, {QuotaEntity("alice"): 2.0}, {100: controller}, (books,), beside)


@dataclass
class StormSignals:
    """The signals of a cluster in a storm, by one tenant that Kafka accounts."""

    now_ms: int
    user: str = "alice"

    @property
    def brokers(self) -> dict[int, BrokerSignal]:
        return {b: _broker(b, self.now_ms) for b in (1, 2, 3, 4)}

    @property
    def controllers(self) -> dict[int, ControllerSignal]:
        return {
            100: ControllerSignal(
                CLUSTER, 100, self.now_ms + 1_000, self.now_ms - 2_000, 6, 1.0, active=1.0, event_queue_time_mean_ms=120.0,
                idle_ratio=0.1, operations_per_s=35.0, mutations_rejected_per_s=2.0, metadata_lag_ms=2_400.0,
                topic_requests_in_progress_mean=3.0, active_brokers=4.0, metadata_records_per_s=90.0,
                create_requests_per_s=8.0, create_mean_ms=180.0, delete_requests_per_s=4.0, delete_mean_ms=90.0,
                addition_requests_per_s=0.0, old_create_requests_per_s=2.0, refusable_requests_per_s=10.0,
                partitions_created_per_s=60.0, partitions_deleted_per_s=20.0, topics_created_per_s=15.0,
                topics_deleted_per_s=5.0,
            )
        }  # fmt: skip

    @property
    def tenants(self) -> dict[int, TenantSignal]:
        return {
            0: TenantSignal(
                CLUSTER, 100, self.now_ms + 1_000, self.now_ms - 2_000, 6, 1.0, self.user, None, 75.0, -12.0
            )
        }


def turn() -> QuotaStep:
    share = TenantShare(Tenant("alice"), 5.0, True, 2.0, 2.0, QuotaReason.FAIR_SHARE, None)
    said = TotalRateReport(10.0, 0.8, QuotaReason.AT_CAP, "at the cap")
    written = SetQuota(QuotaEntity("alice"), None, 2.0, QuotaReason.FAIR_SHARE, "alice gets 2")
    return QuotaStep(MutationMemory(), (said, written), (share,))


def quota_memory() -> MutationMemory:
    return MutationMemory(TotalRate(10.0), owned={QuotaEntity("alice"): OwnedQuota(None, 2.0, (2.0,))})
