"""The bytes of a tiered partition that a follower has, or does not have to copy."""

from __future__ import annotations

import pytest

from streaming.shared.copied_bytes import LocalLog, awaits_remote_state, copied_bytes, first_copied_offset

MB = 1_000_000
# 100 MB and 1,000 records of a log of 10,000 records are on the leader's disks.
LEADER = LocalLog(100 * MB, start=9_000, end=10_000)
UPLOADED = LocalLog(100 * MB, start=9_000, end=10_000, pending_upload=9_800)


@pytest.mark.parametrize(
    ("leader", "follower_end", "expected"),
    [
        (LEADER, None, 0),  # It will begin at the first local offset.
        (LEADER, 0, 0),  # It exists, and has not begun.
        (LEADER, 9_000, 0),
        (LEADER, 9_250, 25 * MB),
        (LEADER, 10_000, 100 * MB),
        (LEADER, 10_010, 100 * MB),  # The follower was read after the leader.
        (LEADER, 8_000, 0),  # Its log ends before the leader's local log: it will begin again.
        (UPLOADED, None, 80 * MB),  # With KIP-1023 it skips what is in the remote storage.
        (UPLOADED, 0, 80 * MB),
        (UPLOADED, 9_900, 90 * MB),
        (LocalLog(0, start=10_000, end=10_000), None, 0),  # All segments have just been removed.
    ],
)
def test_copied_bytes_follow_the_offsets(leader: LocalLog, follower_end: int | None, expected: int) -> None:
    assert copied_bytes(leader, follower_end) == expected


def test_first_offset_is_the_local_start_while_everything_is_local() -> None:
    assert first_copied_offset(LocalLog(100 * MB, start=0, end=1_000, pending_upload=800)) == 0


def test_first_offset_is_never_before_the_local_start() -> None:
    assert first_copied_offset(LocalLog(100 * MB, start=900, end=1_000, pending_upload=500)) == 900


@pytest.mark.parametrize(
    ("leader", "follower_end", "follower_bytes", "expected"),
    [
        (LEADER, 0, 0, True),
        (LEADER, 9_000, 0, True),  # Kafka has truncated its log to the local start.
        (UPLOADED, 9_800, 0, True),  # The same with KIP-1023.
        (LEADER, 9_010, 1_000, False),
        (LEADER, 10_000, 0, False),  # There is nothing to copy.
        (LocalLog(100 * MB, start=0, end=1_000), 0, 0, False),  # The whole log is local.
    ],
)
def test_empty_follower_awaits_the_remote_state(
    leader: LocalLog, follower_end: int, follower_bytes: int, expected: bool
) -> None:
    assert awaits_remote_state(leader, follower_end, follower_bytes) == expected
