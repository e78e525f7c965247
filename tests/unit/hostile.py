"""Records of hostile or broken clients: valid ones with replaced values, and with bytes cut, changed or inserted."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

NUMBERS = [
    0, 1, -1, 2, 5e-324, 0.0, -0.0, 0.5, 1e-300, 1e-9, 1e15, 1e20, 1e24, -1e24, 1e25, 1e299, -1e299, 1.7e308, float("inf"),
    float("-inf"), float("nan"), 2**31 - 1, 2**31, 2**53, 2**53 + 1, -(2**53), 2**63 - 1, 2**63, -(2**63), 10**400,
    253_402_300_799_999, 253_402_300_800_000, 1_700_000_000_000,
]  # fmt: skip
OTHERS: list[Any] = [
    None, True, False, "", "1", "x", "leader", "follower", "running", "\ud800", "\x1b[31m", "[/x]", "a" * 5_000, [], {}, [[]],
    [None], [1, 2], {"x": 1}, [[[[[[]]]]]],
]  # fmt: skip
VALUES = st.sampled_from(NUMBERS + OTHERS) | st.integers() | st.floats() | st.text(max_size=5)
NESTED = [b"[" * 5_000, b'{"v":3,"a":' * 5_000, b'{"v": 3, "x": ' + b"[" * 900 + b"]" * 900 + b"}"]


def paths(body: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Returns the path of every value in ``body``, as keys and indices."""
    found = [at] if at else []
    if isinstance(body, dict | list):
        for key, inner in body.items() if isinstance(body, dict) else enumerate(body):
            found += paths(inner, (*at, key))
    return found


@st.composite
def records(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Draws a record of ``whole`` with one to three values replaced or removed; seldom with bytes that are not JSON."""
    value = draw(whole)
    if draw(st.integers(0, 30)) == 0:
        return draw(st.sampled_from(NESTED))
    body = json.loads(value)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(paths(body)))
        inner = body
        for key in path[:-1]:
            inner = inner[key]
        if draw(st.integers(0, 9)) == 0:
            del inner[path[-1]]
        else:
            inner[path[-1]] = deepcopy(draw(VALUES))
        if not paths(body):
            break
    value = json.dumps(body).encode()
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(value)))
        value = value[:at] + draw(st.binary(max_size=4)) + value[at + draw(st.integers(0, 4)) :]
    return value
