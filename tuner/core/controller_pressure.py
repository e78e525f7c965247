"""Computes the controller pressure: how close the controller is to its objective, where 1 means the limit is reached.

The pressure is the highest of up to six ratios, each of a measure to its own objective. Different measures show an overload first:

- With ZooKeeper the event queue grows.
- With KRaft the queue hardly grows. Creations become slow, and brokers fall behind the metadata log.
- The forwarding busy ratio covers requests that wait at a broker, because a broker forwards one creation or deletion at a time.
  This ratio follows the admitted load. The creation latency does not: even at low load it is the time of two commits.

Creating a topic takes about 40 ms on an idle controller. So create time and apply lag have an idle baseline:

    ratio = (measured − baseline) ÷ (objective − baseline)

The baseline is the lowest measured value, and rises slowly while all values are higher. The p90 of rheostat's own test creations
(the create probe) has no baseline, because even at low load a request waits for the commit in progress.

Invariant: a measure at its objective has a ratio of 1, whatever its baseline. A measure without a value is skipped. If no measure
has a value, the pressure is None, not 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from streaming.shared.contract import ControllerSignal
from tuner.core.controller import ClusterWideMeasures, ControllerObjective

# Each signal raises a baseline by this share of (measured − baseline), so an old baseline is forgotten in about an hour.
_BASELINE_DECAY = 0.002
_BASELINE_MS_MIN = 1.0
_BASELINE_RATIO_MAX = 0.8  # Baseline ÷ objective. An objective below the baseline could never be met.

IdleBaselines = Mapping[str, float]  # ms, by Measure.


class Measure(StrEnum):
    """A measure of the controller's load that can have an objective."""

    IDLE = "idle_ratio"
    QUEUE = "queue_ms"
    CREATE = "create_ms"
    APPLY_LAG = "apply_lag_ms"
    CREATE_PROBE = "create_probe_p90_ms"
    FORWARDING = "forwarding_busy_ratio"


_WITH_BASELINE = frozenset({Measure.CREATE, Measure.APPLY_LAG})


@dataclass(frozen=True, slots=True)
class Pressure:
    """Ratio of one measure to its objective. For the idle ratio it is (1 − idle ratio) ÷ (1 − lowest permitted idle ratio)."""

    ratio: float
    measure: Measure
    measured: float
    objective: float

    def __str__(self) -> str:
        match self.measure:
            case Measure.IDLE:
                return (
                    f"the controller is idle {100 * self.measured:.0f} % of the time (objective: at least "
                    f"{100 * self.objective:.0f} %)"
                )
            case Measure.QUEUE:
                text = f"events wait {self.measured:.0f} ms in the controller's queue"
            case Measure.CREATE:
                text = f"creating a topic takes {self.measured:.0f} ms"
            case Measure.APPLY_LAG:
                text = f"the slowest node applies metadata {self.measured:.0f} ms late"
            case Measure.CREATE_PROBE:
                text = f"one topic creation in ten takes {self.measured:.0f} ms or more"
            case Measure.FORWARDING:
                return (
                    f"brokers forward creations and deletions {100 * self.measured:.1f} % of the time "
                    f"(objective: at most {100 * self.objective:.1f} %)"
                )
        return f"{text} (objective: at most {self.objective:.0f} ms)"


def worst_pressure(
    signal: ControllerSignal,
    cluster_wide: ClusterWideMeasures,
    objective: ControllerObjective,
    baselines: IdleBaselines | None = None,
) -> Pressure | None:
    """Returns the highest pressure; None if no measure that has an objective has a value.

    Args:
        signal: signal of the active controller.
    """
    pressures = _pressures(signal, cluster_wide, objective, baselines or {})
    return max(pressures, key=lambda pressure: pressure.ratio, default=None)


