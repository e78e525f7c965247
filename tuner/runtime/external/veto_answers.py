"""Reads the answers of vetoes: JSON of any service, or the result of a Prometheus query."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from streaming.shared.foreign_text import printable_start
from tuner.core.value import value
from tuner.runtime.external.http_client import FailureKind, NoAnswer
from tuner.settings.external import VetoSettings

_CAUSE_CHARS_MAX = 200
_NO_NUMBER = "its value is not a finite number"


@value
class VetoAnswer:
    """A valid answer of a check: whether it vetoes, and why."""

    vetoes: bool
    cause: str = ""


def read_answer(body: bytes, settings: VetoSettings) -> VetoAnswer:
    """Returns the answer of a check.

    Raises:
        NoAnswer: the body is no valid answer.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NoAnswer(FailureKind.NOT_JSON, "its answer is not JSON") from error
    if not isinstance(document, dict):
        raise NoAnswer(FailureKind.NO_VALUE, "its answer is no JSON object")
    return _read_prometheus(document, settings) if settings.prometheus is not None else _read_json(document, settings)


def _read_json(document: dict[str, Any], settings: VetoSettings) -> VetoAnswer:
    if settings.above is None and settings.below is None:
        vetoes = document.get("veto")
        if not isinstance(vetoes, bool):
            raise NoAnswer(FailureKind.NO_VALUE, "its answer has no key veto with true or false")
        cause = document.get("cause")
        text = printable_start(cause, _CAUSE_CHARS_MAX) if isinstance(cause, str) and cause else "it answers veto: true"
        return VetoAnswer(vetoes, text)
    if "value" not in document:
        raise NoAnswer(FailureKind.NO_VALUE, "its answer has no key value")
    return _compare([_number(document["value"])], settings)


def _read_prometheus(document: dict[str, Any], settings: VetoSettings) -> VetoAnswer:
    data = document.get("data")
    if document.get("status") != "success" or not isinstance(data, dict):
        raise NoAnswer(FailureKind.NO_VALUE, "its answer is no successful result of a Prometheus query")
    values = list(_sample_values(data))
    if not values:
        if settings.above is None and settings.below is None:
            return VetoAnswer(vetoes=False)
        raise NoAnswer(FailureKind.NO_VALUE, "the query returns no series")
    return _compare(values, settings)


def _sample_values(data: dict[str, Any]) -> Iterator[Any]:
    """Yields the values of an instant vector or of a scalar."""
    result = data.get("result")
    try:
        match data.get("resultType"):
            case "scalar":
                yield result[1]  # type: ignore[index]
            case "vector":
                for series in result:  # type: ignore[union-attr]
                    yield series["value"][1]
            case _:
                raise NoAnswer(FailureKind.NO_VALUE, "the query returns neither an instant vector nor a scalar")
    except (TypeError, KeyError, IndexError) as error:
        raise NoAnswer(FailureKind.NO_VALUE, "its result is not as Prometheus describes it") from error


def _compare(values: list[Any], settings: VetoSettings) -> VetoAnswer:
    """Returns the answer for one or more values: a veto if any value exceeds the threshold.

    Raises:
        NoAnswer: no value exceeds the threshold, and at least one value is no number.
    """
    numbers = list(map(_number, values))
    for number in numbers:
        if not math.isnan(number) and settings.exceeds(number):
            return VetoAnswer(vetoes=True, cause=_cause(number, settings))
    if any(map(math.isnan, numbers)):
        raise NoAnswer(FailureKind.NOT_A_NUMBER, _NO_NUMBER)
    return VetoAnswer(vetoes=False)


def _cause(number: float, settings: VetoSettings) -> str:
    if settings.above is not None:
        return f"its value {number:.6g} is above {settings.above:g}"
    if settings.below is not None:
        return f"its value {number:.6g} is below {settings.below:g}"
    return f"the query returns a series, with the value {number:.6g}"


def _number(raw: Any) -> float:
    """Returns a finite number, which may be given as text; NaN for anything else."""
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        return math.nan
    try:
        number = float(raw)
    except (ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan
