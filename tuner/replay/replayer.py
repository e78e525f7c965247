"""Every step of a film decided again, by this program and, where one is given, by another policy.

What is observed is what was observed, whatever would have come of other decisions: a replay with another policy answers what
it would have said to each moment as it was, and not how the move would have gone.

Between two steps what is remembered goes on from the replay's own decisions, with what came in from outside (what was written,
what people ordered). With each frame it begins again from what is on record; where it had come to something else, that is
told too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from tuner.control.mutation_quota.decision import QuotaDecision
from tuner.control.mutation_quota.model import QuotaView
from tuner.control.mutation_quota.operator_orders import step_with_orders
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.decision import Decision
from tuner.control.throttle.policy import decide
from tuner.control.throttle.state import Memory
from tuner.control.throttle.steering.law import control_step
from tuner.control.throttle.steering.state import ControlInput, ControlState
from tuner.core.cluster import LiveCluster, NotSeen, Observation, Setpoint
from tuner.journal.codec import Known, apply
from tuner.journal.decision_digest import said, shared_out, turned
from tuner.journal.settings_snapshot import SettingsSnapshot
from tuner.replay.recording import RecordedStep, reel_of
from tuner.runtime.throttle.steering_controller import changes_of


class NotPlayable(ValueError):
    """A recorded step that this program cannot decide again."""


@dataclass(frozen=True, slots=True)
class Played:
    """``now`` is None where this program, or this policy, has nothing to decide there: the law's seconds without an objective."""

    step: RecordedStep
    now: Any
    texts: tuple[str, ...] = ()  # Of the decisions that a cycle makes now.
    other_memory: tuple[str, ...] = ()  # Members that this program had come to remember otherwise, up to a frame.


class Player:
    """Steps of one run after another."""

    def __init__(self, policy: SettingsSnapshot | None = None) -> None:
        """
        Args:
            policy: in place of what was in force.
        """
        self._policy = policy
        self._reels: dict[str, Known] = {}
        self._known: Known = {}  # Of the reel that the step is on.

    def play(self, steps: Iterable[RecordedStep]) -> Iterator[Played]:
        """
        Raises:
            NotPlayable: a step holds values that no tuner has recorded.
        """
        for step in steps:
            try:
                played = self._played(step)
            except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
                raise NotPlayable(
                    f"step {step.number} of run {step.run!r:.80}: {type(error).__name__}: {error}"
                ) from error
            yield played

    def _played(self, step: RecordedStep) -> Played:
        other = self._see(step)
        in_force = step.in_force if self._policy is None else self._policy
        if step.kind == "cycle":
            decisions = self._cycle(step, in_force)
            return Played(step, said(decisions), tuple(decision.text for decision in decisions), other)
        if step.kind == "quotas":
            dealt = self._quotas(step, in_force)
            return Played(step, shared_out(dealt), tuple(decision.text for decision in dealt), other)
        return Played(step, self._second(step, in_force), (), other)

    def _see(self, step: RecordedStep) -> tuple[str, ...]:
        self._known = self._reels.setdefault(reel_of(step.kind), {})
        if step.pieces is not None:
            for piece in step.pieces:
                apply(self._known, piece)
        if step.frame is None:
            return ()
        then, self._known = self._known, dict(step.frame)
        self._reels[reel_of(step.kind)] = self._known
        if step.pieces is None:
            return ()
        remembered = (name for name in then if name.startswith(("memory.", "law.", "mutation.")))
        return tuple(name for name in remembered if then[name] != self._known.get(name))

    def _cycle(self, step: RecordedStep, in_force: SettingsSnapshot) -> Sequence[Decision]:
        known = self._known
        live = NotSeen(known["not_seen"]) if known["not_seen"] is not None else self._of(LiveCluster, "live")
        law = self._of(ControlState, "law")
        courses = {
            side: Setpoint(c.setpoint.rate_bytes_per_s, c.setpoint.infeasible, c.inputs_stale)
            for side in known["steered"]
            if (c := law.side_states.get(side)) is not None
        }
        observation = Observation(
            step.now_ms,
            live,
            known["signals.brokers"],
            known["signals.moves"],
            busy=known["busy"],
            courses=courses,
            orders=known["orders"],
            # A journal of before has none.
            empty=known.get("empty", frozenset()),
            plan_moves=known.get("plan_moves", {}),
        )
        memory, decisions = decide(observation, self._of(Memory, "memory"), in_force.limits, in_force.stall)
        self._remember("memory", memory)
        return decisions

    def _second(self, step: RecordedStep, in_force: SettingsSnapshot) -> Any:
        known = self._known
        if in_force.objective is None or in_force.law is None:
            return None
        stands = known["second.stands"]
        view = ControlInput(
            step.now_ms,
            known["signals.brokers"],
            known["signals.moves"],
            stands,
            known["second.capacities"],
            stalled_sides=known["second.stalled"],
            recovering_sides=known["second.recovering"],
            # A journal of before has none.
            restore_rates=known.get("second.ours", {}),
            planned_sides=known.get("second.planned", frozenset()),
            max_rates=known.get("second.most", {}),
        )
        limits = replace(in_force.law, quota_samples=known["second.quota_samples"])
        memory, rates = control_step(view, self._of(ControlState, "law"), in_force.objective, limits)
        self._remember("law", memory)
        return turned(changes_of(rates, memory, stands, {}, known["second.held"], in_force.writes_max))

    def _quotas(self, step: RecordedStep, in_force: SettingsSnapshot) -> Sequence[QuotaDecision]:
        known = self._known
        quotas = NotSeen(known["quotas.not_seen"]) if known["quotas.not_seen"] is not None else known["quotas.stand"]
        view = QuotaView(
            step.now_ms,
            quotas,
            known["signals.controllers"],
            tuple(known["signals.tenants"].values()),
            known["quotas.beside"],
        )
        made = step_with_orders(view, self._of(MutationMemory, "mutation"), in_force.quotas, known["quotas.orders"])
        self._remember("mutation", made.memory)
        return made.decisions

    def _of(self, kind: type[Any], prefix: str) -> Any:
        """What a member that is not on record would be by default, it is."""
        names = {f.name: f"{prefix}.{f.name}" for f in fields(kind)}
        return kind(**{name: self._known[member] for name, member in names.items() if member in self._known})

    def _remember(self, prefix: str, value: Memory | ControlState | MutationMemory) -> None:
        self._known |= {f"{prefix}.{f.name}": getattr(value, f.name) for f in fields(value)}
