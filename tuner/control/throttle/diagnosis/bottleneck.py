"""A move has stalled, and neither a throttle nor a crowd on a fetcher thread holds it: who does, most likely?

Intuition: whoever is ill is ill for everybody. A source that does not read or send starves all its destinations; one that feeds the
others well is not what this one waits for. Several sources that all have room in their throttles towards one destination are not
all ill at once. Where a move has one source and one destination and nobody to compare them with, a broker whose request handlers
are busy is the slower one. Where nothing of that speaks, nobody is accused.

Invariant: it is only ever a word about what the throttle is not; no rate follows from it.

Vocabulary:
    feeds     a source does, whom it brings the progress that is expected.
    starves   a source does, all of whose destinations that can be judged have stalled, more than this one.
    busy      a broker whose request handlers, which read for followers and write for producers, are hardly ever idle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streaming.shared.contract import MoveStep
from tuner.control.throttle.decision import Reason
from tuner.core import formatting
from tuner.core.value import value

BUSY_IDLE_RATIO = 0.3  # As the runbook has it: Kafka's own advice is to add threads or brokers below it.
SILENT_S_MIN = 20.0  # Longer than the longest silence of a quota's window.


_NAMED_MAX = 5


@value
class Bottleneck:
    reason: Reason
    broker: int
    text: str


@value
class SourceProgress:
    """The destinations of one source that can be judged."""

    well: tuple[int, ...] = ()
    stalled: tuple[int, ...] = ()  # By no throttle.


def find_bottleneck(
    destination: int, sources: Mapping[int, SourceProgress], steps: Sequence[MoveStep], idle_ratios: Mapping[int, float]
) -> Bottleneck | None:
    """
    Args:
        sources: of this destination.
        steps: of the destination.
        idle_ratios: of request handlers, by broker, as far as they are measured.
    """
    feeds = sorted(source for source, each in sources.items() if each.well)
    starves = [s for s, each in sources.items() if not each.well and any(d != destination for d in each.stalled)]
    busy = {broker for broker, ratio in idle_ratios.items() if ratio < BUSY_IDLE_RATIO}
    if feeds and len(feeds) == len(sources):
        fed = f"broker {feeds[0]} feeds {_some(sources[feeds[0]].well)}"
        silent_s = _silent_s(steps)
        if silent_s >= SILENT_S_MIN:
            return _dead(destination, f"nothing has come to it for {silent_s:.0f} s, while {fed} as it should")
        return _destination(destination, f"{fed} as it should")
    if len(starves) == 1 and len(feeds) == len(sources) - 1:
        [source] = starves
        also = tuple(d for d in sources[source].stalled if d != destination)
        return _source(source, f"what it sends to {_some(also)} has stalled as well")
    if len(sources) > 1 and not starves and not (busy and destination not in busy):
        return _destination(destination, f"{_some(tuple(sources))} all have room in their throttles towards it")
    suspects = sorted(busy & {destination, *sources})
    if len(suspects) == 1:
        [broker] = suspects
        why = f"its request handlers are idle for {100 * idle_ratios[broker]:.0f} % of the time only"
        return _destination(broker, why) if broker == destination else _source(broker, why)
    return None


def _some(brokers: Sequence[int]) -> str:
    return formatting.brokers(brokers, _NAMED_MAX)


def _silent_s(steps: Sequence[MoveStep]) -> float:
    """Of the steps that are known, how long the last of them brought nothing."""
    silent_s = 0.0
    for step in sorted(steps, key=lambda step: -step.at_ms):
        if step.gained_bytes > 0:
            break
        silent_s += step.dt_s
    return silent_s


def _dead(broker: int, why: str) -> Bottleneck:
    return Bottleneck(
        Reason.STALLED_REPLICA_DEAD,
        broker,
        f"the replicas on broker {broker} are likely dead, though it is registered: {why}; look at its log directories, and "
        "in its log for partitions whose fetching has failed; restart it, or cancel its part of the move",
    )


def _destination(broker: int, why: str) -> Bottleneck:
    return Bottleneck(
        Reason.STALLED_DESTINATION_BOUND,
        broker,
        f"it is likely broker {broker}, the destination: {why}; look at its disks and its network",
    )


def _source(broker: int, why: str) -> Bottleneck:
    return Bottleneck(
        Reason.STALLED_SOURCE_BOUND,
        broker,
        f"it is likely broker {broker}, the source: {why}; look at its disks (what followers lack for long is read from there) and "
        "its network",
    )
