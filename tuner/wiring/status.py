"""Builds the stores that the API and the metrics read."""

from __future__ import annotations

from dataclasses import dataclass

from streaming.shared.thread_watch import ThreadWatch
from tuner.api.cordon_status_store import CordonStatusStore
from tuner.api.cruise_control_status_store import CruiseControlStatusStore
from tuner.api.external_status_store import ExternalStatusStore
from tuner.api.journal_history import JournalHistory
from tuner.api.lag_status_store import LagStatusStore
from tuner.api.leadership_status_store import LeadershipStatusStore
from tuner.api.log_dir_status_store import LogDirStatusStore
from tuner.api.mutation_store import MutationStore
from tuner.api.observers import Observers
from tuner.api.plan_status_store import PlanStatusStore
from tuner.api.quota_status_store import QuotaStatusStore
from tuner.api.status_store import StatusStore
from tuner.api.week_store import WeekStore
from tuner.core.partition_limits import PartitionLimits
from tuner.runtime.clock import Clock
from tuner.settings.tuner import TunerSettings


@dataclass(frozen=True, slots=True)
class StatusStores:
    """The reports of the controllers, of the lag monitor, and of the services outside rheostat.

    Attributes:
        mutations: the mutation rates of the cluster, which need no controller.
        weeks: the last weeks of each broker, from the history topic.
        journal: the rates, marks and plans of the journal, also of earlier and of other tuners.
        external: the checks of tuner.vetoes and the deliveries of tuner.webhooks.
        observers: pass the reports of the throttle controller to ``throttles`` and to the other readers of the API.
    """

    throttles: StatusStore
    quotas: QuotaStatusStore
    plans: PlanStatusStore
    mutations: MutationStore
    log_dirs: LogDirStatusStore
    cordons: CordonStatusStore
    lag: LagStatusStore
    weeks: WeekStore
    journal: JournalHistory
    external: ExternalStatusStore
    cruise_control: CruiseControlStatusStore
    leadership: LeadershipStatusStore
    observers: Observers


def status_stores(
    cluster: str,
    settings: TunerSettings,
    partition_limits: PartitionLimits | None,
    threads: ThreadWatch | None,
    clock: Clock,
) -> StatusStores:
    """Returns empty stores.

    Args:
        threads: names threads that have ended by an exception; None if such threads are not reported.
    """
    throttles = StatusStore(
        cluster,
        settings.limits(),
        dry_run=settings.dry_run,
        dry_run_by_default=settings.dry_run_by_default,
        wall_clock=clock.wall_s,
        objective=settings.control_objective(),
        capacity=settings.capacity.default() if settings.capacity is not None else None,
        capacity_by_broker=settings.capacity.by_broker() if settings.capacity is not None else None,
        partition_limits=partition_limits,
        partitions_named_max=settings.metrics.partitions_named_max,
    )
    if threads is not None:
        throttles.threads = threads
    policy = settings.mutation_policy(partition_limits)
    quotas = QuotaStatusStore(cluster, policy.objective if policy is not None else None)
    return StatusStores(
        throttles=throttles,
        quotas=quotas,
        plans=PlanStatusStore(cluster, first_topics=settings.first_topics),
        mutations=MutationStore(cluster),
        log_dirs=LogDirStatusStore(cluster, throttles),
        cordons=CordonStatusStore(),
        lag=LagStatusStore(cluster),
        weeks=WeekStore(cluster),
        journal=JournalHistory(cluster),
        external=ExternalStatusStore(cluster),
        cruise_control=CruiseControlStatusStore(cluster),
        leadership=LeadershipStatusStore(cluster),
        observers=Observers(throttles),
    )
