"""Records the inputs of every decision in a topic beside the journal, so that `rheostat replay` can decide again.

Records hold steps as changes since the previous step, and from time to time a frame with the whole state (delta_stream.py). A
controller records no steps in these cases:

- throttles: no partition moves;
- mutation quotas: no decision about quotas changes;
- preferred leaders: each partition has its preferred leader;
- Cruise Control: Cruise Control moves no partition.

Reporting a step is cheap: the controller hands over immutable values, and the search for changes runs when the step is written.
The tuner writes the steps with the journal's next write, in the same transaction, up to a budget per second. The budget is enough
for some hundred brokers. In a larger cluster the rest of a step follows with the writes of the next seconds.

Invariant: a gap is always visible. After a failed write the next step begins with a new frame. The header of a step comes after
all its pieces, so a step with a header is complete.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tuner.control.cruise_control.decision import MovementDecision
from tuner.control.cruise_control.policy import MovementLimits, MovementMemory, MovementView
from tuner.control.leadership.decision import LeadershipDecision
from tuner.control.leadership.policy import LeadershipLimits, LeadershipMemory, LeadershipView
from tuner.control.mutation_quota.decision import QuotaDecision
from tuner.control.mutation_quota.model import MutationPolicy, QuotaView
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.decision import Decision, SetRate
from tuner.control.throttle.state import Memory
from tuner.control.throttle.steering.state import ControlInput, ControlState
from tuner.core.cluster import BrokerSide, Observation
from tuner.core.operator_orders import Orders
from tuner.journal.decision_digest import (
    digest_decisions,
    digest_election,
    digest_movements,
    digest_quota_decisions,
    digest_rate_changes,
)
from tuner.journal.delta_stream import DeltaPart, DeltaStream, RecordedStepInput
from tuner.journal.input_capture import (
    EMPTY_INPUTS,
    EMPTY_QUOTA_INPUTS,
    QuotaChangeDetector,
    capture_cycle,
    capture_election,
    capture_movements,
    capture_quota_cycle,
    capture_steering_tick,
    is_worth_recording,
    prefix_fields,
)
from tuner.journal.settings_snapshot import SettingsSnapshot

VERSION = 8
# Weights are in the unit of codec.piece_weight.
_WEIGHT_PER_RECORD = 4.0
# A cycle may cause six journal writes at once, and each of the four seconds until the next cycle one write. The budget spreads a
# large cluster's steps evenly over these seconds.
_WEIGHT_PER_S = 8.0
_BACKLOG_STEPS = 6  # If more steps wait, the budget grows in proportion.
_DECISIONS_PER_WEIGHT = 1000
# How long mutation quota cycles without a change are still recorded. After a longer pause, the next change begins with a new frame,
# which is about as large as the records of the cycles in this time.
_QUOTA_IDLE_S = 60.0


def inputs_topic_of(journal: str) -> str:
    """Returns the name of the inputs topic: ``rheostat.journal`` → ``rheostat.inputs``."""
    return journal.removesuffix(".journal") + ".inputs"


class InputLog:
    """Collects the steps of all controllers; ``take_records`` returns the records for the journal's next write."""

    def __init__(self, settings: SettingsSnapshot, *, run: str, program: str, wall_clock: Callable[[], float]) -> None:
        """
        Args:
            settings: the settings that decisions are made with.
            run: an id of this tuner process. It tells the records of this process from records of another process.
            program: the version of rheostat.
        """
        self._settings = settings
        self._run = run
        self._wall_clock = wall_clock
        self._throttle_stream, self._quota_stream = DeltaStream(program), DeltaStream(program)
        self._election_stream, self._movement_stream = DeltaStream(program), DeltaStream(program)
        self._streams = (self._throttle_stream, self._quota_stream, self._election_stream, self._movement_stream)
        self._control = ControlState()  # After the last steering tick.
        self._quota_changes = QuotaChangeDetector()
        self._quotas_changed_at_ms = 0
        self._pending_steps: deque[Iterator[DeltaPart]] = deque()
        self._step_number = self._record_number = 0
        self._budget_from_s = float("-inf")  # When the current second of the budget began.
        self._budget = 0.0  # Weight that may still be written in this second.

    def change_settings(self, settings: SettingsSnapshot) -> None:
        """Uses other settings from the next throttle cycle on. The settings of the other controllers stay."""
        known = self._settings
        settings = replace(settings, quotas=known.quotas, leadership=known.leadership, movements=known.movements)
        if settings != self._settings:
            self._settings = settings
            self._throttle_stream.is_running = False  # Settings are written with a frame.

    # -- report steps -------------------------------------------------------------------------------------------------

    def record_cycle(
        self, observation: Observation, before: Memory, after: Memory, decisions: Sequence[Decision]
    ) -> None:
        """Records a throttle cycle: the arguments and results of ``decide``."""
        stream = self._throttle_stream
        if not is_worth_recording(observation, before, decisions):
            stream.is_running = False
            return
        begins = not stream.is_running
        stream.is_running = True
        state = capture_cycle(observation, before)
        if begins:
            # The first step of a run has every state field, as a replay begins with it.
            state = {**EMPTY_INPUTS, **prefix_fields("control", self._control), **state}
        step = RecordedStepInput(
            kind="cycle",
            now_ms=observation.now_ms,
            state=state,
            state_after=prefix_fields("memory", after),
            decisions=lambda: digest_decisions(decisions),
            weight=len(decisions) / _DECISIONS_PER_WEIGHT,
            begins=begins,
            settings=self._settings,
        )
        self._add(stream, step)

    def record_steering_tick(
        self,
        view: ControlInput,
        held: frozenset[BrokerSide],
        quota_samples: int,
        before: ControlState,
        after: ControlState,
        changes: Sequence[SetRate],
    ) -> None:
        """Records a steering tick: the arguments of the control law, and the rates that the tuner writes.

        Args:
            held: the sides whose rates the control law may not raise until the next cycle.
            quota_samples: Kafka's replication.quota.window.num.
        """
        self._control = after
        if not self._throttle_stream.is_running:
            return
        state = capture_steering_tick(view, held, quota_samples, before)
        step = RecordedStepInput(
            kind="steering",
            now_ms=view.now_ms,
            state=state,
            state_after=prefix_fields("control", after),
            decisions=lambda: digest_rate_changes(changes),
            weight=0.0,  # Few changes per tick, so the digest is small.
            begins=False,
            settings=self._settings,
        )
        self._add(self._throttle_stream, step)

    def record_quota_cycle(
        self,
        view: QuotaView,
        orders: Orders,
        policy: MutationPolicy | None,
        before: MutationMemory,
        after: MutationMemory,
        decisions: Sequence[QuotaDecision],
    ) -> None:
        """Records a mutation quota cycle: the arguments and results of its decision function."""
        stream = self._quota_stream
        if self._quota_changes.has_changed(decisions, before, after):
            self._quotas_changed_at_ms = view.now_ms
        elif not stream.is_running or abs(view.now_ms - self._quotas_changed_at_ms) > _QUOTA_IDLE_S * 1000:
            stream.is_running = False
            return
        settings = self._settings
        if policy != settings.quotas:
            settings = self._settings = replace(settings, quotas=policy)
            stream.is_running = False  # Settings are written with a frame.
        begins = not stream.is_running
        stream.is_running = True
        state = capture_quota_cycle(view, before, orders)
        step = RecordedStepInput(
            kind="quotas",
            now_ms=view.now_ms,
            state={**EMPTY_QUOTA_INPUTS, **state} if begins else state,
            state_after=prefix_fields("mutation", after),
            decisions=lambda: digest_quota_decisions(decisions),
            weight=len(decisions) / _DECISIONS_PER_WEIGHT,
            begins=begins,
            settings=settings,
        )
        self._add(stream, step)

    def record_election(
        self,
        view: LeadershipView,
        limits: LeadershipLimits,
        before: LeadershipMemory,
        after: LeadershipMemory,
        decision: LeadershipDecision,
    ) -> None:
        """Records a decision about preferred leaders: the arguments and results of ``decide_election``."""
        stream = self._election_stream
        if not (stream.is_running or view.survey.displaced):
            return
        if limits != self._settings.leadership:
            self._settings = replace(self._settings, leadership=limits)
            stream.is_running = False  # Settings are written with a frame.
        step = RecordedStepInput(
            kind="election",
            now_ms=view.now_ms,
            state=capture_election(view, before),
            state_after=prefix_fields("elections", after),
            decisions=lambda: digest_election(decision),
            weight=0.0,  # One decision.
            begins=not stream.is_running,
            settings=self._settings,
        )
        # The first decision without waiting partitions is still recorded, and ends the run.
        stream.is_running = bool(view.survey.displaced)
        self._add(stream, step)

    def record_movements(
        self,
        view: MovementView,
        limits: MovementLimits,
        before: MovementMemory,
        after: MovementMemory,
        decision: MovementDecision,
    ) -> None:
        """Records a decision about Cruise Control: the arguments and results of ``decide_movements``."""
        stream = self._movement_stream
        moves = view.execution.movements_max is not None
        if not (stream.is_running or moves):
            return
        if limits != self._settings.movements:
            self._settings = replace(self._settings, movements=limits)
            stream.is_running = False  # Settings are written with a frame.
        step = RecordedStepInput(
            kind="movements",
            now_ms=view.now_ms,
            state=capture_movements(view, before),
            state_after=prefix_fields("movements", after),
            decisions=lambda: digest_movements(decision),
            weight=0.0,  # One decision.
            begins=not stream.is_running,
            settings=self._settings,
        )
        stream.is_running = moves
        self._add(stream, step)

    # -- write --------------------------------------------------------------------------------------------------------

    def take_records(self) -> list[bytes]:
        """Returns the records for the journal's next write. Each record is returned once."""
        now_s = self._wall_clock()
        if abs(now_s - self._budget_from_s) >= 1.0:
            self._budget_from_s = now_s
            self._budget = _WEIGHT_PER_S * max(1.0, len(self._pending_steps) / _BACKLOG_STEPS)
        budget = self._budget + sum(stream.frame_weight for stream in self._streams)
        records = []
        while budget > 0 and self.has_pending:
            # Several records, so that none exceeds the topic's max.message.bytes.
            headers, pieces, record_budget = [], [], _WEIGHT_PER_RECORD
            while record_budget > 0 and budget > 0 and (part := self._next_part()) is not None:
                headers += [part.header] if part.header is not None else []
                pieces += [part.piece] if part.piece is not None else []
                record_budget -= part.weight
                budget -= part.weight
            if headers or pieces:
                records.append(self._encode_record(headers, pieces))
        # The extra budget of a first frame does not carry over to the next write.
        self._budget = min(self._budget, budget)
        return records

    @property
    def has_pending(self) -> bool:
        """Whether anything remains to be written."""
        return bool(self._pending_steps) or any(stream.has_frame for stream in self._streams)

    def discard_pending(self) -> None:
        """Drops everything after a failed write. The next steps begin with new frames."""
        self._pending_steps.clear()
        self._quota_changes = QuotaChangeDetector()
        for stream in self._streams:
            stream.discard()

    def _add(self, stream: DeltaStream, step: RecordedStepInput) -> None:
        self._step_number += 1
        self._pending_steps.append(stream.encode_step(self._step_number, step))

    def _next_part(self) -> DeltaPart | None:
        while self._pending_steps:
            if (part := next(self._pending_steps[0], None)) is not None:
                return part
            self._pending_steps.popleft()
        parts = (stream.next_frame_part() for stream in self._streams)
        return next((part for part in parts if part is not None), None)

    def _encode_record(self, headers: Sequence[Mapping[str, Any]], pieces: Sequence[Mapping[str, Any]]) -> bytes:
        self._record_number += 1
        body = {
            "v": VERSION,
            "run": self._run,
            "record": self._record_number,
            "at_ms": round(self._wall_clock() * 1000),
            "headers": headers,
            "pieces": pieces,
        }
        return json.dumps(body, separators=(",", ":")).encode()
