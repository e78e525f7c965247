"""Computes how many bytes of a tiered partition's log a follower has already, or does not have to copy. Pure.

The leader of a tiered partition (KIP-405) keeps the older part of the log in the remote storage, and only the newer part on its own
disks: the *local log*. A new replica copies at most the local log. With KIP-1023 it copies only what is not in the remote storage
yet. Brokers delete local segments at different times, so the local logs of replicas in sync have unlike sizes.

So the difference of two log sizes does not tell how many bytes are left to copy. This module uses the offsets and the sizes of both
local logs. Only for records whose bytes cannot be derived from the two sizes does it assume the mean size of a record. Old records
may be ten times as large as new records, for example after a change of a producer, and a copy begins with the old records.
"""

from __future__ import annotations

from dataclasses import dataclass

NEAR_END_SHARE = 0.1  # A share of the records of the leader's local log.


@dataclass(frozen=True, slots=True)
class LocalLog:
    """The part of a tiered log that the leader has on its own disks.

    Attributes:
        start: its first offset.
        end: its end offset.
        pending_upload: the first offset that is not in the remote storage yet; None if that offset is not known, or if new replicas
            begin at ``start``.
    """

    size_bytes: int
    start: int
    end: int
    pending_upload: int | None = None


@dataclass(frozen=True, slots=True)
class FollowerLog:
    """The part of a tiered log that a follower has on its own disks.

    Attributes:
        start: its first offset; None if not known.
        end: its end offset; None if the follower has no log yet.
    """

    size_bytes: int = 0
    start: int | None = None
    end: int | None = None


def copied_bytes(leader: LocalLog, follower: FollowerLog) -> int:
    """Returns the bytes of the leader's local log that a follower has, or does not have to copy."""
    end = follower.end
    has_begun = end is not None and end >= leader.start
    offset = end if has_begun and end is not None else first_copied_offset(leader)
    if offset >= leader.end:
        return leader.size_bytes
    left = (leader.end - offset) / (leader.end - leader.start)
    if not has_begun or follower.start is None or follower.start >= offset or follower.size_bytes == 0:
        return round(leader.size_bytes * (1 - left))
    return round(
        leader.size_bytes - min(leader.size_bytes, _left_bytes(leader, follower.size_bytes, follower.start, offset))
    )


def _left_bytes(leader: LocalLog, copied_bytes: int, start: int, end: int) -> float:
    """Returns the bytes of the leader's local log after a follower's end offset.

    Args:
        copied_bytes: size of the follower's local log, from offset ``start`` to ``end``.
    """
    left, local = leader.end - end, leader.end - leader.start
    if start >= leader.start:
        # The leader has records before the follower's first record and after its last record. The records of both parts are
        # assumed to have the same mean size.
        return max(0, leader.size_bytes - copied_bytes) * left / (left + start - leader.start)
    # The leader has deleted a part of the records that the follower has. Near the end of the copy, an error in the size of this
    # part would be large relative to the bytes left. So towards the end, the mean size of the leader's records gets more weight.
    shared_bytes = copied_bytes * (end - leader.start) / (end - start)
    by_difference = max(0.0, leader.size_bytes - shared_bytes)
    by_records = leader.size_bytes * left / local
    weight = min(1.0, left / local / NEAR_END_SHARE)
    return weight * by_difference + (1 - weight) * by_records


def first_copied_offset(leader: LocalLog) -> int:
    """Returns the offset at which an empty follower begins to copy.

    A follower begins at the first local offset while nothing precedes it, also with KIP-1023: its first fetch asks for offset 0.
    """
    if leader.pending_upload is None or leader.start == 0:
        return leader.start
    return max(leader.start, leader.pending_upload)


def awaits_remote_state(leader: LocalLog, follower_end: int, follower_bytes: int) -> bool:
    """Returns whether the follower is empty, and a part of the log is only in the remote storage.

    Such a follower reads the state of the remote log before its first byte. While the follower cannot read this state, Kafka
    truncates its log to the offset at which it will begin, and tries again and again.
    """
    return leader.start > 0 and follower_bytes == 0 and follower_end < leader.end
