"""The question that `rheostat plan estimate` was asked, and both answers to it. Pure; also the JSON for machines."""

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

_KIP73 = "cluster"  # KIP-73's formula knows one side, the whole cluster.


@dataclass(frozen=True, slots=True)
class EstimateQuestion:
    """The question; None: not asked."""

    rate_bytes_per_s: float | None = None
    time_s: float | None = None
    share: float | None = None
    capacity_bytes_per_s: float | None = None  # Of one broker, in one direction.
    network_bytes_per_s: float | None = None

    def check(self) -> None:
        """
        Raises:
            BadInputError: naming the options that don't go together.
        """
        if self.share is not None and self.capacity_bytes_per_s is None:
            raise BadInputError(
                "--share: a share of what? Say what one broker can carry with --capacity, e.g. 125MB/s."
            )
        if self.rate_bytes_per_s is not None and self.capacity_bytes_per_s is not None:
            raise BadInputError("--rate and --capacity: only one of them sets how much is allowed; leave one out.")
        if self.share == 0:
            raise BadInputError("--share: 0 % of capacity moves nothing; expected more than 0%.")

    @property
    def rate_bytes_per_s_max(self) -> float | None:
        if self.capacity_bytes_per_s is None:
            return self.rate_bytes_per_s
        return self.capacity_bytes_per_s * (1.0 if self.share is None else self.share)


@dataclass(frozen=True, slots=True)
class EstimateReport:
    """The figures, the question, and both answers."""

    figures: EstimateFigures
    asked: EstimateQuestion
    kip73: RateEstimate[str]
    loads: Mapping[BrokerSide, SideLoad]
    counted: RateEstimate[BrokerSide] | None  # None where there are only KIP-73's figures, or nothing is to be copied.

    @property
    def nothing_to_copy(self) -> bool:
        return bool(self.figures.partitions) and not self.loads

    @property
    def best(self) -> RateEstimate[BrokerSide] | RateEstimate[str]:
        """The sharper of the two."""
        return self.kip73 if self.counted is None else self.counted

    @property
    def all_loads(self) -> list[SideLoad]:
        """What the sharper answer is made of."""
        return [self.figures.kip73.load()] if self.counted is None else list(self.loads.values())

    @property
    def rule(self) -> ResponseRule:
        f = self.figures
        return ResponseRule(f.kip73.brokers, f.response_bytes_max, f.window_s, self.asked.network_bytes_per_s)

    @property
    def rate_bytes_per_s(self) -> int:
        """What the answer is about: the rate to set, or where none was asked for the smallest that ends."""
        return self.best.rate_bytes_per_s or self.best.rate_bytes_per_s_min

    def exit_code(self) -> int:
        return EXIT_DONE if self.nothing_to_copy or self.best.verdict is RateVerdict.ENDS else EXIT_NOT_WELL


def report(figures: EstimateFigures, asked: EstimateQuestion) -> EstimateReport:
    """
    Raises:
        BadInputError: options that don't go together.
    """
    asked.check()
    loads = side_loads(figures.partitions)
    limits = {"rate_bytes_per_s_max": asked.rate_bytes_per_s_max, "time_s_max": asked.time_s}
    return EstimateReport(
        figures,
        asked,
        estimate_rate({_KIP73: figures.kip73.load()}, **limits),
        loads,
        estimate_rate(loads, **limits) if loads else None,
    )


# -- for machines --------------------------------------------------------------------------------------------------------


def as_record(made: EstimateReport) -> dict[str, Any]:
    """One JSON object; units are the last words of its keys."""
    figures, rule, rate = made.figures, made.rule, made.rate_bytes_per_s
    time_s, rate_asked = made.asked.time_s, made.best.rate_bytes_per_s
    return {
        "source": figures.source,
        "asked": {**asdict(made.asked), "rate_bytes_per_s_max": made.asked.rate_bytes_per_s_max},
        "nothing_to_copy": made.nothing_to_copy,
        "kip73": {
            "move_ratio": figures.kip73.move_ratio,
            "total_log_bytes_per_broker": figures.kip73.log_bytes_per_broker,
            "brokers": figures.kip73.brokers,
            "bytes_in_per_s_max": figures.kip73.bytes_in_per_s_max,
            "bytes_to_move": figures.kip73.bytes_to_move,
            **_answer(made.kip73),
        },
        "counted": None
        if made.counted is None
        else {
            **_answer(made.counted),
            "steady_state_side": _side(made.counted.steady_state_side),
            "slowest_side": _side(made.counted.slowest_side),
            "sides": [
                {
                    **(_side(side) or {}),
                    "remaining_bytes": load.remaining_bytes,
                    "steady_state_bytes_per_s": load.steady_state_bytes_per_s,
                    "rate_bytes_per_s_min": rate_bytes_per_s_min(load),
                    "rate_bytes_per_s_needed": None if time_s is None else rate_for_time(load, time_s),
                    "time_s": None if rate_asked is None else drain_s(load, rate_asked),
                }
                for side, load in made.loads.items()
            ],
            "idle_steady_state_bytes_per_s": {
                str(b): v for b, v in sorted(idle_steady_state_bytes_per_s(figures.partitions).items())
            },
        },
        "response_rule": {
            "response_bytes_max": rule.response_bytes_max,
            "network_bytes_per_s": rule.network_bytes_per_s,
            "window_s": rule.window_s,
            "rate_bytes_per_s": rate,
            "first_responses_s": rule.first_responses_s(rate),
            "holds": rule.holds(rate),
            "response_bytes_bound": rule.response_bytes_bound(rate),
            "rate_bytes_per_s_min": rule.rate_bytes_per_s_min(),
        },
        "notes": list(figures.notes),
    }


def _answer(of: RateEstimate[Any]) -> dict[str, Any]:
    return {
        "verdict": of.verdict.value,
        "rate_bytes_per_s_min": of.rate_bytes_per_s_min,
        "rate_bytes_per_s": of.rate_bytes_per_s,
        "rate_bytes_per_s_needed": of.rate_bytes_per_s_needed,
        "time_s": of.time_s,
    }


def _side(side: BrokerSide | None) -> dict[str, Any] | None:
    return None if side is None else {"broker": side[0], "side": side[1].value}
