"""Adds the bytes of recovering replicas to the catch-up bytes of a broker.

Kafka's reassignment metrics count the replicas that a reassignment adds, and not those that recover. Without this correction the
control law would take a recovery for client load, and would leave the recovery less and less bandwidth.

Two measurements tell what recovering replicas fetch: the growth of their logs, which is too low if retention deletes segments at
the same time, and the bytes that Kafka's quota counts. Neither covers exactly the newest step (the time between the last two
scrapes), which the newest network traffic covers. So that traffic minus the catch-up bytes would look like a client load that
jumps, and the law would keep a large reserve for the jumps. To avoid this, the mean of the network traffic over the window
replaces the traffic of the newest step.
"""

from __future__ import annotations

from dataclasses import replace

from streaming.shared.contract import BrokerSignal, MoveSignal
from tuner.control.throttle.steering.side_inputs import throttled_bytes_per_s
from tuner.control.throttle.steering.state import in_sync_bytes_per_s


def with_recovery_bytes(signal: BrokerSignal, leader: MoveSignal | None, follower: MoveSignal | None) -> BrokerSignal:
    """Returns the broker's signal with all catch-up bytes, as means over the window; the signal itself if nothing recovers.

    Args:
        leader, follower: the newest signal of the broker's sides.
    """
    sent, received = _gained_bytes_per_s(leader), _gained_bytes_per_s(follower)
    if leader is not None and sent is not None and signal.reassignment_out_bytes_per_s is not None:
        # A leader's gained bytes are those of recovering replicas only.
        catch_up = max(signal.reassignment_out_bytes_per_s + sent, _quota_catch_up(signal, leader))
        signal = replace(
            signal,
            step_network_out_bytes_per_s=signal.network_out_bytes_per_s,
            reassignment_out_bytes_per_s=catch_up,
            step_reassignment_out_bytes_per_s=catch_up,
        )
    if follower is not None and received is not None and signal.reassignment_in_bytes_per_s is not None:
        # A follower's gained bytes include those of adding replicas.
        catch_up = max(signal.reassignment_in_bytes_per_s, received, _quota_catch_up(signal, follower))
        signal = replace(
            signal,
            step_network_in_bytes_per_s=signal.network_in_bytes_per_s,
            reassignment_in_bytes_per_s=catch_up,
            step_reassignment_in_bytes_per_s=catch_up,
        )
    return signal


def _gained_bytes_per_s(move: MoveSignal | None) -> float | None:
    """Returns the bytes/s that replicas gained over the window; None if nothing recovers, or before the second scrape."""
    if move is None or not move.steps or not move.recovering_partitions:
        return None
    seconds = sum(step.dt_s for step in move.steps)
    return sum(step.gained_bytes for step in move.steps) / seconds if seconds > 0 else None


def _quota_catch_up(signal: BrokerSignal, move: MoveSignal) -> float:
    """Returns the bytes/s that the quota of one side counted − the bytes/s of in-sync followers; 0 if not known."""
    return max(0.0, (throttled_bytes_per_s(move.side, signal) or 0.0) - in_sync_bytes_per_s(move))
