"""Encodes columns of plain values as JSON, without loss.

Writing a thousand numbers as digits takes longer than the decision that uses them. So a long column of numbers of one type becomes
the base64 text of their little-endian bytes. A short column stays a readable list.

Invariant: ``unpack_column(pack_column(column)) == column``, with the same types (1 stays int, 1.0 stays float) and float bits.
"""

from __future__ import annotations

import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Sequence
from itertools import repeat
from typing import Any

# Maximum number of values of one column. Without a limit, a small record with a huge count could take any amount of memory.
COLUMN_MAX = 1_000_000
PLAIN_MAX = 16  # Columns up to this length stay readable lists.
_CODES = ("B", "H", "I", "q", "d")  # Type codes of ``array``.
# By code of an integer type: its smallest value, and the value after its largest.
_INT_CODES = (("B", 0, 2**8), ("H", 0, 2**16), ("I", 0, 2**32), ("q", -(2**63), 2**63))


def pack_column(column: Sequence[Any]) -> Any:
    """Returns the column as a JSON list, or as a JSON object that is shorter."""
    if len(column) <= PLAIN_MAX:
        return list(column)
    kinds = set(map(type, column))
    if len(kinds) > 1:
        return list(column)
    (kind,) = kinds
    first = column[0]
    # 0.0 equals -0.0, but their bits differ.
    if (kind is not float or first != 0.0) and list(column).count(first) == len(column):
        return {"n": len(column), "same": first}
    if kind is float:
        return _packed_bytes("d", column)
    if kind is int:
        smallest, largest = min(column), max(column)
        code = next((code for code, start, end in _INT_CODES if start <= smallest and largest < end), None)
        if code is not None:
            return _packed_bytes(code, column)
    return list(column)


def unpack_column(body: Any) -> list[Any]:
    """Returns the values of a packed column.

    Raises:
        ValueError: not a column that ``pack_column`` made.
    """
    if isinstance(body, list):
        return body
    try:
        if "same" in body:
            if not 0 <= body["n"] <= COLUMN_MAX:
                raise ValueError(f"{body['n']} values")
            return list(repeat(body["same"], body["n"]))
        if body["code"] not in _CODES:
            raise ValueError(f"type code {body['code']!r:.20}")
        numbers = array(body["code"])
        numbers.frombytes(b64decode(body["bytes"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a column: {error!r}") from error
    return _little_endian(numbers).tolist()


def _packed_bytes(code: str, column: Sequence[Any]) -> dict[str, Any]:
    return {"code": code, "bytes": b64encode(_little_endian(array(code, column)).tobytes()).decode()}


def _little_endian(numbers: array[Any]) -> array[Any]:
    """Converts between the machine's byte order and little-endian, in place."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
