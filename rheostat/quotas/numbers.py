"""Parses and formats numbers of partitions and rates on the command line."""

from __future__ import annotations

import math

# A value outside this range is a typing error, or leads to times beyond the life of any cluster.
_MIN, _MAX = 1e-6, 1e12


def parse_number(text: str) -> float:
    """Returns a number above 0.

    Raises:
        ValueError: the message says what is expected.
    """
    return _parse(text, "a number above 0, from 0.000001 to 1e12", _MIN)


def parse_per_s(text: str) -> float:
    """Returns a number per second above 0. The ``/s`` is optional.

    Raises:
        ValueError: the message says what is expected.
    """
    return _parse(text.strip().removesuffix("/s"), "a number per second above 0, such as 5 or 5/s", _MIN)


def _parse(text: str, expected: str, minimum: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not minimum <= number <= _MAX:
        raise ValueError(f"expected {expected}, found {text!r}")
    return number


def amount_text(value: float) -> str:
    """Returns the value with at most six digits, without an exponent, and with a real minus sign."""
    text = f"{value:.6g}"
    if "e" in text:
        text = f"{value:.0f}" if abs(value) >= 1 else f"{value:.9f}".rstrip("0").rstrip(".")
    return text.replace("-", "−")
