"""Decides how many partitions Cruise Control moves per broker at a time, so that the number fits the throttle.

All copies through a throttle share its rate. With many copies at a time each copy is slow, and with few copies the throttle is not
used up. So the number is: lowest throttle of the move ÷ rate that one copy should have.

Invariant: if Cruise Control's own adjuster, another tool or an operator changes the number, the tuner leaves it alone for
``external_change_hold_s``. Cruise Control forgets the number at the end of an execution, so there is nothing to restore.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from streaming.shared.units import rate_text
from tuner.control.cruise_control.decision import CruiseControlReason, HoldMovements, MovementDecision, SetMovements
from tuner.control.throttle.plan_moves import sides_of_move
from tuner.core.cluster import BrokerSide, LiveCluster
from tuner.core.value import value
from tuner.core.vetoes import Veto, vetoes_text

RAISE_EVERY_S = 60.0  # A higher number shows its effect only after some partitions have ended.


@value
class Execution:
    """The execution of Cruise Control.

    Attributes:
        state: the name of the state of Cruise Control's executor.
        task: the id of the request that Cruise Control executes; empty: none.
        movements_min, movements_max: lowest and highest number of partitions that a broker moves at a time, over all brokers; None
            while no replicas move between brokers.
        in_progress, pending, finished: numbers of partitions.
    """

    state: str
    task: str = ""
    movements_min: int | None = None
    movements_max: int | None = None
    in_progress: int = 0
    pending: int = 0
    finished: int = 0


@dataclass(frozen=True, slots=True)
class MovementLimits:
    """The limits in the settings; see ``tuner/settings/cruise_control.py``."""

    acts: bool
    rate_per_movement_bytes_per_s: float
    movements_min: int
    movements_max: int
    external_change_hold_s: float


@dataclass(frozen=True, slots=True)
class MovementView:
    """The inputs of one decision.

    Attributes:
        rate_bytes_per_s: the lowest throttle of the move; None: no throttle limits the move.
        pause: the operator who has paused the tuner; None: the tuner is not paused.
        vetoes: the external checks that veto now. While there is a veto, the number does not rise.
    """

    now_ms: int
    execution: Execution
    rate_bytes_per_s: float | None
    pause: str | None = None
    vetoes: tuple[Veto, ...] = ()


@dataclass(frozen=True, slots=True)
class MovementMemory:
    """The state of one leadership term.

    Attributes:
        task: the execution to which the other fields belong.
        expected: the number of partitions at a time that the tuner has set or has seen last; None: not known, or the last request
            has failed.
        raised_at_ms: when the tuner last raised the number.
        left_alone_until_ms: the tuner leaves the number alone until this time, because another tool has changed it.
    """

    task: str = ""
    expected: int | None = None
    raised_at_ms: int = 0
    left_alone_until_ms: int = 0


def lowest_rate(live: LiveCluster, setpoints: Mapping[BrokerSide, float], vetoes: Sequence[Veto]) -> float | None:
    """Returns the lowest throttle through which partitions move, in bytes/s; None: no throttle limits them.

    The function uses the setpoint of a throttle, because it changes less than the rate, which also compensates for the bytes in
    Kafka's quota window. During a veto the setpoint may be above the rate. Then the lower of the two is used.
    """
    sides = {side for move in live.moves for side in sides_of_move(move)} & live.rates.keys()
    rates = {side: float(live.rates[side].bytes_per_s) for side in sides}
    if not vetoes:
        return min((setpoints.get(side, rate) for side, rate in rates.items()), default=None)
    return min((min(rate, setpoints.get(side, rate)) for side, rate in rates.items()), default=None)


def decide_movements(
    view: MovementView, memory: MovementMemory, limits: MovementLimits
) -> tuple[MovementMemory, MovementDecision]:
    """Returns the next state and the decision."""
    execution, now_ms, pause = view.execution, view.now_ms, view.pause
    current, lowest = execution.movements_max, execution.movements_min
    if current is None:
        text = f"Cruise Control moves no replicas between brokers ({execution.state})"
        return MovementMemory(), HoldMovements(CruiseControlReason.NO_EXECUTION, text)
    if memory.task != execution.task:
        memory = MovementMemory(execution.task)
    memory, adjusted = _find_external_change(execution, current, memory, limits, now_ms)
    if pause is not None:
        return memory, HoldMovements(CruiseControlReason.PAUSED, f"paused by {pause}")
    if adjusted or now_ms < memory.left_alone_until_ms:
        numbers = _range_text(lowest, current)
        text = f"another tool adjusts the concurrency of Cruise Control ({numbers}), so the tuner leaves it alone"
        return memory, HoldMovements(CruiseControlReason.ADJUSTED_BY_TOOL, text)
    if view.rate_bytes_per_s is None:
        text = "no throttle limits the moves of Cruise Control, so its concurrency is left alone"
        return memory, HoldMovements(CruiseControlReason.NO_THROTTLE, text)
    return _follow_rate(current, view.rate_bytes_per_s, memory, limits, now_ms, view.vetoes)


def _find_external_change(
    execution: Execution, current: int, memory: MovementMemory, limits: MovementLimits, now_ms: int
) -> tuple[MovementMemory, bool]:
    """Returns the state with the current number as the expected number, and whether another tool has changed it."""
    differs = memory.expected is not None and current != memory.expected
    adjusted = differs or execution.movements_min not in (None, current)
    if adjusted:
        until_ms = now_ms + round(1000 * limits.external_change_hold_s)
        memory = replace(memory, left_alone_until_ms=until_ms)
    return replace(memory, expected=current), adjusted


def _follow_rate(
    current: int,
    rate_bytes_per_s: float,
    memory: MovementMemory,
    limits: MovementLimits,
    now_ms: int,
    vetoes: tuple[Veto, ...],
) -> tuple[MovementMemory, MovementDecision]:
    fitting = int(rate_bytes_per_s // limits.rate_per_movement_bytes_per_s)
    movements = max(limits.movements_min, min(limits.movements_max, fitting))
    cause = (
        f"the lowest throttle of its moves is {rate_text(rate_bytes_per_s)}, and each partition should have "
        f"{rate_text(limits.rate_per_movement_bytes_per_s)} (tuner.cruise_control.rate_per_movement_bytes_per_s)"
    )
    if movements == current:
        text = f"Cruise Control moves {current} partitions per broker at a time, as it should: {cause}"
        return memory, HoldMovements(CruiseControlReason.FITS_THROTTLE, text)
    head = f"Cruise Control {current} → {movements} partitions per broker at a time"
    if not limits.acts:
        text = f"{head}: {cause}; not set, as tuner.cruise_control.concurrency is watch"
        return memory, HoldMovements(CruiseControlReason.WATCHED, text)
    if movements > current and vetoes:
        text = f"the concurrency of Cruise Control is not raised: {vetoes_text(vetoes)}"
        return memory, HoldMovements(CruiseControlReason.VETOED, text)
    if movements > current and 0 <= now_ms - memory.raised_at_ms < 1000 * RAISE_EVERY_S:
        text = f"{head}, but not before a minute has passed since the last raise: {cause}"
        return memory, HoldMovements(CruiseControlReason.RAISED_RECENTLY, text)
    raised_at_ms = now_ms if movements > current else memory.raised_at_ms
    memory = replace(memory, raised_at_ms=raised_at_ms)
    return memory, SetMovements(current, movements, CruiseControlReason.FOLLOWS_THROTTLE, f"{head}: {cause}")


def record_set(memory: MovementMemory, movements: int) -> MovementMemory:
    """Returns the state after Cruise Control has taken the number."""
    return replace(memory, expected=movements)


def record_failure(memory: MovementMemory) -> MovementMemory:
    """Returns the state after a request that failed.

    Cruise Control may have taken the number all the same. So the next number that it reports does not count as another tool's.
    """
    return replace(memory, expected=None)


def _range_text(lowest: int | None, highest: int) -> str:
    return f"{highest} per broker" if lowest in (None, highest) else f"{lowest} to {highest} per broker"
