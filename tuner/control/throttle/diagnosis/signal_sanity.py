"""Do the signals contradict each other, or what the cluster says of itself? Then they are fresh and worth no more than old ones.

Intuition: two measures of one thing are never quite equal, as they span different seconds. But some differences no stretch of
time explains, and what would be decided on either measure could be as wrong as the measure.

    nothing moves   a side's signal tells of no moving partition, and the cluster lists some: a move that began just now, or a
                    collector that looks at another cluster
    part > whole    more catches up on a broker than passes its network: what clients use would come out as nothing, and all of
                    the link would seem to be free
    out ≠ in        what all brokers send to catching-up replicas and what all of them receive differ by a multiple

Invariant: what is doubted raises nothing. Whoever is asked for a doubted side has to do without its signals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streaming.shared.contract import BrokerSignal, MoveSignal, Side
from streaming.shared.units import rate_text
from tuner.control.throttle.steering.broker_estimate import reported_step_s, step_rates
from tuner.core.cluster import BrokerSide, LiveCluster
from tuner.core.freshness import Freshness, freshness
from tuner.core.throttle_limits import Limits


def find_contradictions(
    sides: Iterable[BrokerSide],
    live: LiveCluster,
    brokers: Mapping[int, BrokerSignal],
    moves: Mapping[BrokerSide, MoveSignal],
    now_ms: int,
    limits: Limits,
) -> dict[BrokerSide, str]:
    """Of the sides on which something moves by the cluster's word: why their signals are not believed."""
    unequal = _unequal(live, brokers, now_ms, limits)
    found: dict[BrokerSide, str] = {}
    for side in sides:
        move, broker = moves.get(side), brokers.get(side[0])
        if move is not None and move.moving_partitions == 0:
            found[side] = (
                "the cluster lists moves here and the signals tell of none: a move that has just begun shows within half a "
                "minute; else the collector looks at another cluster"
            )
        elif broker is not None and (excess := _part_above_whole(side[1], broker, limits)) is not None:
            found[side] = excess
        elif unequal is not None:
            found[side] = unequal
    return found


def _part_above_whole(side: Side, signal: BrokerSignal, limits: Limits) -> str | None:
    if side is Side.LEADER:
        parts = (signal.reassignment_out_bytes_per_s, signal.leader_throttled_bytes_per_s)
        whole = signal.network_out_bytes_per_s
    else:
        parts = (signal.reassignment_in_bytes_per_s, signal.follower_throttled_bytes_per_s)
        whole = signal.network_in_bytes_per_s
    part = max((part for part in parts if part is not None), default=None)
    if part is None or whole is None or not _by_far(part, whole, limits):
        # The law goes by the newest step, which may be wrong by itself.
        whole, part = step_rates(signal, side) if reported_step_s(signal) is not None else (None, None)
        if part is None or whole is None or not _by_far(part, whole, limits):
            return None
    return (
        f"{rate_text(part)} of replication are measured on broker {signal.broker}, and {rate_text(whole)} of everything: one "
        "of the two is wrong, so nobody knows what clients use"
    )


def _unequal(live: LiveCluster, brokers: Mapping[int, BrokerSignal], now_ms: int, limits: Limits) -> str | None:
    sent = received = 0.0
    for broker in live.brokers:
        signal = brokers.get(broker)
        if signal is None or freshness(signal, now_ms, limits.signal_age_s_max) is not Freshness.FRESH:
            return None  # A sum without one of them says nothing.
        out, into = signal.reassignment_out_bytes_per_s, signal.reassignment_in_bytes_per_s
        if out is None or into is None:
            return None
        sent, received = sent + out, received + into
    if not _by_far(max(sent, received), min(sent, received), limits):
        return None
    return (
        f"all brokers send {rate_text(sent)} to catching-up replicas and receive {rate_text(received)}: a part of the cluster "
        "is measured wrong"
    )


def _by_far(more: float, less: float, limits: Limits) -> bool:
    return more > limits.contradiction_ratio * less and more - less > limits.contradiction_bytes_per_s_min
