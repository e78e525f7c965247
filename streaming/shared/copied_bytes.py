"""Computes how many bytes of a tiered partition's log a follower has already, or does not have to copy. Pure.

The leader of a tiered partition (KIP-405) keeps the older part of the log in the remote storage, and only the newer part on its own
disks: the *local log*. A new replica copies at most the local log. With KIP-1023 it copies only what is not in the remote storage
yet. Brokers delete local segments at different times, so the local logs of replicas in sync have unlike sizes.

So the difference of two log sizes says nothing about the bytes left to copy. This module uses offsets instead. It assumes that all
records of the leader's local log have their mean size.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LocalLog:
    """The part of a tiered log that the leader has on its own disks.

    Attributes:
        start: its first offset.
        end: its end offset.
        pending_upload: the first offset that is not in the remote storage yet; None: not known, or new replicas begin at ``start``.
    """

    size_bytes: int
    start: int
    end: int
    pending_upload: int | None = None


def copied_bytes(leader: LocalLog, follower_end: int | None) -> int:
    """Returns the bytes of the leader's local log that a follower has, or does not have to copy.

    Args:
        follower_end: the follower's log end offset; None: it has no log yet.
    """
    offset = follower_end
    if offset is None or offset < leader.start:
        offset = first_copied_offset(leader)
    if leader.end <= leader.start:
        return leader.size_bytes
    share = (offset - leader.start) / (leader.end - leader.start)
    return round(leader.size_bytes * min(1.0, max(0.0, share)))


def first_copied_offset(leader: LocalLog) -> int:
    """Returns the offset at which an empty follower begins to copy.

    A follower begins at the first local offset while nothing precedes it, also with KIP-1023: its first fetch asks for offset 0.
    """
    if leader.pending_upload is None or leader.start == 0:
        return leader.start
    return max(leader.start, leader.pending_upload)


def awaits_remote_state(leader: LocalLog, follower_end: int, follower_bytes: int) -> bool:
    """Returns whether the follower is empty, and a part of the log is only in the remote storage.

    Such a follower reads the state of the remote log before its first byte. While it cannot, Kafka truncates its log to the offset
    at which it will begin, and tries again and again.
    """
    return leader.start > 0 and follower_bytes == 0 and follower_end < leader.end
