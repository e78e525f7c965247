"""Writes the answers of `rheostat plan estimate` as sentences: the throttle to set, or which limit prevents it and by how much."""

from __future__ import annotations

from typing import Any

from rheostat.plan.estimate.report import EstimateOptions, EstimateReport
from streaming.shared.contract import Side
from streaming.shared.short_lists import join_names
from streaming.shared.units import rate_text, share_text, size_text, span_text
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import RateEstimate, RateVerdict, fluid_optimum_s, rate_bytes_per_s_min
from tuner.core.side_load import idle_steady_state_bytes_per_s

_DIFFERENCE_RATIO_MIN = 0.01  # Smaller differences between two figures are not worth a remark.
_BROKERS_SHOWN = 5
# Kafka 4.2 passes 0.8 to 1.0 of a replication quota at its defaults. Steady-state replication still gets its full rate, so the
# missing part is taken from the catch-up alone.
_PASSED_RATIO_MIN = 0.8
# The operator is warned if the missing part makes the reassignment take more than this many times as long.
_LATE_RATIO = 2.0


def side_name(side: BrokerSide) -> str:
    return f"{side[1]} side of broker {side[0]}"


def sentences(report: EstimateReport) -> list[str]:
    """Returns the more precise of the two answers."""
    best, options = report.best, report.options
    if best.verdict is RateVerdict.NEVER_ENDS:
        return _explain_never_ends(report, best)
    if best.verdict is RateVerdict.TOO_SLOW:
        return _explain_too_slow(report, best)
    if best.rate_bytes_per_s is None or best.time_s is None:
        return [
            f"The move ends at any rate from {_exact(best.rate_bytes_per_s_min)} up. With --throttle the command computes the "
            "time, and with --within the rate."
        ]
    limit = f" (limit: {span_text(options.time_s)})" if options.time_s is not None else ""
    return [f"At {_exact(best.rate_bytes_per_s, options)} the move takes {span_text(best.time_s)}{limit}."]


def _explain_never_ends(report: EstimateReport, best: RateEstimate[Any]) -> list[str]:
    options, rate, min_rate = report.options, best.rate_bytes_per_s or 0, best.rate_bytes_per_s_min
    # The smallest rate that ends is 1 byte/s above steady-state replication, hence ``min_rate - 1``.
    lines = [
        f"At {_exact(rate, options)} the move never ends: steady-state replication alone takes {rate_text(min_rate - 1)}"
        f"{_on_side(best.steady_state_side)}. The rate is {rate_text(min_rate - rate)} too low, and more time does not help.",
        f"The lowest rate that ends the move is {_exact(min_rate, options)}.",
    ]
    if best.rate_bytes_per_s_needed is not None and options.time_s is not None:
        needed = _exact(best.rate_bytes_per_s_needed, options)
        lines.append(f"To end within {span_text(options.time_s)}, the move needs {needed}.")
    return [*lines, *_explain_capacity(report, best)]


def _explain_too_slow(report: EstimateReport, best: RateEstimate[Any]) -> list[str]:
    options, rate, needed, time_s = report.options, best.rate_bytes_per_s, best.rate_bytes_per_s_needed, best.time_s
    assert rate is not None
    assert needed is not None
    assert time_s is not None
    assert options.time_s is not None
    return [
        f"The two limits cannot both be met: at most {_exact(rate, options)}, and done within {span_text(options.time_s)}. "
        "Change one of them:",
        f"  the time: {span_text(time_s)} is the shortest time at this rate, {span_text(time_s - options.time_s)} more than "
        f"allowed{_slowest_side(best.slowest_side)};",
        f"  or the rate: {_exact(needed, options)} ends the move in time, {rate_text(needed - rate)} more than allowed.",
        *_explain_capacity(report, best),
    ]


def _explain_capacity(report: EstimateReport, best: RateEstimate[Any]) -> list[str]:
    """Returns a sentence if even the whole capacity of a broker is not enough."""
    capacity, needed = report.options.capacity_bytes_per_s, best.rate_bytes_per_s_needed
    if capacity is None or max(needed or 0, best.rate_bytes_per_s_min) <= capacity:
        return []
    shortest_s = fluid_optimum_s(report.best_loads, capacity)
    if shortest_s is None:
        return [
            f"But the capacity of a broker is only {rate_text(capacity)}, and even the whole capacity does not end the move: move "
            "fewer partitions at a time."
        ]
    return [
        f"But the capacity of a broker is only {rate_text(capacity)}: change the time. With the whole capacity, "
        f"{span_text(shortest_s)} is the shortest possible time."
    ]


def _exact(bytes_per_s: int, options: EstimateOptions | None = None) -> str:
    """Returns the rate with all digits, for ``--throttle``: the rounded rate may be just too low to end."""
    capacity = options.capacity_bytes_per_s if options is not None else None
    share = "" if capacity is None else f", {share_text(bytes_per_s / capacity)} of capacity"
    return f"{rate_text(bytes_per_s)} ({bytes_per_s} bytes/s{share})"


# KIP-73's formula has no broker sides. Its estimate has a text instead of a side, so its sentences name no side.


def _on_side(side: Any) -> str:
    return f" on the {side_name(side)}" if isinstance(side, tuple) else " (max BytesInPerSec)"


