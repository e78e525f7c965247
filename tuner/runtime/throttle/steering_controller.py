"""Steers throttles towards the objective: asks the law for new rates once a second, and writes them.

The law sees the latest signals and the rate that this controller left on each side. Before a write, the rate in Kafka is compared
with it, because an operator or a tool may have changed it meanwhile. If the law wants more writes than the budget allows, the
most urgent changes go first and the others follow a second later.

A *held* side has no fresh signals. It is never raised; it decays as the law lets it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from streaming.shared.contract import BrokerSignal, MoveSignal
from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.units import rate_text
from tuner.control.throttle.decision import Reason, SetRate
from tuner.control.throttle.objective import Capacity, ControlLimits, Objective
from tuner.control.throttle.steering.law import control_step
from tuner.control.throttle.steering.state import ControlInput, ControlState
from tuner.core.cluster import BrokerSide, Setpoint, side_name
from tuner.core.outcome import Failure
from tuner.journal.input_log import InputLog
from tuner.runtime.throttle.actuator import Throttles

TICK_EVERY_S = 1.0
NO_RATES: Mapping[BrokerSide, int] = {}
_LATES_MAX = (
    10  # Seconds in a row that a broker may show the rate before our last write; then it has not taken the write.
)


@dataclass(frozen=True, slots=True)
class WriteRefused:
    """A rate change that cannot be written.

    Attributes:
        external_change: an operator or a tool has changed the rate.
        found: the rate that Kafka has now; None: none.
        late: the broker still shows the rate before our last write; to be tried again a second later.
    """

    decision: SetRate
    failure: Failure
    external_change: bool = False
    found: int | None = None
    late: bool = False


class SteeringController:
    def __init__(
        self,
        throttles: Throttles,
        objective: Objective,
        capacity_of: Callable[[int], Capacity],
        limits: ControlLimits,
        *,
        writes_per_s_max: float,
        inputs: InputLog | None = None,
    ) -> None:
        """
        Args:
            capacity_of: returns the capacity of a broker.
            inputs: records every second for a replay; None: nothing is recorded.
        """
        self._throttles = throttles
        self._objective = objective
        self._capacity_of = capacity_of
        self._limits = limits
        self._writes_max = writes_max(writes_per_s_max)
        self._inputs = inputs
        self._memory = ControlState()
        self._capacities: dict[int, Capacity] = {}
        self._current: dict[BrokerSide, int] = {}
        self._own: dict[BrokerSide, bool] = {}  # The rate is set on the broker itself, not inherited.
        self._held: frozenset[BrokerSide] = frozenset()
        self._written: set[BrokerSide] = set()
        self._before_write: dict[BrokerSide, int | None] = {}  # The rate before our last write.
        self._lates: dict[BrokerSide, int] = {}
        self._quota_samples = limits.quota_samples
        self._stalled: frozenset[BrokerSide] = frozenset()
        self._recovering: frozenset[BrokerSide] = frozenset()
        self._restore_rates: dict[BrokerSide, int] = {}
        self._plan_max_rates: dict[BrokerSide, float] = {}
        self._due_s: float | None = None

    @property
    def setpoints(self) -> dict[BrokerSide, Setpoint]:
        """The law's latest setpoint of each side."""
        setpoints = {}
        for side in self._current:
            state = self._memory.side_states.get(side)
            if state is not None:
                setpoints[side] = Setpoint(
                    state.setpoint.rate_bytes_per_s, state.setpoint.infeasible, state.inputs_stale
                )
        return setpoints

    def steer(
        self,
        free: Mapping[BrokerSide, tuple[int, bool]],
        held: Mapping[BrokerSide, tuple[int, bool]],
        quota_samples: Mapping[int, int],
        now_s: float,
        *,
        stalled: frozenset[BrokerSide] = frozenset(),
        recovering: frozenset[BrokerSide] = frozenset(),
        restore_rates: Mapping[BrokerSide, int] = NO_RATES,
        plan_max_rates: Mapping[BrokerSide, int] = NO_RATES,
    ) -> None:
        """Takes the sides that the law may steer until the next cycle.

        Args:
            free: the current rate in bytes/s, and whether it is set on the broker itself.
            held: the same for sides that may only be lowered.
            quota_samples: replication.quota.window.num, by broker.
            stalled, recovering: see control/throttle/isr_recovery.py.
            restore_rates: bytes/s before the tuner managed a side; 0: no throttle.
            plan_max_rates: bytes/s that plans allow the sides they copy through.
        """
        sides = {**held, **free}
        # A broker may show our last write late, so the rate we left is newer. Where we wrote nothing, Kafka's rate counts.
        self._written &= sides.keys()
        self._current = {s: self._current[s] if s in self._written else rate for s, (rate, _) in sides.items()}
        self._own = {side: side in self._written or own for side, (_, own) in sides.items()}
        self._held = frozenset(held)
        self._stalled, self._recovering = stalled, recovering
        self._restore_rates = {side: before for side, before in restore_rates.items() if side in sides}
        ceiling = self._limits.rate_bytes_per_s_max
        self._plan_max_rates = {s: float(rate) for s, rate in plan_max_rates.items() if s in sides and rate < ceiling}
        # During a rolling restart brokers may differ. The law's window compensation is bounded in either case.
        self._quota_samples = max(quota_samples.values(), default=self._limits.quota_samples)
        if not self._current:
            # The estimates of the brokers survive a snapshot that failed.
            self._memory, self._due_s = replace(self._memory, side_states={}), None
        elif self._due_s is None:
            self._due_s = now_s

    def drop(self, side: BrokerSide) -> None:
        """Stops steering a side until a cycle hands it over again."""
        self._current.pop(side, None)
        self._written.discard(side)

    def next_due_s(self) -> float | None:
        """Returns when the law is due next, in seconds of the monotonic clock; None: it has no side to steer."""
        return self._due_s

    def next_changes(
        self,
        now_s: float,
        now_ms: int,
        brokers: Mapping[int, BrokerSignal],
        moves: Mapping[BrokerSide, MoveSignal],
        planned: Collection[BrokerSide] = (),
    ) -> list[SetRate]:
        """Returns the rate changes that the law wants now; none if its last second is not over.

        Args:
            planned: sides where plans have steps that have not begun.
        """
        if self._due_s is None or now_s < self._due_s:
            return []
        # A missed second is skipped: the law reads the clock itself.
        self._due_s = max(self._due_s + TICK_EVERY_S, now_s + TICK_EVERY_S / 2)
        view = ControlInput(
            now_ms,
            brokers,
            moves,
            self._current,
            {b: self._capacity(b) for b in {*brokers, *(broker for broker, _ in self._current)}},
            stalled_sides=self._stalled,
            recovering_sides=self._recovering,
            restore_rates=self._restore_rates,
            planned_sides=frozenset(planned),
            plan_max_rates=self._plan_max_rates,
        )
        limits = replace(self._limits, quota_samples=self._quota_samples)
        before = self._memory
        self._memory, rates = control_step(view, before, self._objective, limits)
        changes = changes_of(rates, self._memory, self._current, self._own, self._held, self._writes_max)
        if self._inputs is not None:
            self._inputs.record_steering_tick(view, self._held, self._quota_samples, before, self._memory, changes)
        return changes

    def find_refused(self, changes: Collection[SetRate]) -> list[WriteRefused]:
        """Returns the changes that must not be written, because Kafka's rate is not the one we left or cannot be read."""
        sides = [(change.broker, change.side) for change in changes]
        try:
            rates = self._throttles.read_rates(sides)
            # A broker under load may show our last write late. A rate that is still there after a while is an external change.
            differing = {side: self._rate_left(side) for side in sides if self._differs(side, rates[side])}
            if differing:
                self._throttles.confirm_rates(differing)
                rates |= self._throttles.read_rates(differing)
        except ClusterError as error:
            return [WriteRefused(change, str(error)) for change in changes]
        refused = []
        for change in changes:
            side = (change.broker, change.side)
            rate_left, rate = self._rate_left(side), rates[side]
            if isinstance(rate, ClusterError):
                refused.append(WriteRefused(change, str(rate)))
            elif rate != rate_left:
                is_rate_before = side in self._written and rate == self._before_write.get(side)
                self._lates[side] = self._lates.get(side, 0) + 1 if is_rate_before else 0
                late = is_rate_before and self._lates[side] <= _LATES_MAX
                current = "nothing" if rate is None else f"{rate} bytes/s"
                failure = f"{rate_left} bytes/s was left there, {current} stands there now"
                refused.append(WriteRefused(change, failure, external_change=not is_rate_before, found=rate, late=late))
            else:
                self._lates.pop(side, None)
        return refused

    def filter_unchanged(self, changes: Collection[SetRate]) -> list[SetRate]:
        """Returns the changes whose sides still have the rate that we left; writing the journal may have taken a while."""
        try:
            rates = self._throttles.read_rates([(change.broker, change.side) for change in changes])
        except ClusterError:
            return []
        return [c for c in changes if rates[(c.broker, c.side)] == self._rate_left((c.broker, c.side))]

    def _rate_left(self, side: BrokerSide) -> int | None:
        """Returns the rate that the broker itself should have; None if it inherits the current one."""
        return self._current[side] if self._own[side] else None

    def _differs(self, side: BrokerSide, rate: int | ClusterError | None) -> bool:
        return not isinstance(rate, ClusterError) and rate != self._rate_left(side)

    def write(self, changes: Collection[SetRate]) -> dict[BrokerSide, Failure | None]:
        """Writes rates to Kafka. Returns the failure of each side; None: it was written."""
        rates: dict[BrokerSide, int | None] = {(c.broker, c.side): c.setpoint_bytes_per_s for c in changes}
        failures = self._throttles.write_rates(rates) if rates else {}
        for change in changes:
            side = (change.broker, change.side)
            if failures[side] is None:
                self._before_write[side] = self._rate_left(side)
                self._current[side], self._own[side] = change.setpoint_bytes_per_s, True
                self._written.add(side)
        return failures

    def _capacity(self, broker: int) -> Capacity:
        """Returns the same object every second, so that the law recognizes unchanged inputs."""
        if broker not in self._capacities:
            self._capacities[broker] = self._capacity_of(broker)
        return self._capacities[broker]


