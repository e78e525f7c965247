"""What people have told the tuner: to pause, to take everything back, to set one throttle for a while.

Orders are a state and not a sequence: what holds now is all that counts, also for a tuner that starts tomorrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streaming.shared.contract import Side


@dataclass(frozen=True, slots=True)
class Pause:
    since_ms: int
    by: str  # Who ordered it, and when, for people.
    released: bool = False  # And everything that is ours is taken back.


@dataclass(frozen=True, slots=True)
class Override:
    bytes_per_s: int
    until_ms: int
    by: str  # And until when.


@dataclass(frozen=True, slots=True)
class Orders:
    at_ms: int = 0  # Of the newest; what was done about it carries the same.
    pause: Pause | None = None
    resumed_at_ms: int = 0  # Holds for what somebody else changed before that are over.
    overrides: Mapping[tuple[int, Side], Override] = field(default_factory=dict)
    by: str = ""  # Who gave the newest, whichever it was.
