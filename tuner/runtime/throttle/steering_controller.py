"""The sides that the law steers: which they are, what stands on each, and what is to be written in the next second.

Between two cycles the law is asked once a second. It sees the newest signals and what we left on each side; what it wants
written is checked against the cluster before, as somebody else may have spoken meanwhile. Of more writes than the budget
allows those go first that are furthest off, the others with the next second.

A side that is *held*, because its signals are old, is taken no higher than it stands, and sinks as the law lets it sink.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from streaming.shared.contract import BrokerSignal, MoveSignal
from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.units import rate_text
from tuner.control.throttle.decision import Reason, SetRate
from tuner.control.throttle.objective import Capacity, LawLimits, Objective
from tuner.control.throttle.steering.law import control_step
from tuner.control.throttle.steering.state import ControlInput, ControlState
from tuner.core.cluster import BrokerSide, Setpoint, side_name
from tuner.core.outcome import Failure
from tuner.journal.input_log import InputLog
from tuner.runtime.throttle.actuator import Throttles

TICK_EVERY_S = 1.0
NO_RATES: Mapping[BrokerSide, int] = {}
_LATES_MAX = (
    10  # So many seconds in a row a broker may show what stood before our last write; then it has not taken it.
)


@dataclass(frozen=True, slots=True)
class WriteRefused:
    """A write that cannot be made, because what stands there is not what we left, or cannot be read."""

    decision: SetRate
    failure: Failure
    external_change: bool = False
    found: int | None = None
    late: bool = False  # What stood before our last write still shows: to be asked again in a second.


class SteeringController:
    def __init__(
        self,
        throttles: Throttles,
        objective: Objective,
        capacity_of: Callable[[int], Capacity],
        limits: LawLimits,
        *,
        writes_per_s_max: float,
        inputs: InputLog | None = None,
    ) -> None:
        """``inputs`` is told of every second."""
        self._throttles = throttles
        self._objective = objective
        self._capacity_of = capacity_of
        self._limits = limits
        self._writes_max = writes_max(writes_per_s_max)
        self._inputs = inputs
        self._memory = ControlState()
        self._capacities: dict[int, Capacity] = {}
        self._stands: dict[BrokerSide, int] = {}
        self._own: dict[BrokerSide, bool] = {}
        self._held: frozenset[BrokerSide] = frozenset()
        self._written: set[BrokerSide] = set()
        self._before: dict[BrokerSide, int | None] = {}  # What stood before our last write.
        self._lates: dict[BrokerSide, int] = {}
        self._quota_samples = limits.quota_samples
        self._stalled: frozenset[BrokerSide] = frozenset()
        self._recovering: frozenset[BrokerSide] = frozenset()
        self._ours: dict[BrokerSide, int] = {}
        self._most: dict[BrokerSide, float] = {}
        self._due_s: float | None = None

    @property
    def courses(self) -> dict[BrokerSide, Setpoint]:
        """What the law meant for each side when it was last asked."""
        found = {}
        for side in self._stands:
            course = self._memory.side_states.get(side)
            if course is not None:
                found[side] = Setpoint(
                    course.setpoint.rate_bytes_per_s, course.setpoint.infeasible, course.inputs_stale
                )
        return found

    def steer(
        self,
        free: Mapping[BrokerSide, tuple[int, bool]],
        held: Mapping[BrokerSide, tuple[int, bool]],
        quota_samples: Mapping[int, int],
        now_s: float,
        *,
        stalled: frozenset[BrokerSide] = frozenset(),
        recovering: frozenset[BrokerSide] = frozenset(),
        ours: Mapping[BrokerSide, int] = NO_RATES,
        most: Mapping[BrokerSide, int] = NO_RATES,
    ) -> None:
        """A cycle's word on what may be steered until the next.

        Args:
            free: what stands there, and whether it is set on the broker itself.
            held: the same of sides that may only sink.
            quota_samples: replication.quota.window.num, by broker.
            stalled, recovering: as control/throttle/isr_recovery.py tells them.
            ours: of the sides that we have written, what stood before, in bytes/s.
            most: what plans allow the sides that they copy through, in bytes/s.
        """
        given = {**held, **free}
        # A broker may show our last write late; what we left there is newer. Where we wrote nothing, what stands there does.
        self._written &= given.keys()
        self._stands = {s: self._stands[s] if s in self._written else stands for s, (stands, _) in given.items()}
        self._own = {side: side in self._written or own for side, (_, own) in given.items()}
        self._held = frozenset(held)
        self._stalled, self._recovering = stalled, recovering
        self._ours = {side: before for side, before in ours.items() if side in given}
        ceiling = self._limits.rate_bytes_per_s_max
        self._most = {side: float(rate) for side, rate in most.items() if side in given and rate < ceiling}
        # In the middle of a rolling restart brokers may differ; the law's play around what is meant is bounded either way.
        self._quota_samples = max(quota_samples.values(), default=self._limits.quota_samples)
        if not self._stands:
            # What was learned of the brokers outlives a look that failed.
            self._memory, self._due_s = replace(self._memory, side_states={}), None
        elif self._due_s is None:
            self._due_s = now_s

    def drop(self, side: BrokerSide) -> None:
        """Lets go of one side, until a cycle gives it back."""
        self._stands.pop(side, None)
        self._written.discard(side)

    def next_due_s(self) -> float | None:
        return self._due_s

    def turn(
        self,
        now_s: float,
        now_ms: int,
        brokers: Mapping[int, BrokerSignal],
        moves: Mapping[BrokerSide, MoveSignal],
        planned: Collection[BrokerSide] = (),
    ) -> list[SetRate]:
        """What the law wants written now; nothing before a second has gone by since it was last asked.

        Args:
            planned: sides where plans still have something to begin.
        """
        if self._due_s is None or now_s < self._due_s:
            return []
        # A second that was missed is not made up for: the law looks at the clock itself.
        self._due_s = max(self._due_s + TICK_EVERY_S, now_s + TICK_EVERY_S / 2)
        view = ControlInput(
            now_ms,
            brokers,
            moves,
            self._stands,
            {b: self._capacity(b) for b in {*brokers, *(broker for broker, _ in self._stands)}},
            stalled_sides=self._stalled,
            recovering_sides=self._recovering,
            restore_rates=self._ours,
            planned_sides=frozenset(planned),
            max_rates=self._most,
        )
        limits = replace(self._limits, quota_samples=self._quota_samples)
        before = self._memory
        self._memory, rates = control_step(view, before, self._objective, limits)
        changes = changes_of(rates, self._memory, self._stands, self._own, self._held, self._writes_max)
        if self._inputs is not None:
            self._inputs.record_steering_tick(view, self._held, self._quota_samples, before, self._memory, changes)
        return changes

    def refused(self, changes: Collection[SetRate]) -> list[WriteRefused]:
        """Those of ``changes`` that cannot be made, and why."""
        sides = [(change.broker, change.side) for change in changes]
        try:
            found = self._throttles.read_rates(sides)
            # A broker under load may show our last write late: only what still stands there after a while is somebody's.
            other = {side: self._left(side) for side in sides if self._differs(side, found[side])}
            if other:
                self._throttles.confirm_rates(other)
                found |= self._throttles.read_rates(other)
        except ClusterError as error:
            return [WriteRefused(change, str(error)) for change in changes]
        refused = []
        for change in changes:
            side = (change.broker, change.side)
            left, value = self._left(side), found[side]
            if isinstance(value, ClusterError):
                refused.append(WriteRefused(change, str(value)))
            elif value != left:
                before = side in self._written and value == self._before.get(side)
                self._lates[side] = self._lates.get(side, 0) + 1 if before else 0
                late = before and self._lates[side] <= _LATES_MAX
                stands = "nothing" if value is None else f"{value} bytes/s"
                failure = f"{left} bytes/s was left there, {stands} stands there now"
                refused.append(WriteRefused(change, failure, external_change=not before, found=value, late=late))
            else:
                self._lates.pop(side, None)
        return refused

    def still_free(self, changes: Collection[SetRate]) -> list[SetRate]:
        """Those whose sides stand as we left them at this moment; the journal may have taken its time since the last look."""
        try:
            found = self._throttles.read_rates([(change.broker, change.side) for change in changes])
        except ClusterError:
            return []
        return [c for c in changes if found[(c.broker, c.side)] == self._left((c.broker, c.side))]

    def _left(self, side: BrokerSide) -> int | None:
        return self._stands[side] if self._own[side] else None

    def _differs(self, side: BrokerSide, value: int | ClusterError | None) -> bool:
        return not isinstance(value, ClusterError) and value != self._left(side)

    def write(self, changes: Collection[SetRate]) -> dict[BrokerSide, Failure | None]:
        wanted: dict[BrokerSide, int | None] = {(c.broker, c.side): c.setpoint_bytes_per_s for c in changes}
        answers = self._throttles.write_rates(wanted) if wanted else {}
        for change in changes:
            side = (change.broker, change.side)
            if answers[side] is None:
                self._before[side] = self._left(side)
                self._stands[side], self._own[side] = change.setpoint_bytes_per_s, True
                self._written.add(side)
        return answers

    def _capacity(self, broker: int) -> Capacity:
        """The same object every second: what does not change is not looked at again."""
        if broker not in self._capacities:
            self._capacities[broker] = self._capacity_of(broker)
        return self._capacities[broker]


def writes_max(writes_per_s_max: float) -> int:
    """So many in one second of the law; one at least, or nothing would ever change."""
    return max(1, int(writes_per_s_max * TICK_EVERY_S))


def changes_of(
    rates: Mapping[BrokerSide, int],
    memory: ControlState,
    stands: Mapping[BrokerSide, int],
    own: Mapping[BrokerSide, bool],
    held: Collection[BrokerSide],
    most: int,
) -> list[SetRate]:
    """What is to be written of the law's ``rates``, the most urgent first.

    Args:
        own: whether what stands is set on the broker itself; where it is not said, it is.
        held: sides that may only sink.
        most: so many at most; the others come with the next second.
    """
    wanted = {side: _sunk(side, memory, stands) if side in held else rate for side, rate in rates.items()}
    other = [(side, rate) for side, rate in wanted.items() if rate != stands[side]]
    other.sort(key=lambda change: _urgency(stands[change[0]], change[1]), reverse=True)
    return [_change(side, rate, memory, stands[side], own.get(side, True)) for side, rate in other[:most]]


def _sunk(side: BrokerSide, memory: ControlState, stands: Mapping[BrokerSide, int]) -> int:
    """For a side that nobody sees: what is meant, without the play that the quota's window is given."""
    return min(stands[side], round(memory.side_states[side].setpoint.rate_bytes_per_s))


def _change(side: BrokerSide, rate: int, memory: ControlState, stands: int, own: bool) -> SetRate:
    text = (
        f"{side_name(side)} {rate_text(stands)} → {rate_text(rate)}: "
        f"{rate_text(memory.side_states[side].setpoint.rate_bytes_per_s)} is meant"
    )
    return SetRate(*side, stands, rate, Reason.FOLLOWS_CLIENTS, text, own)


def _urgency(current_bytes_per_s: int, setpoint_bytes_per_s: int) -> tuple[bool, float]:
    """What clients need comes before what the move would like; then what is furthest off."""
    apart = abs(setpoint_bytes_per_s - current_bytes_per_s)
    return setpoint_bytes_per_s < current_bytes_per_s, apart / max(current_bytes_per_s, setpoint_bytes_per_s)
