"""The objective for the controller's load, and what is measured beside its own signals. KIP-599."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from streaming.shared.contract import BrokerSignal, ControllerSignal


@dataclass(frozen=True, slots=True)
class ControllerObjective:
    """What the controller is kept within; of those that are measured the worst counts. None: not asked for."""

    idle_ratio_min: float | None = 0.3  # AvgIdleRatio reacts at once, and so it leads.
    queue_ms_max: float | None = 500.0  # Mean of a window: how long an event waits for its turn.
    create_ms_max: float | None = None  # Mean of a window: how long a CreateTopics request takes.
    apply_lag_ms_max: float | None = None  # How far behind the metadata log the slowest node is.
    # How long the controller may be busy when as much is spent at once as the buckets of all that is admitted hold.
    burst_ms_max: float = 3_000.0
    create_probe_p90_ms_max: float | None = None  # Of half a minute: what 9 of 10 who ask for a creation wait at most.
    # How much of the time a broker may be handing a creation or deletion on, on average of all: each does so one at a time.
    forwarding_busy_ratio_max: float | None = None


@dataclass(frozen=True, slots=True)
class ClusterWideMeasures:
    """Of the cluster, what the signals of several nodes say together, each of its newest window; and what is felt beside."""

    create_ms: float | None = None
    apply_lag_ms: float | None = None
    replicas: float | None = None  # That all brokers host.
    create_probe_p90_ms: float | None = (
        None  # By creations that rheostat asks for itself (control/mutation_quota/probe_window.py).
    )
    forwarding_busy_ratio: float | None = None  # How much of the time brokers' lines to it are taken, on average.


def cluster_wide_measures(
    controllers: Mapping[int, ControllerSignal],
    brokers: Mapping[int, BrokerSignal],
    now_ms: int,
    age_s_max: float,
    create_probe_p90_ms: float | None = None,
) -> ClusterWideMeasures:
    """What nodes say of themselves: how long creations take where the controller is, and how late the slowest of all applies.
    A node that is silent for longer is not late but away.

    Books by tenant and the partitions there are tell what was done; no counter of Kafka's does.
    """
    oldest_ms = now_ms - round(age_s_max * 1000)
    heard = [s for s in controllers.values() if s.sampled_at_ms >= oldest_ms]
    active = [s.create_mean_ms for s in heard if s.active and s.create_mean_ms is not None]
    lags = [s.metadata_lag_ms for s in heard if s.metadata_lag_ms is not None]
    told = [s for s in brokers.values() if s.sampled_at_ms >= oldest_ms]
    lags += [s.metadata_lag_ms for s in told if s.metadata_lag_ms is not None]
    hosted = [s.partitions for s in told if s.partitions is not None]
    newest = max((s for s in heard if s.active), key=lambda s: (s.sampled_at_ms, s.node), default=None)
    return ClusterWideMeasures(
        max(active, default=None),
        max(lags, default=None),
        _on_all(hosted, heard),
        create_probe_p90_ms,
        # A broker counts what it hands on as well: where both are one process, nobody can tell the two apart.
        _forwarding_busy_ratio(newest) if newest is not None and newest.node not in brokers else None,
    )


def _forwarding_busy_ratio(controller: ControllerSignal) -> float | None:
    """Every broker has one request at most under way to the controller, so those in progress are as many as lines are taken."""
    in_progress, brokers = controller.topic_requests_in_progress_mean, controller.active_brokers
    return min(1.0, in_progress / brokers) if in_progress is not None and brokers else None


def _on_all(hosted: Sequence[float], controllers: Iterable[ControllerSignal]) -> float | None:
    """Brokers that are down or silent host as much as the others do; None where most are."""
    there = [(s.active_brokers or 0.0) + (s.fenced_brokers or 0.0) for s in controllers if s.active]
    brokers = max([float(len(hosted)), *there])
    return sum(hosted) * brokers / len(hosted) if hosted and 2 * len(hosted) >= brokers else None
