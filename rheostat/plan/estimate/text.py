"""Writes the answers of `rheostat plan estimate` as sentences: what to set, or what prevents it and by how much."""

from __future__ import annotations

from typing import Any

from rheostat.plan.estimate.report import EstimateQuestion, EstimateReport
from streaming.shared.contract import Side
from streaming.shared.short_lists import join_names
from streaming.shared.units import rate_text, share_text, size_text, span_text
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import RateEstimate, RateVerdict, fluid_optimum_s, rate_bytes_per_s_min
from tuner.core.side_load import idle_steady_state_bytes_per_s

_DIFFER_RATIO = 0.01  # Below it two figures are the same to a reader.
_BROKERS_SHOWN = 5
# Of its bound a quota passes 0.8 to 1.0 (measured on Kafka 4.2 at its defaults); what is lost is lost to catching up.
_PASSED_RATIO_MIN = 0.8
_LATE_RATIO = 2.0


def side_name(side: BrokerSide) -> str:
    return f"{side[1]} side of broker {side[0]}"


def sentences(made: EstimateReport) -> list[str]:
    """The sharper answer."""
    best, asked = made.best, made.asked
    if best.verdict is RateVerdict.NEVER_ENDS:
        return _never(made, best)
    if best.verdict is RateVerdict.TOO_SLOW:
        return _too_slow(made, best)
    if best.rate_bytes_per_s is None or best.time_s is None:
        return [
            f"It ends at any rate from {_exact(best.rate_bytes_per_s_min)} up. --rate says how long it takes, --within which "
            "rate it takes."
        ]
    bound = f" (asked: {span_text(asked.time_s)})" if asked.time_s is not None else ""
    return [f"At {_exact(best.rate_bytes_per_s, asked)} it takes {span_text(best.time_s)}{bound}."]


def _never(made: EstimateReport, best: RateEstimate[Any]) -> list[str]:
    rate, least = best.rate_bytes_per_s or 0, best.rate_bytes_per_s_min
    said = [
        f"At {_exact(rate, made.asked)} it never ends: keeping up alone takes {rate_text(least - 1)}{_on(best.steady_state_side)}. "
        f"It is {rate_text(least - rate)} short, and no time is long enough.",
        f"The smallest rate that ever ends is {_exact(least, made.asked)}.",
    ]
    if best.rate_bytes_per_s_needed is not None and made.asked.time_s is not None:
        needed = _exact(best.rate_bytes_per_s_needed, made.asked)
        said.append(f"To end within {span_text(made.asked.time_s)} it takes {needed}.")
    return [*said, *_beyond_capacity(made, best)]


def _too_slow(made: EstimateReport, best: RateEstimate[Any]) -> list[str]:
    rate, needed, time_s, asked_s = best.rate_bytes_per_s, best.rate_bytes_per_s_needed, best.time_s, made.asked.time_s
    assert rate is not None
    assert needed is not None
    assert time_s is not None
    assert asked_s is not None
    return [
        f"Not both: at most {_exact(rate, made.asked)}, and done within {span_text(asked_s)}. One of the two has to give:",
        f"  the time: {span_text(time_s)} is the shortest possible at that rate, {span_text(time_s - asked_s)} more than "
        f"asked{_slowest(best.slowest_side)};",
        f"  or the rate: {_exact(needed, made.asked)} does it in time, {rate_text(needed - rate)} more.",
        *_beyond_capacity(made, best),
    ]


def _beyond_capacity(made: EstimateReport, best: RateEstimate[Any]) -> list[str]:
    """When even all of the capacity is too little, the rate has nothing to give."""
    capacity, needed = made.asked.capacity_bytes_per_s, best.rate_bytes_per_s_needed
    if capacity is None or max(needed or 0, best.rate_bytes_per_s_min) <= capacity:
        return []
    has = f"But a broker has only {rate_text(capacity)}"
    shortest_s = fluid_optimum_s(made.all_loads, capacity)
    if shortest_s is None:
        return [f"{has}, and not even all of it ends the move: move fewer partitions at a time."]
    return [f"{has}, so the time has to give: with all of it, {span_text(shortest_s)} is the shortest possible."]


def _exact(bytes_per_s: int, asked: EstimateQuestion | None = None) -> str:
    """With the digits for ``--throttle``: a rounded rate may be the one that just doesn't end."""
    capacity = asked.capacity_bytes_per_s if asked is not None else None
    share = "" if capacity is None else f", {share_text(bytes_per_s / capacity)} of capacity"
    return f"{rate_text(bytes_per_s)} ({bytes_per_s} bytes/s{share})"


def _on(side: Any) -> str:
    return f" on the {side_name(side)}" if isinstance(side, tuple) else " (max BytesInPerSec)"


