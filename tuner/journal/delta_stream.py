"""Turns successive steps of one controller into changes, with a full frame from time to time.

The throttles (cycles and steering ticks), the mutation quotas, the preferred leaders and Cruise Control have a stream each. A
stream begins, ends and writes its frames on its own, because a burst of topic creations is unrelated to a move. All streams share
the records and the step numbers.

Terms:
    step    one cycle or steering tick: its time, the state fields that changed before it, and its decisions.
    frame   all state fields just before one step, so that a replay can begin there.

Invariant: a step is encoded only after the previous step was encoded completely, so ``_state`` is the state after the previous
step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tuner.journal.codec import StateValues, diff_field, encode_piece, piece_weight, search_weight, whole_field
from tuner.journal.settings_snapshot import SettingsSnapshot

FRAME_EVERY_S = 600.0


@dataclass(frozen=True, slots=True)
class RecordedStepInput:
    """One step, as the controller reports it.

    Attributes:
        kind: "cycle", "steering", "quotas", "election" or "movements".
        now_ms: the time of the step, epoch ms.
        state: the state fields that the step was given; only the fields that this kind has.
        state_after: the state fields that the step has changed, with their new values.
        decisions: returns the digest of the step's decisions.
        weight: the cost of writing the digest, in the unit of ``piece_weight``.
        begins: whether the step has no predecessor.
        settings: the settings that the step was decided with.
    """

    kind: str
    now_ms: int
    state: Mapping[str, Any]
    state_after: Mapping[str, Any]
    decisions: Callable[[], Any]
    weight: float
    begins: bool
    settings: SettingsSnapshot


@dataclass(slots=True)
class DeltaPart:
    """A header or a piece to write. If it has neither, ``weight`` is the cost of a search for changes."""

    weight: float
    header: Mapping[str, Any] | None = None
    piece: Mapping[str, Any] | None = None


class DeltaStream:
    """Encodes the steps of one stream.

    Attributes:
        is_running: whether the next step continues the previous step. If False, the next step begins with a frame.
        frame_weight: the weight of the first frame's parts that the next write may take in addition to the steps.
    """

    def __init__(self, program: str) -> None:
        self.is_running = False
        self.frame_weight = 0.0
        self._program = program
        self._state: StateValues = {}  # After the last encoded step.
        self._frame: Iterator[DeltaPart] | None = None
        self._framed_at_ms = 0

    @property
    def has_frame(self) -> bool:
        """Whether a frame is not yet written completely."""
        return self._frame is not None

    def discard(self) -> None:
        """Ends the run after a failed write; the next step begins with a frame."""
        self.is_running = False
        self._frame, self.frame_weight = None, 0.0

    def encode_step(self, number: int, step: RecordedStepInput) -> Iterator[DeltaPart]:
        """Yields the pieces of a step and then its header. Starts a frame at the beginning, and every ``FRAME_EVERY_S``."""
        count = 0
        if step.begins:
            self._state = {}
        else:
            for field, value in step.state.items():
                yield DeltaPart(search_weight(field, self._state[field], value))
                for piece in diff_field(field, self._state[field], value):
                    count += 1
                    yield DeltaPart(piece_weight(piece), piece={"step": number, **encode_piece(piece)})
        self._state |= step.state
        since_ms = step.now_ms - self._framed_at_ms
        # One frame at a time: the rest of the previous frame may still be waiting.
        if step.begins or (step.kind != "steering" and since_ms >= FRAME_EVERY_S * 1000 and self._frame is None):
            self._framed_at_ms = step.now_ms
            self._frame = self._encode_frame(number, dict(self._state), step)
        decisions = step.decisions()
        header = {
            "step": number,
            "kind": step.kind,
            "now_ms": step.now_ms,
            "pieces": count,
            "decisions": decisions,
        }
        yield DeltaPart(step.weight, header=header)
        self._state |= step.state_after

    def next_frame_part(self) -> DeltaPart | None:
        """Returns the next part of the frame; None if no frame is waiting."""
        if self._frame is None:
            return None
        if (part := next(self._frame, None)) is None:
            self._frame = None
            return None
        # Each write takes half of the rest of the first frame, because nothing can be replayed before that frame is complete.
        self.frame_weight = max(0.0, self.frame_weight - part.weight / 2)
        return part

    def _encode_frame(self, number: int, state: StateValues, step: RecordedStepInput) -> Iterator[DeltaPart]:
        # The control state goes first: only this frame still refers to this version of the control state, so its memory becomes
        # free early.
        ordered = sorted(state.items(), key=lambda item: not item[0].startswith("control."))
        pieces = [piece for field, value in ordered for piece in whole_field(field, value)]
        del state, ordered
        self.frame_weight = sum(map(piece_weight, pieces)) / 2 if step.begins else 0.0
        yield DeltaPart(
            0.0,
            header={
                "frame": number,
                "begins": step.begins,
                "pieces": len(pieces),
                "program": self._program,
                "settings": step.settings.body(),
            },
        )
        pieces.reverse()
        while pieces:
            piece = pieces.pop()  # Removed from the list, so that the memory of written pieces becomes free.
            yield DeltaPart(piece_weight(piece), piece={"frame": number, **encode_piece(piece)})
