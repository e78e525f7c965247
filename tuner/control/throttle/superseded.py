"""Finds the rate changes in progress that must stop, because of a new order or a new situation.

A ramp takes a quota window, and a ramp for a young move waits before it begins. A new order, or partitions that accept no writes,
cannot wait for so long. So the change stops at its current rate, and the next cycle decides from this rate.

Invariant: a change to the rate that an operator has ordered continues.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import ceil

from streaming.shared.contract import MoveSignal
from streaming.shared.units import rate_text
from tuner.control.throttle.decision import Decision, Hold, Reason, Relinquish, SetRate
from tuner.control.throttle.isr_recovery import sides_blocking_writes
from tuner.control.throttle.operator_overrides import is_in_force, is_still_ordered
from tuner.control.throttle.plan_moves import sides_of_move
from tuner.control.throttle.rescue_rate import min_draining_bytes_per_s
from tuner.core.cluster import BrokerSide, LiveCluster, Observation, PartitionMove
from tuner.core.freshness import fresh_signals
from tuner.core.throttle_limits import ThrottleLimits

# Reasons of holds that stop a change: the tuner no longer observes its effect, or an operator wants no change.
_STOPPING_REASONS = {
    Reason.CLUSTER_NOT_SEEN,
    Reason.SETTINGS_UNREADABLE,
    Reason.SIGNALS_MISSING,
    Reason.SIGNALS_STALE,
    Reason.SIGNALS_CONTRADICT,
    Reason.BROKER_DOWN,
    Reason.PAUSED,
    Reason.RELEASED,
}
# Reasons of raises that a stalled move needs.
_RESCUE_REASONS = {Reason.STALLED_BELOW_STEADY_STATE, Reason.STALLED_THROTTLE_BOUND, Reason.RESCUE_NEEDS_MORE}


def find_superseded_changes(
    changes: Mapping[BrokerSide, SetRate],
    waiting: Collection[BrokerSide],
    observation: Observation,
    limits: ThrottleLimits,
) -> dict[BrokerSide, str]:
    """Returns the changes that stop because of an order, or for partitions that accept no writes, by side, with the cause.

    Args:
        waiting: sides whose change has not written a step yet.
    """
    if not changes:
        return {}
    live, now_ms = observation.live, observation.now_ms
    blocking: frozenset[BrokerSide] | None = None  # None: unknown, as the cluster cannot be read.
    if isinstance(live, LiveCluster):
        fresh_brokers = fresh_signals(observation.broker_signals, now_ms, limits.signal_age_s_max)
        blocking = sides_blocking_writes(live, fresh_brokers)
    causes = {}
    for side, change in changes.items():
        order = observation.orders.overrides.get(side)
        ordered = is_in_force(order, now_ms)
        if ordered or change.reason is Reason.OVERRIDDEN:
            if not is_still_ordered(change, order, limits, now_ms):
                causes[side] = "the order has changed or ended"
        # A raise to a setpoint above the ceiling stops, because the ceiling was lowered after the raise began.
        elif change.setpoint_bytes_per_s > max(change.current_bytes_per_s, ceil(limits.rate_bytes_per_s_max)):
            causes[side] = "the ceiling was lowered"
        elif change.reason is Reason.ISR_RECOVERY:  # A raise for lost replicas stops when they are back.
            if blocking is not None and side not in blocking:
                causes[side] = "the ISR is restored, as far as rheostat can see"
        # A change to a lowered ceiling continues, because the ceiling also applies to sides with lost replicas.
        elif change.reason is Reason.AT_CEILING:
            continue
        elif blocking is not None and side in blocking and _delays_recovery(change, is_waiting=side in waiting):
            causes[side] = "writes wait until replicas are back in the ISR"
        # After a leader election the moves may use the throttle of another broker. No signal would then show the effect of a raise.
        elif change.reason in _RESCUE_REASONS and isinstance(live, LiveCluster) and _use_only_others(live.moves, side):
            causes[side] = "no partition moves through this throttle any more"
    return causes


def _use_only_others(moves: Sequence[PartitionMove], side: BrokerSide) -> bool:
    """Whether moves run, but none of them uses the throttle of this side. Once no move runs, the cleanup stops all changes."""
    return bool(moves) and not any(side in sides_of_move(move) for move in moves)


def _delays_recovery(change: SetRate, *, is_waiting: bool) -> bool:
    """Whether the change delays lost replicas: it still waits, starts at a low rate, or lowers the rate."""
    if is_waiting or change.reason is Reason.WINDOW_WARMUP:
        return True
    return change.setpoint_bytes_per_s < change.current_bytes_per_s


def find_changes_to_stop(
    decisions: Sequence[Decision],
    ramping: Collection[BrokerSide],
    warming_up: Collection[BrokerSide],
    owned: Collection[BrokerSide],
) -> dict[BrokerSide, str]:
    """Returns the changes that a cycle's decisions stop, by side, with the cause.

    A change stops if an operator pauses the tuner, if another client changes the rate, or if the tuner no longer observes its
    effect. It also stops on a side whose rate the tuner no longer owns, because no tuner would restore the rate.

    Args:
        ramping: sides with a change in progress.
        warming_up: the sides of ``ramping`` whose quota window warms up.
        owned: sides whose rate is the tuner's own.
    """
    causes = {
        (d.broker, d.side): d.text
        for d in decisions
        if isinstance(d, Relinquish) or (isinstance(d, Hold) and d.reason in _STOPPING_REASONS)
    }
    # A pause keeps the rates as they are. But a warm-up continues, because its low rate should last for seconds only.
    paused = any(isinstance(d, Hold) and d.reason is Reason.PAUSED for d in decisions)
    stops: dict[BrokerSide, str] = {}
    for side in ramping:
        if paused and side in warming_up:
            continue
        cause = causes.get(side) or causes.get((None, None))  # (None, None): the decision concerns the whole cluster.
        if cause is not None:
            stops[side] = f"interrupted: {cause}"
        elif side not in owned:
            stops[side] = "interrupted: the reason for the change is over"
    return stops


def find_vetoed_changes(decisions: Sequence[Decision], ramping: Collection[BrokerSide]) -> dict[BrokerSide, str]:
    """Returns the raises in progress that stop because of a veto, by side, with the cause.

    Args:
        ramping: sides with a change in progress.
    """
    vetoed = [d for d in decisions if isinstance(d, Hold) and d.reason is Reason.VETOED]
    return {
        (d.broker, d.side): d.text
        for d in vetoed
        if d.broker is not None and d.side is not None and (d.broker, d.side) in ramping
    }


def find_undraining_changes(
    changes: Mapping[BrokerSide, SetRate], moves: Mapping[BrokerSide, MoveSignal], limits: ThrottleLimits
) -> dict[BrokerSide, str]:
    """Returns the restores to a lower rate at which the move would no longer progress, by side, with the cause.

    Args:
        changes: the changes in progress.
        moves: the newest signals.
    """
    causes: dict[BrokerSide, str] = {}
    for side, change in changes.items():
        signal = moves.get(side)
        if change.reason is not Reason.RESTORED or change.setpoint_bytes_per_s >= change.current_bytes_per_s:
            continue
        if signal is None or signal.steady_state_bytes_per_s is None:
            continue
        min_rate = min_draining_bytes_per_s(signal.steady_state_bytes_per_s, limits)
        if change.setpoint_bytes_per_s < round(min_rate):
            causes[side] = f"interrupted: the move needs at least {rate_text(min_rate)} now"
    return causes
