"""How hard is the controller pressed, on a scale on which 1 is as hard as it may be?

Intuition: a doctor who takes pulse, temperature and blood pressure, and worries about the worst of the three. What a storm
hurts differs: with ZooKeeper the controller's queue grows for minutes; with KRaft the queue hardly shows, while creations get
slow, slowest for those who come in between, and brokers lag behind the metadata log. So each is held against its own
objective, and the worst is the pressure.

Creating a topic takes its 40 ms on a controller that does nothing else. So of that, and of a lag, only what is beyond the time
at rest is held against what may be beyond it; what the time at rest is, is learned: the least that was seen, forgotten slowly.
What is felt is a tail, and has none: whoever asks waits for the commit under way as soon as there are some, so what would be left
beyond a rest would promise room that is not there.

And before the controller there is a line at every broker, which hands on one creation or deletion at a time. Whoever finds it
taken waits for somebody else's commit before his own: how often that happens is the share of the time in which it is taken, which
moves with what is let through where the tail stands still, at two commits, from little on.

Invariant: at the objective the pressure is 1, whatever the time at rest. What is not measured does not count as well; where
nothing at all is measured there is no pressure to speak of, not 0.

Vocabulary:
    pressure  measured ÷ objective, of the worst; for idleness it is the share that is busy ÷ the share that may be.
    rest      how long something takes, or is behind, when nobody asks for anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from streaming.shared.contract import ControllerSignal
from tuner.core.controller import ClusterWideMeasures, ControllerObjective

_FORGOTTEN = 0.002  # Of the difference, with every signal: a rest of before is forgotten in an hour.
_REST_MS_LEAST = 1.0
_REST_OF_OBJECTIVE_MAX = 0.8  # Whoever asks for less than what it takes at rest would ask for the impossible.

IdleBaselines = Mapping[str, float]  # ms, by Measure.


class Measure(StrEnum):
    IDLE = "idle_ratio"
    QUEUE = "queue_ms"
    CREATE = "create_ms"
    APPLY_LAG = "apply_lag_ms"
    CREATE_PROBE = "create_probe_p90_ms"
    FORWARDING = "forwarding_busy_ratio"


_RESTED = frozenset({Measure.CREATE, Measure.APPLY_LAG})


@dataclass(frozen=True, slots=True)
class Pressure:
    ratio: float
    by: Measure
    measured: float
    objective: float

    def __str__(self) -> str:
        match self.by:
            case Measure.IDLE:
                return (
                    f"idle {100 * self.measured:.0f} % of the time, at least {100 * self.objective:.0f} % is asked for"
                )
            case Measure.QUEUE:
                return f"events wait {self.measured:.0f} ms in its queue, {self.objective:.0f} ms are allowed"
            case Measure.CREATE:
                return f"creating a topic takes {self.measured:.0f} ms, {self.objective:.0f} ms are allowed"
            case Measure.APPLY_LAG:
                return f"metadata is applied {self.measured:.0f} ms late, {self.objective:.0f} ms are allowed"
            case Measure.CREATE_PROBE:
                return (
                    f"one creation in ten waits for {self.measured:.0f} ms or more, {self.objective:.0f} ms are allowed"
                )
            case Measure.FORWARDING:
                return (
                    f"creations and deletions take brokers' lines to the controller for {100 * self.measured:.1f} % of the time, "
                    f"{100 * self.objective:.1f} % are allowed"
                )


def worst_pressure(
    signal: ControllerSignal,
    beside: ClusterWideMeasures,
    objective: ControllerObjective,
    rests: IdleBaselines | None = None,
) -> Pressure | None:
    """Of the active controller. None: nothing of what is asked for is measured."""
    return max(_measured(signal, beside, objective, rests or {}), key=lambda found: found.ratio, default=None)


def missing_measures(
    signal: ControllerSignal, beside: ClusterWideMeasures, objective: ControllerObjective
) -> tuple[Measure, ...]:
    """What is asked for and not told: whatever it is, nobody can say that there is room."""
    told = (
        (Measure.IDLE, signal.idle_ratio, objective.idle_ratio_min),
        (Measure.QUEUE, signal.event_queue_time_mean_ms, objective.queue_ms_max),
        (Measure.APPLY_LAG, beside.apply_lag_ms, objective.apply_lag_ms_max),
        (Measure.CREATE_PROBE, beside.create_probe_p90_ms, objective.create_probe_p90_ms_max),
        (Measure.FORWARDING, beside.forwarding_busy_ratio, objective.forwarding_busy_ratio_max),
    )
    # Nobody creates: then there is no time of a creation, and none that is too long.
    return tuple(measure for measure, found, asked in told if asked is not None and found is None)


def create_probe_ratio(beside: ClusterWideMeasures, objective: ControllerObjective) -> float | None:
    """None: nobody asks for it, or it is not known."""
    felt_ms, allowed_ms = beside.create_probe_p90_ms, objective.create_probe_p90_ms_max
    return None if felt_ms is None or allowed_ms is None else felt_ms / allowed_ms


def forwarding_pressure(beside: ClusterWideMeasures, objective: ControllerObjective) -> Pressure | None:
    """None: nobody asks for it, or it is not known."""
    ratio, allowed = beside.forwarding_busy_ratio, objective.forwarding_busy_ratio_max
    return None if ratio is None or allowed is None else Pressure(ratio / allowed, Measure.FORWARDING, ratio, allowed)


def learn_idle_baselines(beside: ClusterWideMeasures, rests: IdleBaselines) -> IdleBaselines:
    """After one more signal."""
    found = {measure: rest for measure, rest in rests.items() if measure in _RESTED}
    for measure, measured in (
        (Measure.CREATE, beside.create_ms),
        (Measure.APPLY_LAG, beside.apply_lag_ms),
    ):
        if measured is None:
            continue
        before = found.get(measure.value, measured)
        # By no more than itself: a minute of ten times as much is no rest. Nor is none at all one for ever.
        found[measure.value] = min(measured, before + _FORGOTTEN * min(measured - before, max(before, _REST_MS_LEAST)))
    return found


def _measured(
    signal: ControllerSignal, beside: ClusterWideMeasures, objective: ControllerObjective, rests: IdleBaselines
) -> Iterator[Pressure]:
    idle, idle_min = signal.idle_ratio, objective.idle_ratio_min
    if idle is not None and idle_min is not None:
        # Kafka's measure is a little off at times: a controller is not busy for more than all of the time, nor for less than none.
        busy = 1 - min(1.0, max(0.0, idle))
        yield Pressure(busy / (1 - idle_min), Measure.IDLE, idle, idle_min)
    for measure, measured, allowed in (
        (Measure.QUEUE, signal.event_queue_time_mean_ms, objective.queue_ms_max),
        (Measure.CREATE, beside.create_ms, objective.create_ms_max),
        (Measure.APPLY_LAG, beside.apply_lag_ms, objective.apply_lag_ms_max),
        (Measure.CREATE_PROBE, beside.create_probe_p90_ms, objective.create_probe_p90_ms_max),
    ):
        if measured is not None and allowed is not None:
            rest = min(rests.get(measure.value, 0.0), _REST_OF_OBJECTIVE_MAX * allowed) if measure in _RESTED else 0.0
            yield Pressure(max(0.0, measured - rest) / (allowed - rest), measure, measured, allowed)
    lines = forwarding_pressure(beside, objective)
    if lines is not None:
        yield lines
