"""Reads the records of the inputs topic back as steps, each with its inputs.

Each controller has a stream of its own (journal/delta_stream.py). A stream begins with a frame, and a gap in one stream does not
affect the other streams.

Terms:
    step    one run of a controller: its inputs and its decisions.
    frame   the whole state (inputs and memory) before a step. The steps after it have only the changes of the state.
    piece   one change of one field of the state (journal/codec.py). A frame and a step consist of a header and pieces. The header
            has the number of pieces, so a missing piece is noticed.

Invariant: a step is returned only if all its inputs are known. A run whose first records were deleted starts with its first
complete frame. A run of a killed tuner ends with its last complete step. After a missing record a stream continues at the next
frame.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tuner.journal.bodies import InputsBody, decode_body
from tuner.journal.codec import Piece, StateValues, apply_piece, decode_piece
from tuner.journal.input_log import VERSION
from tuner.journal.settings_snapshot import SettingsSnapshot


@dataclass(frozen=True, slots=True)
class RecordingChunk:
    """One record of the inputs topic.

    Attributes:
        run: the id of the tuner process that wrote the record.
        number: the number of the record within its run.
        headers, pieces: the headers and pieces of steps and frames, as JSON objects.
    """

    run: str
    number: int
    at_ms: int
    headers: tuple[Mapping[str, Any], ...]
    pieces: tuple[Mapping[str, Any], ...]


@dataclass(slots=True)
class RecordedStep:
    """One step of a controller. It has ``pieces``, or a ``frame``, or both.

    Attributes:
        kind: a key of ``STREAM_BY_KIND``.
        decisions: the digest of the step's decisions (journal/decision_digest.py).
        program: the version of rheostat that wrote the step.
        pieces: the changes since the previous step; None if they are not known.
        frame: the whole state before the step; None if not recorded with this step.
    """

    run: str
    number: int
    kind: str
    now_ms: int
    decisions: Any
    settings: SettingsSnapshot
    program: str
    pieces: list[Piece] | None
    frame: StateValues | None


# Errors of decoding a record that is valid JSON of another form.
_DECODE_ERRORS = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError)


# The stream of each kind of step: a throttle cycle, a steering tick, a mutation quota cycle, a decision about preferred leaders,
# and a decision about Cruise Control.
STREAM_BY_KIND = {
    "cycle": "throttles",
    "steering": "throttles",
    "quotas": "quotas",
    "election": "leadership",
    "movements": "cruise_control",
}


@dataclass(slots=True)
class MissedSteps:
    """Counts the steps and records that a replay cannot use.

    Attributes:
        before_a_frame: steps without a complete frame before them.
        unfinished: steps that the tuner had not written completely when it ended.
        unreadable: records that are damaged or of a later version.
        older: records of an earlier version of rheostat.
    """

    before_a_frame: int = 0
    unfinished: int = 0
    unreadable: int = 0
    older: int = 0


def decode_chunk(value: bytes) -> RecordingChunk:
    """Returns a record of the inputs topic. Raises as ``decode_body``."""
    body = decode_body(value, InputsBody, VERSION)
    return RecordingChunk(
        run=body.run, number=body.record, at_ms=body.at_ms, headers=tuple(body.headers), pieces=tuple(body.pieces)
    )


def recorded_steps(chunks: Iterable[RecordingChunk], missed: MissedSteps) -> Iterator[RecordedStep]:
    """Yields the usable steps in the order of the records, one run after the other.

    Args:
        missed: counts the steps that are left out.
    """
    runs: dict[str, list[RecordingChunk]] = {}
    for chunk in chunks:
        runs.setdefault(chunk.run, []).append(chunk)
    for run, run_chunks in runs.items():
        for section in _gapless_sections(sorted(run_chunks, key=lambda chunk: chunk.number)):
            yield from _SectionReader(missed).read(run, section)


def _gapless_sections(chunks: Iterable[RecordingChunk]) -> Iterator[list[RecordingChunk]]:
    """Yields the records of one run in sections without missing numbers."""
    section: list[RecordingChunk] = []
    for chunk in chunks:
        if section and chunk.number == section[-1].number:
            continue  # A duplicate of a retried write.
        if section and chunk.number != section[-1].number + 1:
            yield section
            section = []
        section.append(chunk)
    if section:
        yield section


@dataclass(slots=True)
class _Frame:
    """A frame whose pieces are being read."""

    header: Mapping[str, Any]
    pieces: list[Piece] = field(default_factory=list)
    pieces_read: int = 0  # Also counts pieces of state fields that this version does not know.

    def state(self) -> StateValues | None:
        """Returns the state; None while fewer pieces have been read than the header counts."""
        if self.pieces_read < self.header["pieces"]:
            return None
        state: StateValues = {}
        for piece in self.pieces:
            apply_piece(state, piece)
        return state


@dataclass(slots=True)
class _StreamState:
    """The state of one stream after its last step.

    Attributes:
        frame_header: the header of the last frame. It has the settings and the version of rheostat.
        is_running: whether the last step was returned, so that the next step may continue it.
        is_unfinished: True from an incomplete step of a running stream, or an incomplete frame, until the next returned step.
            Meanwhile an unusable step counts as ``unfinished``; at other times it counts as ``before_a_frame``.
    """

    frame_header: Mapping[str, Any] | None = None
    is_running: bool = False
    is_unfinished: bool = False


class _SectionReader:
    """Reads consecutive records of one run."""

    def __init__(self, missed: MissedSteps) -> None:
        self._missed = missed
        self._step_headers: list[Mapping[str, Any]] = []
        # By step. None stands for a piece of a state field that this version does not know.
        self._pieces: defaultdict[int, list[Piece | None]] = defaultdict(list)
        self._frames: dict[int, _Frame] = {}  # By step.

    def read(self, run: str, chunks: Iterable[RecordingChunk]) -> Iterator[RecordedStep]:
        for chunk in chunks:
            try:
                self._add_chunk(chunk)
            except _DECODE_ERRORS:
                self._missed.unreadable += 1
                break  # The following steps need this record.
        yield from self._steps(run)

    def _add_chunk(self, chunk: RecordingChunk) -> None:
        for header in chunk.headers:
            if "frame" in header:
                self._frames[header["frame"]] = _Frame(header)
            else:
                self._step_headers.append(header)
        for body in chunk.pieces:
            piece = decode_piece(body)
            if "step" in body:
                self._pieces[body["step"]].append(piece)
            # The header of a frame may be before the first record; then the frame cannot be complete.
            elif (frame := self._frames.get(body["frame"])) is not None:
                frame.pieces_read += 1
                frame.pieces += [piece] if piece is not None else []

    def _steps(self, run: str) -> Iterator[RecordedStep]:
        streams: defaultdict[str, _StreamState] = defaultdict(_StreamState)
        for header in self._step_headers:
            try:
                step = self._build_step(run, header, streams)
            except _DECODE_ERRORS:
                self._missed.unreadable += 1
                streams.clear()  # All streams continue at their next frame.
                continue
            if step is not None:
                yield step

    def _build_step(
        self, run: str, header: Mapping[str, Any], streams: defaultdict[str, _StreamState]
    ) -> RecordedStep | None:
        """Returns a step; None if not all its inputs are known. Raises ``_DECODE_ERRORS``."""
        number, stream = header["step"], streams[STREAM_BY_KIND[header["kind"]]]
        frame = self._frames.pop(number, None)
        pieces = self._pieces.pop(number, [])
        if frame is not None:
            stream.frame_header = frame.header
        state = frame.state() if frame is not None else None
        begins_anew = frame is not None and frame.header["begins"]
        continues = stream.is_running and not begins_anew and len(pieces) == header["pieces"]
        if state is None and not continues:
            stream.is_unfinished = stream.is_unfinished or stream.is_running or frame is not None
            stream.is_running = False
            if stream.is_unfinished:
                self._missed.unfinished += 1
            else:
                self._missed.before_a_frame += 1
            return None
        stream.is_running, stream.is_unfinished = True, False
        frame_header = stream.frame_header
        assert frame_header is not None, "a delta stream begins with a frame"
        return RecordedStep(
            run=run,
            number=number,
            kind=header["kind"],
            now_ms=header["now_ms"],
            decisions=header["decisions"],
            settings=SettingsSnapshot.from_body(frame_header["settings"]),
            program=frame_header["program"],
            pieces=[piece for piece in pieces if piece is not None] if continues else None,
            frame=state,
        )
