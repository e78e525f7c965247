"""Parses sizes, rates, shares and durations as people write them ("50MB", "1.5GiB/s", "10%", "1h30m"), and formats them.

Ambiguous text is refused: "50Mb" could mean bits, a share of "10" could mean 10 or 1000 %, and a rate of "50" is 50 B/s although
50 MB/s is likely meant.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

# Units without an i are decimal, as in the throttles of Kafka's own tools.
_BYTES = {
    "": 1.0,
    "B": 1.0,
    "kB": 1e3,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "PB": 1e15,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
    "PiB": 2.0**50,
}
_BITS = {"bit": 1 / 8, "kbit": 1e3 / 8, "Mbit": 1e6 / 8, "Gbit": 1e9 / 8}
# For each unit: the smallest size in bytes that is shown in this unit, the bytes of the unit, and its name.
_SIZE_UNITS = tuple(
    (0.9995 * factor, factor, unit)
    for factor, unit in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
)
_SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PLAIN_RATE_MIN = 1_000.0  # Bytes/s. A rate below it without a unit is most likely megabytes.
_AMOUNT = re.compile(r"(\d+(?:\.\d*)?(?:[eE]\d+)?)\s*([A-Za-z]*)")
_SPAN_EXAMPLES = "90s, 45min, 1h30m, or a plain number of seconds"
_SPAN = re.compile(r"(\d+(?:\.\d*)?)\s*(ms|s|min|m|h|d)\s*")


def parse_bytes(text: str) -> float:
    """Returns bytes.

    Raises:
        ValueError: the message says what is expected.
    """
    return _amount(text, _BYTES, "a size such as 50MB, 1.5GiB, or a plain number of bytes")


def parse_rate(text: str) -> float:
    """Returns bytes/s. The ``/s`` is optional.

    Raises:
        ValueError: the message says what is expected; also for a number above 0 and below 1000 without a unit.
    """
    expected = "a rate such as 50MB/s, 1.5GiB/s, 10Gbit/s, or a plain number of bytes/s"
    amount = text.strip().removesuffix("/s")
    rate = _amount(amount, _BYTES | _BITS, expected, text)
    if is_small_plain_rate(rate) and not amount[-1:].isalpha():
        raise small_plain_rate_error(amount.strip())
    return rate


def is_small_plain_rate(number: float) -> bool:
    """Returns whether this number of bytes/s is so small that a missing unit is likely."""
    return 0 < number < _PLAIN_RATE_MIN


def small_plain_rate_error(number: str) -> ValueError:
    return ValueError(f"{number} without a unit is {number} B/s; did you mean {number}MB/s? If not, write {number}B/s")


def parse_share(text: str) -> float:
    """Returns a share from 0 to 1.

    Raises:
        ValueError: the message says what is expected.
    """
    number, percent, rest = text.strip().partition("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = math.nan
    if rest or not 0 <= share <= 1:
        raise ValueError(f"expected a share from 0% to 100%, or from 0 to 1, found {text!r}")
    return share


def parse_span(text: str) -> float:
    """Returns seconds, more than 0.

    Raises:
        ValueError: the message says what is expected.
    """
    seconds = _seconds(text)
    if seconds is None or seconds <= 0:
        raise ValueError(f"expected a time above 0 such as {_SPAN_EXAMPLES}, found {text!r}")
    return seconds


def parse_span_from_zero(text: str) -> float:
    """Returns seconds, 0 or more.

    Raises:
        ValueError: the message says what is expected.
    """
    seconds = _seconds(text)
    if seconds is None:
        raise ValueError(f"expected a time such as {_SPAN_EXAMPLES}, found {text!r}")
    return seconds


def _seconds(text: str) -> float | None:
    """Returns seconds; None if the text is no duration."""
    parts = _SPAN.findall(text)
    if re.fullmatch(r"\d+(\.\d*)?", text.strip()):
        return float(text)
    if parts and not _SPAN.sub("", text).strip():
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return None


def positive(parse: Callable[[str], float]) -> Callable[[str], float]:
    """Returns a parser like ``parse`` that also refuses 0."""

    def parse_positive(text: str) -> float:
        value = parse(text)
        if value <= 0:
            raise ValueError(f"expected more than 0, found {text!r}")
        return value

    return parse_positive


def size_text(n_bytes: float) -> str:
    """Returns bytes with three digits and a decimal unit: "4.50 MB"."""
    size = abs(n_bytes)
    for smallest, factor, unit in _SIZE_UNITS:
        if size >= smallest:
            return f"{three_digits(n_bytes / factor)} {unit}"
    return f"{n_bytes:.0f} B"


def rate_text(bytes_per_s: float) -> str:
    """Returns bytes/s in the form of ``size_text``. tuner/api/page/static/units.js formats rates the same way."""
    return f"{size_text(bytes_per_s)}/s"


def span_text(seconds: float) -> str:
    """Returns seconds in two units at most, rounded: "89 s", "1 h 30 min"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 25:  # Below this value, rounding to whole seconds would cause an error of more than 2 %.
        number = f"{seconds:.1f}".removesuffix(".0")
        return f"{number} s"
    if round(seconds) < 120:
        return f"{seconds:.0f} s"
    # Seconds in the larger unit, its name, seconds in the smaller unit, its name.
    for large_s, large, small_s, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if round(seconds / small_s) * small_s >= large_s:
            whole, rest = divmod(round(seconds / small_s), large_s // small_s)
            return f"{whole} {large} {rest} {small}" if rest else f"{whole} {large}"
    raise AssertionError(seconds)  # Not reached: the last row fits every time from two minutes on.


def count_text(count: int, noun: str) -> str:
    """Returns a count with its noun: "1 partition", "3 partitions"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def share_text(share: float) -> str:
    return f"{three_digits(100 * share)} %"


def _amount(text: str, units: Mapping[str, float], expected: str, shown: str | None = None) -> float:
    """Returns a number times the factor of its unit.

    Args:
        expected: the expected form, for the error message.
        shown: the text for the error message, if it is not ``text``.

    Raises:
        ValueError: the text is not a number with one of the units.
    """
    match = _AMOUNT.fullmatch(text.strip())
    shown = text if shown is None else shown
    if match is None or match[2] not in units:
        hint = ""
        if match is not None and match[2].lower() in {"kb", "mb", "gb", "tb", "pb"}:
            unit = match[2][0].upper()
            hint = f" ({unit}B is bytes, {unit}bit/s is bits)" if "bit" in units else f" ({unit}B is bytes)"
        raise ValueError(f"expected {expected}, found {shown!r}{hint}")
    value = float(match[1]) * units[match[2]]
    if not math.isfinite(value):
        raise ValueError(f"expected {expected}, found {shown!r}")
    return value


def three_digits(value: float) -> str:
    """Returns a number with three significant digits, or with all digits before the decimal point."""
    if abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"
