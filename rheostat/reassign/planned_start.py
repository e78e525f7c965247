"""Determines when a plan starts (`rheostat reassign start --at`), and forecasts when it ends."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rheostat.broker_signals import read_link_speeds
from rheostat.config.settings import Settings
from rheostat.errors import BadInputError
from rheostat.plan.cluster_layout import open_cluster
from rheostat.profiles import read_profiles, select_usable
from rheostat.reassign.checks import CheckResult
from rheostat.reassign.constraints import PlanConstraints
from rheostat.start_report import StartReport, answer_start, brokers_of, copy_limits, describe_start, to_record
from rheostat.start_times import RequestedStart, local_text, parse_start
from streaming.shared.contract import Side
from streaming.shared.units import span_text
from tuner.control.throttle.plan_moves import plan_throttle_rate
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import SideLoad, drain_s
from tuner.core.side_load import PlannedPartition, side_loads
from tuner.planning.start_time import MOVE_S_MAX
from tuner.settings.tuner import TunerSettings


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """The start time of a plan.

    Attributes:
        not_before_ms: the earliest start, epoch; 0 means at once.
        report: the forecast; None if no time was given, nothing is copied, or the plan is not throttled.
        lines: sentences for the operator.
    """

    not_before_ms: int = 0
    report: StartReport | None = None
    lines: tuple[str, ...] = ()

    def advice(self, plan_id: str) -> str:
        """Returns a sentence for a plan that waits, with a space before it; empty for other plans."""
        if not self.not_before_ms:
            return ""
        return (
            f" The active tuner starts the plan {local_text(self.not_before_ms)}; until then, `rheostat reassign cancel {plan_id}` "
            "withdraws it."
        )

    def record(self) -> dict[str, Any] | None:
        """Returns the JSON object of a dry run; None without a forecast."""
        return None if self.report is None else to_record(self.report)


def parse_planned_start(at: str | None, *, unthrottled: bool) -> RequestedStart | None:
    """Returns the requested start; None without --at.

    Raises:
        BadInputError: the option is no time, or it does not fit the plan.
    """
    if at is None:
        return None
    requested = parse_start(at, _now_ms(), "--at")
    if unthrottled and requested.at_ms is None:
        raise BadInputError(
            "--at best and --unthrottled: without a throttle the duration of a move is not known, so no start time is the "
            "best; give a time instead"
        )
    return requested


def read_planned_start(
    settings: Settings,
    requested: RequestedStart | None,
    partitions: Sequence[PlannedPartition],
    constraints: PlanConstraints,
    result: CheckResult,
) -> PlannedStart:
    """Returns the start of a plan, with a forecast if one is possible.

    Args:
        requested: the requested start; None means at once, without a forecast.
        result: contains the estimated duration of the plan. Under a constant load, the forecast gives the same duration.

    Raises:
        BadInputError: the operator asked for the best start, but the best start is not known.
        UnreachableError, CommandError: the cluster cannot be read.
    """
    if requested is None:
        return PlannedStart()
    rate, loads = constraints.rate_bytes_per_s, side_loads(partitions)
    if rate is None or not loads:
        now_ms = _now_ms()
        if requested.at_ms is None or requested.at_ms <= now_ms:
            return PlannedStart()
        return PlannedStart(requested.at_ms, lines=(f"The plan starts {local_text(requested.at_ms)}.",))
    with open_cluster(settings, "rheostat-reassign") as client:
        profiles, link_speeds = read_profiles(client, settings), read_link_speeds(client, settings)
    now_ms = _now_ms()
    usable = select_usable(profiles, brokers_of(partitions), now_ms)
    report = answer_start(
        partitions,
        usable,
        copy_limits(
            settings.tuner,
            lambda tuner: _highest_rate(tuner, constraints),
            partitions,
            usable,
            link_speeds.get,
            now_ms,
            leader_ratio=constraints.effective_leader_ratio,
        ),
        requested,
        now_ms,
        has_objective=constraints.objective is not None,
        time_ratio=_time_ratio(loads, rate, constraints.effective_leader_ratio, result.expected_s),
    )
    if requested.at_ms is None:
        check_best_start(report)
    start_ms = report.chosen.start_ms
    return PlannedStart(start_ms if start_ms > now_ms else 0, report, tuple(describe_start(report)))


def check_best_start(report: StartReport) -> None:
    """Refuses a best start that would only be "now", because a script that asks for it may run at the busiest hour.

    Raises:
        BadInputError: no start within the next day lets the move end; or all starts are equal, without profiles and without a
            schedule.
    """
    if report.best.end_ms is None:
        raise BadInputError(
            f"--at best: no start within the next day lets the move end within {span_text(MOVE_S_MAX)}, so no start time is "
            "the best. "
            "`rheostat plan estimate --start now` shows what limits the move. Raise that limit, or give a time such as "
            "--at 22:00; nothing was recorded."
        )
    if not report.forecast_brokers and not report.forecast.starts_differ():
        raise BadInputError(
            "--at best: no broker of the plan has a usable profile, and no schedule changes the limits meanwhile, so all start "
            "times are equally good. Give a time such as --at 22:00, or run `rheostat learn` for a day; nothing was recorded."
        )


def _highest_rate(tuner: TunerSettings, constraints: PlanConstraints) -> float:
    """Returns the highest throttle (bytes/s) of a throttled plan while these settings apply."""
    # A tuner reports only its current ceiling. With a schedule, the ceilings therefore come from the settings file of this command.
    ceiling = tuner.rate_bytes_per_s_max if tuner.schedule else constraints.ceiling_bytes_per_s
    return float(plan_throttle_rate(constraints.throttle, ceiling) or ceiling)


def _time_ratio(
    loads: Mapping[BrokerSide, SideLoad], rate_bytes_per_s: float, leader_ratio: float, expected_s: float | None
) -> float:
    """Returns the estimated time as a multiple of the time in which the slowest side copies its bytes."""
    times_s = [
        drain_s(load, rate_bytes_per_s * (leader_ratio if side is Side.LEADER else 1.0))
        for (_, side), load in loads.items()
    ]
    finite_s = [time_s for time_s in times_s if time_s is not None]
    if expected_s is None or len(finite_s) < len(times_s) or not max(finite_s):
        return 1.0
    return expected_s / max(finite_s)


def _now_ms() -> int:
    return round(time.time() * 1000)
