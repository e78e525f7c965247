"""The bytes of a tiered partition that a follower has, or does not have to copy."""

from __future__ import annotations

import pytest

from streaming.shared.copied_bytes import FollowerLog, LocalLog, awaits_remote_state, copied_bytes, first_copied_offset

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
    assert copied_bytes(leader, FollowerLog(end=follower_end)) == expected


# The leader's local log has 500 old records of 180 kB, and 500 new ones of 20 kB.
@pytest.mark.parametrize(
    ("start", "end", "follower_mb", "left_mb", "accuracy_mb"),
    [
        (9_000, 9_250, 45, 55, 0),  # Both logs begin at the same offset: the sizes tell all.
        (9_000, 9_750, 95, 5, 0),
        (8_900, 9_250, 63, 55, 5),  # The leader has deleted 100 records that the follower still has.
        (8_900, 9_990, 117.8, 0.2, 1),
        (9_250, 9_500, 45, 10, 30),  # The follower has skipped, or has deleted, the first 250 records (45 MB).
        (9_250, 9_990, 54.8, 0.2, 2),
    ],
)
def test_left_bytes_of_unlike_records_follow_the_followers_size(
    start: int, end: int, follower_mb: float, left_mb: float, accuracy_mb: float
) -> None:
    copied = copied_bytes(LEADER, FollowerLog(round(follower_mb * MB), start, end))
    assert 100 - copied / MB == pytest.approx(left_mb, abs=accuracy_mb + 1e-6)


@pytest.mark.parametrize("start", [8_900, 9_000, 9_200])
def test_left_bytes_of_like_records_do_not_depend_on_the_followers_start(start: int) -> None:
    assert copied_bytes(LEADER, FollowerLog((9_400 - start) * MB // 10, start, 9_400)) == 40 * MB


def test_follower_with_more_bytes_than_its_leader_has_copied_no_more_than_its_leader_has() -> None:
    assert copied_bytes(LEADER, FollowerLog(150 * MB, 9_000, 9_900)) == 100 * MB


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