def _slowest(side: Any) -> str:
    return f" (the {side_name(side)} takes that long)" if isinstance(side, tuple) else ""


def differences(made: EstimateReport) -> list[str]:
    """Where KIP-73's formula and the count part, and why; nothing where they don't."""
    if made.counted is None:
        return []
    kip, side = made.figures.kip73, made.counted.steady_state_side
    steady_state = made.loads[side].steady_state_bytes_per_s
    copied = sum(load.remaining_bytes for (_, of), load in made.loads.items() if of is Side.FOLLOWER)
    busiest = max(made.loads, key=lambda one: made.loads[one].remaining_bytes)
    said = []
    if _differ(steady_state, kip.bytes_in_per_s_max):
        why = (
            "as every follower of a partition of the plan uses it, in sync or not, and other partitions do not"
            if side[1] is Side.LEADER
            else "the writes of all the partitions that it is being given"
        )
        said.append(
            f"Keeping up: KIP-73 takes max(BytesInPerSec), {rate_text(kip.bytes_in_per_s_max)}. What counts is what passes the "
            f"throttle: {rate_text(steady_state)} on the {side_name(side)}, {why}."
        )
    if _differ(copied, kip.bytes_to_move):
        said.append(
            f"Bytes: MoveRatio × TotalLogSizePerBroker × #Brokers is {size_text(kip.bytes_to_move)}, all replicas of partitions "
            f"of mean size; the plan copies {size_text(copied)}, only the replicas it adds, at the sizes they have."
        )
    if _differ(made.loads[busiest].remaining_bytes, copied):
        said.append(
            "One throttle or many: KIP-73 sends everything through one; brokers copy at the same time, and through the "
            f"busiest, the {side_name(busiest)}, go {size_text(made.loads[busiest].remaining_bytes)}."
        )
    return said


def remarks(made: EstimateReport) -> list[str]:
    """What else a person should know before setting the rate."""
    return [*_idle(made), *_follower_alone(made), *_near_steady_state(made), _first_responses(made), *_short(made)]


def _idle(made: EstimateReport) -> list[str]:
    taken = {b: v for b, v in sorted(idle_steady_state_bytes_per_s(made.figures.partitions).items()) if v > 0}
    if not taken:
        return []
    count = sum(not p.lacking_bytes for p in made.figures.partitions)
    shown = join_names((f"{rate_text(v)} on broker {b}" for b, v in taken.items()), _BROKERS_SHOWN)
    return [
        f"Partitions of the plan that stay where they are: {count}. kafka-reassign-partitions lists them all the same, so their "
        f"followers use the leaders' throttles: {shown}. Leave them out of the plan."
    ]


def _follower_alone(made: EstimateReport) -> list[str]:
    if made.counted is None:
        return []
    alone = max(rate_bytes_per_s_min(load) for (_, side), load in made.loads.items() if side is Side.FOLLOWER)
    if alone >= made.counted.rate_bytes_per_s_min:
        return []
    return [f"With only the follower sides throttled, any rate from {_exact(alone)} up ends."]


def _near_steady_state(made: EstimateReport) -> list[str]:
    rate, time_s = made.best.rate_bytes_per_s, made.best.time_s
    if rate is None or time_s is None:
        return []
    late_s = fluid_optimum_s(made.all_loads, _PASSED_RATIO_MIN * rate)
    if late_s is not None and late_s <= _LATE_RATIO * time_s:
        return []
    then = "it never ends" if late_s is None else f"it takes {span_text(late_s)}"
    return [
        f"Close to what keeping up takes: Kafka passes {_PASSED_RATIO_MIN:g} to 1.0 of a quota, and at {_PASSED_RATIO_MIN:g} "
        f"{then}."
    ]


def _first_responses(made: EstimateReport) -> str:
    rule, rate = made.rule, made.rate_bytes_per_s
    took = (
        f"First responses of all brokers at {rate_text(rate)}: {rule.first_responses_s(rate):.1f} s, the quota's window is "
        f"{rule.window_s:g} s"
    )
    if rule.holds(rate):
        return f"{took}; they fit."
    least = rule.rate_bytes_per_s_min()
    other = "" if least is None else f", or the rate at {_exact(least)} or more"
    bound = size_text(rule.response_bytes_bound(rate))
    return f"{took}; too long: keep replica.fetch.response.max.bytes below {bound}{other}."


def _short(made: EstimateReport) -> list[str]:
    if made.best.time_s is None or made.best.time_s >= 2 * made.rule.window_s:
        return []
    return [
        "So short a time is a guess: Kafka's quota is a mean over its window, and bytes come in clumps below two of them."
    ]


def _differ(one: float, other: float) -> bool:
    return abs(one - other) > _DIFFER_RATIO * max(one, other)
