"""Estimates the throttle rate and the duration of a reassignment, and converts the estimate to JSON. Does no I/O.

There are two answers: by KIP-73's formula for the whole cluster, and, more precisely, from the load of each side. A side is a
broker in one role of replication, leader or follower; each side has its own throttle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, BadInputError
from rheostat.plan.estimate.sources import EstimateFigures
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import (
    RateEstimate,
    RateVerdict,
    SideLoad,
    drain_s,
    estimate_rate,
    rate_bytes_per_s_min,
    rate_for_time,
)
from tuner.core.side_load import idle_steady_state_bytes_per_s, side_loads
from tuner.planning.kip73 import ResponseRule

_WHOLE_CLUSTER = "cluster"  # The only side of KIP-73's formula.


@dataclass(frozen=True, slots=True)
class EstimateOptions:
    """The limits that the operator sets for the reassignment. None means no limit.

    Attributes:
        rate_bytes_per_s: the throttle rate (--throttle); not allowed together with ``capacity_bytes_per_s``.
        time_s: the reassignment has to end within this time.
        share: the largest share of the capacity to use, from 0 to 1.
        capacity_bytes_per_s: the bytes/s that one broker can carry in one direction (--capacity). Together with ``share``, it
            limits the throttle.
        network_bytes_per_s: a broker's network speed (--network), used only by KIP-73's rule on response sizes.
    """

    rate_bytes_per_s: float | None = None
    time_s: float | None = None
    share: float | None = None
    capacity_bytes_per_s: float | None = None
    network_bytes_per_s: float | None = None

    def check(self) -> None:
        """Checks that the options fit together.

        Raises:
            BadInputError: the text names the options that do not fit together.
        """
        if self.share is not None and self.capacity_bytes_per_s is None:
            raise BadInputError(
                "--share: the capacity is missing. Give the network rate of one broker with --capacity, e.g. 125MB/s."
            )
        if self.rate_bytes_per_s is not None and self.capacity_bytes_per_s is not None:
            raise BadInputError("--throttle and --capacity: both limit the throttle; leave one of them out.")
        if self.share == 0:
            raise BadInputError("--share: 0 % of capacity moves nothing; expected more than 0%.")

    @property
    def rate_bytes_per_s_max(self) -> float | None:
        """The highest rate allowed; None means any."""
        if self.capacity_bytes_per_s is None:
            return self.rate_bytes_per_s
        return self.capacity_bytes_per_s * (1.0 if self.share is None else self.share)


@dataclass(frozen=True, slots=True)
class EstimateReport:
    """The figures, the options, and both answers.

    Attributes:
        loads: the load of each side that copies data, by side.
        per_side: None if there are only KIP-73's figures, or if there is nothing to copy.
    """

    figures: EstimateFigures
    options: EstimateOptions
    kip73: RateEstimate[str]
    loads: Mapping[BrokerSide, SideLoad]
    per_side: RateEstimate[BrokerSide] | None

    @property
    def has_nothing_to_copy(self) -> bool:
        return bool(self.figures.partitions) and not self.loads

    @property
    def best(self) -> RateEstimate[BrokerSide] | RateEstimate[str]:
        """The more precise of the two answers."""
        return self.kip73 if self.per_side is None else self.per_side

    @property
    def best_loads(self) -> list[SideLoad]:
        """The loads that the more precise answer is calculated from."""
        return [self.figures.kip73.load()] if self.per_side is None else list(self.loads.values())

    @property
    def response_rule(self) -> ResponseRule:
        figures = self.figures
        return ResponseRule(
            figures.kip73.brokers, figures.response_bytes_max, figures.window_s, self.options.network_bytes_per_s
        )

    @property
    def rate_bytes_per_s(self) -> int:
        """The rate to set. Without any limit it is the smallest rate at which the reassignment ends."""
        return self.best.rate_bytes_per_s or self.best.rate_bytes_per_s_min

    def exit_code(self) -> int:
        """Returns EXIT_DONE if the reassignment ends within all limits, else EXIT_NOT_WELL."""
        return EXIT_DONE if self.has_nothing_to_copy or self.best.verdict is RateVerdict.ENDS else EXIT_NOT_WELL


def estimate_plan(figures: EstimateFigures, options: EstimateOptions) -> EstimateReport:
    """Returns both answers: KIP-73's and the one per side.

    Raises:
        BadInputError: the options do not fit together.
    """
    options.check()
    loads = side_loads(figures.partitions)
    rate_max, time_s_max = options.rate_bytes_per_s_max, options.time_s
    whole_cluster = {_WHOLE_CLUSTER: figures.kip73.load()}
    return EstimateReport(
        figures=figures,
        options=options,
        kip73=estimate_rate(whole_cluster, rate_bytes_per_s_max=rate_max, time_s_max=time_s_max),
        loads=loads,
        per_side=estimate_rate(loads, rate_bytes_per_s_max=rate_max, time_s_max=time_s_max) if loads else None,
    )


# -- JSON ----------------------------------------------------------------------------------------------------------------


def to_record(report: EstimateReport) -> dict[str, Any]:
    """Returns the report as a JSON object; each key ends with its unit."""
    figures, options = report.figures, report.options
    return {
        "source": figures.source,
        "question": {**asdict(options), "rate_bytes_per_s_max": options.rate_bytes_per_s_max},
        "nothing_to_copy": report.has_nothing_to_copy,
        "kip73": {
            "move_ratio": figures.kip73.move_ratio,
            "total_log_bytes_per_broker": figures.kip73.log_bytes_per_broker,
            "brokers": figures.kip73.brokers,
            "bytes_in_per_s_max": figures.kip73.bytes_in_per_s_max,
            "bytes_to_move": figures.kip73.bytes_to_move,
            **_estimate_record(report.kip73),
        },
        "per_side": None if report.per_side is None else _per_side_record(report, report.per_side),
        "response_rule": _response_rule_record(report.response_rule, report.rate_bytes_per_s),
        "notes": list(figures.notes),
    }


def _per_side_record(report: EstimateReport, estimate: RateEstimate[BrokerSide]) -> dict[str, Any]:
    time_limit_s = report.options.time_s
    rate = estimate.rate_bytes_per_s  # None without any limit; then no side has a duration.
    idle = idle_steady_state_bytes_per_s(report.figures.partitions)
    return {
        **_estimate_record(estimate),
        # The side with the most steady-state replication; it determines ``rate_bytes_per_s_min``.
        "steady_state_side": _side_record(estimate.steady_state_side),
        "slowest_side": _side_record(estimate.slowest_side),
        "sides": [
            {
                "broker": side[0],
                "side": side[1].value,
                "remaining_bytes": load.remaining_bytes,
                "steady_state_bytes_per_s": load.steady_state_bytes_per_s,
                "rate_bytes_per_s_min": rate_bytes_per_s_min(load),
                "rate_bytes_per_s_needed": None if time_limit_s is None else rate_for_time(load, time_limit_s),
                "time_s": None if rate is None else drain_s(load, rate),
            }
            for side, load in report.loads.items()
        ],
        # The part of each leader's throttle that unmoved partitions of the plan use.
        "idle_steady_state_bytes_per_s": {str(broker): value for broker, value in sorted(idle.items())},
    }


def _response_rule_record(rule: ResponseRule, rate: int) -> dict[str, Any]:
    return {
        "response_bytes_max": rule.response_bytes_max,
        "network_bytes_per_s": rule.network_bytes_per_s,
        "window_s": rule.window_s,
        "rate_bytes_per_s": rate,
        "first_responses_s": rule.first_responses_s(rate),
        "holds": rule.holds(rate),
        "response_bytes_bound": rule.response_bytes_bound(rate),
        "rate_bytes_per_s_min": rule.rate_bytes_per_s_min(),
    }


def _estimate_record(estimate: RateEstimate[Any]) -> dict[str, Any]:
    return {
        "verdict": estimate.verdict.value,
        "rate_bytes_per_s_min": estimate.rate_bytes_per_s_min,
        "rate_bytes_per_s": estimate.rate_bytes_per_s,
        "rate_bytes_per_s_needed": estimate.rate_bytes_per_s_needed,
        "time_s": estimate.time_s,
    }


def _side_record(side: BrokerSide | None) -> dict[str, Any] | None:
    return None if side is None else {"broker": side[0], "side": side[1].value}
