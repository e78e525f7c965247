"""Decides recorded steps again, with today's program and optionally with other settings.

The replay uses the recorded observations, even if it decides differently and the cluster would have developed differently. So a
replay with other settings shows the decisions that the tuner would have made in each recorded situation. It does not show how the
move would have continued; `rheostat simulate` does.

Between two frames the replay keeps its own remembered state, and applies the recorded changes from outside (writes, orders). At
each frame it takes the recorded state again, and reports the fields that differed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from tuner.control.cruise_control.decision import MovementDecision
from tuner.control.cruise_control.policy import MovementMemory, MovementView, decide_movements
from tuner.control.leadership.decision import LeadershipDecision
from tuner.control.leadership.policy import LeadershipMemory, LeadershipView, decide_election
from tuner.control.leadership.survey import LeaderSurvey
from tuner.control.mutation_quota.decision import QuotaDecision
from tuner.control.mutation_quota.model import QuotaView
from tuner.control.mutation_quota.operator_orders import step_with_orders
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.decision import Decision
from tuner.control.throttle.policy import decide
from tuner.control.throttle.state import Memory
from tuner.control.throttle.steering.law import control_step
from tuner.control.throttle.steering.state import ControlInput, ControlState
from tuner.core.cluster import ClusterUnreadable, LiveCluster, Observation
from tuner.journal.codec import StateValues, apply_piece
from tuner.journal.decision_digest import (
    digest_decisions,
    digest_election,
    digest_movements,
    digest_quota_decisions,
    digest_rate_changes,
)
from tuner.journal.settings_snapshot import SettingsSnapshot
from tuner.replay.recording import STREAM_BY_KIND, RecordedStep
from tuner.runtime.throttle.steering_controller import most_urgent_changes

_REMEMBERED = ("memory.", "control.", "mutation.", "elections.", "movements.")


class NotReplayable(ValueError):
    """A recorded step holds values that no tuner can have recorded."""


@dataclass(frozen=True, slots=True)
class ReplayedStep:
    """A recorded step and its new decisions.

    Attributes:
        decisions: the digest of the new decisions; None for a steering tick without an objective in the new settings.
        texts: the texts of the new decisions; empty for a steering tick.
        differing_fields: the remembered state fields that differ from the recorded frame.
    """

    step: RecordedStep
    decisions: Any
    texts: tuple[str, ...] = ()
    differing_fields: tuple[str, ...] = ()


class Replayer:
    """Replays the steps of one run after another."""

    def __init__(self, settings: SettingsSnapshot | None = None) -> None:
        """
        Args:
            settings: the settings that replace the recorded settings; None means that the recorded settings are used.
        """
        self._settings = settings
        self._states: dict[str, StateValues] = {}  # By stream.
        self._state: StateValues = {}  # The state of the current step's stream.

    def replay(self, steps: Iterable[RecordedStep]) -> Iterator[ReplayedStep]:
        """Yields each step with its new decisions.

        Raises:
            NotReplayable: a step holds values that no tuner can have recorded.
        """
        for step in steps:
            try:
                replayed = self._replay_step(step)
            except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
                raise NotReplayable(
                    f"step {step.number} of run {step.run!r:.80}: {type(error).__name__}: {error}"
                ) from error
            yield replayed

    def _replay_step(self, step: RecordedStep) -> ReplayedStep:
        differing_fields = self._apply_inputs(step)
        settings = step.settings if self._settings is None else self._settings
        if step.kind == "cycle":
            decisions = self._decide_cycle(step, settings)
            texts = tuple(decision.text for decision in decisions)
            return ReplayedStep(step, digest_decisions(decisions), texts, differing_fields)
        if step.kind == "quotas":
            quota_decisions = self._decide_quotas(step, settings)
            texts = tuple(decision.text for decision in quota_decisions)
            return ReplayedStep(step, digest_quota_decisions(quota_decisions), texts, differing_fields)
        if step.kind == "election":
            election = self._decide_election(step, settings)
            return ReplayedStep(step, digest_election(election), (election.text,), differing_fields)
        if step.kind == "movements":
            movements = self._decide_movements(step, settings)
            return ReplayedStep(step, digest_movements(movements), (movements.text,), differing_fields)
        return ReplayedStep(step, self._decide_steering(step, settings), (), differing_fields)

    def _apply_inputs(self, step: RecordedStep) -> tuple[str, ...]:
        """Applies the step's changes and its frame. Returns the remembered fields that differ from the frame."""
        self._state = self._states.setdefault(STREAM_BY_KIND[step.kind], {})
        if step.pieces is not None:
            for piece in step.pieces:
                apply_piece(self._state, piece)
        if step.frame is None:
            return ()
        replayed = self._state
        self._state = self._states[STREAM_BY_KIND[step.kind]] = dict(step.frame)
        if step.pieces is None:
            return ()
        remembered = (name for name in replayed if name.startswith(_REMEMBERED))
        return tuple(name for name in remembered if replayed[name] != self._state.get(name))

    def _decide_cycle(self, step: RecordedStep, settings: SettingsSnapshot) -> Sequence[Decision]:
        state = self._state
        not_seen = state["not_seen"]
        live = ClusterUnreadable(not_seen) if not_seen is not None else self._build(LiveCluster, "live")
        control = self._build(ControlState, "control")
        setpoints = {s: found for s in state["steered"] if (found := control.setpoint(s)) is not None}
        observation = Observation(
            now_ms=step.now_ms,
            live=live,
            broker_signals=state["signals.brokers"],
            move_signals=state["signals.moves"],
            ramping=state["ramping"],
            setpoints=setpoints,
            orders=state["orders"],
            empty_windows=state["empty_windows"],
            plan_moves=state["plan_moves"],
            # Records of earlier versions lack these.
            vetoes=state.get("vetoes", ()),
            eta_ratios=state.get("eta_ratios", {}),
            deadline_forecasts=state.get("deadline_forecasts", {}),
        )
        memory, decisions = decide(observation, self._build(Memory, "memory"), settings.limits, settings.stall)
        self._remember("memory", memory)
        return decisions

    def _decide_steering(self, step: RecordedStep, settings: SettingsSnapshot) -> Any:
        state = self._state
        if settings.objective is None or settings.law is None:
            return None
        current = state["steering.current_rates"]
        view = ControlInput(
            now_ms=step.now_ms,
            brokers=state["signals.brokers"],
            moves=state["signals.moves"],
            current_rates=current,
            capacities=state["steering.capacities"],
            stalled_sides=state["steering.stalled"],
            recovering_sides=state["steering.recovering"],
            restore_rates=state["steering.restore_rates"],
            planned_sides=state["steering.planned"],
            plan_max_rates=state["steering.max_rates"],
            at_min_isr_sides=state["steering.at_min_isr"],
            baselines=state["steering.baselines"],
            deadline_ratios=state.get("steering.deadline_ratios", {}),  # Records of earlier versions lack it.
        )
        limits = replace(settings.law, quota_samples=state["steering.quota_samples"])
        control, rates = control_step(view, self._build(ControlState, "control"), settings.objective, limits)
        self._remember("control", control)
        changes = most_urgent_changes(
            rates,
            control,
            current,
            is_set_on_broker={},
            held=state["steering.held_sides"],
            changes_max=settings.writes_max,
        )
        return digest_rate_changes(changes)

    def _decide_quotas(self, step: RecordedStep, settings: SettingsSnapshot) -> Sequence[QuotaDecision]:
        state = self._state
        not_seen = state["quotas.not_seen"]
        view = QuotaView(
            now_ms=step.now_ms,
            quotas=ClusterUnreadable(not_seen) if not_seen is not None else state["quotas.current"],
            controllers=state["signals.controllers"],
            tenants=tuple(state["signals.tenants"].values()),
            cluster_wide=state["quotas.cluster_wide"],
        )
        quota_step = step_with_orders(
            view, self._build(MutationMemory, "mutation"), settings.quotas, state["quotas.orders"]
        )
        self._remember("mutation", quota_step.memory)
        return quota_step.decisions

    def _decide_election(self, step: RecordedStep, settings: SettingsSnapshot) -> LeadershipDecision:
        state = self._state
        view = LeadershipView(
            now_ms=step.now_ms,
            survey=self._build(LeaderSurvey, "leaders"),
            electing=state["election.electing"],
            brokers=state["election.brokers"],
            signals=state["signals.brokers"],
            baselines=state["election.baselines"],
            pause=state["election.pause"],
            vetoes=state["vetoes"],
        )
        if settings.leadership is None:
            raise ValueError("no limits of elections are recorded")
        memory, decision = decide_election(view, self._build(LeadershipMemory, "elections"), settings.leadership)
        self._remember("elections", memory)
        return decision

    def _decide_movements(self, step: RecordedStep, settings: SettingsSnapshot) -> MovementDecision:
        state = self._state
        view = MovementView(
            now_ms=step.now_ms,
            execution=state["movement.execution"],
            rate_bytes_per_s=state["movement.rate_bytes_per_s"],
            pause=state["movement.pause"],
            vetoes=state["vetoes"],
        )
        if settings.movements is None:
            raise ValueError("no limits of Cruise Control's concurrency are recorded")
        memory, decision = decide_movements(view, self._build(MovementMemory, "movements"), settings.movements)
        self._remember("movements", memory)
        return decision

    def _build(self, kind: type[Any], prefix: str) -> Any:
        """Returns a dataclass from its state fields. A field that was not recorded has its default."""
        names = {f.name: f"{prefix}.{f.name}" for f in fields(kind)}
        return kind(**{name: self._state[key] for name, key in names.items() if key in self._state})

    def _remember(
        self, prefix: str, value: Memory | ControlState | MutationMemory | LeadershipMemory | MovementMemory
    ) -> None:
        self._state |= {f"{prefix}.{f.name}": getattr(value, f.name) for f in fields(value)}
