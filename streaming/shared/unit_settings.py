"""Setting types whose values may carry a unit: ``50MB/s``, ``30s``, ``2h``, ``2GiB``.

A plain number is in the unit that ends the setting's name: ``window_s: 30`` equals ``window_s: 30s``. A rate below 1 kB/s without
a unit is refused, because ``50`` most likely means 50 MB/s. Each type carries a ``UnitHint``; the generated reference
(docs/reference/configuration.md) shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from pydantic import AllowInfNan, BeforeValidator

from streaming.shared.units import (
    is_small_plain_rate,
    parse_bytes,
    parse_rate,
    parse_span_from_zero,
    small_plain_rate_error,
)

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class UnitHint:
    """Describes values with a unit in the generated settings reference.

    Attributes:
        kind: for example ``rate``.
        example: for example ``50MB/s``.
    """

    kind: str
    example: str


def _with_unit(parse: Callable[[str], float]) -> BeforeValidator:
    """Returns a validator that parses text with a unit. pydantic parses all other values, including plain numbers as text."""

    def read(value: object) -> object:
        if not isinstance(value, str) or _is_number(value):
            return value
        return parse(value)

    return BeforeValidator(read)


def _plain_rate(value: object) -> object:
    """Refuses a small number without a unit. The number may be text, from an environment variable."""
    is_plain = (isinstance(value, int | float) and not isinstance(value, bool)) or (
        isinstance(value, str) and _is_number(value)
    )
    if is_plain and is_small_plain_rate(float(value)):  # type: ignore[arg-type]
        raise small_plain_rate_error(str(value).strip())
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _milliseconds(text: str) -> float:
    try:
        return round(1000 * parse_span_from_zero(text), 6)
    except ValueError:
        raise ValueError(f"expected a time such as 50ms, 2s, or a plain number of ms, found {text!r}") from None


def _mebibytes(text: str) -> float:
    try:
        return round(parse_bytes(text) / _MIB)
    except ValueError:
        raise ValueError(f"expected a size such as 1024MiB, 2GiB, or a plain number of MiB, found {text!r}") from None


_TIME = UnitHint("time", "30s, 2h")
_SHORT_TIME = UnitHint("time", "50ms, 2s")

# Bytes/s. Pydantic calls the last validator first, so ``_plain_rate`` sees the original value.
Rate = Annotated[
    float, AllowInfNan(False), _with_unit(parse_rate), BeforeValidator(_plain_rate), UnitHint("rate", "50MB/s")
]
Seconds = Annotated[float, AllowInfNan(False), _with_unit(parse_span_from_zero), _TIME]
WholeSeconds = Annotated[int, _with_unit(parse_span_from_zero), _TIME]
Milliseconds = Annotated[float, AllowInfNan(False), _with_unit(_milliseconds), _SHORT_TIME]
WholeMilliseconds = Annotated[int, _with_unit(_milliseconds), _SHORT_TIME]
Mebibytes = Annotated[int, _with_unit(_mebibytes), UnitHint("size", "2GiB")]
