"""The two clocks of a process as one value, so that tests and simulations can set the time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """Reads the time; by default the time of this machine.

    Attributes:
        wall_s: seconds since 1970; the time in records and orders. It may jump.
        monotonic_s: seconds since an arbitrary moment; for measuring intervals. It never goes back.
    """

    wall_s: Callable[[], float] = time.time
    monotonic_s: Callable[[], float] = time.monotonic

    def now_ms(self) -> int:
        """Returns the wall clock in whole milliseconds."""
        return round(self.wall_s() * 1000)
