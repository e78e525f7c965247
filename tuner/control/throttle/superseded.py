"""Which changes of rate under way are not what is wanted any more, or must not go on?

Intuition: a ramp takes a window of Kafka's quota, and one for a young move waits before it begins. What a person orders meanwhile,
and what producers wait for, is not behind that in a queue: such a change ends where it is, and the next cycle goes on from there.

Invariant: a change that leads to where somebody wants it now is let go on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from streaming.shared.contract import MoveSignal
from streaming.shared.units import rate_text
from tuner.control.throttle.decision import Decision, Hold, Reason, Relinquish, SetRate
from tuner.control.throttle.isr_recovery import sides_blocking_writes
from tuner.control.throttle.operator_overrides import is_in_force, is_still_ordered
from tuner.control.throttle.rescue_rate import min_draining_bytes_per_s
from tuner.core.cluster import BrokerSide, LiveCluster, Observation
from tuner.core.drain_time import SideLoad
from tuner.core.freshness import fresh_signals
from tuner.core.throttle_limits import Limits

# Reasons to hold for which it is not seen any more what a change does, or an operator wants none.
_UNOBSERVED = {
    Reason.CLUSTER_NOT_SEEN,
    Reason.SETTINGS_UNREADABLE,
    Reason.SIGNALS_MISSING,
    Reason.SIGNALS_STALE,
    Reason.SIGNALS_CONTRADICT,
    Reason.BROKER_DOWN,
    Reason.PAUSED,
    Reason.RELEASED,
}


def find_superseded_changes(
    changes: Mapping[BrokerSide, SetRate], waiting: Collection[BrokerSide], observation: Observation, limits: Limits
) -> dict[BrokerSide, str]:
    """Those of ``changes`` that end where they are, and why.

    Args:
        waiting: of which no step has been written yet.
    """
    if not changes:
        return {}
    live, now_ms = observation.live, observation.now_ms
    seen = isinstance(live, LiveCluster)
    told = fresh_signals(observation.brokers, now_ms, limits.signal_age_s_max)
    needed = sides_blocking_writes(live, told) if isinstance(live, LiveCluster) else frozenset[BrokerSide]()
    found = {}
    for side, change in changes.items():
        order = observation.orders.overrides.get(side)
        ordered = is_in_force(order, now_ms)
        if ordered or change.reason is Reason.OVERRIDDEN:
            if not is_still_ordered(change, order, limits, now_ms):
                found[side] = "ordered otherwise, or no longer"
        # Throttles that are being opened for replicas that nobody says are waited for any more.
        elif change.reason is Reason.ISR_RECOVERY:
            if seen and side not in needed:
                found[side] = "writes wait no more for what it was opened for, as far as is known"
        # Above a ceiling that is lower by now nothing is opened anyway.
        elif change.reason is Reason.AT_CEILING:
            continue
        elif side in needed and (
            side in waiting
            or change.reason is Reason.WINDOW_WARMUP
            or change.setpoint_bytes_per_s < change.current_bytes_per_s
        ):
            found[side] = "writes wait for replicas that come back through it"
    return found


def find_changes_to_stop(
    decisions: Sequence[Decision],
    busy: Collection[BrokerSide],
    filling: Collection[BrokerSide],
    owned: Collection[BrokerSide],
) -> dict[BrokerSide, str]:
    """The changes under way that a cycle's decisions stop where they are, by side, and why.

    A change stops when an operator says so or has set something else, or when it is no longer seen what it does: old news never
    raises a throttle. A change on a side of which nothing is rheostat's own any more stops as well: no tuner would take it back.

    Args:
        busy: the sides with a change under way.
        filling: those of them whose window is being filled.
        owned: the sides whose rate is rheostat's own.
    """
    over = {
        (d.broker, d.side): d.text
        for d in decisions
        if isinstance(d, Relinquish) or (isinstance(d, Hold) and d.reason in _UNOBSERVED)
    }
    # An operator who pauses wants the rates to stay, and not the low rate that a filling side has for a second.
    paused = any(isinstance(d, Hold) and d.reason is Reason.PAUSED for d in decisions)
    stops: dict[BrokerSide, str] = {}
    for side in busy:
        if paused and side in filling:
            continue
        if (word := over.get(side) or over.get((None, None))) is not None:
            stops[side] = f"stopped on the way: {word}"
        elif side not in owned:
            stops[side] = "what it was for is over"
    return stops


def find_undraining_changes(
    changes: Mapping[BrokerSide, SetRate], moves: Mapping[BrokerSide, MoveSignal], limits: Limits
) -> dict[BrokerSide, str]:
    """The changes back down to an earlier rate that would leave less than the move needs by now, by side, and why.

    Args:
        changes: those under way.
        moves: the newest signals.
    """
    found: dict[BrokerSide, str] = {}
    for side, change in changes.items():
        signal = moves.get(side)
        if change.reason is not Reason.RESTORED or change.setpoint_bytes_per_s >= change.current_bytes_per_s:
            continue
        if signal is None or signal.steady_state_bytes_per_s is None:
            continue
        needed = min_draining_bytes_per_s(SideLoad(0.0, signal.steady_state_bytes_per_s), limits)
        if change.setpoint_bytes_per_s < round(needed):
            found[side] = f"stopped on the way: {rate_text(needed)} are needed by now for it to drain"
    return found
