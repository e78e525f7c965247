"""Answers when a plan should start and when it then ends, and converts the answer to sentences and JSON. Does no I/O.

`rheostat plan estimate --start` and `rheostat reassign start --at` both use this module.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL
from rheostat.profiles import UsableProfiles
from rheostat.start_times import RequestedStart, local_text
from streaming.shared.short_lists import join_names
from streaming.shared.units import rate_text, span_text
from tuner.core.cluster import BrokerSide
from tuner.core.link_limit import LinkSource
from tuner.core.side_load import PlannedPartition, side_loads
from tuner.planning.copy_forecast import (
    BindingLimit,
    CopyLimits,
    CopyPeriod,
    KnownCapacity,
    LinkSpeed,
    LoadCase,
)
from tuner.planning.start_time import MOVE_S_MAX, START_AHEAD_S_MAX, BindingPeriod, MoveForecast, StartEstimate
from tuner.settings.copy_limits import LIMIT_PERIODS_MAX, capacities_of, schedule_limits
from tuner.settings.tuner import TunerSettings

_ROWS_EVERY_MS = 4 * 3600 * 1000
_ROWS = 6  # The rows after the first; together a whole day.
_BROKERS_SHOWN = 5
_LIMITS_MS = 1000 * (START_AHEAD_S_MAX + MOVE_S_MAX)


@dataclass(frozen=True, slots=True)
class StartReport:
    """The answer.

    Attributes:
        is_best: whether the operator asked for the best start.
        chosen: the estimate for the start that the operator asked for.
        best: the estimate for the start with the shortest move within the next day.
        now: the estimate for a start now.
        as_now: the estimate for a start now if the current load stayed constant.
        candidates: estimates for now and each fourth hour.
        ceiling_bytes_per_s: the highest throttle now.
        forecast_brokers: brokers of the plan whose profiles were used.
        notes: sentences on unknown values.
    """

    forecast: MoveForecast
    is_best: bool
    chosen: StartEstimate
    best: StartEstimate
    now: StartEstimate
    as_now: StartEstimate
    candidates: tuple[StartEstimate, ...]
    ceiling_bytes_per_s: float
    forecast_brokers: tuple[int, ...]
    notes: tuple[str, ...]

    def exit_code(self) -> int:
        """Returns EXIT_DONE if the move ends, else EXIT_NOT_WELL."""
        return EXIT_NOT_WELL if self.chosen.end_ms is None else EXIT_DONE


def answer_start(
    partitions: Sequence[PlannedPartition],
    profiles: UsableProfiles,
    limits: CopyLimits,
    requested: RequestedStart,
    now_ms: int,
    *,
    has_objective: bool,
    time_ratio: float = 1.0,
) -> StartReport:
    """Returns the answer for a plan that copies something.

    Args:
        requested: the requested start. A time in the past means now.
        has_objective: whether a latency objective is set, so that clients limit the throttle.
        time_ratio: as for ``MoveForecast``.
    """
    forecast = MoveForecast(partitions, profiles.by_broker, limits, now_ms, time_ratio=time_ratio)
    best = forecast.estimate(forecast.best_start_ms())
    rows_ms = [now_ms + n * _ROWS_EVERY_MS for n in range(1, _ROWS + 1)]
    now = forecast.estimate(now_ms)
    return StartReport(
        forecast=forecast,
        is_best=requested.at_ms is None,
        chosen=best if requested.at_ms is None else forecast.estimate(max(requested.at_ms, now_ms)),
        best=best,
        now=now,
        as_now=forecast.estimate(now_ms, LoadCase.PRESENT),
        candidates=(now, *(forecast.estimate(at_ms) for at_ms in rows_ms)),
        ceiling_bytes_per_s=limits.at(now_ms).ceiling_bytes_per_s,
        forecast_brokers=tuple(sorted(profiles.by_broker)),
        notes=tuple(_notes(forecast.loads, profiles, limits, has_objective=has_objective)),
    )


def copy_limits(
    settings: TunerSettings,
    throttle_of: Callable[[TunerSettings], float],
    partitions: Iterable[PlannedPartition],
    profiles: UsableProfiles,
    link_speed: LinkSpeed,
    now_ms: int,
    *,
    leader_ratio: float = 1.0,
) -> CopyLimits:
    """Returns the limits of a plan's throttles under these settings and their schedule.

    Args:
        throttle_of: returns the highest throttle (bytes/s) of the plan under the settings of a period.
    """
    limits = schedule_limits(settings, throttle_of, now_ms, now_ms + _LIMITS_MS, leader_ratio=leader_ratio)
    capacities = capacities_of(settings, side_loads(partitions), profiles.by_broker, link_speed)
    return replace(limits, capacities=capacities)


def brokers_of(partitions: Iterable[PlannedPartition]) -> set[int]:
    """Returns the brokers through which a plan copies."""
    return {broker for broker, _ in side_loads(partitions)}


def describe_start(report: StartReport) -> list[str]:
    """Returns the answer in sentences, without the table of candidates."""
    return [_start_sentence(report), *_binding_sentences(report.chosen), *_comparison_sentences(report), *report.notes]


def to_record(report: StartReport) -> dict[str, Any]:
    """Returns the answer as a JSON object."""
    return {
        "is_best": report.is_best,
        **_estimate_record(report.chosen),
        "best_start_ms": report.best.start_ms,
        "as_now_duration_s": report.as_now.duration_s,
        "ceiling_bytes_per_s": report.ceiling_bytes_per_s,
        "forecast_brokers": list(report.forecast_brokers),
        "candidates": [_estimate_record(estimate) for estimate in report.candidates],
        "notes": list(report.notes),
    }


def end_text(estimate: StartEstimate) -> str:
    """Returns the end of an estimate in the local time zone."""
    return "never ends" if estimate.end_ms is None else local_text(estimate.end_ms)


def interval_text(estimate: StartEstimate) -> str:
    """Returns the interval of the end; empty if no error of forecasts is known."""
    if estimate.end_low_ms == estimate.end_ms == estimate.end_high_ms or estimate.end_low_ms is None:
        return ""
    until = "an end that is not known" if estimate.end_high_ms is None else local_text(estimate.end_high_ms)
    return f"{local_text(estimate.end_low_ms)} to {until}"


def duration_text(estimate: StartEstimate) -> str:
    return f"over {span_text(MOVE_S_MAX)}" if estimate.duration_s is None else span_text(estimate.duration_s)


def _start_sentence(report: StartReport) -> str:
    chosen = report.chosen
    name = "The best start is" if report.is_best else "The move starts"
    if chosen.end_ms is None:
        return f"{name} {local_text(chosen.start_ms)}: it does not end within {span_text(MOVE_S_MAX)}."
    interval = interval_text(chosen)
    between = (
        f" ({interval}, if the load of each hour differs from its forecast by the mean error of earlier forecasts)"
        if interval
        else ""
    )
    return (
        f"{name} {local_text(chosen.start_ms)}: it takes {duration_text(chosen)} and ends {end_text(chosen)}{between}."
    )


def _binding_sentences(estimate: StartEstimate) -> list[str]:
    if estimate.binding is None:
        return []
    (broker, side), period = estimate.binding.side, estimate.binding.period
    from_ms = max(period.from_ms, estimate.start_ms)
    return [
        f"The copies through the {side} throttle of broker {broker} end last. They are slowest from {local_text(from_ms)} on: the "
        f"throttle is "
        f"{rate_text(period.rate_bytes_per_s)}, {_limit_text(period)}, and steady-state replication takes "
        f"{rate_text(period.steady_state_bytes_per_s)} of this rate."
    ]


def _limit_text(period: CopyPeriod) -> str:
    clients = "" if period.client_bytes_per_s is None else f" ({rate_text(period.client_bytes_per_s)})"
    match period.limit:
        case BindingLimit.CEILING:
            return "the ceiling"
        case BindingLimit.CLIENTS:
            return f"the part of the capacity that clients{clients} leave"
        case BindingLimit.MINIMUM:
            return f"the lowest rate, because clients{clients} leave less"


def _comparison_sentences(report: StartReport) -> list[str]:
    if not report.forecast_brokers:
        return []
    sentences = [
        f"A start now takes {duration_text(report.now)}; with the current load at all hours it would take "
        f"{duration_text(report.as_now)}."
    ]
    if not report.is_best and report.best.start_ms != report.chosen.start_ms:
        sentences.append(
            f"The best start within a day is {local_text(report.best.start_ms)}: it takes {duration_text(report.best)}."
        )
    return sentences


def _notes(
    loads: Collection[BrokerSide], profiles: UsableProfiles, limits: CopyLimits, *, has_objective: bool
) -> Iterable[str]:
    if limits.cut_ms is not None:
        yield (
            f"The schedule changes more than {LIMIT_PERIODS_MAX} times within {span_text(_LIMITS_MS / 1000)}. The forecast "
            f"follows it until {local_text(limits.cut_ms)}; after that the limits of its last period stay."
        )
    for reason in dict.fromkeys(profiles.unusable.values()):
        brokers = [broker for broker, why in profiles.unusable.items() if why == reason]
        yield f"{_brokers_text(brokers)} {reason}: there, the forecast assumes that the present load stays."
    if not has_objective:
        yield "No latency objective is set, so clients do not limit the throttle."
        return
    unknown = sorted({broker for broker, side in loads if (broker, side) not in limits.capacities})
    if unknown:
        yield (
            f"{_brokers_text(unknown)} has no known capacity (tuner.capacity): there, only the ceiling limits the throttle, and "
            "busy clients may lower it."
        )
    if learned := _brokers_with(limits.capacities, LinkSource.LEARNED):
        yield (
            f"{_brokers_text(learned)} has a learned capacity: the highest traffic that was measured with usual latency. It "
            "may carry more, and the move then ends earlier."
        )
    if linked := _brokers_with(limits.capacities, LinkSource.LINK):
        yield (
            f"{_brokers_text(linked)} has only the speed of its link as capacity, from the metrics of its machine. Its disks may "
            "be slower, and the move then ends later."
        )


def _brokers_with(capacities: Mapping[BrokerSide, KnownCapacity], source: LinkSource) -> list[int]:
    return sorted({broker for (broker, _), capacity in capacities.items() if capacity.source is source})


def _brokers_text(brokers: Sequence[int]) -> str:
    if len(brokers) == 1:
        return f"Broker {brokers[0]}"
    return f"Each of brokers {join_names([str(broker) for broker in brokers], _BROKERS_SHOWN)}"


def _estimate_record(estimate: StartEstimate) -> dict[str, Any]:
    return {
        "start_ms": estimate.start_ms,
        "end_ms": estimate.end_ms,
        "end_low_ms": estimate.end_low_ms,
        "end_high_ms": estimate.end_high_ms,
        "duration_s": estimate.duration_s,
        "binding": None if estimate.binding is None else _binding_record(estimate.binding),
    }


def _binding_record(binding: BindingPeriod) -> dict[str, Any]:
    period = binding.period
    return {
        "broker": binding.side[0],
        "side": binding.side[1].value,
        "from_ms": period.from_ms,
        "until_ms": period.until_ms,
        "rate_bytes_per_s": period.rate_bytes_per_s,
        "steady_state_bytes_per_s": period.steady_state_bytes_per_s,
        "client_bytes_per_s": period.client_bytes_per_s,
        "limit": period.limit.value,
    }
