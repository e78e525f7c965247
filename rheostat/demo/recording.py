"""Records a run of the demo second by second: throttles, remaining bytes and produce latency, and the events between them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from rheostat.demo.move import MoveSample

# A second without a sample gets the values of the last sample, unless that sample is older than this.
_HELD_S_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Event:
    at_s: float  # From the start of the recording.
    label: str


@dataclass(frozen=True, slots=True)
class Recording:
    """One value for each second; None if not set, or not measured."""

    write_bytes_per_s: float  # The producers' rate while the move stalls.
    # Replication of new writes. The move makes progress only if the leader's throttle is above this rate.
    steady_state_bytes_per_s: float
    leader_throttle_bytes_per_s: list[float | None]
    follower_throttle_bytes_per_s: list[float | None]
    remaining_bytes: list[int | None]
    produce_median_ms: list[float | None]
    produce_max_ms: list[float | None]
    events: list[Event] = field(default_factory=list)


def make_recording(
    samples: Sequence[MoveSample],
    latencies_s: Sequence[tuple[float, float]],
    events: Sequence[tuple[float | None, str]],
    *,
    began_s: float,
    ended_s: float,
    write_bytes_per_s: float,
    steady_state_bytes_per_s: float,
) -> Recording:
    """Returns the recording of a run. All times are of ``time.monotonic``.

    Args:
        samples: the observations of the move, in order.
        latencies_s: (when sent, latency) of the probe's records.
        events: (when, name); the time is None if the event did not happen.
        began_s: where the recording begins.
        ended_s: where it ends.
    """
    seconds = math.ceil(ended_s - began_s)
    held = [_sample_at(samples, began_s + second) for second in range(seconds)]  # One sample for each second.
    moves_from_s = next((sample.at_s for sample in samples if sample.moving), math.inf)
    by_second: dict[int, list[float]] = {}
    for sent_s, latency_s in latencies_s:
        by_second.setdefault(math.floor(sent_s - began_s), []).append(latency_s * 1000)
    measured = [by_second.get(second) for second in range(seconds)]
    return Recording(
        write_bytes_per_s=write_bytes_per_s,
        steady_state_bytes_per_s=steady_state_bytes_per_s,
        leader_throttle_bytes_per_s=[sample.leader_throttle_bytes_per_s if sample else None for sample in held],
        follower_throttle_bytes_per_s=[sample.follower_throttle_bytes_per_s if sample else None for sample in held],
        remaining_bytes=[sample.remaining_bytes if sample and sample.at_s >= moves_from_s else None for sample in held],
        produce_median_ms=[round(statistics.median(ms), 1) if ms else None for ms in measured],
        produce_max_ms=[round(max(ms), 1) if ms else None for ms in measured],
        events=[Event(round(at_s - began_s, 1), label) for at_s, label in events if at_s is not None],
    )


def _sample_at(samples: Sequence[MoveSample], at_s: float) -> MoveSample | None:
    """Returns the last sample before or at this time; None if it is older than ``_HELD_S_MAX``."""
    last = None
    for sample in samples:
        if sample.at_s > at_s:
            break
        last = sample
    return last if last is not None and at_s - last.at_s <= _HELD_S_MAX else None
