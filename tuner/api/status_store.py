"""The last cycle, held for whoever asks over HTTP. Written by the loop's thread, read by the server's."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from operator import attrgetter, itemgetter
from typing import Any

from streaming.shared import start_time
from streaming.shared.contract import MoveSignal, Side
from streaming.shared.thread_watch import ThreadWatch
from tuner.control.throttle import signal_age
from tuner.control.throttle.decision import (
    Acted,
    AddPairs,
    ClearLists,
    Decision,
    Reason,
    RemovePairs,
    SetRate,
    action_of,
)
from tuner.control.throttle.isr_recovery import find_lost_replicas
from tuner.control.throttle.objective import Capacity, Objective
from tuner.control.throttle.orphaned_throttles import count_orphaned_settings
from tuner.control.throttle.rescue_rate import is_infeasible
from tuner.control.throttle.signal_age import SignalAges
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide, ClusterUnreadable, LiveCluster, Observation
from tuner.core.drain_time import SideLoad
from tuner.core.freshness import Freshness, freshness
from tuner.core.operator_orders import Orders
from tuner.core.partition_limits import PartitionLimits
from tuner.core.throttle_limits import Limits
from tuner.journal.entries import entry_of
from tuner.journal.event_lines import event_text, group_by_event

LAST_DECISIONS = 50
_GROUPED_MAX = 500  # New decisions of a cycle, of which those of one event are one line.
THROTTLES, MUTATION_QUOTAS, PLANS = CONTROLLERS = ("throttles", "mutation_quotas", "plans")
FAILURES_IN_A_ROW_MAX = 3  # From so many on the tuner is not ready: it does not control the throttles.
LOG_REPEAT_S = 60.0
_SAMPLED_AT_MS = attrgetter("sampled_at_ms")
STANDBY_REASON = "standing by: another tuner of this cluster has the lease, or it is just being given"


class StatusStore:
    def __init__(
        self,
        cluster: str,
        limits: Limits,
        *,
        dry_run: bool,
        dry_run_by_default: bool = False,
        wall_clock: Callable[[], float],
        objective: Objective | None = None,
        capacity: Capacity | None = None,
        capacity_by_broker: Mapping[int, Capacity] | None = None,
        partition_limits: PartitionLimits | None = None,
        partitions_named_max: int = 0,
    ) -> None:
        """
        Args:
            dry_run_by_default: the settings do not say ``dry_run``.
            objective, capacity, capacity_by_broker, partition_limits: what the operator has said of these, shown beside what is.
            partitions_named_max: of how many moving partitions, the largest, the metrics name each.
        """
        self.cluster = cluster
        self.limits = limits
        self.dry_run = dry_run
        self.dry_run_by_default = dry_run_by_default
        self.objective = objective
        self.capacity = capacity  # Of all brokers that are not named.
        self.capacity_by_broker = capacity_by_broker or {}
        self.partition_limits = partition_limits
        self.partitions_named_max = partitions_named_max
        self._wall_clock = wall_clock
        self._lock = threading.Lock()
        self._observation: Observation | None = None
        self._signal_ages = SignalAges()
        self._memory = Memory()
        self._wanted: dict[tuple[int, Side], int] = {}
        self._last: deque[dict[str, Any]] = deque(maxlen=LAST_DECISIONS)
        self._said: dict[object, str] = {}
        self.decisions: Counter[tuple[str, str]] = Counter()
        self._decided: tuple[Decision, ...] = ()
        self._cluster_seen_at_ms: int | None = None
        self.actuations = 0
        self.failures = 0
        self.cycle_s = 0.0
        self.cycled_at_s: float | None = None
        self._acts_since_s: float | None = None
        self.acting = False
        self._waits_for = STANDBY_REASON
        self.suspended_controllers: dict[
            str, str
        ] = {}  # Controllers beside the throttles that rest after an error, by name, and why.
        self.cycle_failures: Counter[str] = Counter(
            dict.fromkeys(CONTROLLERS, 0)
        )  # By controller, since the process began.
        # By topic: how many of its records could not be read.
        self.refused: dict[str, Callable[[], int]] = dict.fromkeys(("signals", "orders"), lambda: 0)
        self._told_failures: dict[str, tuple[str, float]] = {}  # By controller: what was logged last, and when.
        self._failures_in_a_row = 0  # Of the throttles' cycles and the steps between them.
        self._failed_why: str | None = None
        self._looped_at_s: float | None = None  # When a cycle ended last, well or not.
        self.threads = ThreadWatch()  # None is watched, unless the process says which.

    # -- the loop's side ----------------------------------------------------------------------------------------------

    def become_active(self) -> None:
        self._acts_since_s = self._wall_clock()
        self.acting = True
        self.suspended_controllers.clear()
        self.reset_failures()

    def become_standby(self, waits_for: str | None = None) -> None:
        """What was seen last is somebody else's to tell from now on.

        Args:
            waits_for: what it waits for, where it is not the lease alone.
        """
        with self._lock:
            self._waits_for = waits_for or STANDBY_REASON
            self.acting, self._observation, self.cycled_at_s, self._looped_at_s = False, None, None, None
            self.suspended_controllers.clear()
            self.reset_failures()
            self._signal_ages, self._acts_since_s = SignalAges(), None
            self._wanted, self._memory, self._decided, self._cluster_seen_at_ms = {}, Memory(), (), None

    def record_cycle(self, observation: Observation, memory: Memory, decisions: tuple[Decision, ...]) -> None:
        newest_ms = max(map(_SAMPLED_AT_MS, observation.brokers.values()), default=None)
        with self._lock:
            self._observation, self._memory, self._decided = observation, memory, decisions
            self._signal_ages = signal_age.record_age(
                self._signal_ages, newest_ms, observation.now_ms, self.limits.signal_age_s_max
            )
            if isinstance(observation.live, LiveCluster):
                self._cluster_seen_at_ms = observation.now_ms
            self.cycled_at_s = self._looped_at_s = self._wall_clock()
            wanted = {(d.broker, d.side): d.setpoint_bytes_per_s for d in decisions if isinstance(d, SetRate)}
            meant = {side: round(course.bytes_per_s) for side, course in observation.setpoints.items()}
            self._wanted = {s: rate for s, rate in self._wanted.items() if s in observation.ramping} | wanted | meant
            new: list[Decision] = []
            # Of thousands of decisions nearly all are of one kind: the kinds are counted here, and each is named once.
            kinds: dict[tuple[type, Reason], tuple[Decision, int]] = {}
            said: dict[object, str] = {}
            for decision in decisions:
                kind = (type(decision), decision.reason)
                some = kinds.get(kind)
                kinds[kind] = (decision, 1) if some is None else (some[0], some[1] + 1)
                subject: object
                if isinstance(decision, ClearLists | AddPairs | RemovePairs):
                    subject = (None, None, decision.topic)
                else:
                    subject = (decision.broker, decision.side, None)
                said[subject] = decision.text
                if self._said.get(subject) != decision.text:
                    new.append(decision)
            self._said = said  # Of this cycle alone: topics and brokers come and go for as long as a tuner runs.
            for decision, count in kinds.values():
                self.decisions[(action_of(decision), decision.reason.value)] += count
            told = [entry_of("", decision, observation.now_ms) for decision in new[-_GROUPED_MAX:]]
            self._last.extend(
                {"at_ms": some[0].at_ms, "action": some[0].action, "reason": some[0].reason, "text": event_text(some)}
                for some in group_by_event(told)[-LAST_DECISIONS:]
            )

    def record_actions(self, acts: Sequence[Acted]) -> None:
        with self._lock:
            self.actuations += len(acts)
            self.failures += sum(failure is not None for _, failure in acts)

    def cycle_failed(self, controller: str, why: str, now_s: float) -> bool:
        """Count an error of a controller (one of ``CONTROLLERS``). Returns whether the log is to tell it.

        The log tells each error once, and again after ``LOG_REPEAT_S``: a cycle may fail every second.

        Args:
            now_s: of the monotonic clock.
        """
        self.cycle_failures[controller] += 1
        if controller == THROTTLES:
            self._failures_in_a_row += 1
            self._failed_why = why
            self._looped_at_s = self._wall_clock()
        before, told_at_s = self._told_failures.get(controller, ("", 0.0))
        if why == before and now_s < told_at_s + LOG_REPEAT_S:
            return False
        self._told_failures[controller] = why, now_s
        return True

    def reset_failures(self) -> None:
        """Forget the errors of the throttles' cycles: one has gone well, and so have the steps before it."""
        self._failures_in_a_row, self._failed_why = 0, None

    # -- the reader's side --------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        return round(self._wall_clock() * 1000)

    def silent_s(self) -> float:
        """Since a cycle has ended, well or not, or since the first one could begin; 0 while it is another's turn."""
        ended_s, acts_s = self._looped_at_s, self._acts_since_s
        since_s = ended_s if ended_s is not None else acts_s
        return 0.0 if since_s is None else self._wall_clock() - since_s

    def ready(self) -> tuple[bool, str]:
        """Whether the tuner sees what it needs, and if not, what is missing; also what else is not well."""
        sees, _, why = self._check_readiness()
        failed = [f"{self._failures_in_a_row} in a row: {self._failed_why}"] if self._failed_why is not None else []
        return sees and not self._fails, "; ".join(
            [why, *failed, *self.suspended_controllers.values(), *self.threads.complaints()]
        )

    def public_readiness(self) -> tuple[bool, str]:
        """As ``ready`` for those who have shown no token: without names of hosts and without texts of errors."""
        sees, why, _ = self._check_readiness()
        also = {
            "a cycle has failed": self._failed_why is not None,
            "a controller rests after an error": bool(self.suspended_controllers),
            "a thread has ended by an error": bool(self.threads.count),
        }
        return sees and not self._fails, "; ".join([why, *(text for text, holds in also.items() if holds)])

    @property
    def is_standby(self) -> bool:
        """Whether nothing but the lease keeps this tuner from acting."""
        return not self.acting and self._waits_for == STANDBY_REASON

    @property
    def _fails(self) -> bool:
        return self._failures_in_a_row >= FAILURES_IN_A_ROW_MAX

    def _check_readiness(self) -> tuple[bool, str, str]:
        """Whether it sees what it needs; what is missing, for everybody; and the same with hosts and errors, for who may read."""
        if self.is_standby:
            return False, STANDBY_REASON, STANDBY_REASON
        if not self.acting:
            return False, "it cannot act yet", self._waits_for
        with self._lock:
            seen, ages = self._observation, self._signal_ages
        if seen is None:
            why = "the first cycle has not ended yet"
            return False, why, why
        if isinstance(seen.live, ClusterUnreadable):
            return False, "the cluster is not seen", f"the cluster is not seen: {seen.live.reason}"
        now_ms, age_s_max = self.now_ms(), self.limits.signal_age_s_max
        if ages.sampled_at_ms is None:
            why = self._no_signal()
            return False, why, why
        late = signal_age.explain_stale_signal(ages, now_ms, age_s_max)
        if not signal_age.is_ready(ages, now_ms, age_s_max):
            why = f"{late}: are the collector and the stream running?"
            return False, why, why
        if late is not None:
            why = f"ready; {late}: no rate is raised until a newer one comes"
            return True, why, why
        return True, "ready", "ready"

    def _no_signal(self) -> str:
        """Why there is no signal: the stream still starts, or something is wrong."""
        acts_since_s = self._acts_since_s
        waited_s = self._wall_clock() - acts_since_s if acts_since_s is not None else 0.0
        if waited_s <= start_time.LONGEST_S:
            return (
                "starting: no broker signal has arrived yet; the stream takes about "
                f"{start_time.USUAL} to start, {max(0.0, waited_s):.0f} s so far"
            )
        return f"no broker signal has arrived yet, in {waited_s:.0f} s: are the collector and the stream running?"

    def snapshot(self) -> CycleResult:
        with self._lock:
            return CycleResult(
                self.limits,
                self._observation,
                self._memory,
                dict(self._wanted),
                list(self._last),
                dict(self.decisions.items()),
                self.failures,
                self._decided,
                self.actuations,
                self._cluster_seen_at_ms,
            )


