"""What every decision stood on, so that it can be made again: a topic of its own beside the journal, one JSON value a record.

Intuition: a film. Now and then a frame holds all that is seen and remembered; between two frames only what has changed is
written. Whoever wants to see a minute again begins at the frame before it. While nothing moves, nothing is filmed.

    step     one cycle, or one second of the law: when it was, what had changed before it, and what came of it
    frame    everything as it was at one step, cut into pieces, so that a large cluster's does not hold up a cycle
    piece    see members.py; tagged with the step or the frame that it belongs to

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
from dataclasses import dataclass
from typing import Any

from tuner.decide.course import LawMemory, LawView
from tuner.journal.in_force import InForce
from tuner.journal.members import Known, changed, encoded, search_weight, weight, whole
from tuner.journal.said import said, turned
from tuner.journal.seen import NOTHINGS, by_field, of_cycle, of_second, worth_it
from tuner.model.cluster import BrokerSide, Observation
from tuner.model.decision import Decision, SetRate
from tuner.model.memory import Memory

VERSION = 1
FRAME_EVERY_S = 600.0
_WEIGHT_A_RECORD = 4.0  # See members.py.
# A cycle may write six times in a moment, and each of the four seconds after it once: what a large cluster leaves to be written
# goes evenly with all of them.
_WEIGHT_A_SECOND = 8.0
_STEPS_WAITING = 6  # More than that, and more is written at a time.
_SAID_A_WEIGHT = 1000  # Decisions.


def topic_of(journal: str) -> str:
    """``rheostat.journal`` → ``rheostat.inputs``."""
    return journal.removesuffix(".journal") + ".inputs"


@dataclass(frozen=True, slots=True)
class _Told:
    """A step as it came in."""

    kind: str
    now_ms: int
    now: Mapping[str, Any]  # Members, as far as this kind of step is given them.
    after: Mapping[str, Any]  # What is remembered after it.
    out: Callable[[], Any]
    weight: float
    begins: bool  # Nothing goes before it.


@dataclass(slots=True)
class _Part:
    """Something to be written, or just time that was spent on looking for it."""

    weight: float
    header: Mapping[str, Any] | None = None
    piece: Mapping[str, Any] | None = None


class InputLog:
    """Told of every cycle and every second; ``take`` hands out what is to be written with the journal's next write."""

    def __init__(self, in_force: InForce, *, run: str, program: str, wall_clock: Callable[[], float]) -> None:
        """
        Args:
            run: of this tuner, from its start to its end; another one's records may stand between ours.
            program: the version.
        """
        self._in_force = in_force
        self._run = run
        self._program = program
        self._wall_clock = wall_clock
        self._running = False
        self._law = LawMemory()
        self._known: Known = {}  # After the last step that was written.
        self._steps: deque[Iterator[_Part]] = deque()
        self._frame: Iterator[_Part] | None = None
        self._frame_weight = 0.0
        self._framed_at_ms = 0
        self._step = self._record = 0
        self._second_s = float("-inf")
        self._left = 0.0  # Of the weight that this second may write.

    # -- what is told -------------------------------------------------------------------------------------------------

    def cycle(self, observation: Observation, before: Memory, after: Memory, decisions: Sequence[Decision]) -> None:
        """One cycle: what ``decide`` was given and what it gave back."""
        if not worth_it(observation, before, decisions):
            self._running = False
            return
        begins, self._running = not self._running, True
        now = of_cycle(observation, before)
        if begins:
            now = {**NOTHINGS, **by_field("law", self._law), **now}
        self._tell(
            _Told(
                "cycle", observation.now_ms, now, by_field("memory", after),
                lambda: said(decisions), len(decisions) / _SAID_A_WEIGHT, begins,
            )
        )  # fmt: skip

    def second(
        self,
        view: LawView,
        held: frozenset[BrokerSide],
        quota_samples: int,
        before: LawMemory,
        after: LawMemory,
        changes: Sequence[SetRate],
    ) -> None:
        """One second of the law: what ``turn`` was given, and what is to be written."""
        self._law = after
        if not self._running:
            return
        now = of_second(view, held, quota_samples, before)
        self._tell(_Told("second", view.now_ms, now, by_field("law", after), lambda: turned(changes), 0.0, False))

    # -- what is written ----------------------------------------------------------------------------------------------

    def take(self) -> list[bytes]:
        """The records for the journal's next write; nothing of them comes a second time."""
        now_s = self._wall_clock()
        if abs(now_s - self._second_s) >= 1.0:
            self._second_s = now_s
            self._left = _WEIGHT_A_SECOND * max(1.0, len(self._steps) / _STEPS_WAITING)
        room, records = self._left + self._frame_weight, []
        while room > 0 and (self._steps or self._frame is not None):
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

    def lost(self) -> None:
        """What was taken is not on record."""
        self._running = False
        self._steps.clear()
        self._frame, self._frame_weight = None, 0.0

    # -- by itself ----------------------------------------------------------------------------------------------------

    def _tell(self, told: _Told) -> None:
        self._step += 1
        self._steps.append(self._parts(self._step, told))

    def _next(self) -> _Part | None:
        while self._steps:
            if (part := next(self._steps[0], None)) is not None:
                return part
            self._steps.popleft()
        if self._frame is not None:
            if (part := next(self._frame, None)) is not None:
                # Half of what is left of the first frame with each write: until it is there nothing can be replayed.
                self._frame_weight = max(0.0, self._frame_weight - part.weight / 2)
                return part
            self._frame = None
        return None

    def _parts(self, number: int, told: _Told) -> Iterator[_Part]:
        """A step's pieces and then its header; where it begins, or from time to time, a frame is begun with it."""
        count = 0
        if told.begins:
            self._known = {}
        else:
            for member, value in told.now.items():
                yield _Part(search_weight(member, self._known[member], value))
                for piece in changed(member, self._known[member], value):
                    count += 1
                    yield _Part(weight(piece), piece={"step": number, **encoded(piece)})
        self._known |= told.now
        since_ms = told.now_ms - self._framed_at_ms
        # One frame at a time: what is left of the one before is still on its way.
        if told.begins or (told.kind == "cycle" and since_ms >= FRAME_EVERY_S * 1000 and self._frame is None):
            self._framed_at_ms = told.now_ms
            self._frame = self._frame_parts(number, dict(self._known), begins=told.begins)
        out = told.out()
        header = {"step": number, "kind": told.kind, "now_ms": told.now_ms, "pieces": count, "out": out}
        yield _Part(told.weight, header=header)
        self._known |= told.after

    def _frame_parts(self, number: int, known: Known, *, begins: bool) -> Iterator[_Part]:
        # What lives on for this frame alone goes first.
        members = sorted(known.items(), key=lambda item: not item[0].startswith("law."))
        pieces = [piece for member, value in members for piece in whole(member, value)]
        del known, members
        self._frame_weight = sum(map(weight, pieces)) / 2 if begins else 0.0
        yield _Part(
            0.0,
            header={
                "frame": number, "begins": begins, "pieces": len(pieces), "program": self._program,
                "in_force": self._in_force.body(),
            },
        )  # fmt: skip
        pieces.reverse()
        while pieces:
            piece = pieces.pop()
            yield _Part(weight(piece), piece={"frame": number, **encoded(piece)})

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
