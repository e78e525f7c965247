"""Reads the limits for a plan, and checks the plan's throttle against them before the plan is submitted.

The limits come from the report of the tuner that will execute the plan, not from this command's settings file. That file may differ
from the tuner's file, or be newer than the settings that the tuner has read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from rheostat.config.schedule import settings_now
from rheostat.config.settings import Settings
from rheostat.errors import BadInputError
from rheostat.tuner_presence import read_tuners
from streaming.shared.units import rate_text
from tuner.control.throttle.plan_moves import plan_throttle_rate
from tuner.core.presence import REPORT_EVERY_S, TunerMode, TunerPresence
from tuner.core.reassignment_plan import PlanThrottle
from tuner.settings.tuner import TunerSettings

# How long to wait for a report: a tuner that has just started may not have reported yet.
_REPORTED_S_MAX = REPORT_EVERY_S + 2.0
_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class PlanConstraints:
    """The rate that a plan may use, and its source.

    Attributes:
        source: text that says where the limits come from, such as "the tuner on host-1".
        ceiling_bytes_per_s: highest rate for each broker and side.
        highest_ceiling_bytes_per_s: the highest ceiling of all periods of the schedule; None if there is no schedule.
        throttle: the throttle that the operator requested with the plan.
        objective: the latency objective as text; None if no objective is set.
        effective_leader_ratio: share of the rate that leaders get while the plan still starts steps; above 0, at most 1.
        tuner: the tuner that executes the plan; None if no tuner would execute the plan now.
        no_executor: why no tuner would execute the plan, and what to do; None if a tuner would execute the plan.
        differences: sentences on values in this command's settings file that differ from the tuner's values.
    """

    source: str
    ceiling_bytes_per_s: float
    highest_ceiling_bytes_per_s: float | None = None
    throttle: PlanThrottle = field(default_factory=PlanThrottle)
    objective: str | None = None
    effective_leader_ratio: float = 1.0
    tuner: TunerPresence | None = None
    no_executor: str | None = None
    differences: tuple[str, ...] = ()

    @property
    def rate_bytes_per_s(self) -> int | None:
        """The highest rate of the plan for each broker and side; None if the plan is not throttled."""
        return plan_throttle_rate(self.throttle, self.ceiling_bytes_per_s)


def read_constraints(
    settings: Settings, throttle: PlanThrottle, *, lease_has_members: bool, standalone: bool
) -> PlanConstraints:
    """Reads the constraints of a plan that is submitted now.

    Args:
        lease_has_members: whether the lease's consumer group has a member. Without a member, the command does not wait for a
            report.
        standalone: this command starts a tuner if no tuner is active.

    Raises:
        BadInputError: the throttle is above the ceiling.
        CommandError: the reports of the tuners cannot be read.
    """
    deadline_s = time.monotonic() + (_REPORTED_S_MAX if lease_has_members else 0.0)
    while not (tuners := read_tuners(settings, round(time.time() * 1000))) and time.monotonic() < deadline_s:
        threading.Event().wait(_POLL_S)
    running = drop_killed_tuners(tuners, lease_has_members=lease_has_members)
    return check_throttle(select_constraints(settings, running, throttle, standalone=standalone))


def drop_killed_tuners(tuners: Sequence[TunerPresence], *, lease_has_members: bool) -> list[TunerPresence]:
    """Returns the tuners, without killed tuners.

    Active and standby tuners are members of the lease. If the lease has no member, their reports were left by killed processes.
    Tuners that are starting or in a dry run are never members, so their reports are kept.
    """
    without_lease = (TunerMode.DRY_RUN, TunerMode.STARTING)
    return [tuner for tuner in tuners if lease_has_members or tuner.mode in without_lease]


def select_constraints(
    settings: Settings, tuners: Sequence[TunerPresence], throttle: PlanThrottle, *, standalone: bool
) -> PlanConstraints:
    """Returns the limits that the executing tuner has reported; ``check_throttle`` compares the throttle with them.

    If no tuner runs, or if this command starts the tuner, the limits come from the settings file of this command.

    Args:
        throttle: the throttle that the operator requested with the plan.
        tuners: the tuners that run, an active tuner first.
        standalone: this command starts a tuner if no tuner is active.
    """
    executor = next((tuner for tuner in tuners if tuner.executes_plans), None)
    if executor is None and standalone:
        return _from_settings(settings, throttle, "the tuner that this command starts", no_executor=None)
    if executor is None and not tuners:
        reason = _no_executor_text(settings, tuners)
        return _from_settings(settings, throttle, "the settings file, as no tuner runs", no_executor=reason)
    # Without an executor the limits of another tuner are shown: the operator has to make that tuner execute plans.
    tuner = executor or tuners[0]
    return PlanConstraints(
        source=f"the tuner on {tuner.holder}, {_mode_text(tuner)}",
        ceiling_bytes_per_s=tuner.rate_bytes_per_s_max,
        highest_ceiling_bytes_per_s=tuner.highest_ceiling_bytes_per_s,
        throttle=throttle,
        objective=_objective_text(tuner.objective_latency_ms, tuner.objective_mode),
        effective_leader_ratio=tuner.effective_leader_ratio,
        tuner=executor,
        no_executor=None if executor is not None else _no_executor_text(settings, tuners),
        differences=tuple(_differences(settings, tuner)),
    )


def check_throttle(constraints: PlanConstraints) -> PlanConstraints:
    """Returns ``constraints`` unchanged.

    Raises:
        BadInputError: the throttle is above the ceiling, or below the lowest rate that Kafka accepts.
    """
    rate = constraints.throttle.rate_bytes_per_s_max
    if rate is None:
        return constraints
    # The throttle may be as high as the highest ceiling, because a plan may run until the schedule permits more.
    ceiling = max(constraints.ceiling_bytes_per_s, constraints.highest_ceiling_bytes_per_s or 0.0)
    if rate > ceiling:
        raise BadInputError(
            f"--throttle {rate_text(rate)} is above the ceiling of {rate_text(ceiling)} "
            f"(tuner.rate_bytes_per_s_max of {constraints.source}). Give a lower rate, or raise the ceiling first; nothing was "
            "recorded."
        )
    if rate < 1:
        raise BadInputError(
            f"--throttle {rate:g} B/s: the lowest rate that Kafka accepts is 1 B/s; nothing was recorded."
        )
    return constraints


def describe_rate(constraints: PlanConstraints) -> list[str]:
    """Returns sentences on the highest rate of the plan, its source, and differences to this command's settings file."""
    ceiling = rate_text(constraints.ceiling_bytes_per_s)
    rate = constraints.rate_bytes_per_s
    if rate is None:
        line = (
            f"Not throttled (--unthrottled): the move is as fast as disks and network allow, and may exceed {ceiling}, the "
            "ceiling of "
            f"{constraints.source}. Meanwhile requests of clients may become slow."
        )
    else:
        bound = f"the ceiling of {constraints.source}"
        if rate < constraints.ceiling_bytes_per_s:
            bound = f"the throttle of this plan; {ceiling} is the ceiling of {constraints.source}"
        objective = (
            f"The latency objective may lower this rate ({constraints.objective})."
            if constraints.objective is not None
            else "No latency objective is set, so slow clients do not lower this rate."
        )
        line = f"At most {rate_text(rate)} for each leader and follower throttle: {bound}. {objective}"
    return [line, *constraints.differences]


