"""The state of the last cycle, for the API and the metrics. The loop writes it, the server reads it."""

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
from streaming.shared.units import count_text
from tuner.control.throttle import signal_age
from tuner.control.throttle.decision import (
    AddPairs,
    ClearLists,
    Decision,
    ExecutedDecision,
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
from tuner.core.partition_limits import InternalPartitions, PartitionLimits
from tuner.core.throttle_limits import ThrottleLimits
from tuner.journal.entries import entry_of
from tuner.journal.event_lines import event_text, group_by_event
from tuner.settings.schedule_periods import SettingsPeriod

RECENT_EVENTS_MAX = 50
_GROUPED_MAX = 200  # At most this many new decisions of a cycle are grouped by event for the list of last decisions.
THROTTLES, MUTATION_QUOTAS, PLANS, LOG_DIRS, CORDONS = "throttles", "mutation_quotas", "plans", "log_dirs", "cordons"
REPLICATION_LAG, CRUISE_CONTROL, LEADERSHIP = "replication_lag", "cruise_control", "leadership"
CONTROLLERS = (THROTTLES, MUTATION_QUOTAS, PLANS, LOG_DIRS, CORDONS, REPLICATION_LAG, CRUISE_CONTROL, LEADERSHIP)
# After this many failed cycles in a row the tuner is not ready, as it does not control the throttles.
FAILURES_IN_A_ROW_MAX = 3
LOG_REPEAT_S = 60.0
_SAMPLED_AT_MS = attrgetter("sampled_at_ms")
STANDBY_REASON = "standing by: another tuner of this cluster has the lease, or the lease is just being assigned"


class StatusStore:
    """Holds the last cycle, counters, and readiness. Thread-safe."""

    def __init__(
        self,
        cluster: str,
        limits: ThrottleLimits,
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
            dry_run_by_default: the dry run is the default, as the settings do not contain ``dry_run``.
            objective, capacity, capacity_by_broker, partition_limits: the operator's settings, exported next to measured values.
            partitions_named_max: the number of moving partitions, the largest first, that get metrics of their own.
        """
        self.cluster = cluster
        self.limits = limits
        self.dry_run = dry_run
        self.dry_run_by_default = dry_run_by_default
        self.objective = objective
        self.capacity = capacity  # The default, for brokers that ``capacity_by_broker`` does not name.
        self.capacity_by_broker = capacity_by_broker or {}
        self.partition_limits = partition_limits
        # Returns the partitions that no partition limit counts.
        self.read_internal: Callable[[], InternalPartitions] = InternalPartitions
        self.schedule: SettingsPeriod | None = None  # The rules that apply; None if the settings have no rules.
        self.partitions_named_max = partitions_named_max
        self._wall_clock = wall_clock
        self._lock = threading.Lock()
        self._observation: Observation | None = None
        self._signal_ages = SignalAges()
        self._memory = Memory()
        self._setpoints: dict[tuple[int, Side], int] = {}
        self._recent_events: deque[dict[str, Any]] = deque(maxlen=RECENT_EVENTS_MAX)
        self._texts: dict[object, str] = {}  # The last cycle's decisions, by side or topic.
        self.decision_counts: Counter[tuple[str, str]] = Counter()
        self._cycle_decisions: tuple[Decision, ...] = ()
        self._cluster_seen_at_ms: int | None = None
        self.actuations = 0
        self.failures = 0
        self.cycle_s = 0.0  # Duration of the last cycle.
        # When the last successful cycle ended; None if no cycle has ended since this tuner became active.
        self.cycled_at_s: float | None = None
        self._active_since_s: float | None = None
        self._standby_at_s: float | None = None  # When the standby last asked for the lease, or said why it cannot.
        self.active = False
        self._waiting_for = STANDBY_REASON  # Why this tuner does not act; not used while it acts.
        # The controllers of quotas or plans that pause after an error, by name; the value is the reason.
        self.suspended_controllers: dict[str, str] = {}
        self.cycle_failures: Counter[str] = Counter(dict.fromkeys(CONTROLLERS, 0))  # Since the start of the process.
        # By topic: a function that returns the number of unreadable records.
        self.refused: dict[str, Callable[[], int]] = dict.fromkeys(("signals", "orders", "profiles"), lambda: 0)
        self._logged_failures: dict[str, tuple[str, float]] = {}  # By controller: the last logged error and its time.
        self._failures_in_a_row = 0  # Failed throttle cycles and steering ticks.
        self._last_failure: str | None = None
        self._last_end_s: float | None = None  # The end of the last cycle, successful or not.
        self.threads = ThreadWatch()  # Empty; the process may set its own.

    # -- called by the loop ----------------------------------------------------------------------------------------------

    def become_active(self) -> None:
        """Records that this tuner holds the lease, or begins its dry run."""
        self._active_since_s = self._wall_clock()
        self.active = True
        self.suspended_controllers.clear()
        self.reset_failures()

    def become_standby(self, waiting_for: str | None = None) -> None:
        """Drops the state of the last cycle: this tuner no longer acts.

        Args:
            waiting_for: why the tuner cannot act; None if it lacks only the lease.
        """
        with self._lock:
            self._waiting_for = waiting_for or STANDBY_REASON
            self._standby_at_s = self._wall_clock()
            self.active, self._observation, self.cycled_at_s, self._last_end_s = False, None, None, None
            self.suspended_controllers.clear()
            self.reset_failures()
            self._signal_ages, self._active_since_s = SignalAges(), None
            self._setpoints, self._memory, self._cycle_decisions, self._cluster_seen_at_ms = {}, Memory(), (), None

    def record_cycle(self, observation: Observation, memory: Memory, decisions: tuple[Decision, ...]) -> None:
        newest_ms = max(map(_SAMPLED_AT_MS, observation.broker_signals.values()), default=None)
        with self._lock:
            self._observation, self._memory, self._cycle_decisions = observation, memory, decisions
            self._signal_ages = signal_age.record_age(
                self._signal_ages, newest_ms, observation.now_ms, self.limits.signal_age_s_max
            )
            if isinstance(observation.live, LiveCluster):
                self._cluster_seen_at_ms = observation.now_ms
            self.cycled_at_s = self._last_end_s = self._wall_clock()
            written = {(d.broker, d.side): d.setpoint_bytes_per_s for d in decisions if isinstance(d, SetRate)}
            steered = {side: round(setpoint.bytes_per_s) for side, setpoint in observation.setpoints.items()}
            # An earlier setpoint still holds while the rate ramps towards it.
            self._setpoints = (
                {s: rate for s, rate in self._setpoints.items() if s in observation.ramping} | written | steered
            )
            changed: list[Decision] = []  # Decisions whose text differs from the previous cycle's.
            # There may be thousands of decisions, and nearly all have the same type and reason. So the action is looked up once per
            # type and reason.
            examples: dict[tuple[type, Reason], Decision] = {}  # One decision of each kind.
            counts: Counter[tuple[type, Reason]] = Counter()
            texts: dict[object, str] = {}
            for decision in decisions:
                kind = (type(decision), decision.reason)
                examples[kind] = decision
                counts[kind] += 1
                subject: object
                if isinstance(decision, ClearLists | AddPairs | RemovePairs):
                    subject = (None, None, decision.topic)
                else:
                    subject = (decision.broker, decision.side, None)
                texts[subject] = decision.text
                if self._texts.get(subject) != decision.text:
                    changed.append(decision)
            self._texts = texts  # Only this cycle's texts, so that removed topics and brokers do not accumulate.
            for kind, decision in examples.items():
                self.decision_counts[(action_of(decision), decision.reason.value)] += counts[kind]
            entries = [entry_of("", decision, observation.now_ms) for decision in changed[-_GROUPED_MAX:]]
            self._recent_events.extend(
                {
                    "at_ms": event[0].at_ms,
                    "action": event[0].action,
                    "reason": event[0].reason,
                    "text": event_text(event),
                }
                for event in group_by_event(entries)[-RECENT_EVENTS_MAX:]
            )

    def record_actions(self, acts: Sequence[ExecutedDecision]) -> None:
        self.record_writes(len(acts), sum(failure is not None for _, failure in acts))

    def record_writes(self, count: int, failed: int) -> None:
        """Counts writes of throttles, and failed writes."""
        with self._lock:
            self.actuations += count
            self.failures += failed

    def cycle_failed(self, controller: str, why: str, now_s: float) -> bool:
        """Counts an error of a controller (one of ``CONTROLLERS``), and returns whether to log it.

        The same error is logged again only after ``LOG_REPEAT_S``, as a cycle may fail every second.

        Args:
            now_s: monotonic time.
        """
        self.cycle_failures[controller] += 1
        if controller == THROTTLES:
            self._failures_in_a_row += 1
            self._last_failure = why
            self._last_end_s = self._wall_clock()
        logged_why, logged_at_s = self._logged_failures.get(controller, ("", 0.0))
        if why == logged_why and now_s < logged_at_s + LOG_REPEAT_S:
            return False
        self._logged_failures[controller] = why, now_s
        return True

    def reset_failures(self) -> None:
        """Forgets the errors of throttle cycles, after a successful cycle."""
        self._failures_in_a_row, self._last_failure = 0, None

    # -- called by readers --------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        return round(self._wall_clock() * 1000)

    def silent_s(self) -> float:
        """Returns the seconds since the last cycle ended, or since this tuner became active.

        For a standby, these are the seconds since it last asked for the lease. Before its first request it is 0, as the tuner then
        waits for the cluster.
        """
        times_s = (self._last_end_s, self._active_since_s, self._standby_at_s)
        since_s = next((time_s for time_s in times_s if time_s is not None), None)
        return 0.0 if since_s is None else self._wall_clock() - since_s

    def ready(self) -> tuple[bool, str]:
        """Returns whether the tuner is ready, and a text that names what is missing, and other problems."""
        has_inputs, _, why = self._check_readiness()
        times = count_text(self._failures_in_a_row, "failure")
        failed = [f"{times} in a row: {self._last_failure}"] if self._last_failure is not None else []
        return has_inputs and not self._is_failing, "; ".join(
            [why, *failed, *self.suspended_controllers.values(), *self.threads.complaints()]
        )

    def public_readiness(self) -> tuple[bool, str]:
        """Returns readiness for callers without a token: without host names and error texts."""
        has_inputs, why, _ = self._check_readiness()
        problems = {
            "a cycle has failed": self._last_failure is not None,
            "a controller is suspended after an error": bool(self.suspended_controllers),
            "a thread has ended because of an error": bool(self.threads.count),
        }
        return has_inputs and not self._is_failing, "; ".join(
            [why, *(text for text, is_present in problems.items() if is_present)]
        )

    @property
    def is_standby(self) -> bool:
        """Whether only the missing lease keeps this tuner from acting."""
        return not self.active and self._waiting_for == STANDBY_REASON

    @property
    def stands_by(self) -> bool:
        """Whether this tuner has asked for the lease, and lacks nothing else."""
        return self.is_standby and self._standby_at_s is not None

    @property
    def _is_failing(self) -> bool:
        return self._failures_in_a_row >= FAILURES_IN_A_ROW_MAX

    def _check_readiness(self) -> tuple[bool, str, str]:
        """Returns whether all inputs are available, the public text, and the text with host names and errors."""
        if self.is_standby:
            return False, STANDBY_REASON, STANDBY_REASON
        if not self.active:
            return False, "the tuner cannot act yet", self._waiting_for
        with self._lock:
            observation, ages = self._observation, self._signal_ages
        if observation is None:
            why = "the first cycle has not ended yet"
            return False, why, why
        if isinstance(observation.live, ClusterUnreadable):
            return False, "the cluster cannot be read", f"the cluster cannot be read: {observation.live.reason}"
        now_ms, age_s_max = self.now_ms(), self.limits.signal_age_s_max
        if ages.sampled_at_ms is None:
            why = self._missing_signal_text()
            return False, why, why
        stale_text = signal_age.explain_stale_signal(ages, now_ms, age_s_max)
        if not signal_age.is_ready(ages, now_ms, age_s_max):
            why = f"{stale_text}: are the collector and the stream running?"
            return False, why, why
        if stale_text is not None:
            why = f"ready; {stale_text}: no rate is raised until a newer signal arrives"
            return True, why, why
        return True, "ready", "ready"

    def _missing_signal_text(self) -> str:
        """Returns why there is no signal: the stream is still starting, or something is wrong."""
        active_since_s = self._active_since_s
        waited_s = self._wall_clock() - active_since_s if active_since_s is not None else 0.0
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
                setpoints=dict(self._setpoints),
                recent_events=list(self._recent_events),
                decision_counts=dict(self.decision_counts),
                failures=self.failures,
                cycle_decisions=self._cycle_decisions,
                actuations=self.actuations,
                cluster_seen_at_ms=self._cluster_seen_at_ms,
            )


class CycleResult:
    """One consistent state of the last cycle. Derived values are computed once, as they are needed for each broker."""

    def __init__(
        self,
        limits: ThrottleLimits,
        observation: Observation | None,
        memory: Memory,
        setpoints: dict[BrokerSide, int],
        recent_events: list[dict[str, Any]],
        decision_counts: dict[tuple[str, str], int],
        failures: int,
        cycle_decisions: tuple[Decision, ...] = (),
        actuations: int = 0,
        cluster_seen_at_ms: int | None = None,
    ) -> None:
        self.limits = limits
        self.cycle_decisions = cycle_decisions
        self.actuations = actuations  # Writes of throttles since the start of the process.
        self.cluster_seen_at_ms = cluster_seen_at_ms  # The last time at which the cluster was read; epoch.
        self.decision_counts = decision_counts  # By action and reason, since the start of the process.
        self.failures = failures  # Failed writes of throttles since the start of the process.
        self.observation = observation
        self.memory = memory
        self.setpoints = setpoints
        self.recent_events = recent_events  # Changed decisions of the last cycles, grouped by event, as JSON values.
        self._moves: dict[BrokerSide, MoveSignal] | None = None
        self._loads: dict[BrokerSide, SideLoad] | None = None

    @property
    def live(self) -> LiveCluster | None:
        live = self.observation.live if self.observation is not None else None
        return live if isinstance(live, LiveCluster) else None

    def orphaned_settings(self) -> int:
        """Returns the number of orphaned throttle settings: rates and lists that no move needs."""
        live = self.live
        return count_orphaned_settings(live, self.memory, self.limits) if live is not None else 0

    def recovering_partitions(self) -> int:
        live = self.live
        return sum(bool(find_lost_replicas(move, live)) for move in live.moves) if live is not None else 0

    def moves(self) -> dict[BrokerSide, MoveSignal]:
        """Returns the fresh move signals. Old signals are ignored: after the last move, no newer signal replaces them."""
        if self._moves is None:
            observation = self.observation
            moves = observation.move_signals.items() if observation is not None else ()
            now_ms, age_s_max = observation.now_ms if observation is not None else 0, self.limits.signal_age_s_max
            self._moves = {side: s for side, s in moves if freshness(s, now_ms, age_s_max) is Freshness.FRESH}
        return self._moves

    def destinations(self) -> dict[int, MoveSignal]:
        """Returns the move signals by destination broker; empty if the cluster lists no move, even if a late signal arrives."""
        if self.live is not None and not self.live.moves:
            return {}
        signals = {b: s for (b, side), s in self.moves().items() if side is Side.FOLLOWER and s.moving_partitions}
        return dict(sorted(signals.items(), key=itemgetter(0)))

    def eta_ratios(self) -> Mapping[BrokerSide, float]:
        """Returns ``Observation.eta_ratios``."""
        return self.observation.eta_ratios if self.observation is not None else {}

    def signals_for_end(self, destinations: Mapping[int, MoveSignal]) -> list[MoveSignal]:
        """Returns the move signals that determine the expected end: of destinations, and of leaders whose rate will change."""
        if not destinations:
            return []
        moves = self.moves()
        leaders = (side for side in self.eta_ratios() if side[1] is Side.LEADER and side in moves)
        return [*destinations.values(), *map(moves.__getitem__, leaders)]

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
            "last_decisions": self.recent_events,
        }
