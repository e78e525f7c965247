"""Sentences about the state of the tuner and its next steps, for the page, the API and `rheostat status`.

Each sentence says one thing, with its figure. Unknown values are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from streaming.shared.contract import MoveSignal, Side
from streaming.shared.contract.bounds import TIMESTAMP_MS_MAX
from streaming.shared.short_lists import shorten_lines
from streaming.shared.units import rate_text, size_text, span_text
from tuner.control.throttle.cleanup_rules import cleanup_after_moves
from tuner.control.throttle.decision import (
    WITHOUT_WRITE,
    AllowSteering,
    Decision,
    FollowSchedule,
    Hold,
    RestoreRate,
)
from tuner.control.throttle.orphaned_throttles import count_orphaned_rates
from tuner.control.throttle.plan_moves import is_throttled
from tuner.control.throttle.policy import decide
from tuner.control.throttle.recovery import with_recoveries
from tuner.control.throttle.state import Memory
from tuner.core import formatting
from tuner.core.cluster import BrokerSide, LiveCluster, Observation, side_name
from tuner.core.operator_orders import Orders
from tuner.core.throttle_limits import StallLimits, ThrottleLimits

NAMED_MAX = 6
# A forecast of what follows `resume` computes a whole cycle. With more partitions it would delay the response.
FORECAST_PARTITIONS_MAX = 5_000


def headline(
    moving: int,
    destinations: Iterable[int],
    remaining_bytes: float | None,
    eta_s: float | None,
    stalled: Sequence[int],
    *,
    plans_remaining_bytes: float | None = None,
) -> str:
    """Returns one sentence: the partitions that are moving, the remaining bytes, and the expected end.

    Args:
        destinations: the brokers that receive replicas.
        remaining_bytes: remaining bytes of the moves in progress.
        plans_remaining_bytes: remaining bytes of all plans, including steps that have not started; None without a plan.
    """
    if not moving and plans_remaining_bytes is None:
        return "Nothing is moving."
    brokers = sorted(destinations)
    partitions = "1 partition is" if moving == 1 else f"{moving} partitions are"
    moving_text = f"{partitions} moving" if moving else "Nothing is moving now"
    onto = f" onto {brokers_text(brokers)}" if brokers else ""
    remaining = f"; {size_text(remaining_bytes)} remain" if remaining_bytes is not None else ""
    if plans_remaining_bytes is not None:
        remaining = f"; {size_text(plans_remaining_bytes)} of the plans remain"
    if stalled:
        end = f". The move onto {brokers_text(stalled)} has stalled"
    elif eta_s is not None:
        end = f", done in about {span_text(eta_s)}"
    else:
        end = ", and the expected end is not known yet" if remaining else ""
    return f"{moving_text}{onto}{remaining}{end}."


def recovery_sentence(moves: Mapping[BrokerSide, MoveSignal]) -> str | None:
    """Returns a sentence about the brokers whose replicas left the ISR and catch up; None if there are no such brokers.

    Args:
        moves: fresh signals.
    """
    recovering = {b: s for (b, side), s in moves.items() if side is Side.FOLLOWER and s.recovering_partitions}
    if not recovering:
        return None
    partitions = sum(signal.recovering_partitions for signal in recovering.values())
    lacking = [s.recovering_bytes for s in recovering.values() if s.recovering_bytes is not None]
    amount = f", {size_text(sum(lacking))} to copy" if lacking else ""
    noun = "partition" if partitions == 1 else "partitions"
    verb = "recovers" if len(recovering) == 1 else "recover"
    names = brokers_text(sorted(recovering))
    return f"{names[0].upper()}{names[1:]} {verb}: {partitions} {noun}{amount}."


def brokers_text(brokers: Sequence[int]) -> str:
    return formatting.brokers(brokers, NAMED_MAX)


def moment(at_ms: int) -> str:
    """Returns the time as UTC text; times outside of 1970 to 9999 are clamped."""
    return utc_datetime(at_ms).strftime("%Y-%m-%d %H:%M:%S UTC")


def utc_datetime(at_ms: int) -> datetime:
    """Returns the time as a datetime in UTC, clamped as in ``moment``."""
    return datetime.fromtimestamp(min(max(0, at_ms), TIMESTAMP_MS_MAX) / 1000, UTC)


def schedule_lines(schedule: Mapping[str, Any] | None) -> list[str]:
    """Returns a sentence on the rules of the schedule that apply, and the next change; empty without a schedule.

    Args:
        schedule: as in the status.
    """
    if schedule is None:
        return []
    now = _rules_text(schedule["rules"], f"with {schedule['policy']}")
    if schedule["until_ms"] is None:
        return [f"Schedule: {now}."]
    return [f"Schedule: {now}, until {moment(schedule['until_ms'])}; then {_rules_text(schedule['next_rules'])}."]


def _rules_text(rules: Sequence[str], policy: str = "") -> str:
    if not rules:
        subject = "no rule applies"
    elif len(rules) == 1:
        subject = f"rule {rules[0]} applies"
    else:
        subject = f"rules {', '.join(rules[:-1])} and {rules[-1]} apply"
    return f"{subject}, {policy}" if policy else subject


def override_lines(overrides: Sequence[Mapping[str, Any]]) -> list[tuple[int, str]]:
    """Returns a broker and a sentence for each active override; one sentence for both sides of the same order.

    Args:
        overrides: as in the status. ``by`` contains the author, the time of the order, and its end.
    """
    sides: dict[tuple[int, float, str], list[str]] = {}
    for row in overrides:
        sides.setdefault((row["broker"], row["rate_bytes_per_s"], row["by"]), []).append(row["side"])
    lines = []
    for (broker, rate, by), names in sides.items():
        throttles = "throttle" if len(names) == 1 else "throttles"
        lines.append(
            (broker, f"Broker {broker} {' and '.join(names)} {throttles}: {rate_text(rate)} by order of {by}.")
        )
    return lines


def next_steps(
    observation: Observation | None,
    memory: Memory,
    decisions: Sequence[Decision],
    limits: ThrottleLimits,
    stall_limits: StallLimits,
    *,
    dry_run: bool,
    has_plans: bool = False,
) -> list[str]:
    """Returns the tuner's next steps in sentences.

    Args:
        has_plans: whether there are active plans.
    """
    if observation is None:
        return ["The tuner waits for the end of its first cycle, and changes nothing until then."]
    if not isinstance(observation.live, LiveCluster):
        return ["The tuner waits until the cluster can be read, and changes nothing until then."]
    live = with_recoveries(observation.live, limits, memory)
    if observation.orders.pause is not None:
        return steps_after_resume(observation, memory, limits, stall_limits)
    steps = []
    acts = [decision for decision in decisions if not isinstance(decision, WITHOUT_WRITE)]
    prefix = "Without the dry run the tuner would now do this" if dry_run else "In progress"
    steps += [f"{prefix}: {text}" for text in first_sentences([decision.text for decision in acts])]
    if steered := sum(isinstance(decision, AllowSteering) for decision in decisions):
        throttles = "throttle" if steered == 1 else "throttles"
        steps.append(f"The closed-loop control adjusts {steered} {throttles} every second.")
    steps += upcoming_changes(observation, live, memory, limits, stall_limits, dry_run=dry_run)
    if not acts:
        steps += _orphaned_throttles(live, memory, limits)
    if not steps and not live.moves:
        steps.append(
            "The tuner waits for the next step of a plan."
            if has_plans
            else "The tuner waits for a reassignment, started by any tool."
        )
    return steps or ["The tuner continues to monitor: no change of a throttle would help."]


def upcoming_changes(
    observation: Observation,
    live: LiveCluster,
    memory: Memory,
    limits: ThrottleLimits,
    stall_limits: StallLimits,
    *,
    dry_run: bool = False,
) -> list[str]:
    """Returns the changes that time alone will bring: stalls, the ends of overrides, the cleanup after the moves."""
    override_ends = [
        f"The override of {side_name(side)} ends at {moment(order.until_ms)}; then the tuner controls this throttle again."
        for side, order in sorted(observation.orders.overrides.items())[:NAMED_MAX]
        if order.until_ms > observation.now_ms
    ]
    cleanup = _cleanup_steps(live, memory, limits)
    if dry_run:
        cleanup = [f"Without the dry run the tuner would do this. {step}" for step in cleanup]
    return [*unthrottled_moves_warning(live, limits), *stall_warnings(memory, stall_limits), *override_ends, *cleanup]


def unthrottled_moves_warning(live: LiveCluster, limits: ThrottleLimits) -> list[str]:
    """Returns a warning if moves run unthrottled and the tuner's settings say that it adds no throttle."""
    if limits.throttles_all_moves:
        return []
    if len(live.moves) > FORECAST_PARTITIONS_MAX:
        # There are too many moves to check each one, so any throttled-replica list counts as a throttle of all moves.
        unthrottled = 0 if live.lists else len(live.moves)
    else:
        unthrottled = sum(not is_throttled(move, live) for move in live.moves)
    if not unthrottled:
        return []
    moves = "1 partition moves" if unthrottled == 1 else f"{unthrottled} partitions move"
    why = "tuner.unthrottled_moves is leave" if limits.closed_loop else "tuner.objective is off"
    return [
        f"{moves} without a throttle, so the ceiling of {rate_text(limits.rate_bytes_per_s_max)} does not apply: "
        f"{why}, and the tuner throttles its own plans only. Set a throttle with the tool that started the move."
    ]