def _from_settings(
    settings: Settings, throttle: PlanThrottle, source: str, *, no_executor: str | None
) -> PlanConstraints:
    tuner = settings_now(settings).tuner
    return PlanConstraints(
        source=source,
        ceiling_bytes_per_s=tuner.rate_bytes_per_s_max,
        highest_ceiling_bytes_per_s=tuner.highest_ceiling_bytes_per_s,
        throttle=throttle,
        objective=_configured_objective_text(tuner),
        effective_leader_ratio=tuner.effective_leader_ratio(),
        no_executor=no_executor,
    )


def _mode_text(tuner: TunerPresence) -> str:
    match tuner.mode:
        case TunerMode.ACTIVE:
            return "which is active"
        case TunerMode.DRY_RUN:
            return "which is in a dry run"
        case TunerMode.STANDBY:
            return "which stands by"
        case TunerMode.STARTING:
            reason = f" ({tuner.waits_for})" if tuner.waits_for else ""
            return f"which is starting{reason}"


def _objective_text(latency_ms: float | None, mode: str | None) -> str | None:
    """Returns the objective as a clause; None without a mode, which means that there is no objective."""
    if mode is None:
        return None
    latency = "p99 near its value without a move" if latency_ms is None else f"p99 of {latency_ms:g} ms"
    return f"{latency}, mode {mode}"


def _configured_objective_text(settings: TunerSettings) -> str | None:
    objective = settings.control_objective()
    return None if objective is None else _objective_text(objective.latency_ms, objective.mode.value)


def _no_executor_text(settings: Settings, tuners: Sequence[TunerPresence]) -> str:
    """Returns why none of the tuners executes plans, and what to do."""
    if not tuners:
        return (
            f"No tuner runs for cluster {settings.cluster}, so the plan would not be executed; nothing was recorded. Start "
            "`rheostat run` (or `rheostat tune`) with these settings and try again, or let this command run a tuner: --standalone."
        )
    first = tuners[0]
    if all(tuner.mode is TunerMode.DRY_RUN for tuner in tuners):
        return (
            f"The tuner on {first.holder} runs in a dry run and executes no plans; nothing was recorded. Set `tuner.dry_run: "
            "false` in its settings file and restart it, or let this command run a tuner: --standalone."
        )
    return (
        f"The tuner on {first.holder}, {_mode_text(first)}, executes no plans; nothing was recorded. Either "
        "`tuner.reassign.enabled` is false in its settings file, or it is in a dry run, or its executor of plans has failed (see "
        "its log)."
    )


def _differences(settings: Settings, tuner: TunerPresence) -> list[str]:
    """Returns a sentence if the settings file of this command differs from the tuner's values."""
    file = settings_now(settings).tuner
    differences = []
    if file.rate_bytes_per_s_max != tuner.rate_bytes_per_s_max:
        differences.append(f"rate_bytes_per_s_max is {rate_text(file.rate_bytes_per_s_max)}")
    in_file = _configured_objective_text(file)
    in_tuner = _objective_text(tuner.objective_latency_ms, tuner.objective_mode)
    if in_file != in_tuner:
        differences.append(f"the objective is {in_file or 'not set'}, and the tuner has {in_tuner or 'none'}")
    if not differences:
        return []
    return [
        f"The settings file of this command differs from the tuner's values ({'; '.join(differences)}). The tuner's values apply "
        "until the tuner reads that file again."
    ]
