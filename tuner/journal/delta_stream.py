"""One reel of the film: what was known after its last step, what the next one changes of that, and a frame now and then.

The throttles have one, with the cycles and the seconds of the law; the mutation quotas have another. They begin, end and have
their frames each by itself, as a storm of creations and a move have nothing to do with each other; what is written of them goes
into the same records, and the number of a step is one of all.

Invariant: no step is begun before the one before it is written whole, so what is known then is what came before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tuner.journal.codec import Known, changed, encoded, search_weight, weight, whole
from tuner.journal.settings_snapshot import SettingsSnapshot

FRAME_EVERY_S = 600.0


@dataclass(frozen=True, slots=True)
class RecordedStepInput:
    """A step as it came in."""

    kind: str
    now_ms: int
    now: Mapping[str, Any]  # Members, as far as this kind of step is given them.
    after: Mapping[str, Any]  # What is remembered after it.
    out: Callable[[], Any]
    weight: float
    begins: bool  # Nothing goes before it.
    in_force: SettingsSnapshot


@dataclass(slots=True)
class DeltaPart:
    """Something to be written, or just time that was spent on looking for it."""

    weight: float
    header: Mapping[str, Any] | None = None
    piece: Mapping[str, Any] | None = None


class DeltaStream:
    def __init__(self, program: str) -> None:
        self.running = False
        self.frame_weight = 0.0  # Of a first frame, what is written with the next write beside the steps.
        self._program = program
        self._known: Known = {}  # After the last step that was written.
        self._frame: Iterator[DeltaPart] | None = None
        self._framed_at_ms = 0

    @property
    def framing(self) -> bool:
        return self._frame is not None

    def lost(self) -> None:
        self.running = False
        self._frame, self.frame_weight = None, 0.0

    def step(self, number: int, told: RecordedStepInput) -> Iterator[DeltaPart]:
        """A step's pieces and then its header; where it begins, or from time to time, a frame is begun with it."""
        count = 0
        if told.begins:
            self._known = {}
        else:
            for member, value in told.now.items():
                yield DeltaPart(search_weight(member, self._known[member], value))
                for piece in changed(member, self._known[member], value):
                    count += 1
                    yield DeltaPart(weight(piece), piece={"step": number, **encoded(piece)})
        self._known |= told.now
        since_ms = told.now_ms - self._framed_at_ms
        # One frame at a time: what is left of the one before is still on its way.
        if told.begins or (told.kind != "second" and since_ms >= FRAME_EVERY_S * 1000 and self._frame is None):
            self._framed_at_ms = told.now_ms
            self._frame = self._frame_parts(number, dict(self._known), told)
        out = told.out()
        header = {"step": number, "kind": told.kind, "now_ms": told.now_ms, "pieces": count, "out": out}
        yield DeltaPart(told.weight, header=header)
        self._known |= told.after

    def frame_part(self) -> DeltaPart | None:
        """The next one; None: no frame is on its way."""
        if self._frame is None:
            return None
        if (part := next(self._frame, None)) is None:
            self._frame = None
            return None
        # Half of what is left of the first frame with each write: until it is there nothing can be replayed.
        self.frame_weight = max(0.0, self.frame_weight - part.weight / 2)
        return part

    def _frame_parts(self, number: int, known: Known, told: RecordedStepInput) -> Iterator[DeltaPart]:
        # What lives on for this frame alone goes first.
        members = sorted(known.items(), key=lambda item: not item[0].startswith("law."))
        pieces = [piece for member, value in members for piece in whole(member, value)]
        del known, members
        self.frame_weight = sum(map(weight, pieces)) / 2 if told.begins else 0.0
        yield DeltaPart(
            0.0,
            header={
                "frame": number,
                "begins": told.begins,
                "pieces": len(pieces),
                "program": self._program,
                "in_force": told.in_force.body(),
            },
        )
        pieces.reverse()
        while pieces:
            piece = pieces.pop()
            yield DeltaPart(weight(piece), piece={"frame": number, **encoded(piece)})