def steps_after_resume(
    observation: Observation, memory: Memory, limits: ThrottleLimits, stall_limits: StallLimits
) -> list[str]:
    """Returns the steps that the tuner will take after `resume`, while a pause or a release is active."""
    pause = observation.orders.pause
    released = pause is not None and pause.released
    state = "restores the throttles it still manages, and then waits" if released else "changes nothing, and waits"
    steps = [f"The tuner {state} for an operator to resume."]
    if isinstance(observation.live, LiveCluster) and len(observation.live.moves) > FORECAST_PARTITIONS_MAX:
        return [
            *steps,
            f"After that: not known until the first cycle has ended, because {len(observation.live.moves)} partitions are "
            "too many for a forecast.",
        ]
    # A dry run of the first cycle after `resume`, on the current measurements.
    orders = observation.orders
    resumed_orders = Orders(orders.at_ms, pause=None, resumed_at_ms=observation.now_ms, overrides=orders.overrides)
    resumed = replace(observation, orders=resumed_orders)
    _, decisions = decide(resumed, memory, limits, stall_limits)
    texts = [decision.text for decision in decisions if not isinstance(decision, Hold | FollowSchedule)]
    return steps + ([f"After that: {text}" for text in first_sentences(texts)] or ["After that: nothing at first."])


