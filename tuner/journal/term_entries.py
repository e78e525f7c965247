"""Builds and reads the journal entries about a leadership term: the tuner that became active, and the settings in force.

The status page draws the ceiling and the objective of an earlier time from these entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from streaming.shared.units import rate_text
from tuner.control.throttle.objective import Mode, Objective
from tuner.core.throttle_limits import ThrottleLimits
from tuner.journal.entries import Entry

BEGIN_TERM = "begin_term"
FOLLOW_SETTINGS = "follow_settings"
_TERM_BEGAN = "term_began"
_SETTINGS_CHANGED = "settings_changed"


@dataclass(frozen=True, slots=True)
class SettingsInForce:
    """The ceiling and the objective from one moment on.

    Attributes:
        rate_bytes_per_s_max: the ceiling of throttles.
        latency_ms: the highest produce p99; None if it follows from the latency without moves, or there is no objective.
        tolerance: ``tuner.objective.tolerance``, the permitted rise of the latency as a share, if ``latency_ms`` is None; None if
            there is no objective.
        mode: the goal for the moves; None if there is no objective.
        rules: the names of the rules of the schedule that apply, joined by commas.
    """

    rate_bytes_per_s_max: float
    latency_ms: float | None = None
    tolerance: float | None = None
    mode: str | None = None
    rules: str = ""

    @property
    def text(self) -> str:
        """The settings as a part of a sentence."""
        if self.latency_ms is not None:
            goal = f"objective {self.latency_ms:g} ms"
        elif self.tolerance is not None:
            goal = f"objective {self.tolerance:.0%} above the latency without a move"
        else:
            goal = "no objective"
        mode = f", mode {self.mode}" if self.mode not in (None, Mode.FAST) else ""
        rules = f", schedule {self.rules}" if self.rules else ""
        return f"ceiling {rate_text(self.rate_bytes_per_s_max)}, {goal}{mode}{rules}"


def settings_in_force(limits: ThrottleLimits, objective: Objective | None) -> SettingsInForce:
    """Returns the settings that a controller has now."""
    has_tolerance = objective is not None and objective.latency_ms is None
    return SettingsInForce(
        rate_bytes_per_s_max=limits.rate_bytes_per_s_max,
        latency_ms=objective.latency_ms if objective is not None else None,
        tolerance=objective.tolerance if objective is not None and has_tolerance else None,
        mode=objective.mode.value if objective is not None else None,
        rules=limits.schedule_rules,
    )


def begin_term_entry(holder: str, program: str, settings: SettingsInForce, at_ms: int, *, dry_run: bool) -> Entry:
    """Returns the entry of a tuner that became active.

    Args:
        holder: the name of the tuner in the lease and in the journal.
        program: the version of rheostat.
    """
    subject = f"the dry run of the tuner {holder}" if dry_run else f"the tuner {holder}"
    return Entry(
        at_ms,
        "decision",
        action=BEGIN_TERM,
        reason=_TERM_BEGAN,
        text=f"{subject} became active, with rheostat {program}: {settings.text}",
        decision={"holder": holder, "program": program, "settings": asdict(settings)},
        dry_run=dry_run,
    )


def follow_settings_entry(settings: SettingsInForce, at_ms: int, *, dry_run: bool) -> Entry:
    """Returns the entry of settings that changed within a term, for example by the schedule."""
    return Entry(
        at_ms,
        "decision",
        action=FOLLOW_SETTINGS,
        reason=_SETTINGS_CHANGED,
        text=f"other settings are in force: {settings.text}",
        decision={"settings": asdict(settings)},
        dry_run=dry_run,
    )


def settings_of(entry: Entry) -> SettingsInForce | None:
    """Returns the settings that an entry names; None if the entry names no settings, or names them in another form."""
    body = entry.decision.get("settings")
    if entry.action not in (BEGIN_TERM, FOLLOW_SETTINGS) or not isinstance(body, Mapping):
        return None
    return _decoded(body)


def _decoded(body: Mapping[str, Any]) -> SettingsInForce | None:
    numbers = {name: body.get(name) for name in ("rate_bytes_per_s_max", "latency_ms", "tolerance")}
    if not isinstance(numbers["rate_bytes_per_s_max"], int | float):
        return None
    if not all(value is None or isinstance(value, int | float) for value in numbers.values()):
        return None
    mode = body.get("mode")
    return SettingsInForce(
        rate_bytes_per_s_max=float(numbers["rate_bytes_per_s_max"]),
        latency_ms=numbers["latency_ms"],
        tolerance=numbers["tolerance"],
        mode=str(mode) if mode is not None else None,
        rules=str(body.get("rules", "")),
    )
