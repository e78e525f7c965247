"""What every decision stood on, so that it can be made again: a topic of its own beside the journal, one JSON value a record.

Intuition: a film. Now and then a frame holds all that is seen and remembered; between two frames only what has changed is
written. Whoever wants to see a minute again begins at the frame before it. While nothing moves, nothing is filmed; nor are the
mutation quotas while nothing is decided about them.

    step     one cycle, one second of the law, or one cycle of the quotas: when it was, what had changed before it, and what
             came of it
    frame    everything as it was at one step, cut into pieces, so that a large cluster's does not hold up a cycle
    piece    see members.py; tagged with the step or the frame that it belongs to
    reel     see reel.py; the steps of the throttles are on one, those of the quotas on another

To be told of a step costs next to nothing: what is handed in are values that nobody changes, so what differs in them is looked
for when it is written. A step goes with the journal's very next write, in the same transaction, as far as the second has room:
that is all of it up to some hundred brokers. The rest goes with the writes of the seconds after it.

Invariant: what cannot be written is not missed silently: whatever follows a failed write begins with a new frame. The header of
a step comes after all of its pieces, so a step that can be read is whole.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tuner.control.mutation_quota.decision import QuotaDecision
from tuner.control.mutation_quota.model import MutationPolicy, QuotaView
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.decision import Decision, SetRate
from tuner.control.throttle.state import Memory
from tuner.control.throttle.steering.state import ControlInput, ControlState
from tuner.core.cluster import BrokerSide, Observation
from tuner.core.operator_orders import Orders
from tuner.journal.decision_digest import said, shared_out, turned
from tuner.journal.delta_stream import DeltaPart, DeltaStream, RecordedStepInput
from tuner.journal.input_capture import (
    NO_QUOTAS,
    NOTHINGS,
    Eventful,
    by_field,
    of_cycle,
    of_quotas,
    of_second,
    worth_it,
)
from tuner.journal.settings_snapshot import SettingsSnapshot

VERSION = 2
_WEIGHT_A_RECORD = 4.0  # See members.py.
# A cycle may write six times in a moment, and each of the four seconds after it once: what a large cluster leaves to be written
# goes evenly with all of them.
_WEIGHT_A_SECOND = 8.0
_STEPS_WAITING = 6  # More than that, and more is written at a time.
_SAID_A_WEIGHT = 1000  # Decisions.
_LINGERS_S = 60.0  # A new frame of the quotas is as much to write as so many seconds of a storm.


def topic_of(journal: str) -> str:
    """``rheostat.journal`` → ``rheostat.inputs``."""
    return journal.removesuffix(".journal") + ".inputs"


class InputLog:
    """Told of every cycle and every second; ``take`` hands out what is to be written with the journal's next write."""

    def __init__(self, in_force: SettingsSnapshot, *, run: str, program: str, wall_clock: Callable[[], float]) -> None:
        """
        Args:
            run: of this tuner, from its start to its end; another one's records may stand between ours.
            program: the version.
        """
        self._in_force = in_force
        self._run = run
        self._wall_clock = wall_clock
        self._throttles, self._quotas = DeltaStream(program), DeltaStream(program)
        self._law = ControlState()
        self._eventful = Eventful()
        self._eventful_at_ms = 0
        self._steps: deque[Iterator[DeltaPart]] = deque()
        self._step = self._record = 0
        self._second_s = float("-inf")
        self._left = 0.0  # Of the weight that this second may write.

    # -- what is told -------------------------------------------------------------------------------------------------

    def cycle(self, observation: Observation, before: Memory, after: Memory, decisions: Sequence[Decision]) -> None:
        """One cycle: what ``decide`` was given and what it gave back."""
        reel = self._throttles
        if not worth_it(observation, before, decisions):
            reel.running = False
            return
        begins, reel.running = not reel.running, True
        now = of_cycle(observation, before)
        if begins:
            now = {**NOTHINGS, **by_field("law", self._law), **now}
        told = RecordedStepInput(
            "cycle",
            observation.now_ms,
            now,
            by_field("memory", after),
            lambda: said(decisions),
            len(decisions) / _SAID_A_WEIGHT,
            begins,
            self._in_force,
        )
        self._tell(reel, told)

    def second(
        self,
        view: ControlInput,
        held: frozenset[BrokerSide],
        quota_samples: int,
        before: ControlState,
        after: ControlState,
        changes: Sequence[SetRate],
    ) -> None:
        """One second of the law: what ``turn`` was given, and what is to be written."""
        self._law = after
        if not self._throttles.running:
            return
        now = of_second(view, held, quota_samples, before)
        told = RecordedStepInput(
            "second", view.now_ms, now, by_field("law", after), lambda: turned(changes), 0.0, False, self._in_force
        )
        self._tell(self._throttles, told)

    def quotas(
        self,
        view: QuotaView,
        orders: Orders,
        policy: MutationPolicy | None,
        before: MutationMemory,
        after: MutationMemory,
        decisions: Sequence[QuotaDecision],
    ) -> None:
        """One cycle of the mutation quotas: what ``ruled`` was given and what it gave back."""
        reel = self._quotas
        if self._eventful.sees(decisions, before, after):
            self._eventful_at_ms = view.now_ms
        elif not reel.running or abs(view.now_ms - self._eventful_at_ms) > _LINGERS_S * 1000:
            reel.running = False
            return
        in_force = self._in_force
        if policy != in_force.quotas:
            in_force = self._in_force = replace(in_force, quotas=policy)
            reel.running = False  # What was in force is told with a frame.
        begins, reel.running = not reel.running, True
        now = of_quotas(view, before, orders)
        told = RecordedStepInput(
            "quotas",
            view.now_ms,
            {**NO_QUOTAS, **now} if begins else now,
            by_field("mutation", after),
            lambda: shared_out(decisions),
            len(decisions) / _SAID_A_WEIGHT,
            begins,
            in_force,
        )
        self._tell(reel, told)

    # -- what is written ----------------------------------------------------------------------------------------------

    def take(self) -> list[bytes]:
        """The records for the journal's next write; nothing of them comes a second time."""
        now_s = self._wall_clock()
        if abs(now_s - self._second_s) >= 1.0:
            self._second_s = now_s
            self._left = _WEIGHT_A_SECOND * max(1.0, len(self._steps) / _STEPS_WAITING)
        room, records = self._left + self._throttles.frame_weight + self._quotas.frame_weight, []
        while room > 0 and self.waits:
            # A record of its own for each handful: none grows beyond what a topic takes.
            headers, pieces, full = [], [], _WEIGHT_A_RECORD
            while full > 0 and room > 0 and (part := self._next()) is not None:
                headers += [part.header] if part.header is not None else []
                pieces += [part.piece] if part.piece is not None else []
                full -= part.weight
                room -= part.weight
            if headers or pieces:
                records.append(self._recorded(headers, pieces))
        # What was given to the first frame is not the second's.
        self._left = min(self._left, room)
        return records

    @property
    def waits(self) -> bool:
        """Whether anything is left to be written."""
        return bool(self._steps) or self._throttles.framing or self._quotas.framing

    def lost(self) -> None:
        """What was taken is not on record."""
        self._steps.clear()
        self._eventful = Eventful()
        for reel in (self._throttles, self._quotas):
            reel.lost()

    # -- by itself ----------------------------------------------------------------------------------------------------

    def _tell(self, reel: DeltaStream, told: RecordedStepInput) -> None:
        self._step += 1
        self._steps.append(reel.step(self._step, told))

    def _next(self) -> DeltaPart | None:
        while self._steps:
            if (part := next(self._steps[0], None)) is not None:
                return part
            self._steps.popleft()
        part = self._throttles.frame_part()
        return part if part is not None else self._quotas.frame_part()

    def _recorded(self, headers: Sequence[Mapping[str, Any]], pieces: Sequence[Mapping[str, Any]]) -> bytes:
        self._record += 1
        body = {
            "v": VERSION,
            "run": self._run,
            "record": self._record,
            "at_ms": round(self._wall_clock() * 1000),
            "headers": headers,
            "pieces": pieces,
        }
        return json.dumps(body, separators=(",", ":")).encode()
