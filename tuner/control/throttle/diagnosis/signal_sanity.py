"""Finds signals that contradict each other or the cluster. The controller treats such signals like stale ones.

Two measures of the same bytes always differ a little, because they cover different seconds. Three contradictions have another
cause:

    no moving partition   The cluster lists moves on a side (the leader or the follower throttle of one broker), and the side's
                          signal counts none. Either the move has just begun, or the collector observes another cluster.
    part > whole          A broker reports more replication than total network traffic. The calculated rate of its clients would
                          be 0, and the whole network would seem free.
    sent ≠ received       For catching-up replicas, all brokers together send several times as many bytes as they receive, or the
                          reverse.

Invariant: no rate is raised because of contradictory signals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streaming.shared.contract import BrokerSignal, MoveSignal, Side
from streaming.shared.units import rate_text
from tuner.control.throttle.steering.broker_estimate import reported_step_s, step_rates
from tuner.core.cluster import BrokerSide, LiveCluster
from tuner.core.freshness import Freshness, freshness
from tuner.core.throttle_limits import ThrottleLimits


def find_contradictions(
    sides: Iterable[BrokerSide],
    live: LiveCluster,
    brokers: Mapping[int, BrokerSignal],
    moves: Mapping[BrokerSide, MoveSignal],
    now_ms: int,
    limits: ThrottleLimits,
) -> dict[BrokerSide, str]:
    """Returns the sides whose signals are contradictory, with a text for operators.

    Args:
        sides: sides that moves copy through, according to the cluster.
    """
    imbalance = _explain_imbalance(live, brokers, now_ms, limits)
    contradictions: dict[BrokerSide, str] = {}
    for side in sides:
        move, broker_signal = moves.get(side), brokers.get(side[0])
        if move is not None and move.moving_partitions == 0:
            contradictions[side] = (
                "the controller lists moves through this throttle, but the signals count none: a new move appears in the "
                "signals within half a minute; if it does not appear, the collector observes another cluster"
            )
        elif broker_signal is not None and (excess := _explain_excess(side[1], broker_signal, limits)) is not None:
            contradictions[side] = excess
        elif imbalance is not None:
            contradictions[side] = imbalance
    return contradictions


def _explain_excess(side: Side, signal: BrokerSignal, limits: ThrottleLimits) -> str | None:
    """Returns a text if the window or the newest step has more replication than total network traffic; else None."""
    if side is Side.LEADER:
        parts = (signal.reassignment_out_bytes_per_s, signal.leader_throttled_bytes_per_s)
        whole = signal.network_out_bytes_per_s
    else:
        parts = (signal.reassignment_in_bytes_per_s, signal.follower_throttled_bytes_per_s)
        whole = signal.network_in_bytes_per_s
    part = max([part for part in parts if part is not None], default=None)
    if part is None or whole is None or not _exceeds(part, whole, limits):
        # The control law uses the newest step, which can be wrong although the window is right.
        whole, part = step_rates(signal, side) if reported_step_s(signal) is not None else (None, None)
        if part is None or whole is None or not _exceeds(part, whole, limits):
            return None
    return (
        f"{rate_text(part)} of replication are measured on broker {signal.broker}, but only {rate_text(whole)} of network traffic: "
        "one of the two measurements is wrong, so the clients' rate is unknown"
    )


def _explain_imbalance(
    live: LiveCluster, brokers: Mapping[int, BrokerSignal], now_ms: int, limits: ThrottleLimits
) -> str | None:
    """Returns a text if the brokers together send far more, or far less, than they receive; else None. Needs all signals."""
    sent = received = 0.0
    for broker in live.brokers:
        signal = brokers.get(broker)
        if signal is None or freshness(signal, now_ms, limits.signal_age_s_max) is not Freshness.FRESH:
            return None  # Without one broker the sums cannot be compared.
        sent_by_broker, received_by_broker = signal.reassignment_out_bytes_per_s, signal.reassignment_in_bytes_per_s
        if sent_by_broker is None or received_by_broker is None:
            return None
        sent, received = sent + sent_by_broker, received + received_by_broker
    if not _exceeds(max(sent, received), min(sent, received), limits):
        return None
    return (
        f"all brokers together send {rate_text(sent)} to catching-up replicas, but receive {rate_text(received)}: a part "
        "of the cluster is "
        "measured wrongly"
    )


def _exceeds(more: float, less: float, limits: ThrottleLimits) -> bool:
    """Returns whether ``more`` is above ``less`` by more than the usual difference between two measures."""
    return more > limits.contradiction_ratio * less and more - less > limits.contradiction_bytes_per_s_min
