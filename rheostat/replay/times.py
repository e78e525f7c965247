"""Moments as people give them: "2026-11-21T03:00", "-2h", "now"."""

from __future__ import annotations

from datetime import UTC, datetime

from rheostat.errors import BadInputError
from streaming.shared.units import parse_span
from tuner.api.sentences import moment


def parse_moment(text: str, now_ms: int, option: str) -> int:
    """Epoch ms; without an offset it is UTC.

    Raises:
        BadInputError: naming ``option`` and what is expected.
    """
    given = text.strip()
    if given == "now":
        return now_ms
    try:
        if given.startswith("-"):
            return now_ms - round(parse_span(given[1:]) * 1000)
        given_at = datetime.fromisoformat(given)
    except ValueError as error:
        raise BadInputError(
            f"{option}: expected a moment such as 2026-11-21T03:00 (UTC, or with an offset), -2h or now, found {text!r}"
        ) from error
    return round((given_at if given_at.tzinfo is not None else given_at.replace(tzinfo=UTC)).timestamp() * 1000)


def moment_text(at_ms: int) -> str:
    return moment(at_ms)
