"""Evaluates the current measurements for `rheostat status`, with the tuner's own stall detector and API views.

The command cannot ask a tuner, because no tuner may run, or the tuner's port may be out of reach. Therefore the command evaluates
the same measurements as the tuner. It writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rheostat.config.settings import Settings
from rheostat.eta_forecasts import eta_forecasts
from tuner.api import views
from tuner.api.decision_rows import decision_json
from tuner.api.decisions import ENTRIES_MAX, DecisionFilter, DecisionStore
from tuner.api.history import RateHistoryStore, RemainingPeaks
from tuner.api.observers import CycleSnapshot
from tuner.api.sentences import (
    FORECAST_PARTITIONS_MAX,
    first_sentences,
    stall_warnings,
    steps_after_resume,
    unthrottled_moves_warning,
    upcoming_changes,
)
from tuner.api.status_snapshot import StatusSnapshot
from tuner.api.status_store import CycleResult
from tuner.control.throttle.decision import WITHOUT_WRITE, AllowSteering
from tuner.control.throttle.plan_moves import PlanMoves
from tuner.control.throttle.policy import decide
from tuner.control.throttle.rate_changes import track_rate_changes
from tuner.control.throttle.stall_states import judge_stalls
from tuner.control.throttle.state import Memory, RateSince, StallState
from tuner.control.throttle.view import MovesView
from tuner.core.cluster import BrokerSide, LiveCluster, Observation, Setpoint
from tuner.core.operator_orders import Orders
from tuner.core.presence import TunerMode
from tuner.core.throttle_limits import StallLimits
from tuner.journal.entries import Entry
from tuner.runtime.observe.signals_reader import SignalCache
from tuner.settings.tuner import TunerSettings

NO_PLANS: PlanMoves = {}
_RECENT_MS = 60_000  # An older decision without an outcome was left by a tuner that has crashed.
# The tuner counts as steering for this long after its last recorded steering tick: a tick that changes no rate is not recorded.
_STEERED_MS = 15_000


class StatusEvaluator:
    """Evaluates the measurements once, or again and again for ``--watch``.

    It keeps the stalls, the rate changes and the peak of remaining bytes between two evaluations.
    """

    def __init__(self, settings: Settings) -> None:
        """
        Args:
            settings: the settings of the file, without the changes of the schedule.
        """
        self.use(settings.tuner)
        self._eta_forecasts = eta_forecasts(settings)
        self._history = RateHistoryStore()
        self._stalls: Mapping[int, StallState] = {}
        self._rates_since: Mapping[BrokerSide, RateSince] = {}
        self._observations = 0

    def use(self, tuner: TunerSettings) -> None:
        """Evaluates with these settings from now on: the schedule may have changed them."""
        self._limits = tuner.limits()
        self._objective = tuner.control_objective()
        self._dry_run = tuner.dry_run

    def evaluate(
        self,
        live: LiveCluster,
        signals: SignalCache | None,
        orders: Orders,
        memory: Memory | None,
        now_ms: int,
        plan_moves: PlanMoves = NO_PLANS,
        rate_bytes_per_s_max: float | None = None,
        stalled_since_ms: Mapping[int, int] | None = None,
    ) -> StatusSnapshot:
        """Returns a status snapshot of the current measurements.

        Args:
            memory: the tuner's memory from the journal; None if unknown.
            plan_moves: the moves of rheostat's own plans.
            rate_bytes_per_s_max: the running tuner's maximum rate; None means the maximum rate in the settings.
            stalled_since_ms: destinations that the tuner calls stalled, with the latest possible start of the stall (epoch ms).
        """
        if rate_bytes_per_s_max is not None:
            self._limits = replace(self._limits, rate_bytes_per_s_max=rate_bytes_per_s_max)
        moves = dict(signals.moves) if signals is not None else {}
        observation = Observation(
            now_ms,
            live,
            broker_signals=dict(signals.brokers) if signals is not None else {},
            move_signals=moves,
            replication_signals=dict(signals.replication) if signals is not None else {},
            setpoints=self._setpoints(live),
            orders=orders,
            plan_moves=plan_moves,
            eta_ratios=self._eta_forecasts.ratios(moves, now_ms),
        )
        known_memory = replace(memory or Memory(), stalls=self._stalls)
        self._rates_since = track_rate_changes(observation, live, replace(known_memory, rates_since=self._rates_since))
        # The tuner does the same: it does not evaluate stalls while paused, and forgets the stalls of ended moves.
        if live.moves and orders.pause is None:
            view = MovesView(observation, live, self._limits, rates_since=self._rates_since)
            self._stalls = judge_stalls(view, known_memory, StallLimits())
            stalls = _with_recorded_stalls(self._stalls, stalled_since_ms or {})
        else:
            self._stalls = stalls = {}
        self._history.record_cycle(observation, self._limits)
        self._observations += 1
        result = CycleResult(
            self._limits,
            observation,
            replace(known_memory, stalls=stalls),
            # This command sets no throttle, so its result has no setpoints, events, decisions and failures of its own.
            setpoints={},
            recent_events=[],
            decision_counts={},
            failures=0,
        )
        # Peaks need at least two observations, because a single observation says nothing about progress.
        peaks = self._history.peaks() if self._observations > 1 else RemainingPeaks()
        return StatusSnapshot(CycleSnapshot(result, self._observations), peaks, self._objective, self._dry_run)

    def _setpoints(self, live: LiveCluster) -> Mapping[BrokerSide, Setpoint]:
        """Returns the current rates as setpoints under closed-loop control, because a rate that it has lowered is no stall."""
        if not self._limits.closed_loop:
            return {}
        return {side: Setpoint(rate.bytes_per_s) for side, rate in live.rates.items()}


def _with_recorded_stalls(
    stalls: Mapping[int, StallState], stalled_since_ms: Mapping[int, int]
) -> Mapping[int, StallState]:
    """Returns the stalls that the measurements show, and further stalls that the tuner has recorded.

    Args:
        stalls: by destination.
        stalled_since_ms: destinations that the tuner calls stalled, with the latest possible start of the stall (epoch ms).
    """
    result = dict(stalls)
    for broker, since_ms in stalled_since_ms.items():
        stall = result.get(broker, StallState())
        if not stall.stalled:
            result[broker] = replace(stall, stalled=True, stalled_since_ms=since_ms)
    return result


def steps_without_tuner(snapshot: StatusSnapshot, tuner_mode: str) -> list[str]:
    """Returns the steps that an active tuner would take now, for a cluster without an active tuner.

    Args:
        tuner_mode: the mode of a tuner that runs without acting, such as "standby", or "none" if no tuner runs.
    """
    result, observation = snapshot.cycle.result, snapshot.observation
    live = result.live
    assert observation is not None, "the cluster was read"
    assert live is not None, "the cluster was read"
    if observation.orders.pause is not None:
        return steps_after_resume(observation, result.memory, result.limits, StallLimits())
    if len(live.moves) > FORECAST_PARTITIONS_MAX:
        return [f"The steps of an active tuner are not computed for {len(live.moves)} partitions."]
    _, decisions = decide(observation, result.memory, result.limits, StallLimits())
    acts = [decision for decision in decisions if not isinstance(decision, WITHOUT_WRITE)]
    steered = sum(isinstance(decision, AllowSteering) for decision in decisions)
    steps = [f"would do this: {text}" for text in first_sentences([decision.text for decision in acts])]
    if steered:
        throttles = "throttle" if steered == 1 else "throttles"
        steps.append(f"would adjust {steered} {throttles} every second to the load of the clients")
    elif not acts:
        steps.append("would change nothing now")
    subject = "The dry run" if tuner_mode == TunerMode.DRY_RUN else "An active tuner"
    return [
        *(f"{subject} {step}." for step in steps),
        *unthrottled_moves_warning(live, result.limits),
        *stall_warnings(result.memory, StallLimits()),
    ]


def steps_of_active_tuner(
    snapshot: StatusSnapshot, decisions: DecisionStore, steering_ticks: Sequence[Entry], *, is_memory_known: bool
) -> list[str]:
    """Returns the next steps of the active tuner that the journal shows.

    Args:
        decisions: the newest journal entries.
        steering_ticks: the newest entries of steering.
        is_memory_known: whether the tuner's memory could be read from the journal.
    """
    result, observation = snapshot.cycle.result, snapshot.observation
    live = result.live
    assert observation is not None, "the cluster was read"
    assert live is not None, "the cluster was read"
    steps = [f"In progress: {text}" for text in _acts_in_progress(decisions, observation.now_ms)]
    if steering_ticks and observation.now_ms - steering_ticks[-1].at_ms < _STEERED_MS:
        steps.append("The tuner adjusts throttles every second to the load of the clients.")
    if live.moves and observation.orders.pause is None:
        return steps + upcoming_changes(observation, live, result.memory, result.limits, StallLimits())
    return steps + (views.next_steps_json(snapshot) if is_memory_known else [])


def _acts_in_progress(decisions: DecisionStore, now_ms: int) -> list[str]:
    """Returns the texts of recent decisions without an outcome yet."""
    recent = DecisionFilter(from_ms=now_ms - _RECENT_MS)
    recent_rows, _ = decisions.page(recent, ENTRIES_MAX)
    rows = [decision_json(row, inputs_max=0) for row in recent_rows]
    return [row["text"] for row in rows if row["outcome"] == "in_progress" and now_ms - row["at_ms"] < _RECENT_MS]
