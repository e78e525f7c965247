"""Computes the controller's load from the metrics of all nodes, and how close it is to the objective. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streaming.shared.contract import ControllerSignal, Metric, Sample
from tuner.core.controller import ClusterWideMeasures, ControllerObjective
from tuner.core.controller_pressure import IdleBaselines, Pressure, worst_pressure

_CREATE = "request=CreateTopics"


@dataclass(frozen=True, slots=True)
class LoadSample:
    """The load at one moment. A value that was not reported is None.

    Attributes:
        node: the active controller.
        idle_ratio: the controller's idle share since the previous read.
        queue: mean wait in the event queue (ms) and number of events, since the start of the JVM.
        create: mean time of CreateTopics requests (ms) and their number, since the start of the JVM.
        apply_lag_ms: lag of the slowest node behind the metadata log.
        troubles: counters that must not grow, by a text for the operator.
    """

    at_s: float
    node: int | None = None
    idle_ratio: float | None = None
    queue: tuple[float, float] | None = None
    create: tuple[float, float] | None = None
    apply_lag_ms: float | None = None
    troubles: Mapping[str, float] | None = None


_TROUBLES = {
    "fenced brokers": Metric.FENCED_BROKERS,
    "broker heartbeats that timed out": Metric.HEARTBEATS_TIMED_OUT,
    "partitions below min.insync.replicas": Metric.UNDER_MIN_ISR,
}


def load_sample(samples: Mapping[int, Sequence[Sample]], at_s: float) -> LoadSample:
    """Returns the load from the samples of all nodes that answered."""
    values = {node: {(s.name, s.labels): s.value for s in each} for node, each in samples.items()}
    node = next((n for n, v in sorted(values.items()) if v.get((Metric.ACTIVE_CONTROLLER, "")) == 1), None)
    active = values.get(node, {}) if node is not None else {}
    lags = [v[Metric.METADATA_LAG, ""] for v in values.values() if (Metric.METADATA_LAG, "") in v]
    lags += [v[Metric.BROKER_METADATA_LAG, ""] for v in values.values() if (Metric.BROKER_METADATA_LAG, "") in v]
    troubles = {
        text: sum(v.get((name, ""), 0.0) for v in values.values())
        for text, name in _TROUBLES.items()
        if any((name, "") in v for v in values.values())
    }
    return LoadSample(
        at_s,
        node,
        idle_ratio=active.get((Metric.CONTROLLER_IDLE, "")),
        queue=_mean_and_count(active, Metric.EVENT_QUEUE_TIME_MEAN, Metric.EVENT_QUEUE_TIME_COUNT, ""),
        create=_mean_and_count(active, Metric.TOTAL_TIME_MEAN, Metric.TOTAL_TIME_COUNT, _CREATE),
        apply_lag_ms=max(lags, default=None),
        troubles=troubles,
    )


def grown_troubles(before: LoadSample, after: LoadSample) -> list[str]:
    """Returns a text for each trouble that has grown between the two samples."""
    earlier, later = before.troubles or {}, after.troubles or {}
    return [f"{later[text]:.0f} {text}" for text in later if text in earlier and later[text] > earlier[text]]


def pressure_between(
    samples: Sequence[LoadSample],
    probe_p90_ms: float | None,
    objective: ControllerObjective,
    baselines: IdleBaselines,
) -> Pressure | None:
    """Returns the worst pressure over these samples; None if no measure that has an objective has a value.

    Args:
        samples: the samples in order. The first sample is the last one before the step.
    """
    signal, cluster_wide = _measures(samples, probe_p90_ms)
    return worst_pressure(signal, cluster_wide, objective, baselines)


def cluster_wide_of(samples: Sequence[LoadSample], probe_p90_ms: float | None) -> ClusterWideMeasures:
    """Returns the measures that have an idle baseline. The first sample is the last one before the step."""
    return _measures(samples, probe_p90_ms)[1]


def _measures(
    samples: Sequence[LoadSample], probe_p90_ms: float | None
) -> tuple[ControllerSignal, ClusterWideMeasures]:
    # The first sample is from before the step; only counters are compared with it.
    within = samples[1:]
    idle = [s.idle_ratio for s in within if s.idle_ratio is not None]
    lags = [s.apply_lag_ms for s in within if s.apply_lag_ms is not None]
    signal = ControllerSignal(
        cluster="",
        node=0,
        window_end_ms=0,
        sampled_at_ms=0,
        samples=len(samples),
        completeness=1.0,
        active=1.0,
        event_queue_time_mean_ms=_mean_between([s.queue for s in samples]),
        idle_ratio=sum(idle) / len(idle) if idle else None,
    )
    cluster_wide = ClusterWideMeasures(
        create_ms=_mean_between([s.create for s in samples]),
        apply_lag_ms=sum(lags) / len(lags) if lags else None,
        create_probe_p90_ms=probe_p90_ms,
    )
    return signal, cluster_wide


def _mean_and_count(
    values: Mapping[tuple[str, str], float], mean: str, count: str, labels: str
) -> tuple[float, float] | None:
    if (mean, labels) not in values or (count, labels) not in values:
        return None
    return values[mean, labels], values[count, labels]


def _mean_between(readings: Sequence[tuple[float, float] | None]) -> float | None:
    """Returns the mean of the events between the first and the last reading; None without events."""
    known = [reading for reading in readings if reading is not None]
    if len(known) < 2:
        return None
    (mean_before, count_before), (mean_after, count_after) = known[0], known[-1]
    events = count_after - count_before
    if events <= 0:  # No event, or another node has become the active controller.
        return None
    return max(0.0, (mean_after * count_after - mean_before * count_before) / events)
