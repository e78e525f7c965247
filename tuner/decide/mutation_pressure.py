"""How hard is the controller pressed, on a scale on which 1 is as hard as it may be?

Intuition: a doctor who takes pulse, temperature and blood pressure, and worries about the worst of the three. What a storm
hurts differs: with ZooKeeper the controller's queue grows for minutes; with KRaft the queue hardly shows, while creations get
slow and brokers lag behind the metadata log. So each is held against its own objective, and the worst is the pressure.

Invariant: what is not measured does not count as well. Where nothing at all is measured there is no pressure to speak of, not 0.

Vocabulary:
    pressure  measured ÷ objective, of the worst; for idleness it is the share that is busy ÷ the share that may be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from streaming.contract import ControllerSignal
from tuner.model.mutation import Beside, ControllerObjective


class Measure(StrEnum):
    IDLE = "idle_ratio"
    QUEUE = "queue_ms"
    CREATE = "create_ms"
    APPLY_LAG = "apply_lag_ms"


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


def pressure(signal: ControllerSignal, beside: Beside, objective: ControllerObjective) -> Pressure | None:
    """Of the active controller. None: nothing of what is asked for is measured."""
    return max(_measured(signal, beside, objective), key=lambda found: found.ratio, default=None)


def _measured(signal: ControllerSignal, beside: Beside, objective: ControllerObjective) -> Iterator[Pressure]:
    idle, idle_min = signal.idle_ratio, objective.idle_ratio_min
    if idle is not None and idle_min is not None:
        # Kafka's measure is a little off at times: a controller is not busy for more than all of the time, nor for less than none.
        busy = 1 - min(1.0, max(0.0, idle))
        yield Pressure(busy / (1 - idle_min), Measure.IDLE, idle, idle_min)
    for measure, measured, allowed in (
        (Measure.QUEUE, signal.event_queue_time_mean_ms, objective.queue_ms_max),
        (Measure.CREATE, beside.create_ms, objective.create_ms_max),
        (Measure.APPLY_LAG, beside.apply_lag_ms, objective.apply_lag_ms_max),
    ):
        if measured is not None and allowed is not None:
            yield Pressure(measured / allowed, measure, measured, allowed)
