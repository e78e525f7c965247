"""Parses the times of the command line: "2026-11-21T03:00", "-2h", "now"."""

from __future__ import annotations

from datetime import UTC, datetime

from rheostat.errors import BadInputError
from streaming.shared.units import parse_span
from tuner.api.sentences import moment


def parse_moment(text: str, now_ms: int, option: str) -> int:
    """Returns the time in epoch ms. A time without an offset is UTC.

    Args:
        option: the name of the option, for the message.

    Raises:
        BadInputError: the text is not a time.
    """
    stripped = text.strip()
    if stripped == "now":
        return now_ms
    try:
        if stripped.startswith("-"):
            return now_ms - round(parse_span(stripped[1:]) * 1000)
        time = datetime.fromisoformat(stripped)
    except ValueError as error:
        raise BadInputError(
            f"{option}: expected a moment such as 2026-11-21T03:00 (UTC, or with an offset), -2h or now, found {text!r}"
        ) from error
    return round((time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp() * 1000)


def moment_text(at_ms: int) -> str:
    return moment(at_ms)
