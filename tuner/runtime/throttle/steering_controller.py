"""Steers throttles towards the objective: once a second, it asks the control law for new rates and writes them.

Each *side* of a broker, as leader or as follower of the replicas that move, has a rate of its own. The inputs of the law are the
latest signals and the rate that this controller last wrote on each side (the expected rate). Before a write, the rate in Kafka is
compared with the expected rate, because an operator or a tool may have changed the rate. If the law returns more changes than the
write budget allows, the most urgent changes go first and the rest follow a second later.

A *held* side has no fresh signals. The law may lower its rate, but not raise it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from heapq import nlargest

from streaming.shared.contract import BrokerSignal, MoveSignal
from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.units import rate_text
from tuner.control.throttle.decision import Reason, SetRate
from tuner.control.throttle.objective import Capacity, ControlLimits, Objective
from tuner.control.throttle.steering.law import control_step
from tuner.control.throttle.steering.state import ControlInput, ControlState
from tuner.core.broker_baseline import BrokerBaseline
from tuner.core.cluster import BrokerSide, Setpoint, side_name
from tuner.core.outcome import Failure
from tuner.journal.input_log import InputLog
from tuner.runtime.throttle.actuator import Throttles

TICK_EVERY_S = 1.0
NO_RATES: Mapping[BrokerSide, int] = {}
NO_RATIOS: Mapping[BrokerSide, float] = {}
NO_BASELINES: Mapping[int, BrokerBaseline] = {}
# A broker may show the rate before the last write for this many seconds in a row. After that, the write is treated as lost.
_LATE_READS_MAX = 10


@dataclass(frozen=True, slots=True)
class WriteRefused:
    """A rate change that cannot be written.

    Attributes:
        external_change: an operator or a tool has changed the rate.
        found: the rate that Kafka has now; None if no rate is set.
        late: the broker still shows the rate before the last write, so the change is tried again a second later.
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
        capacity_of: Callable[[int], Capacity | None],
        limits: ControlLimits,
        *,
        writes_per_s_max: float,
        inputs: InputLog | None = None,
    ) -> None:
        """
        Args:
            capacity_of: returns the capacity of a broker in the settings; None if the settings have none.
            inputs: records the inputs of every second for a replay; None if nothing is recorded.
        """
        self._throttles = throttles
        self._objective = objective
        self._capacity_of = capacity_of
        self._limits = limits
        self._writes_max = writes_per_tick_max(writes_per_s_max)
        self._inputs = inputs
        self._state = ControlState()
        self._capacities: dict[int, Capacity | None] = {}
        self._current: dict[BrokerSide, int] = {}  # The expected rate of each side that the law steers.
        self._is_set_on_broker: dict[BrokerSide, bool] = {}  # Whether the rate is set on the broker, not inherited.
        self._held: frozenset[BrokerSide] = frozenset()
        self._written: set[BrokerSide] = set()  # Sides whose expected rate was written by this controller.
        self._before_write: dict[BrokerSide, int | None] = {}  # The rate before the last write.
        self._late_reads: dict[BrokerSide, int] = {}
        self._quota_samples = limits.quota_samples
        self._stalled: frozenset[BrokerSide] = frozenset()
        self._recovering: frozenset[BrokerSide] = frozenset()
        self._at_min_isr: frozenset[BrokerSide] = frozenset()
        self._restore_rates: dict[BrokerSide, int] = {}
        self._plan_max_rates: dict[BrokerSide, float] = {}
        self._deadline_ratios: Mapping[BrokerSide, float] = {}
        self._due_s: float | None = None

    @property
    def setpoints(self) -> dict[BrokerSide, Setpoint]:
        """The law's latest setpoint of each side."""
        setpoints = ((side, self._state.setpoint(side)) for side in self._current)
        return {side: setpoint for side, setpoint in setpoints if setpoint is not None}

    def change_policy(self, objective: Objective, limits: ControlLimits) -> None:
        """Follows another objective and other limits from the law's next second on. The estimates of the brokers stay."""
        self._objective, self._limits = objective, limits

    def assign_sides(
        self,
        steerable: Mapping[BrokerSide, tuple[int, bool]],
        held: Mapping[BrokerSide, tuple[int, bool]],
        quota_samples: Mapping[int, int],
        now_s: float,
        *,
        stalled: frozenset[BrokerSide] = frozenset(),
        recovering: frozenset[BrokerSide] = frozenset(),
        at_min_isr: frozenset[BrokerSide] = frozenset(),
        restore_rates: Mapping[BrokerSide, int] = NO_RATES,
        plan_max_rates: Mapping[BrokerSide, int] = NO_RATES,
        deadline_ratios: Mapping[BrokerSide, float] = NO_RATIOS,
    ) -> None:
        """Sets the sides that the law steers until the next cycle.

        Args:
            steerable: for each side, the current rate in bytes/s, and whether it is set on the broker itself.
            held: the same for sides whose rate may only be lowered.
            quota_samples: replication.quota.window.num, by broker.
            stalled, recovering: see control/throttle/isr_recovery.py.
            at_min_isr: see control/throttle/recovery.py.
            restore_rates: rate of each side before the tuner managed it, bytes/s; 0 means that there was no throttle.
            plan_max_rates: highest rate that plans allow on the sides through which they copy, bytes/s.
            deadline_ratios: see ``ControlInput``.
        """
        sides = {**held, **steerable}
        # A broker may show the last write late. So a side that this controller has written keeps the written rate as its current
        # rate. For any other side, the current rate is the rate in Kafka.
        self._written &= sides.keys()
        self._current = {s: self._current[s] if s in self._written else rate for s, (rate, _) in sides.items()}
        self._is_set_on_broker = {side: side in self._written or is_set for side, (_, is_set) in sides.items()}
        self._held = frozenset(held)
        self._stalled, self._recovering, self._at_min_isr = stalled, recovering, at_min_isr
        self._restore_rates = {side: before for side, before in restore_rates.items() if side in sides}
        ceiling = self._limits.rate_bytes_per_s_max
        self._plan_max_rates = {s: float(rate) for s, rate in plan_max_rates.items() if s in sides and rate < ceiling}
        if deadline_ratios != self._deadline_ratios:  # The same object, so that the recording sees no change.
            self._deadline_ratios = deadline_ratios
        # During a rolling restart brokers may have different values. The largest one is used.
        self._quota_samples = max(quota_samples.values(), default=self._limits.quota_samples)
        if not self._current:
            # The estimates of the brokers survive a snapshot that failed.
            self._state, self._due_s = replace(self._state, side_states={}), None
        elif self._due_s is None:
            self._due_s = now_s

    def drop(self, side: BrokerSide) -> None:
        """Stops steering a side until a cycle hands it over again."""
        self._current.pop(side, None)
        self._written.discard(side)

    def next_due_s(self) -> float | None:
        """Returns when the law is due next, in seconds of the monotonic clock; None if there is no side to steer."""
        return self._due_s

    def next_changes(
        self,
        now_s: float,
        now_ms: int,
        brokers: Mapping[int, BrokerSignal],
        moves: Mapping[BrokerSide, MoveSignal],
        planned: Collection[BrokerSide] = (),
        baselines: Mapping[int, BrokerBaseline] = NO_BASELINES,
    ) -> list[SetRate]:
        """Returns the rate changes of the law's next second; none if the last second is not over.

        Args:
            brokers, moves: the newest signal of each broker and side.
            planned: sides where plans have steps that have not begun.
            baselines: each broker's usual latency without copies.
        """
        if self._due_s is None or now_s < self._due_s:
            return []
        # A missed second is skipped, because the law computes the elapsed time itself. After a late run, the next run follows at
        # least half a second later.
        self._due_s = max(self._due_s + TICK_EVERY_S, now_s + TICK_EVERY_S / 2)
        known_brokers = {*brokers, *(broker for broker, _ in self._current)}
        inputs = ControlInput(
            now_ms,
            brokers,
            moves,
            self._current,
            {broker: found for broker in known_brokers if (found := self._capacity(broker)) is not None},
            stalled_sides=self._stalled,
            recovering_sides=self._recovering,
            at_min_isr_sides=self._at_min_isr,
            restore_rates=self._restore_rates,
            planned_sides=frozenset(planned),
            plan_max_rates=self._plan_max_rates,
            baselines=baselines,
            deadline_ratios=self._deadline_ratios,
        )
        limits = replace(self._limits, quota_samples=self._quota_samples)
        before = self._state
        self._state, rates = control_step(inputs, before, self._objective, limits)
        changes = most_urgent_changes(
            rates, self._state, self._current, self._is_set_on_broker, self._held, self._writes_max
        )
        if self._inputs is not None:
            self._inputs.record_steering_tick(inputs, self._held, self._quota_samples, before, self._state, changes)
        return changes

    def find_refused(self, changes: Collection[SetRate]) -> list[WriteRefused]:
        """Returns the changes that must not be written, because the rate in Kafka is not the expected rate or cannot be read."""
        sides = [(change.broker, change.side) for change in changes]
        try:
            rates = self._throttles.read_rates(sides)
            # A broker under load may show the last write late. Only a rate that stays unexpected for a while is an external change.
            differing = {side: self._expected_rate(side) for side in sides if self._differs(side, rates[side])}
            if differing:
                self._throttles.confirm_rates(differing)
                rates |= self._throttles.read_rates(differing)
        except ClusterError as error:
            return [WriteRefused(change, str(error)) for change in changes]
        refused = []
        for change in changes:
            side = (change.broker, change.side)
            expected_rate, rate = self._expected_rate(side), rates[side]
            if isinstance(rate, ClusterError):
                refused.append(WriteRefused(change, str(rate)))
            elif rate != expected_rate:
                is_rate_before = side in self._written and rate == self._before_write.get(side)
                late_reads = self._late_reads.get(side, 0) + 1 if is_rate_before else 0
                self._late_reads[side] = late_reads
                late = is_rate_before and late_reads <= _LATE_READS_MAX
                current = "no rate" if rate is None else f"{rate} bytes/s"
                failure = f"expected {expected_rate} bytes/s, but the broker has {current}"
                refused.append(WriteRefused(change, failure, external_change=not is_rate_before, found=rate, late=late))
            else:
                self._late_reads.pop(side, None)
        return refused

    def filter_unchanged(self, changes: Collection[SetRate]) -> list[SetRate]:
        """Returns the changes whose sides still have the expected rate. Call it after the journal was written, which takes time."""
        try:
            rates = self._throttles.read_rates([(change.broker, change.side) for change in changes])
        except ClusterError:
            return []
        return [c for c in changes if rates[(c.broker, c.side)] == self._expected_rate((c.broker, c.side))]

    def _expected_rate(self, side: BrokerSide) -> int | None:
        """Returns the rate that should be set on the broker itself; None if the broker inherits its rate."""
        return self._current[side] if self._is_set_on_broker[side] else None

    def _differs(self, side: BrokerSide, rate: int | ClusterError | None) -> bool:
        return not isinstance(rate, ClusterError) and rate != self._expected_rate(side)

    def write(self, changes: Collection[SetRate]) -> dict[BrokerSide, Failure | None]:
        """Writes rates to Kafka. Returns the failure of each side; None if the rate was written."""
        rates: dict[BrokerSide, int | None] = {(c.broker, c.side): c.setpoint_bytes_per_s for c in changes}
        failures = self._throttles.write_rates(rates) if rates else {}
        for change in changes:
            side = (change.broker, change.side)
            if failures[side] is None:
                self._before_write[side] = self._expected_rate(side)
                self._current[side], self._is_set_on_broker[side] = change.setpoint_bytes_per_s, True
                self._written.add(side)
        return failures

    def _capacity(self, broker: int) -> Capacity | None:
        """Returns the broker's capacity in the settings: always the same object, so that the law recognizes unchanged inputs."""
        if broker not in self._capacities:
            self._capacities[broker] = self._capacity_of(broker)
        return self._capacities[broker]


