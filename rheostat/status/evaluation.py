"""Evaluates the current measurements for `rheostat status`, with the tuner's own stall detector and API views.

The command cannot ask a tuner, because no tuner may run, or the tuner's port may be out of reach. Therefore the command evaluates
the same measurements as the tuner. It writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rheostat.config.settings import Settings
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
from tuner.control.throttle.decision import AllowSteering, Hold, Relinquish
from tuner.control.throttle.plan_moves import PlanMoves
from tuner.control.throttle.policy import decide
from tuner.control.throttle.rate_changes import track_rate_changes
from tuner.control.throttle.state import Memory, RateSince, StallState
from tuner.control.throttle.view import MovesView, judge_stalls
from tuner.core.cluster import BrokerSide, LiveCluster, Observation, Setpoint
from tuner.core.operator_orders import Orders
from tuner.core.presence import TunerMode
from tuner.core.throttle_limits import StallLimits
from tuner.journal.entries import Entry
from tuner.runtime.observe.signals_reader import SignalCache

NO_PLANS: PlanMoves = {}
_RECENT_MS = 60_000  # An older decision without an outcome was left by a tuner that has crashed.
# For so long after its last entry the tuner counts as steering, because a tick that changes no rate writes no entry.
_STEERED_MS = 15_000


class StatusEvaluator:
    """Evaluates observations one after another, and keeps stalls, rate changes and the peak of remaining bytes between them."""

    def __init__(self, settings: Settings) -> None:
        tuner = settings.tuner
        self._limits = tuner.limits()
        self._objective = tuner.control_objective()
        self._dry_run = tuner.dry_run
        self._history = RateHistoryStore()
        self._stalls: Mapping[int, StallState] = {}
        self._rates_since: Mapping[BrokerSide, RateSince] = {}
        self._observations = 0

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
            memory: the tuner's state; None: unknown.
            plan_moves: the moves of rheostat's own plans.
            rate_bytes_per_s_max: the running tuner's maximum rate; None: the maximum rate in the settings.
            stalled_since_ms: destinations that the tuner calls stalled, with the latest possible begin of the stall (epoch ms).
        """
        if rate_bytes_per_s_max is not None:
            self._limits = replace(self._limits, rate_bytes_per_s_max=rate_bytes_per_s_max)
        observation = Observation(
            now_ms,
            live,
            dict(signals.brokers) if signals is not None else {},
            dict(signals.moves) if signals is not None else {},
            setpoints=self._setpoints(live),
            orders=orders,
            plan_moves=plan_moves,
        )
        state = replace(memory or Memory(), stalls=self._stalls)
        # As in the tuner: stalls are not evaluated while paused, and ended moves are forgotten.
        is_evaluated = live.moves and orders.pause is None
        self._rates_since = track_rate_changes(observation, live, replace(state, rates_since=self._rates_since))
        view = MovesView(observation, live, self._limits, rates_since=self._rates_since)
        self._stalls = judge_stalls(view, state, StallLimits()) if is_evaluated else {}
        self._history.record_cycle(observation, self._limits)
        self._observations += 1
        stalls = dict(self._stalls)
        for broker, since_ms in (stalled_since_ms or {}).items() if is_evaluated else ():
            stall = stalls.get(broker, StallState())
            if not stall.stalled:
                stalls[broker] = replace(stall, stalled=True, stalled_since_ms=since_ms)
        result = CycleResult(self._limits, observation, replace(state, stalls=stalls), {}, [], {}, 0)
        # Peaks need at least two observations: a single one says nothing about progress.
        peaks = self._history.peaks() if self._observations > 1 else RemainingPeaks()
        return StatusSnapshot(CycleSnapshot(result, self._observations), peaks, self._objective, self._dry_run)

    def _setpoints(self, live: LiveCluster) -> Mapping[BrokerSide, Setpoint]:
        """Returns the current rates as setpoints if the tuner steers: a move whose rate it lowered for clients has not stalled."""
        return (
            {side: Setpoint(rate.bytes_per_s) for side, rate in live.rates.items()} if self._limits.closed_loop else {}
        )


def steps_without_tuner(snapshot: StatusSnapshot, state: str) -> list[str]:
    """Returns the steps that an active tuner would take now, for a cluster without an active tuner.

    Args:
        state: the state of a tuner that runs without acting, or "none".
    """
    result, observation, live = snapshot.cycle.result, snapshot.observation, snapshot.cycle.result.live
    assert observation is not None, "the cluster was read"
    assert live is not None, "the cluster was read"
    if observation.orders.pause is not None:
        return steps_after_resume(observation, result.memory, result.limits, StallLimits())
    if len(live.moves) > FORECAST_PARTITIONS_MAX:
        return [f"The steps of an active tuner are not computed for {len(live.moves)} partitions."]
    _, decisions = decide(observation, result.memory, result.limits, StallLimits())
    acts = [decision for decision in decisions if not isinstance(decision, Hold | Relinquish | AllowSteering)]
    steered = sum(isinstance(decision, AllowSteering) for decision in decisions)
    if steered:
        steps = [
            f"would adjust {steered} {'throttle' if steered == 1 else 'throttles'} every second, as clients leave room"
        ]
    else:
        steps = [] if acts else ["would change nothing now"]
    subject = "The dry run" if state == TunerMode.DRY_RUN else "An active tuner"
    texts = [f"would do this: {text}" for text in first_sentences([decision.text for decision in acts])]
    return [
        *(f"{subject} {step}." for step in (*texts, *steps)),
        *unthrottled_moves_warning(live, result.limits),
        *stall_warnings(result.memory, StallLimits()),
    ]


def steps_of_active_tuner(
    snapshot: StatusSnapshot, decisions: DecisionStore, steering_ticks: Sequence[Entry], *, is_state_known: bool
) -> list[str]:
    """Returns the next steps of the active tuner, as far as the journal shows them.

    Args:
        decisions: the newest journal entries.
        steering_ticks: the newest entries of steering.
        is_state_known: whether the tuner's state could be read.
    """
    result, observation = snapshot.cycle.result, snapshot.observation
    live = result.live
    assert observation is not None, "the cluster was read"
    assert live is not None, "the cluster was read"
    steps = [f"In progress: {text}" for text in _acts_in_progress(decisions, observation.now_ms)]
    if steering_ticks and observation.now_ms - steering_ticks[-1].at_ms < _STEERED_MS:
        steps.append("The tuner adjusts throttles every second, as clients leave room.")
    if live.moves and observation.orders.pause is None:
        return steps + upcoming_changes(observation, live, result.memory, result.limits, StallLimits())
    return steps + (views.next_steps_json(snapshot) if is_state_known else [])


def _acts_in_progress(decisions: DecisionStore, now_ms: int) -> list[str]:
    recent = DecisionFilter(from_ms=now_ms - _RECENT_MS)
    rows = [decision_json(row, inputs=False) for row in decisions.page(recent, ENTRIES_MAX)[0]]
    return [row["text"] for row in rows if row["outcome"] == "in_progress" and now_ms - row["at_ms"] < _RECENT_MS]
