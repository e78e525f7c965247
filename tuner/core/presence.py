"""Defines the presence report, which every running tuner publishes for commands and for other tuners."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

REPORT_EVERY_S = 5.0
# Four reports may be lost before a tuner counts as ended. A tuner that is killed sends no last report.
ALIVE_S_MAX = 20.0


class TunerMode(StrEnum):
    """The mode of a running tuner."""

    ACTIVE = "active"
    DRY_RUN = "dry_run"
    STANDBY = "standby"  # Another tuner has the lease.
    STARTING = "starting"  # Not ready to act; ``waits_for`` has the reason.


@dataclass(frozen=True, slots=True)
class TunerPresence:
    """The state of one tuner at one moment.

    Attributes:
        holder: host and process id, ``host:pid``.
        since_ms: when the tuner entered this mode.
        reported_at_ms: time of this report, by the clock of the broker that stored it; 0: not sent yet.
        rate_bytes_per_s_max: the ceiling per broker and side, bytes/s.
        highest_ceiling_bytes_per_s: the highest ceiling that a rule of the schedule sets at any time; None: not reported.
        rate_bytes_per_s_min: the lowest rate for a stalled move, bytes/s.
        objective_mode: mode of the latency objective; None without an objective.
        objective_latency_ms: maximum p99 for clients, ms; None without an objective, or if each broker has its own, from its
            baseline.
        unthrottled_moves: "throttle" or "leave": what the tuner does with moves that have no throttle.
        executes_plans: whether the tuner executes plans of ``rheostat reassign``.
        effective_leader_ratio: share of the ceiling that leader sides get while a plan starts more steps.
        page: address of the tuner's web page; empty if it has none.
        waits_for: the reason why the tuner does not act, or the input that it cannot read yet; empty if nothing is missing.
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
    effective_leader_ratio: float = 1.0
    highest_ceiling_bytes_per_s: float | None = None
    page: str = ""
    waits_for: str = ""
    reported_at_ms: int = 0
