"""Parses the time at which an operator lets a move start: "now", "best", a time of day, or a whole time; and shows such times.

Times without an offset are in the time zone of this machine, and every answer shows its offset.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from rheostat.errors import BadInputError
from streaming.shared.contract.bounds import TIMESTAMP_MS_MAX
from streaming.shared.units import span_text
from tuner.planning.start_time import START_AHEAD_S_MAX

BEST = "best"
NOW = "now"
_TIME_OF_DAY = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_DAYS_SEARCHED = 2
_SHOWN_MS_MAX = TIMESTAMP_MS_MAX - 86_400_000  # A day earlier, so that the time can be shown in any time zone.


@dataclass(frozen=True, slots=True)
class RequestedStart:
    """The start that an operator asked for: a time (epoch ms), or None for the best time."""

    at_ms: int | None


def parse_start(text: str, now_ms: int, option: str) -> RequestedStart:
    """Parses the text of the option. Call it only once: a few seconds later, the same time of day may mean the next day.

    Args:
        option: the name of the option, for messages.

    Raises:
        BadInputError: the text is no time, or a time that does not exist, has passed or is too far ahead.
    """
    stripped = text.strip()
    if stripped == BEST:
        return RequestedStart(None)
    if stripped == NOW:
        return RequestedStart(now_ms)
    of_day = _TIME_OF_DAY.fullmatch(stripped)
    if of_day is not None:
        return RequestedStart(_next_time_of_day(int(of_day[1]), int(of_day[2]), now_ms, option))
    try:
        time = datetime.fromisoformat(stripped)
    except ValueError as error:
        raise BadInputError(
            f"{option}: expected now, best, a time of day such as 22:00, or a time such as 2026-11-21T03:00 or "
            f"2026-11-21T03:00+01:00, found {text!r}"
        ) from error
    start_ms = _epoch_ms(time, option)
    if start_ms < now_ms:
        raise BadInputError(f"{option}: {local_text(start_ms)} has passed; give a later time, or now")
    if start_ms > now_ms + 1000 * START_AHEAD_S_MAX:
        raise BadInputError(
            f"{option}: {local_text(start_ms)} is more than {span_text(START_AHEAD_S_MAX)} ahead; give an earlier time, because "
            "the cluster changes until then, and forecasts reach no further"
        )
    return RequestedStart(start_ms)


def local_text(at_ms: int) -> str:
    """Returns a time in the time zone of this machine, such as "2026-11-21 03:00+01:00"; no time is after the year 9999."""
    return datetime.fromtimestamp(min(at_ms, _SHOWN_MS_MAX) / 1000).astimezone().isoformat(sep=" ", timespec="minutes")


def _next_time_of_day(hour: int, minute: int, now_ms: int, option: str) -> int:
    """Returns the next time at which clocks of this machine show this time of day."""
    today = datetime.fromtimestamp(now_ms / 1000)
    for days in range(_DAYS_SEARCHED):
        # The date is moved without an offset: a day at the change of the clocks has 23 or 25 hours.
        day = (today + timedelta(days=days)).replace(hour=hour, minute=minute, second=0, microsecond=0)
        # When clocks are set back, a time of day occurs twice; ``fold`` is 1 for the second time.
        for fold in (0, 1):
            at_ms = round(day.replace(fold=fold).timestamp() * 1000)
            if at_ms >= now_ms:
                return _epoch_ms(day.replace(fold=fold), option)
    raise AssertionError((hour, minute))  # Not reached: each time of day comes within two days.


def _epoch_ms(time: datetime, option: str) -> int:
    """Returns the time in epoch ms. Raises BadInputError if clocks of this machine never show it."""
    try:
        at_s = time.timestamp()
        shown = datetime.fromtimestamp(at_s) if time.tzinfo is None else time
    except (OverflowError, ValueError, OSError) as error:
        raise BadInputError(f"{option}: {time} is a time that this machine cannot represent") from error
    if shown != time.replace(fold=shown.fold):
        raise BadInputError(
            f"{option}: {time:%Y-%m-%d %H:%M} does not exist, because clocks are set forward then; give a time an hour earlier or "
            "later"
        )
    return round(at_s * 1000)
