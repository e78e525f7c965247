"""Detects whether a change of the number of fetcher threads has done harm, from samples after every step.

New threads begin without a connection, so followers fall behind for a moment. Afterwards the followers must be as close to their
leaders as before the change. There are two signs of harm: replicas leave the ISR, or in-sync replicas lag behind by more messages
than before the change. One sample may show a burst of writes or a broker with old metadata, so several samples in a row must agree.

Invariant: a condition that was as bad before the change is not reported as harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Number of samples in a row that must agree.
OUT_OF_SYNC_SAMPLES = 2
BEHIND_SAMPLES = 3
# In-sync replicas may lag by BEHIND_RATIO × the lag before the change, plus the messages of BEHIND_WRITTEN_S seconds of writes. A
# fetch takes at most half a second if its thread is not busy, so a larger lag shows that threads are too busy.
BEHIND_RATIO = 2.0
BEHIND_WRITTEN_S = 10.0
BEHIND_MESSAGES_MIN = 1_000  # A lag below this may be batches in progress.


@dataclass(frozen=True, slots=True)
class FollowerSample:
    """The state of all followers at one time.

    Attributes:
        out_of_sync: partitions with a replica that has left the ISR.
        behind: sum of the messages that in-sync replicas have not copied from their leaders yet.
        end_offsets: sum of the log end offsets of all leaders; its growth is the number of messages written.
        moving: partitions that are being reassigned.
    """

    at_s: float
    out_of_sync: int
    behind: int
    end_offsets: int
    moving: int = 0


@dataclass(frozen=True, slots=True)
class ResizeBaseline:
    """The state before the change."""

    out_of_sync: int
    behind: int
    messages_per_s: float

    @property
    def behind_max(self) -> float:
        """The highest lag in messages that is not harm."""
        return max(BEHIND_MESSAGES_MIN, BEHIND_RATIO * self.behind + BEHIND_WRITTEN_S * self.messages_per_s)


def measure_baseline(samples: Sequence[FollowerSample]) -> ResizeBaseline:
    """Returns the baseline from samples before the change.

    Args:
        samples: at least two, in order.
    """
    took_s = max(samples[-1].at_s - samples[0].at_s, 1e-3)
    written = max(0, samples[-1].end_offsets - samples[0].end_offsets)
    return ResizeBaseline(
        out_of_sync=max(sample.out_of_sync for sample in samples),
        behind=max(sample.behind for sample in samples),
        messages_per_s=written / took_s,
    )


def find_harm(baseline: ResizeBaseline, samples: Sequence[FollowerSample]) -> str | None:
    """Returns a sentence about the harm; None: there is none.

    Args:
        samples: all samples since the step, in order.
    """
    latest = samples[-OUT_OF_SYNC_SAMPLES:]
    if len(latest) == OUT_OF_SYNC_SAMPLES and all(sample.out_of_sync > baseline.out_of_sync for sample in latest):
        count, count_before = latest[-1].out_of_sync, baseline.out_of_sync
        return f"{count} partitions have a replica that is not in sync, {count_before} had before the change"
    latest = samples[-BEHIND_SAMPLES:]
    # A lag that shrinks is no harm: the followers are catching up after the restart of their threads.
    grows = len(latest) == BEHIND_SAMPLES and latest[-1].behind >= latest[0].behind
    if grows and all(sample.behind > baseline.behind_max for sample in latest):
        return f"{latest[-1].behind} messages wait for in-sync replicas to copy them, {baseline.behind} did before the change"
    return None
