"""Finds the most likely bottleneck of a stalled move when neither a throttle nor a fetcher thread limits it.

The rules look at the copies from the sources of the move to other destinations. A source progresses if any of these copies
progresses. A source is stalled if none progresses and at least one has stalled. The first rule that applies gives the result:

1. All sources progress: the destination is the bottleneck. If also no bytes have arrived for 20 s, its replicas are likely dead.
2. Exactly one source is stalled, and all other sources progress: this source is the bottleneck.
3. There are several sources, and none of them is stalled: the destination is the bottleneck, because several sources rarely fail at
   once. This rule does not apply if request handlers are busy on sources only.
4. Request handlers are busy on exactly one of the brokers: this broker is the bottleneck.

Otherwise there is no result. The result only explains the stall; no rate depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streaming.shared.contract import MoveStep
from tuner.control.throttle.decision import Reason
from tuner.core import formatting
from tuner.core.value import value

BUSY_IDLE_RATIO = 0.3  # Request handlers with a lower idle ratio count as busy (Kafka's documentation).
SILENT_S_MIN = 20.0  # Longer than the longest time without bytes that a quota window causes.

_NAMES_MAX = 5


@value
class Bottleneck:
    """The broker that most likely limits a move. ``text`` names it and says what to check."""

    reason: Reason
    broker: int
    text: str


@value
class SourceProgress:
    """The destinations of one source whose copies progress, and those whose copies have stalled.

    Destinations that were not observed long enough are in neither list.
    """

    progressing: tuple[int, ...] = ()
    stalled: tuple[int, ...] = ()  # Without stalls that a throttle causes.


def find_bottleneck(
    destination: int, sources: Mapping[int, SourceProgress], steps: Sequence[MoveStep], idle_ratios: Mapping[int, float]
) -> Bottleneck | None:
    """Returns the most likely bottleneck of the move onto ``destination``; None if no rule applies.

    Args:
        sources: the brokers that the destination copies from.
        steps: the newest steps of the move onto the destination.
        idle_ratios: idle ratios of request handlers, by broker, where they are measured.
    """
    progressing = sorted(source for source, progress in sources.items() if progress.progressing)
    stalled_sources = [
        source
        for source, progress in sources.items()
        if not progress.progressing and any(other != destination for other in progress.stalled)
    ]
    busy = {broker for broker, ratio in idle_ratios.items() if ratio < BUSY_IDLE_RATIO}
    if progressing and len(progressing) == len(sources):
        source = progressing[0]
        evidence = f"broker {source} copies to {_names(sources[source].progressing)} at the expected rate"
        silent_s = _silent_s(steps)
        if silent_s >= SILENT_S_MIN:
            return _dead_replicas(destination, f"no bytes have arrived for {silent_s:.0f} s, while {evidence}")
        return _slow_destination(destination, evidence)
    if len(stalled_sources) == 1 and len(progressing) == len(sources) - 1:
        [source] = stalled_sources
        others = tuple(other for other in sources[source].stalled if other != destination)
        return _slow_source(source, f"its copies to {_names(others)} have stalled as well")
    only_sources_busy = bool(busy) and destination not in busy
    if len(sources) > 1 and not stalled_sources and not only_sources_busy:
        return _slow_destination(
            destination, f"{_names(tuple(sources))} all send less to this broker than their throttles allow"
        )
    suspects = sorted(busy & {destination, *sources})
    if len(suspects) == 1:
        [broker] = suspects
        evidence = f"its request handlers are idle only {100 * idle_ratios[broker]:.0f} % of the time"
        return _slow_destination(broker, evidence) if broker == destination else _slow_source(broker, evidence)
    return None


def _names(brokers: Sequence[int]) -> str:
    return formatting.brokers(brokers, _NAMES_MAX)


def _silent_s(steps: Sequence[MoveStep]) -> float:
    """Returns for how many seconds, up to the newest step, no bytes have arrived."""
    silent_s = 0.0
    for step in sorted(steps, key=lambda step: step.at_ms, reverse=True):
        if step.gained_bytes > 0:
            break
        silent_s += step.dt_s
    return silent_s


def _dead_replicas(broker: int, evidence: str) -> Bottleneck:
    return Bottleneck(
        Reason.STALLED_REPLICA_DEAD,
        broker,
        f"the replicas on broker {broker} are likely dead, although the broker is registered: {evidence}; check the log "
        f"directories of broker {broker}, and look in its log for partitions whose fetching has failed; restart this broker, or "
        "cancel its moves",
    )


def _slow_destination(broker: int, evidence: str) -> Bottleneck:
    return Bottleneck(
        Reason.STALLED_DESTINATION_BOUND,
        broker,
        f"the likely cause is broker {broker}, the destination: {evidence}; check the disks and the network of broker {broker}",
    )


def _slow_source(broker: int, evidence: str) -> Bottleneck:
    return Bottleneck(
        Reason.STALLED_SOURCE_BOUND,
        broker,
        f"the likely cause is broker {broker}, the source: {evidence}; check the disks of broker {broker} (it reads old data from "
        "disk) and its network",
    )
