"""The history of one broker over a range of hours to weeks, as JSON values of at most 50 kB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from streaming.shared.contract import Side
from tuner.api.journal_history import HistoryMark, JournalHistory, shorten
from tuner.api.rate_lines import RatePoint
from tuner.api.sentences import moment
from tuner.api.week_store import HOUR_MS, HOURS, PERIOD_MS, SLOTS, WeekStore

# With six columns of measurements and two lines, this many steps need at most 50 kB.
MEASURED_STEPS_MAX = 336
RATE_STEPS_MAX = 80
_MARKS_MAX = 50
_IN_FORCE_MAX = 30
RANGE_MS_MIN, RANGE_MS_MAX = 60_000, HOURS * HOUR_MS
RANGE_MS_DEFAULT = 24 * HOUR_MS


class HistoryRange(NamedTuple):
    """A range of time, in epoch milliseconds."""

    from_ms: int
    to_ms: int


def time_range(from_ms: int | None, to_ms: int | None, now_ms: int) -> HistoryRange:
    """Returns the range that a request asks for: by default the last day; never shorter than a minute or longer than five weeks.

    A range that begins before the oldest history, or ends in the future, is moved into the history, because the clock of the
    client may be wrong.
    """
    end_ms = min(to_ms if to_ms is not None else now_ms, now_ms)
    end_ms = max(end_ms, now_ms - RANGE_MS_MAX + RANGE_MS_MIN)
    start_ms = from_ms if from_ms is not None else end_ms - RANGE_MS_DEFAULT
    start_ms = max(min(start_ms, end_ms - RANGE_MS_MIN), now_ms - RANGE_MS_MAX)
    return HistoryRange(start_ms, end_ms)


def broker_history_json(
    weeks: WeekStore, journal: JournalHistory, broker: int, shown: HistoryRange, now_ms: int, notes: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns the measurements, the throttles, the settings in force and the marks of the range.

    Args:
        notes: sentences about a source that cannot be read.
    """
    series = weeks.series(broker, *shown, now_ms, MEASURED_STEPS_MAX)
    marks, left_out = journal.marks(broker, *shown, _MARKS_MAX)
    return {
        "broker": broker,
        "now_ms": now_ms,
        "from_ms": shown.from_ms,
        "to_ms": shown.to_ms,
        "measured": {
            "start_ms": series.start_ms,
            "step_ms": series.step_ms,
            **series.columns,
        },
        "throttles": {
            side.value: _line(journal.rates(broker, side, *shown, RATE_STEPS_MAX))
            for side in (Side.LEADER, Side.FOLLOWER)
        },
        "in_force": [
            {
                "since_ms": since_ms,
                "rate_bytes_per_s_max": settings.rate_bytes_per_s_max,
                "latency_ms": settings.latency_ms,
                "text": shorten(settings.text),
            }
            for since_ms, settings in journal.settings(*shown, _IN_FORCE_MAX)
        ],
        "marks": [_mark(mark) for mark in marks],
        "marks_left_out": left_out,
        "notes": [*notes, *history_notes(weeks, journal, shown, now_ms)],
    }


def history_notes(weeks: WeekStore, journal: JournalHistory, shown: HistoryRange, now_ms: int) -> list[str]:
    """Returns sentences about the data that the history of this range lacks."""
    notes = []
    is_older = shown.from_ms // PERIOD_MS <= now_ms // PERIOD_MS - SLOTS
    if is_older and (reason := weeks.older_unread_reason()) is not None:
        notes.append(f"{reason[:1].upper()}{reason[1:]}. The page asks again.")
    since_ms = journal.ticks_since_ms
    if since_ms is not None and shown.from_ms < since_ms:
        notes.append(
            f"The journal no longer has the rates that the control law set before {moment(since_ms)}. Older parts of a throttle's "
            "line have only the other changes."
        )
    first_ms = journal.first_ms
    if first_ms is not None and shown.from_ms < first_ms:
        notes.append(
            f"The journal begins {moment(first_ms)}. The throttle, the ceiling and the marks are not known before."
        )
    return notes


def _line(points: Sequence[RatePoint]) -> dict[str, Any]:
    return {"times_ms": [point.at_ms for point in points], "bytes_per_s": [point.bytes_per_s for point in points]}


def _mark(mark: HistoryMark) -> dict[str, Any]:
    return {"at_ms": mark.at_ms, "kind": mark.kind.value, "id": mark.number, "text": mark.text}
