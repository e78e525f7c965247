"""Tunes the Python interpreter for a process that holds a large cluster in memory."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from typing import Any

# Number of new objects that triggers a collection: the initial and the highest value.
_OBJECTS = 50_000
_OBJECTS_MAX = 1_600_000
# Number of collections of each younger generation that triggers a collection of the second and of the third generation.
_YOUNGER_COLLECTIONS = (20, 100)
_WORTHWHILE_RATIO = 0.05  # A collection is worthwhile if it frees this share of the objects that triggered it.


def tune_gc() -> None:
    """Makes the garbage collector run less often while it frees almost nothing.

    A snapshot of a large cluster is a million objects without reference cycles. At Python's default thresholds the collector takes
    half of the tuner's time, and each long collection delays all HTTP answers by a tenth of a second. So each collection that was
    not worthwhile doubles the number of objects that trigger the next collection.
    """
    gc.set_threshold(_OBJECTS, *_YOUNGER_COLLECTIONS)
    if _adapt_threshold not in gc.callbacks:
        gc.callbacks.append(_adapt_threshold)


def _adapt_threshold(phase: str, info: Mapping[str, Any]) -> None:
    if phase == "stop":
        objects = gc.get_threshold()[0]
        is_worthwhile = info["collected"] >= _WORTHWHILE_RATIO * objects
        gc.set_threshold(_OBJECTS if is_worthwhile else min(2 * objects, _OBJECTS_MAX), *_YOUNGER_COLLECTIONS)


def shorten_gil_switch() -> None:
    """Lets HTTP threads get the interpreter lock sooner while a cycle computes.

    An HTTP answer needs the lock about four times. With Python's default interval, the answer would wait 5 ms each time, which is
    longer than its own work takes.
    """
    sys.setswitchinterval(0.0005)
