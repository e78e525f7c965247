"""Defines the objective for the controller's load (KIP-599), and computes the measures that need signals of several nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from streaming.shared.contract import BrokerSignal, ControllerSignal
from tuner.core.partition_limits import NO_INTERNAL, InternalPartitions


@dataclass(frozen=True, slots=True)
class ControllerObjective:
    """The limits of the controller's load; None: no limit. The measure that comes closest to its limit determines the pressure.

    Attributes:
        idle_ratio_min: share of the time in which the controller is idle. This measure reacts to load first.
        queue_ms_max: mean time that an event waits in the controller's queue, in the newest window.
        create_ms_max: mean time of a CreateTopics request, in the newest window.
        apply_lag_ms_max: delay with which the slowest node applies the records of the metadata log.
        burst_ms_max: how long the controller may be busy if all tenants spend their full token buckets at once.
        create_probe_p90_ms_max: p90 of rheostat's own topic creations, over half a minute.
        forwarding_busy_ratio_max: share of the time in which a broker is forwarding a creation or deletion, as mean of all brokers.
            Each broker forwards one request at a time.
    """

    idle_ratio_min: float | None = 0.3
    queue_ms_max: float | None = 500.0
    create_ms_max: float | None = None
    apply_lag_ms_max: float | None = None
    burst_ms_max: float = 3_000.0
    create_probe_p90_ms_max: float | None = None
    forwarding_busy_ratio_max: float | None = None


@dataclass(frozen=True, slots=True)
class ClusterWideMeasures:
    """Measures that combine the newest signals of several nodes, and the topic-create probe.

    Attributes:
        replicas: number of replicas on all brokers, without replicas of internal topics as far as they are known.
        create_probe_p90_ms: see tuner/control/mutation_quota/probe_window.py.
    """

    create_ms: float | None = None
    apply_lag_ms: float | None = None
    replicas: float | None = None
    create_probe_p90_ms: float | None = None
    forwarding_busy_ratio: float | None = None


def cluster_wide_measures(
    controllers: Mapping[int, ControllerSignal],
    brokers: Mapping[int, BrokerSignal],
    now_ms: int,
    age_s_max: float,
    create_probe_p90_ms: float | None = None,
    internal: InternalPartitions = NO_INTERNAL,
) -> ClusterWideMeasures:
    """Returns the measures of the whole cluster. Signals older than ``age_s_max`` are ignored: their node is down, not slow.

    The change of ``replicas`` shows how many partitions were created or deleted, because Kafka has no counter of mutations.

    Args:
        internal: the partitions that ``replicas`` does not count.
    """
    oldest_ms = now_ms - round(age_s_max * 1000)
    controller_signals = [s for s in controllers.values() if s.sampled_at_ms >= oldest_ms]
    create_means = [s.create_mean_ms for s in controller_signals if s.active and s.create_mean_ms is not None]
    lags = [s.metadata_lag_ms for s in controller_signals if s.metadata_lag_ms is not None]
    broker_signals = [s for s in brokers.values() if s.sampled_at_ms >= oldest_ms]
    lags += [s.metadata_lag_ms for s in broker_signals if s.metadata_lag_ms is not None]
    replica_counts = [
        internal.subtract_replicas(s.broker, s.partitions) for s in broker_signals if s.partitions is not None
    ]
    newest = max((s for s in controller_signals if s.active), key=lambda s: (s.sampled_at_ms, s.node), default=None)
    # A controller's requests in progress come from brokers, which forward them. A node that is also a broker counts the requests of
    # its clients as well, so its number of forwarded requests is not known.
    counts_forwarding_only = newest is not None and newest.node not in brokers
    return ClusterWideMeasures(
        create_ms=max(create_means, default=None),
        apply_lag_ms=max(lags, default=None),
        replicas=_estimate_all_replicas(replica_counts, controller_signals),
        create_probe_p90_ms=create_probe_p90_ms,
        forwarding_busy_ratio=_forwarding_busy_ratio(newest) if newest is not None and counts_forwarding_only else None,
    )


def _forwarding_busy_ratio(controller: ControllerSignal) -> float | None:
    """Returns the share of the brokers that are forwarding a request; None: not measured.

    Each broker forwards at most one request at a time, so the number of requests in progress is the number of busy brokers.
    """
    in_progress, brokers = controller.topic_requests_in_progress_mean, controller.active_brokers
    return min(1.0, in_progress / brokers) if in_progress is not None and brokers else None


def _estimate_all_replicas(replica_counts: Sequence[float], controllers: Iterable[ControllerSignal]) -> float | None:
    """Returns the replicas of all brokers. A silent broker counts with the mean of the others; None if most are silent."""
    registered = [(s.active_brokers or 0.0) + (s.fenced_brokers or 0.0) for s in controllers if s.active]
    brokers = max([float(len(replica_counts)), *registered])
    if not replica_counts or 2 * len(replica_counts) < brokers:
        return None
    return sum(replica_counts) * brokers / len(replica_counts)
