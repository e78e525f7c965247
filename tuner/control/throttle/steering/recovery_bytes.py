"""Adds the bytes of recovering replicas to the catch-up bytes of a broker.

Kafka's reassignment metrics count the replicas that a reassignment adds, and not those that recover. Without this correction the
control law would treat the bytes of a recovery as client load, and would give the recovery less and less bandwidth.
"""

from __future__ import annotations

from dataclasses import replace

from streaming.shared.contract import BrokerSignal, MoveSignal


def with_recovery_bytes(signal: BrokerSignal, leader: MoveSignal | None, follower: MoveSignal | None) -> BrokerSignal:
    """Returns the broker's signal with all catch-up bytes; the signal itself if nothing recovers.

    Args:
        leader, follower: the newest signal of the broker's sides.
    """
    sent, received = _gained_rates(leader), _gained_rates(follower)
    if sent is not None:
        # A leader's step has the bytes of recovering replicas only.
        signal = replace(
            signal,
            reassignment_out_bytes_per_s=_plus(signal.reassignment_out_bytes_per_s, sent[0]),
            step_reassignment_out_bytes_per_s=_plus(signal.step_reassignment_out_bytes_per_s, sent[1]),
        )
    if received is not None:
        # A follower's step has the bytes of adding replicas, too.
        signal = replace(
            signal,
            reassignment_in_bytes_per_s=_highest(signal.reassignment_in_bytes_per_s, received[0]),
            step_reassignment_in_bytes_per_s=_highest(signal.step_reassignment_in_bytes_per_s, received[1]),
        )
    return signal


def _gained_rates(move: MoveSignal | None) -> tuple[float, float] | None:
    """Returns the bytes/s over the window and in the newest step; None if nothing recovers, or before the second scrape."""
    if move is None or not move.steps or not move.recovering_partitions:
        return None
    newest = move.steps[-1]
    seconds = sum(step.dt_s for step in move.steps)
    if seconds <= 0 or newest.dt_s <= 0:
        return None
    return sum(step.gained_bytes for step in move.steps) / seconds, newest.gained_bytes / newest.dt_s


def _plus(rate: float | None, more: float) -> float | None:
    return None if rate is None else rate + more


def _highest(rate: float | None, other: float) -> float | None:
    return None if rate is None else max(rate, other)