def writes_per_tick_max(writes_per_s_max: float) -> int:
    """Returns the maximum number of writes in one second of the law: at least one, because otherwise no rate would ever change."""
    return max(1, int(writes_per_s_max * TICK_EVERY_S))


def most_urgent_changes(
    rates: Mapping[BrokerSide, int],
    state: ControlState,
    current: Mapping[BrokerSide, int],
    is_set_on_broker: Mapping[BrokerSide, bool],
    held: Collection[BrokerSide],
    changes_max: int,
) -> list[SetRate]:
    """Returns the rate changes that lead to the law's ``rates``, the most urgent first.

    Args:
        is_set_on_broker: whether the current rate is set on the broker itself; True for a side without an entry.
        held: sides whose rate may only be lowered.
        changes_max: maximum number of changes; further changes wait for the next second.
    """
    if held:
        rates = {side: _decayed_rate(side, state, current) if side in held else rate for side, rate in rates.items()}
    differing = [(side, rate) for side, rate in rates.items() if rate != current[side]]
    urgent = nlargest(changes_max, differing, key=lambda target: _urgency(current[target[0]], target[1]))
    return [_change(side, rate, state, current[side], is_set_on_broker.get(side, True)) for side, rate in urgent]


def _decayed_rate(side: BrokerSide, state: ControlState, current: Mapping[BrokerSide, int]) -> int:
    """Returns the rate of a held side: its setpoint without window compensation, but at most the current rate."""
    return min(current[side], round(state.side_states[side].setpoint.rate_bytes_per_s))


def _change(side: BrokerSide, rate: int, state: ControlState, current: int, is_set_on_broker: bool) -> SetRate:
    setpoint, estimate = state.side_states[side].setpoint.rate_bytes_per_s, state.broker_estimates.get(side[0])
    text = f"{side_name(side)} {rate_text(current)} → {rate_text(rate)}: setpoint {rate_text(setpoint)}"
    if estimate is not None and estimate.latency_limit is not None:
        text += f", because {estimate.latency_limit.text}"
    return SetRate(*side, current, rate, Reason.FOLLOWS_CLIENTS, text, is_set_on_broker)


def _urgency(current_bytes_per_s: int, setpoint_bytes_per_s: int) -> tuple[bool, float]:
    """Returns the sort key of a change; the highest key comes first.

    Changes that lower a rate come first, because they protect clients. Among the others, the larger relative change comes first.
    """
    difference = abs(setpoint_bytes_per_s - current_bytes_per_s)
    return setpoint_bytes_per_s < current_bytes_per_s, difference / max(current_bytes_per_s, setpoint_bytes_per_s)