class CycleResult:
    """One consistent picture. What is worked out of it is worked out once: there is a question for each broker."""

    def __init__(
        self,
        limits: Limits,
        observation: Observation | None,
        memory: Memory,
        setpoints: dict[BrokerSide, int],
        last_decisions: list[dict[str, Any]],
        decisions: dict[tuple[str, str], int],
        failures: int,
        decided: tuple[Decision, ...] = (),
        actuations: int = 0,
        cluster_seen_at_ms: int | None = None,
    ) -> None:
        self.limits = limits
        self.decided = decided  # By the last cycle.
        self.actuations = actuations
        self.cluster_seen_at_ms = cluster_seen_at_ms
        self.decisions = decisions
        self.failures = failures
        self.observation = observation
        self.memory = memory
        self.setpoints = setpoints
        self.last_decisions = last_decisions
        self._moves: dict[BrokerSide, MoveSignal] | None = None
        self._loads: dict[BrokerSide, SideLoad] | None = None

    @property
    def live(self) -> LiveCluster | None:
        live = self.observation.live if self.observation is not None else None
        return live if isinstance(live, LiveCluster) else None

    def orphaned_settings(self) -> int:
        """Rates and lists that serve no move."""
        live = self.live
        return count_orphaned_settings(live, self.memory, self.limits) if live is not None else 0

    def recovering_partitions(self) -> int:
        live = self.live
        return sum(bool(find_lost_replicas(move, live)) for move in live.moves) if live is not None else 0

    def moves(self) -> dict[BrokerSide, MoveSignal]:
        """What is measured of moves now. When the last has ended no newer signal comes, and the last one is history."""
        if self._moves is None:
            seen = self.observation
            moves = seen.moves.items() if seen is not None else ()
            now_ms, age_s_max = seen.now_ms if seen is not None else 0, self.limits.signal_age_s_max
            self._moves = {side: s for side, s in moves if freshness(s, now_ms, age_s_max) is Freshness.FRESH}
        return self._moves

    def destinations(self) -> dict[int, MoveSignal]:
        """What is measured of the moves, by destination; a measurement that comes after the last has ended is history."""
        if self.live is not None and not self.live.moves:
            return {}
        onto = {b: s for (b, side), s in self.moves().items() if side is Side.FOLLOWER and s.moving_partitions}
        return dict(sorted(onto.items(), key=itemgetter(0)))

    def stalled_brokers(self) -> list[int]:
        return sorted(b for b, state in self.memory.stalls.items() if state.stalled)

    def loads(self) -> dict[BrokerSide, SideLoad]:
        if self._loads is None:
            self._loads = {
                side: SideLoad(signal.remaining_bytes, signal.steady_state_bytes_per_s)
                for side, signal in self.moves().items()
                if signal.remaining_bytes is not None and signal.steady_state_bytes_per_s is not None
            }
        return self._loads

    def infeasible(self, side: BrokerSide) -> bool:
        load, live = self.loads().get(side), self.live
        setting = live.rates.get(side) if live is not None else None
        return load is not None and setting is not None and is_infeasible(setting.bytes_per_s, load, self.limits)

    def as_json(self) -> dict[str, Any]:
        live = self.live
        orders = self.observation.orders if self.observation is not None else Orders()
        return {
            "reassigning_partitions": len(live.moves) if live is not None else None,
            "throttles": [
                {
                    "broker": broker,
                    "side": side.value,
                    "current_rate_bytes_per_s": setting.bytes_per_s,
                    "setpoint_bytes_per_s": self.setpoints.get((broker, side)),
                    "managed": (broker, side) in self.memory.owned,
                }
                for (broker, side), setting in sorted(live.rates.items() if live is not None else ())
            ],
            "moves": [
                {
                    "broker": broker,
                    "side": side.value,
                    "moving_partitions": signal.moving_partitions,
                    "remaining_bytes": signal.remaining_bytes,
                    "remaining_slope_bytes_per_s": signal.remaining_slope_bytes_per_s,
                    "steady_state_bytes_per_s": signal.steady_state_bytes_per_s,
                    "sampled_at_ms": signal.sampled_at_ms,
                }
                for (broker, side), signal in sorted(self.moves().items())
            ],
            "stalled": self.stalled_brokers(),
            "paused": asdict(orders.pause) if orders.pause is not None else None,
            "overrides": [
                {"broker": broker, "side": side.value, **asdict(order)}
                for (broker, side), order in sorted(orders.overrides.items())
            ],
            "last_decisions": self.last_decisions,
        }