def _slowest_side(side: Any) -> str:
    return f" (slowest: the {side_name(side)})" if isinstance(side, tuple) else ""


def differences(report: EstimateReport) -> list[str]:
    """Returns a sentence for each figure in which KIP-73's formula and the estimate per side differ, with the cause."""
    if report.per_side is None:
        return []
    kip, steady_state_side = report.figures.kip73, report.per_side.steady_state_side
    steady_state = report.loads[steady_state_side].steady_state_bytes_per_s
    copied = sum(load.remaining_bytes for (_, side), load in report.loads.items() if side is Side.FOLLOWER)
    busiest = max(report.loads, key=lambda key: report.loads[key].remaining_bytes)
    busiest_bytes = report.loads[busiest].remaining_bytes
    lines = []
    if _differ(steady_state, kip.bytes_in_per_s_max):
        cause = (
            "because it throttles every follower of the plan's partitions, in sync or not, and no other followers"
            if steady_state_side[1] is Side.LEADER
            else "because it carries the writes to all partitions that this broker is receiving"
        )
        lines.append(
            f"Steady-state replication: KIP-73 takes max(BytesInPerSec), {rate_text(kip.bytes_in_per_s_max)}. The throttle "
            f"passes {rate_text(steady_state)} on the {side_name(steady_state_side)}, {cause}."
        )
    if _differ(copied, kip.bytes_to_move):
        lines.append(
            f"Bytes: MoveRatio × TotalLogSizePerBroker × #Brokers is {size_text(kip.bytes_to_move)}. This counts all replicas, "
            f"each with the mean size. The plan copies {size_text(copied)}: only the replicas that it adds, with their real sizes."
        )
    if _differ(busiest_bytes, copied):
        lines.append(
            "Throttles: KIP-73 sends all bytes through one throttle. Brokers copy at the same time; the busiest, the "
            f"{side_name(busiest)}, copies {size_text(busiest_bytes)}."
        )
    return lines


def remarks(report: EstimateReport) -> list[str]:
    """Returns further facts that an operator should know before setting the rate."""
    return [
        *_remark_idle(report),
        *_remark_follower_only(report),
        *_remark_near_steady_state(report),
        _remark_first_responses(report),
        *_remark_short_time(report),
    ]


def _remark_idle(report: EstimateReport) -> list[str]:
    by_broker = sorted(idle_steady_state_bytes_per_s(report.figures.partitions).items())
    idle = [f"{rate_text(rate)} on broker {broker}" for broker, rate in by_broker if rate > 0]
    if not idle:
        return []
    count = sum(not p.lacking_bytes for p in report.figures.partitions)
    shown = join_names(idle, _BROKERS_SHOWN)
    return [
        f"Partitions of the plan that do not move: {count}. kafka-reassign-partitions throttles them, too, so their followers "
        f"use the leaders' throttles: {shown}. Leave them out of the plan."
    ]


def _remark_follower_only(report: EstimateReport) -> list[str]:
    if report.per_side is None:
        return []
    follower_min = max(rate_bytes_per_s_min(load) for (_, side), load in report.loads.items() if side is Side.FOLLOWER)
    if follower_min >= report.per_side.rate_bytes_per_s_min:
        return []
    return [f"With only the follower sides throttled, any rate from {_exact(follower_min)} up ends the move."]


def _remark_near_steady_state(report: EstimateReport) -> list[str]:
    rate, time_s = report.best.rate_bytes_per_s, report.best.time_s
    if rate is None or time_s is None:
        return []
    late_s = fluid_optimum_s(report.best_loads, _PASSED_RATIO_MIN * rate)
    if late_s is not None and late_s <= _LATE_RATIO * time_s:
        return []
    effect = "the move never ends" if late_s is None else f"the move takes {span_text(late_s)}"
    return [
        f"The rate is close to steady-state replication: Kafka lets {_PASSED_RATIO_MIN:g} to 1.0 of a quota pass, and at "
        f"{_PASSED_RATIO_MIN:g} {effect}."
    ]


def _remark_first_responses(report: EstimateReport) -> str:
    rule, rate = report.response_rule, report.rate_bytes_per_s
    fact = (
        f"At {rate_text(rate)}, the first fetch responses of all brokers take {span_text(rule.first_responses_s(rate))}. "
        f"The quota's window is {span_text(rule.window_s)}"
    )
    if rule.holds(rate):
        return f"{fact}, so they fit into it."
    min_rate = rule.rate_bytes_per_s_min()
    alternative = "" if min_rate is None else f", or set a rate of {_exact(min_rate)} or more"
    bound = size_text(rule.response_bytes_bound(rate))
    return f"{fact}, so they do not fit into it: keep replica.fetch.response.max.bytes below {bound}{alternative}."


def _remark_short_time(report: EstimateReport) -> list[str]:
    if report.best.time_s is None or report.best.time_s >= 2 * report.response_rule.window_s:
        return []
    return [
        "A time below two quota windows is a rough guess: Kafka's quota is a mean over its window, and bytes pass in bursts."
    ]


def _differ(left: float, right: float) -> bool:
    return abs(left - right) > _DIFFERENCE_RATIO_MIN * max(left, right)
