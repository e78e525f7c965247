"""Answers `rheostat plan estimate --start`: reads the profiles, and forecasts a move that starts now or later."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rheostat.broker_signals import read_link_speeds
from rheostat.config.settings import Settings
from rheostat.errors import BadInputError
from rheostat.line_chart import check_plot_path
from rheostat.plan.cluster_layout import open_cluster
from rheostat.plan.estimate.report import EstimateOptions, EstimateReport
from rheostat.profiles import UsableProfiles, read_profiles, select_usable
from rheostat.start_report import StartReport, answer_start, brokers_of, copy_limits
from rheostat.start_times import RequestedStart, parse_start
from tuner.core.side_load import PlannedPartition
from tuner.planning.copy_forecast import CopyLimits, LinkSpeed
from tuner.settings.schedule_periods import find_period
from tuner.settings.tuner import TunerSettings


@dataclass(frozen=True, slots=True)
class StartOptions:
    """When the move starts.

    Attributes:
        when: the text of --start; None means no forecast.
        plot: the file to draw the forecast into; None means no drawing.
    """

    when: str | None = None
    plot: Path | None = None

    def parse(self, options: EstimateOptions, *, live: bool) -> RequestedStart | None:
        """Checks that the options fit together, and returns the start; None without --start.

        Args:
            live: the figures come from the live cluster.

        Raises:
            BadInputError: the text names the options that do not fit together.
        """
        if self.plot is not None:
            if self.when is None:
                raise BadInputError("--plot draws the forecast of --start: give --start as well, such as --start now.")
            check_plot_path(self.plot)
        if self.when is None:
            return None
        requested = parse_start(self.when, _now_ms(), "--start")
        if not live:
            raise BadInputError(
                "--start: forecasts come from the live cluster: give --config, and leave out --current."
            )
        if options.time_s is not None:
            raise BadInputError(
                "--start and --within cannot be combined: with --start the throttle follows the forecast of each hour, and "
                "--within finds one throttle for the whole move; leave one of them out."
            )
        return requested


def read_start_report(settings: Settings, report: EstimateReport, requested: RequestedStart) -> StartReport | None:
    """Returns the answer; None if there is nothing to copy.

    Raises:
        BadInputError: there are only KIP-73's figures.
        UnreachableError, CommandError: the cluster cannot be read.
    """
    partitions = report.figures.partitions
    if report.has_nothing_to_copy:
        return None
    if not partitions:
        raise BadInputError("--start: a forecast needs the partitions of a plan: name a plan file.")
    with open_cluster(settings, "rheostat-plan") as client:
        profiles, link_speeds = read_profiles(client, settings), read_link_speeds(client, settings)
    now_ms = _now_ms()
    usable = select_usable(profiles, brokers_of(partitions), now_ms)
    return answer_start(
        partitions,
        usable,
        throttle_limits(
            settings.tuner, report.options.rate_bytes_per_s_max, partitions, usable, link_speeds.get, now_ms
        ),
        requested,
        now_ms,
        has_objective=settings.tuner.objective is not None,
    )


def throttle_limits(
    tuner: TunerSettings,
    throttle_bytes_per_s: float | None,
    partitions: Sequence[PlannedPartition],
    profiles: UsableProfiles,
    link_speed: LinkSpeed,
    now_ms: int,
) -> CopyLimits:
    """Returns the limits under which the tuner would copy: at each time the throttle or the ceiling, whichever is lower.

    Args:
        throttle_bytes_per_s: the throttle of the plan; None if the plan has no throttle of its own.
    """
    throttle = math.inf if throttle_bytes_per_s is None else throttle_bytes_per_s
    return copy_limits(
        tuner,
        lambda period: min(throttle, period.rate_bytes_per_s_max),
        partitions,
        profiles,
        link_speed,
        now_ms,
        leader_ratio=find_period(tuner, now_ms).settings.effective_leader_ratio(),
    )


def _now_ms() -> int:
    return round(time.time() * 1000)
