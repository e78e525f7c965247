"""Python's own settings, for programs that hold a large cluster in memory. Defaults are made for small ones."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from typing import Any

_OBJECTS, _OBJECTS_MAX = 50_000, 1_600_000
_WORTH_IT = 0.05  # Of the objects that made it look.


def tune_gc() -> None:
    """A large cluster is a million objects that live from one look to the next and hold no cycles. At Python's own thresholds
    the search for cycles among them takes half of the tuner's time, and nobody is answered while it lasts: a tenth of a second
    for the larger ones. So as long as next to nothing is found, the next search waits for twice as many objects; what a look
    brings is gone again with the one after, and from some size on nothing is searched at all.
    """
    gc.set_threshold(_OBJECTS, 20, 100)
    if _found not in gc.callbacks:
        gc.callbacks.append(_found)


def _found(phase: str, info: Mapping[str, Any]) -> None:
    if phase == "stop":
        objects, *older = gc.get_threshold()
        worth_it = info["collected"] >= _WORTH_IT * objects
        gc.set_threshold(_OBJECTS if worth_it else min(2 * objects, _OBJECTS_MAX), *older)


def shorten_gil_switch() -> None:
    """A cycle of a large cluster computes for a second, and an answer over HTTP needs the interpreter four times or so. At
    Python's own 5 ms for each it would wait longer than it takes."""
    sys.setswitchinterval(0.0005)