def missing_measures(
    signal: ControllerSignal, cluster_wide: ClusterWideMeasures, objective: ControllerObjective
) -> tuple[Measure, ...]:
    """Returns the measures that have an objective but no value. Without one of them, an overload may be overlooked."""
    # The creation time is left out: without creations there is no value, and no creation is too slow.
    measures = (
        (Measure.IDLE, signal.idle_ratio, objective.idle_ratio_min),
        (Measure.QUEUE, signal.event_queue_time_mean_ms, objective.queue_ms_max),
        (Measure.APPLY_LAG, cluster_wide.apply_lag_ms, objective.apply_lag_ms_max),
        (Measure.CREATE_PROBE, cluster_wide.create_probe_p90_ms, objective.create_probe_p90_ms_max),
        (Measure.FORWARDING, cluster_wide.forwarding_busy_ratio, objective.forwarding_busy_ratio_max),
    )
    return tuple(measure for measure, measured, limit in measures if limit is not None and measured is None)


def create_probe_ratio(cluster_wide: ClusterWideMeasures, objective: ControllerObjective) -> float | None:
    """Returns probe p90 ÷ its limit; None without a limit or without a value."""
    p90_ms, limit_ms = cluster_wide.create_probe_p90_ms, objective.create_probe_p90_ms_max
    return None if p90_ms is None or limit_ms is None else p90_ms / limit_ms


def forwarding_pressure(cluster_wide: ClusterWideMeasures, objective: ControllerObjective) -> Pressure | None:
    """Returns the pressure of the forwarding busy ratio; None without a limit or without a value."""
    ratio, limit = cluster_wide.forwarding_busy_ratio, objective.forwarding_busy_ratio_max
    return None if ratio is None or limit is None else Pressure(ratio / limit, Measure.FORWARDING, ratio, limit)


def learn_idle_baselines(cluster_wide: ClusterWideMeasures, baselines: IdleBaselines) -> IdleBaselines:
    """Returns the baselines after one more signal."""
    updated = {measure: baseline for measure, baseline in baselines.items() if measure in _WITH_BASELINE}
    for measure, measured in (
        (Measure.CREATE, cluster_wide.create_ms),
        (Measure.APPLY_LAG, cluster_wide.apply_lag_ms),
    ):
        if measured is None:
            continue
        before = updated.get(measure.value, measured)
        # The step is limited to the baseline's own size, so a busy minute hardly raises the baseline. ``_BASELINE_MS_MIN`` lets a
        # baseline of 0 rise.
        step = min(measured - before, max(before, _BASELINE_MS_MIN))
        updated[measure.value] = min(measured, before + _BASELINE_DECAY * step)
    return updated


def _pressures(
    signal: ControllerSignal,
    cluster_wide: ClusterWideMeasures,
    objective: ControllerObjective,
    baselines: IdleBaselines,
) -> Iterator[Pressure]:
    """Yields the pressure of each measure that has both an objective and a value."""
    idle, idle_min = signal.idle_ratio, objective.idle_ratio_min
    if idle is not None and idle_min is not None:
        busy = 1 - min(1.0, max(0.0, idle))  # Kafka's measure can be slightly outside 0 to 1.
        yield Pressure(busy / (1 - idle_min), Measure.IDLE, idle, idle_min)
    for measure, measured, limit in (
        (Measure.QUEUE, signal.event_queue_time_mean_ms, objective.queue_ms_max),
        (Measure.CREATE, cluster_wide.create_ms, objective.create_ms_max),
        (Measure.APPLY_LAG, cluster_wide.apply_lag_ms, objective.apply_lag_ms_max),
        (Measure.CREATE_PROBE, cluster_wide.create_probe_p90_ms, objective.create_probe_p90_ms_max),
    ):
        if measured is not None and limit is not None:
            learned = baselines.get(measure.value, 0.0) if measure in _WITH_BASELINE else 0.0
            baseline = min(learned, _BASELINE_RATIO_MAX * limit)
            yield Pressure(max(0.0, measured - baseline) / (limit - baseline), measure, measured, limit)
    forwarding = forwarding_pressure(cluster_wide, objective)
    if forwarding is not None:
        yield forwarding
