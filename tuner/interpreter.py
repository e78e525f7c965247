"""Python's own settings, for programs that hold a large cluster in memory. Defaults are made for small ones."""

from __future__ import annotations

import gc
import sys


def calm_the_collector() -> None:
    """A large cluster is a million objects that live from one look to the next and hold no cycles. At Python's own thresholds
    the search for cycles among them takes half of the tuner's time."""
    gc.set_threshold(50_000, 20, 100)


def answer_soon() -> None:
    """A cycle of a large cluster computes for a second, and an answer over HTTP needs the interpreter four times or so. At
    Python's own 5 ms for each it would wait longer than it takes."""
    sys.setswitchinterval(0.0005)
