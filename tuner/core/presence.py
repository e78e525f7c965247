"""The presence of a tuner: what every running tuner tells of itself, for commands and for other tuners."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

REPORT_EVERY_S = 5.0
# Four reports may be lost before a tuner counts as ended. A tuner that is killed says nothing.
ALIVE_S_MAX = 20.0


class TunerMode(StrEnum):
    ACTING = "acting"
    DRY_RUN = "dry_run"
    STANDBY = "standby"  # Another tuner has the lease.
    STARTING = "starting"  # Neither acts nor waits for the lease alone; ``waits_for`` says why.


@dataclass(frozen=True, slots=True)
class TunerPresence:
    """One tuner at one moment.

    Attributes:
        holder: host and process id, ``host:pid``.
        since_ms: since when it is in this mode.
        reported_at_ms: the moment of this report, by the clock of the broker that took it; 0 before it was sent.
        rate_bytes_per_s_max: its ceiling per broker and side, bytes/s.
        rate_bytes_per_s_min: its lowest rate for a stalled move, bytes/s.
        objective_mode: mode of its latency objective; None without an objective.
        objective_latency_ms: p99 that clients may see, ms; None without an objective.
        unthrottled_moves: "throttle" or "leave", moves that have no throttle.
        executes_plans: whether it carries out plans of ``rheostat reassign``.
        plan_leaders_ratio: the part of the ceiling that leaders get while a plan begins more steps.
        page: address of its page; empty if it has none.
        waits_for: why it does not act, or does not see everything yet; empty if all is well.
    """

    holder: str
    mode: TunerMode
    since_ms: int
    version: str
    rate_bytes_per_s_max: float
    rate_bytes_per_s_min: float
    objective_mode: str | None = None
    objective_latency_ms: float | None = None
    unthrottled_moves: str = "leave"
    executes_plans: bool = True
    plan_leaders_ratio: float = 1.0
    page: str = ""
    waits_for: str = ""
    reported_at_ms: int = 0
