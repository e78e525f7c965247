"""What a tuner makes of what is seen now, for `rheostat status`: judged by the same judge, told by the same views as the page.

What a tuner has judged is in its own process, and whoever looks from a terminal may not reach its port, or there is none. So the
same measurements are judged here once more. Nothing is written, and nothing is decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rheostat.config.settings import Settings
from tuner.api import views
from tuner.api.decision_rows import decision_json
from tuner.api.decisions import ROWS_MAX, DecisionFilter, DecisionStore
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
_RECENT_MS = 60_000  # An act that is announced and not over after that was left by somebody who has died.
_TURNED_MS = 15_000  # Of the law: several seconds pass in which nothing has to be turned.


class StatusEvaluator:
    """Keeps what a single look cannot tell: how much was lacking at most, and how much progress was lost."""

    def __init__(self, settings: Settings) -> None:
        tuner = settings.tuner
        self._limits = tuner.limits()
        self._objective = tuner.objective.objective() if tuner.objective is not None else None
        self._dry_run = tuner.dry_run
        self._history = RateHistoryStore()
        self._stalls: Mapping[int, StallState] = {}
        self._rates_since: Mapping[BrokerSide, RateSince] = {}
        self._looks = 0

    def look(
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
        """
        Args:
            memory: the tuner's own; None: not known.
            plan_moves: what plans of rheostat move now.
            rate_bytes_per_s_max: the ceiling of the tuner that runs; None: that of the settings.
            stalled_since_ms: destinations that the tuner has judged stalled, and since when at the latest.
        """
        if rate_bytes_per_s_max is not None:
            self._limits = replace(self._limits, rate_bytes_per_s_max=rate_bytes_per_s_max)
        seen = Observation(
            now_ms,
            live,
            dict(signals.brokers) if signals is not None else {},
            dict(signals.moves) if signals is not None else {},
            setpoints=self._courses(live),
            orders=orders,
            plan_moves=plan_moves,
        )
        known = replace(memory or Memory(), stalls=self._stalls)
        # As the tuner: what is paused is not judged, and what has ended is forgotten.
        judged = live.moves and orders.pause is None
        self._rates_since = track_rate_changes(seen, live, replace(known, rates_since=self._rates_since))
        view = MovesView(seen, live, self._limits, rates_since=self._rates_since)
        self._stalls = judge_stalls(view, known, StallLimits()) if judged else {}
        self._history.record_cycle(seen, self._limits)
        self._looks += 1
        stalls = dict(self._stalls)
        for broker, since_ms in (stalled_since_ms or {}).items() if judged else ():
            state = stalls.get(broker, StallState())
            if not state.stalled:
                stalls[broker] = replace(state, stalled=True, stalled_since_ms=since_ms)
        snapshot = CycleResult(self._limits, seen, replace(known, stalls=stalls), {}, [], {}, 0)
        # From one look nobody can say how far a move is.
        peaks = self._history.peaks() if self._looks > 1 else RemainingPeaks()
        return StatusSnapshot(CycleSnapshot(snapshot, self._looks), peaks, self._objective, self._dry_run)

    def _courses(self, live: LiveCluster) -> Mapping[BrokerSide, Setpoint]:
        """Where the law steers, what stands is what it means: what it has weighed against clients is no stall."""
        return (
            {side: Setpoint(rate.bytes_per_s) for side, rate in live.rates.items()} if self._limits.closed_loop else {}
        )


def steps_without_tuner(look: StatusSnapshot, state: str) -> list[str]:
    """What a tuner that acts would do now, for a cluster where none does.

    Args:
        state: of the tuner that runs without acting, or "none".
    """
    snapshot, seen, live = look.cycle.result, look.observation, look.cycle.result.live
    assert seen is not None, "an onlooker has looked"
    assert live is not None, "an onlooker has looked"
    if seen.orders.pause is not None:
        return steps_after_resume(seen, snapshot.memory, snapshot.limits, StallLimits())
    if len(live.moves) > FORECAST_PARTITIONS_MAX:
        return [f"What a tuner that acts would do is not worked out here for {len(live.moves)} partitions."]
    _, decisions = decide(seen, snapshot.memory, snapshot.limits, StallLimits())
    acts = [decision for decision in decisions if not isinstance(decision, Hold | Relinquish | AllowSteering)]
    steered = sum(isinstance(decision, AllowSteering) for decision in decisions)
    if steered:
        steps = [f"would let {steered} {'throttle' if steered == 1 else 'throttles'} follow the clients, every second"]
    else:
        steps = [] if acts else ["would change nothing now"]
    who = "The dry run" if state == TunerMode.DRY_RUN else "A tuner that acts"
    texts = [f"would do this: {text}" for text in first_sentences([decision.text for decision in acts])]
    return [
        *(f"{who} {step}." for step in (*texts, *steps)),
        *unthrottled_moves_warning(live, snapshot.limits),
        *stall_warnings(snapshot.memory, StallLimits()),
    ]


def steps_of_acting_tuner(
    look: StatusSnapshot, decisions: DecisionStore, turns: Sequence[Entry], *, remembers: bool
) -> list[str]:
    """What is next, as far as it can be told from outside of the tuner.

    Args:
        decisions: the newest of the journal.
        turns: the newest seconds of the law.
        remembers: what is the tuner's own is known.
    """
    snapshot, seen = look.cycle.result, look.observation
    live = snapshot.live
    assert seen is not None, "an onlooker has looked"
    assert live is not None, "an onlooker has looked"
    steps = [f"Under way: {text}" for text in _under_way(decisions, seen.now_ms)]
    if turns and seen.now_ms - turns[-1].at_ms < _TURNED_MS:
        steps.append("Throttles follow the clients, every second.")
    if live.moves and seen.orders.pause is None:
        return steps + upcoming_changes(seen, live, snapshot.memory, snapshot.limits, StallLimits())
    return steps + (views.next_steps_json(look) if remembers else [])


def _under_way(decisions: DecisionStore, now_ms: int) -> list[str]:
    recent = DecisionFilter(from_ms=now_ms - _RECENT_MS)
    rows = [decision_json(row, inputs=False) for row in decisions.page(recent, ROWS_MAX)[0]]
    return [row["text"] for row in rows if row["outcome"] == "in_progress" and now_ms - row["at_ms"] < _RECENT_MS]
