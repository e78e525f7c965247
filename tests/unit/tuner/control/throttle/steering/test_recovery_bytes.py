"""The bytes of recovering replicas count as catch-up, not as load of clients."""

from __future__ import annotations

from dataclasses import replace

from tuner_cases import F, L, broker_signal, move_signal, traced

from streaming.shared.contract import ThrottledBy
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
    assert signal.reassignment_out_bytes_per_s == signal.step_reassignment_out_bytes_per_s == 22 * MB
    assert signal.reassignment_in_bytes_per_s == 1 * MB


def test_bytes_received_by_copying_replicas_include_those_of_moves() -> None:
    follower = replace(move_signal(3, F, steps=STEPS), recovering_partitions=1)
    signal = with_recovery_bytes(SIGNAL, None, follower)
    assert signal.reassignment_in_bytes_per_s == signal.step_reassignment_in_bytes_per_s == 20 * MB


def test_network_step_is_replaced_by_the_mean_of_the_window() -> None:
    jumping = replace(SIGNAL, network_in_bytes_per_s=60 * MB, step_network_in_bytes_per_s=90 * MB)
    follower = replace(move_signal(3, F, steps=STEPS), recovering_partitions=1)
    assert with_recovery_bytes(jumping, None, follower).step_network_in_bytes_per_s == 60 * MB


def test_quota_counts_bytes_that_log_sizes_do_not_show() -> None:
    throttled = replace(SIGNAL, follower_throttled_bytes_per_s=53 * MB, leader_throttled_bytes_per_s=71 * MB)
    follower = replace(move_signal(3, F, steps=STEPS), recovering_partitions=1, steady_state_bytes_per_s=10 * MB)
    leader = replace(move_signal(3, L, steps=STEPS), recovering_partitions=1)
    leader = replace(leader, steady_state_bytes_per_s=20 * MB, write_bytes_per_s=10 * MB)
    signal = with_recovery_bytes(throttled, leader, follower)
    assert signal.reassignment_in_bytes_per_s == 53 * MB
    assert signal.reassignment_out_bytes_per_s == 61 * MB, "without the in-sync follower"


def test_metric_that_counts_all_replication_is_not_used() -> None:
    throttled = replace(SIGNAL, follower_throttled_bytes_per_s=53 * MB, throttled_by=ThrottledBy.REPLICATION)
    follower = replace(move_signal(3, F, steps=STEPS), recovering_partitions=1)
    assert with_recovery_bytes(throttled, None, follower).reassignment_in_bytes_per_s == 20 * MB


def test_unknown_reassignment_bytes_stay_unknown() -> None:
    follower = replace(move_signal(3, F, steps=STEPS), recovering_partitions=1)
    bare = broker_signal(3)
    assert with_recovery_bytes(bare, None, follower).step_reassignment_in_bytes_per_s is None
