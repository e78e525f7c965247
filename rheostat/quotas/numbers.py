"""Numbers of partitions and of rates, as people read them, and as they are typed."""

from __future__ import annotations

import math

_LEAST, _MOST = 1e-6, 1e12  # Beyond these a time is longer than any cluster lives, or a number is a slip.


def parse_number(text: str) -> float:
    """A number above 0.

    Raises:
        ValueError: saying what is expected.
    """
    return _parsed(text, "a number above 0, from 0.000001 to 1e12", _LEAST)


def parse_cost(text: str) -> float:
    """ms, 0 included.

    Raises:
        ValueError: saying what is expected.
    """
    return _parsed(text, "a number of ms, 0 or above", 0.0)


def _parsed(text: str, expected: str, least: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not least <= number <= _MOST:
        raise ValueError(f"expected {expected}, found {text!r}")
    return number


def amount_text(value: float) -> str:
    """Six digits at most, none of them a power of ten, and a minus that is one."""
    text = f"{value:.6g}"
    if "e" in text:
        text = f"{value:.0f}" if abs(value) >= 1 else f"{value:.9f}".rstrip("0").rstrip(".")
    return text.replace("-", "−")
