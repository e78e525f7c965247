"""Copies of partitions between two log directories of one broker (KIP-113), as Kafka's DescribeLogDirs reports them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogDirCopy:
    """A partition whose log a broker copies to another of its log directories. The copy replaces the log once it has caught up.

    Attributes:
        size_bytes: the size of the log that is copied.
        copied_bytes: the size of its copy; 0 while the copy waits for its turn.
        directory: the log directory of the copy.
    """

    topic: str
    partition: int
    size_bytes: int
    copied_bytes: int
    directory: str

    @property
    def remaining_bytes(self) -> int:
        """The bytes left to copy. At least 0, because both sizes are read while producers write."""
        return max(0, self.size_bytes - self.copied_bytes)
