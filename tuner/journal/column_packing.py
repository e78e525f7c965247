"""Columns of plain values as JSON and back, exactly: every float comes back with the bits that it had.

Intuition: a value a broker is a thousand values on a large cluster, and to write each of them out as digits costs more than
to decide on it. So a long column of numbers of one kind is packed as the bytes that they are in memory; a short one stays as
it is, for people to read.

Invariant: ``unpacked(packed(column)) == column``, and each value has its own type again: 1 stays 1 and 1.0 stays 1.0.
"""

from __future__ import annotations

import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Sequence
from itertools import repeat
from typing import Any

COLUMN_MAX = 1_000_000  # Values that one piece may hold; a record says how many in a few bytes.
PLAIN_MAX = 16  # Values; up to here a column is left readable.
_CODES = ("B", "H", "I", "q", "d")
_INT_CODES = (("B", 0, 2**8), ("H", 0, 2**16), ("I", 0, 2**32), ("q", -(2**63), 2**63))


def packed(column: Sequence[Any]) -> Any:
    """A list, or an object that stands for one."""
    if len(column) <= PLAIN_MAX:
        return list(column)
    kinds = set(map(type, column))
    if len(kinds) > 1:
        return list(column)
    (kind,) = kinds
    first = column[0]
    # 0.0 and -0.0 are equal, and are not the same.
    if (kind is not float or first != 0.0) and list(column).count(first) == len(column):
        return {"n": len(column), "same": first}
    if kind is float:
        return _bytes("d", column)
    if kind is int:
        least, most = min(column), max(column)
        code = next((code for code, low, end in _INT_CODES if low <= least and most < end), None)
        if code is not None:
            return _bytes(code, column)
    return list(column)


def unpacked(body: Any) -> list[Any]:
    """
    Raises:
        ValueError: not what ``packed`` makes.
    """
    if isinstance(body, list):
        return body
    try:
        if "same" in body:
            if not 0 <= body["n"] <= COLUMN_MAX:
                raise ValueError(f"{body['n']} values")
            return list(repeat(body["same"], body["n"]))
        numbers = array(body["code"] if body["code"] in _CODES else "")
        numbers.frombytes(b64decode(body["bytes"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a column: {error!r}") from error
    return _little_endian(numbers).tolist()


def _bytes(code: str, column: Sequence[Any]) -> dict[str, Any]:
    return {"code": code, "bytes": b64encode(_little_endian(array(code, column)).tobytes()).decode()}


def _little_endian(numbers: array[Any]) -> array[Any]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