def stall_warnings(memory: Memory, stall_limits: StallLimits) -> list[str]:
    """Returns a sentence for each move that loses progress but is not stalled yet."""
    warnings = []
    for broker, state in sorted(memory.stalls.items()):
        if not state.stalled and state.lost_s >= 1.0:
            warnings.append(
                f"The move onto broker {broker} has lost {span_text(state.lost_s)} of progress; it counts as stalled when it has "
                f"lost {span_text(stall_limits.stalled_lost_s)}."
            )
    return warnings[:NAMED_MAX]


def _cleanup_steps(live: LiveCluster, memory: Memory, limits: ThrottleLimits) -> list[str]:
    """Returns the changes that the cleanup after the last move will make."""
    if not live.moves or not (memory.owned or memory.throttled):
        return []
    if len(live.moves) > FORECAST_PARTITIONS_MAX:
        return ["When the moves have ended: every throttle is restored to its rate before the moves."]
    without_moves = LiveCluster(
        live.brokers,
        moves=(),
        rates=live.rates,
        lists=live.lists,
        unreadable=live.unreadable,
        quota_samples=live.quota_samples,
    )
    decisions = cleanup_after_moves(without_moves, memory, limits)
    rates = [decision for decision in decisions if isinstance(decision, RestoreRate)]
    lists = len(decisions) - len(rates)
    removed = sum(decision.value_bytes_per_s is None for decision in rates)
    parts = [
        f"{removed} throttle{'s' if removed != 1 else ''} removed" if removed else "",
        f"{len(rates) - removed} restored to the rate before the moves" if len(rates) > removed else "",
        f"the throttled-replica lists of {lists} topic{'s' if lists != 1 else ''} cleared" if lists else "",
    ]
    changes = ", ".join(part for part in parts if part)
    return [f"When the moves have ended: {changes}."] if changes else []


def _orphaned_throttles(live: LiveCluster, memory: Memory, limits: ThrottleLimits) -> list[str]:
    """Returns a sentence about orphaned throttles: set where nothing moves, and not managed by the tuner."""
    if not live.moves and (memory.owned or memory.throttled):
        return []  # The cleanup after the last move is still in progress.
    count = count_orphaned_rates(live, memory, limits)
    if count == 0:
        return []
    throttles = "1 throttle is" if count == 1 else f"{count} throttles are"
    where = "on brokers without a move" if live.moves else "although nothing moves"
    return [
        f"{throttles} set {where}. The tuner does not manage them and changes nothing: `rheostat throttles` names them, and "
        "`rheostat throttles clear` removes them."
    ]


def first_sentences(texts: Sequence[str]) -> list[str]:
    """Returns the first ``NAMED_MAX`` sentences, and a line with the number of the rest."""
    return shorten_lines(texts, NAMED_MAX, "of this kind")
