"""Watches Cruise Control, and adjusts how many partitions Cruise Control moves at a time. Requests run in the background.

A change is journaled before it is requested. Afterwards the state is read again, and the journal gets the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import structlog

from tuner.control.cruise_control.decision import (
    CruiseControlReason,
    HoldMovements,
    MovementDecision,
    SetMovements,
    action_of,
)
from tuner.control.cruise_control.policy import (
    Execution,
    MovementLimits,
    MovementMemory,
    MovementView,
    decide_movements,
    lowest_rate,
    record_failure,
    record_set,
)
from tuner.core.backoff import Backoff
from tuner.core.cluster import LiveCluster, Observation
from tuner.core.operator_orders import Orders
from tuner.core.throttle_state import ThrottleState
from tuner.core.vetoes import Veto
from tuner.journal.entries import Entry
from tuner.journal.input_log import InputLog
from tuner.journal.kafka_journal import JournalError
from tuner.runtime.background_call import BackgroundCaller, Call, result_or_error
from tuner.runtime.clock import Clock

log = structlog.get_logger("tuner")

_POLL_S = 0.2
_CHANGE = "change"  # The key under which pauses after failed changes are kept.


class MovementsApi(Protocol):
    """Cruise Control's REST API; see client.py."""

    def read_execution(self) -> Execution: ...

    def set_movements(self, movements: int) -> Execution: ...


class MovementsObserver(Protocol):
    def record_movements(self, execution: Execution | None, decision: MovementDecision) -> None:
        """Publishes a decision; the execution is None if Cruise Control has not answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CruiseControlPorts:
    """Everything that the controller reads from and writes to.

    Attributes:
        latest: returns the observation of the last throttle cycle; None if no cycle has ended.
        write_refusal: returns why nothing may be written now; None if writes are allowed.
        vetoes: returns the external checks that veto now.
        inputs: records the inputs of each decision; None if nothing is recorded.
    """

    api: MovementsApi
    caller: BackgroundCaller
    latest: Callable[[], Observation | None]
    throttle_state: Callable[[], ThrottleState]
    orders: Callable[[], Orders]
    vetoes: Callable[[], tuple[Veto, ...]]
    journal: Callable[[list[Entry]], None]
    write_refusal: Callable[[], str | None]
    observer: MovementsObserver
    inputs: InputLog | None = None


class CruiseControlController:
    """Reads Cruise Control's state every ``interval_s``, decides, and sets the number of partitions that move at a time.

    One thread calls all methods.
    """

    def __init__(
        self, ports: CruiseControlPorts, limits: MovementLimits, clock: Clock, *, interval_s: float, dry_run: bool
    ) -> None:
        self._ports, self._limits, self._clock = ports, limits, clock
        self._interval_s, self._dry_run = interval_s, dry_run
        self._memory = MovementMemory()
        self._backoff: Backoff[str] = Backoff(clock.monotonic_s)
        self._last_reason: CruiseControlReason | None = None
        self._due_s = float("-inf")
        self._state: Call[Execution] | None = None  # A request for the state in progress.
        # A request for a change in progress, and its decision.
        self._change: tuple[Call[Execution], SetMovements] | None = None

    def next_due_s(self) -> float:
        """Returns the monotonic time of the next ``tick``, in seconds."""
        is_busy = self._state is not None or self._change is not None
        return self._clock.monotonic_s() + _POLL_S if is_busy else self._due_s

    def tick(self) -> None:
        """Continues with an answer that has arrived, or sends the next request if it is due. Never waits."""
        if self._state is not None:
            if self._state.done():
                call, self._state = self._state, None
                self._decide(call)
        elif self._change is not None:
            if self._change[0].done():
                change, self._change = self._change, None
                self._finish(*change)
        elif self._clock.monotonic_s() >= self._due_s:
            self._due_s = self._clock.monotonic_s() + self._interval_s
            self._state = self._ports.caller.start(self._ports.api.read_execution)

    def _decide(self, call: Call[Execution]) -> None:
        execution = result_or_error(call)
        if not isinstance(execution, Execution):
            text = f"Cruise Control gives no valid answer: {_without_type(str(execution))}"
            self._report(None, HoldMovements(CruiseControlReason.NO_ANSWER, text))
            return
        observation = self._ports.latest()
        live = observation.live if observation is not None else None
        pause, vetoes = self._ports.orders().pause, self._ports.vetoes()
        rate = None
        if isinstance(live, LiveCluster):
            rate = lowest_rate(live, self._ports.throttle_state().setpoints, vetoes)
        view = MovementView(
            self._clock.now_ms(), execution, rate, pause=pause.by if pause is not None else None, vetoes=vetoes
        )
        before = self._memory
        self._memory, decision = decide_movements(view, before, self._limits)
        if self._ports.inputs is not None:
            self._ports.inputs.record_movements(view, self._limits, before, self._memory, decision)
        inputs = {
            "state": execution.state,
            "movements_per_broker": execution.movements_max,
            "rate_bytes_per_s": rate,
            **({"vetoes": {veto.name: veto.cause for veto in vetoes}} if vetoes else {}),
        }
        if isinstance(decision, SetMovements) and self._backoff.is_paused(_CHANGE):
            self._ports.observer.record_movements(execution, decision)
            return
        is_new = decision.reason is not self._last_reason
        self._report(execution, decision)
        if not isinstance(decision, SetMovements):
            if is_new and decision.reason is not CruiseControlReason.NO_EXECUTION:
                self._write("decision", decision, inputs)
            return
        if self._dry_run:
            if is_new:
                self._write("intent", decision, inputs)
            return
        if (refusal := self._ports.write_refusal()) is not None:
            log.warning("the concurrency of Cruise Control is not changed", why=refusal)
            return
        if self._write("intent", decision, inputs):
            api, movements = self._ports.api, decision.movements
            self._change = (self._ports.caller.start(lambda: api.set_movements(movements)), decision)

    def _finish(self, call: Call[Execution], decision: SetMovements) -> None:
        execution = result_or_error(call)
        failure = None
        if not isinstance(execution, Execution):
            failure = _without_type(str(execution))
        elif execution.movements_max not in (None, decision.movements):
            failure = f"Cruise Control still has {execution.movements_max} partitions per broker"
        if failure is None:
            self._memory = record_set(self._memory, decision.movements)
            self._backoff.succeed(_CHANGE)
        else:
            self._memory = record_failure(self._memory)
            self._backoff.fail(_CHANGE)
            log.error("the concurrency of Cruise Control was not changed", why=failure)
        self._write("outcome", decision, {}, failure)

    def _report(self, execution: Execution | None, decision: MovementDecision) -> None:
        if decision.reason is not self._last_reason or isinstance(decision, SetMovements):
            log.info(decision.text, action=action_of(decision), reason=decision.reason.value, dry_run=self._dry_run)
        self._last_reason = decision.reason
        self._ports.observer.record_movements(execution, decision)

    def _write(
        self, kind: str, decision: MovementDecision, inputs: Mapping[str, object], failure: str | None = None
    ) -> bool:
        """Writes a journal entry. Returns whether the journal has it."""
        entry = Entry(
            self._clock.now_ms(),
            kind,
            action=action_of(decision),
            reason=decision.reason.value,
            text=decision.text,
            inputs=inputs,
            failure=failure,
            dry_run=self._dry_run,
        )
        try:
            self._ports.journal([entry])
        except JournalError as error:
            log.error(
                "the journal accepts no record, so the concurrency of Cruise Control is not changed", error=str(error)
            )
            return False
        return True


def _without_type(error: str) -> str:
    return error.removeprefix("NoAnswer: ")