def writes_max(writes_per_s_max: float) -> int:
    """Returns how many writes one second of the law may make; at least one, or no rate would ever change."""
    return max(1, int(writes_per_s_max * TICK_EVERY_S))


def changes_of(
    rates: Mapping[BrokerSide, int],
    memory: ControlState,
    current: Mapping[BrokerSide, int],
    own: Mapping[BrokerSide, bool],
    held: Collection[BrokerSide],
    changes_max: int,
) -> list[SetRate]:
    """Returns the writes that the law's ``rates`` need, the most urgent first.

    Args:
        own: whether the current rate is set on the broker itself; a side that is missing here has its own.
        held: sides that may only be lowered.
        changes_max: further changes wait for the next second.
    """
    targets = {side: _lowered(side, memory, current) if side in held else rate for side, rate in rates.items()}
    differing = [(side, rate) for side, rate in targets.items() if rate != current[side]]
    differing.sort(key=lambda change: _urgency(current[change[0]], change[1]), reverse=True)
    return [_change(side, rate, memory, current[side], own.get(side, True)) for side, rate in differing[:changes_max]]


def _lowered(side: BrokerSide, memory: ControlState, current: Mapping[BrokerSide, int]) -> int:
    """Returns the rate of a held side: its setpoint without window compensation, and never above the current rate."""
    return min(current[side], round(memory.side_states[side].setpoint.rate_bytes_per_s))


def _change(side: BrokerSide, rate: int, memory: ControlState, current: int, own: bool) -> SetRate:
    setpoint = memory.side_states[side].setpoint.rate_bytes_per_s
    text = f"{side_name(side)} {rate_text(current)} → {rate_text(rate)}: target {rate_text(setpoint)}"
    return SetRate(*side, current, rate, Reason.FOLLOWS_CLIENTS, text, own)


def _urgency(current_bytes_per_s: int, setpoint_bytes_per_s: int) -> tuple[bool, float]:
    """Returns the sort key of a change: lowering for the clients' sake comes first, then the larger relative change."""
    difference = abs(setpoint_bytes_per_s - current_bytes_per_s)
    return setpoint_bytes_per_s < current_bytes_per_s, difference / max(current_bytes_per_s, setpoint_bytes_per_s)
