"""The bytes of recovering replicas count as catch-up, not as load of clients."""

from __future__ import annotations

from dataclasses import replace

from tuner_cases import F, L, broker_signal, move_signal, traced

from tuner.control.throttle.steering.recovery_bytes import with_recovery_bytes
from tuner.core.throttle_limits import MB

SIGNAL = replace(
    broker_signal(3),
    reassignment_in_bytes_per_s=1 * MB,
    reassignment_out_bytes_per_s=2 * MB,
    step_reassignment_in_bytes_per_s=1 * MB,
    step_reassignment_out_bytes_per_s=2 * MB,
)
STEPS = tuple(traced([10 * MB, 30 * MB]))


def test_moves_alone_leave_the_signal_unchanged() -> None:
    assert with_recovery_bytes(SIGNAL, move_signal(3, L, steps=STEPS), move_signal(3, F, steps=STEPS)) is SIGNAL


def test_bytes_sent_to_recovering_replicas_are_added() -> None:
    leader = replace(move_signal(3, L, steps=STEPS), recovering_partitions=1)
    signal = with_recovery_bytes(SIGNAL, leader, None)
    assert signal.reassignment_out_bytes_per_s == 22 * MB
    assert signal.step_reassignment_out_bytes_per_s == 32 * MB
    assert signal.reassignment_in_bytes_per_s == 1 * MB


def test_bytes_received_by_copying_replicas_include_those_of_moves() -> None:
    follower = replace(move_signal(3, F, steps=STEPS), recovering_partitions=1)
    signal = with_recovery_bytes(SIGNAL, None, follower)
    assert signal.reassignment_in_bytes_per_s == 20 * MB
    assert signal.step_reassignment_in_bytes_per_s == 30 * MB


def test_unknown_reassignment_bytes_stay_unknown() -> None:
    follower = replace(move_signal(3, F, steps=STEPS), recovering_partitions=1)
    bare = broker_signal(3)
    assert with_recovery_bytes(bare, None, follower).step_reassignment_in_bytes_per_s is None
