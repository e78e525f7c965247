"""The records of the inputs as a film: runs of steps, each with all that was seen and remembered before it.

The throttles and the mutation quotas are two reels of it (delta_stream.py): each begins with a frame of its own, and what is
missing of one is not missed by the other.

Invariant: a step is only shown where everything that it needs is there. A run whose beginning was deleted starts with its first
whole frame; one that was killed ends with the last step of which every piece was written; where a record is missing between
two others, what follows waits for a frame.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tuner.journal.bodies import InputsBody
from tuner.journal.bodies import decoded as decoded_body
from tuner.journal.codec import Known, Piece, apply, decoded
from tuner.journal.input_log import VERSION
from tuner.journal.settings_snapshot import SettingsSnapshot


@dataclass(frozen=True, slots=True)
class RecordingChunk:
    run: str
    number: int
    at_ms: int
    headers: tuple[Mapping[str, Any], ...]
    pieces: tuple[Mapping[str, Any], ...]


@dataclass(slots=True)
class RecordedStep:
    """One cycle or second, or one cycle of the quotas.

    ``pieces`` are what changed since the step before, None where that is not known; ``frame`` is all that was known just before
    it was decided, where that is on record as a whole. One of the two is there.
    """

    run: str
    number: int
    kind: str  # "cycle", "second", "quotas"
    now_ms: int
    said: Any  # As said.py has it.
    in_force: SettingsSnapshot
    program: str
    pieces: list[Piece] | None
    frame: Known | None


# What a record may hold that is JSON and none of ours.
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError)


def reel_of(kind: str) -> str:
    return "quotas" if kind == "quotas" else "throttles"


@dataclass(slots=True)
class Missed:
    """What is in the records and cannot be shown."""

    before_a_frame: int = 0  # Steps of which the beginning is not there any more.
    unfinished: int = 0  # Steps of which the tuner had not written everything when it ended.
    unreadable: int = 0  # Records.


def record_of(value: bytes) -> RecordingChunk:
    """
    Raises:
        ValueError: not a record of a version we read.
    """
    body = decoded_body(value, InputsBody, VERSION)
    return RecordingChunk(body.run, body.record, body.at_ms, tuple(body.headers), tuple(body.pieces))


def steps_of(records: Iterable[RecordingChunk], missed: Missed) -> Iterator[RecordedStep]:
    """Every step that can be shown, in the order of the records; of runs that overlap one after the other.

    Args:
        missed: is told of what cannot.
    """
    runs: dict[str, list[RecordingChunk]] = {}
    for record in records:
        runs.setdefault(record.run, []).append(record)
    for run, theirs in runs.items():
        for stretch in _without_gaps(sorted(theirs, key=lambda record: record.number)):
            yield from _Stretch(missed).steps(run, stretch)


def _without_gaps(records: Iterable[RecordingChunk]) -> Iterator[list[RecordingChunk]]:
    stretch: list[RecordingChunk] = []
    for record in records:
        if stretch and record.number == stretch[-1].number:
            continue  # A producer's second try.
        if stretch and record.number != stretch[-1].number + 1:
            yield stretch
            stretch = []
        stretch.append(record)
    if stretch:
        yield stretch


@dataclass(slots=True)
class _Frame:
    header: Mapping[str, Any]
    pieces: list[Piece] = field(default_factory=list)
    came: int = 0

    def known(self) -> Known | None:
        """None while not all of it is there."""
        if self.came < self.header["pieces"]:
            return None
        known: Known = {}
        for piece in self.pieces:
            apply(known, piece)
        return known


@dataclass(slots=True)
class _Reel:
    """What came of its last step."""

    settings: Mapping[str, Any] | None = None
    running: bool = False
    unfinished: bool = False


class _Stretch:
    """Records one after another, none missing."""

    def __init__(self, missed: Missed) -> None:
        self._missed = missed
        self._headers: list[Mapping[str, Any]] = []
        self._pieces: defaultdict[int, list[Piece | None]] = defaultdict(list)  # By step; None: of an unknown member.
        self._frames: dict[int, _Frame] = {}

    def steps(self, run: str, records: Iterable[RecordingChunk]) -> Iterator[RecordedStep]:
        for record in records:
            try:
                self._take(record)
            except _UNREADABLE:
                self._missed.unreadable += 1
                break  # What follows cannot be told without it.
        yield from self._shown(run)

    def _take(self, record: RecordingChunk) -> None:
        for header in record.headers:
            if "frame" in header:
                self._frames[header["frame"]] = _Frame(header)
            else:
                self._headers.append(header)
        for body in record.pieces:
            piece = decoded(body)
            if "step" in body:
                self._pieces[body["step"]].append(piece)
            # Of a frame that began before our first record nothing is whole.
            elif (frame := self._frames.get(body["frame"])) is not None:
                frame.came += 1
                frame.pieces += [piece] if piece is not None else []

    def _shown(self, run: str) -> Iterator[RecordedStep]:
        reels: defaultdict[str, _Reel] = defaultdict(_Reel)
        for header in self._headers:
            try:
                step = self._step(run, header, reels)
            except _UNREADABLE:
                self._missed.unreadable += 1
                reels.clear()  # What follows is told from the next frame on.
                continue
            if step is not None:
                yield step

    def _step(self, run: str, header: Mapping[str, Any], reels: defaultdict[str, _Reel]) -> RecordedStep | None:
        """None where not all that the step needs is there. Raises one of ``_UNREADABLE`` for what is no header or frame."""
        number, reel = header["step"], reels[reel_of(header["kind"])]
        frame = self._frames.pop(number, None)
        pieces = self._pieces.pop(number, [])
        reel.settings = reel.settings if frame is None else frame.header
        known = frame.known() if frame is not None else None
        follows = (
            reel.running and len(pieces) == header["pieces"] and not (frame is not None and frame.header["begins"])
        )
        if known is None and not follows:
            reel.unfinished = reel.unfinished or reel.running or frame is not None
            reel.running = False
            self._missed.unfinished += reel.unfinished
            self._missed.before_a_frame += not reel.unfinished
            return None
        reel.running, reel.unfinished = True, False
        settings = reel.settings
        assert settings is not None, "nothing runs before a frame"
        return RecordedStep(
            run,
            number,
            header["kind"],
            header["now_ms"],
            header["out"],
            SettingsSnapshot.of(settings["in_force"]),
            settings["program"],
            [piece for piece in pieces if piece is not None] if follows else None,
            known,
        )
