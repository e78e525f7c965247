"""Finds the most likely bottleneck of a stalled move when neither a throttle nor a fetcher thread limits it.

The rules compare the brokers of the move with each other, in this order:

1. All sources progress towards other destinations: the destination is the bottleneck. If no bytes arrived for 20 s, its replicas
   are likely dead.
2. Exactly one source makes no progress towards any destination, and all other sources progress: that source is the bottleneck.
3. The destination has several sources, all with room in their throttles and without other stalled copies: the destination is the
   bottleneck, since several sources rarely fail at once. This rule is skipped if request handlers are busy on sources alone.
4. Request handlers are busy on exactly one of the brokers: that broker is the bottleneck.

Otherwise there is no result. The result only explains the stall; no rate depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streaming.shared.contract import MoveStep
from tuner.control.throttle.decision import Reason
from tuner.core import formatting
from tuner.core.value import value

BUSY_IDLE_RATIO = 0.3  # Request handlers that are idle for less count as busy (Kafka's documentation).
SILENT_S_MIN = 20.0  # Longer than the longest silence of a quota's window.

_NAMES_MAX = 5


@value
class Bottleneck:
    """The broker that most likely limits a move. ``text`` names it and says what to check."""

    reason: Reason
    broker: int
    text: str


@value
class SourceProgress:
    """The destinations of one source that were observed long enough: those that progress, and those that have stalled."""

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
    # The sources whose copies to other destinations have stalled as well.
    starving = [
        source
        for source, progress in sources.items()
        if not progress.progressing and any(other != destination for other in progress.stalled)
    ]
    busy = {broker for broker, ratio in idle_ratios.items() if ratio < BUSY_IDLE_RATIO}
    if progressing and len(progressing) == len(sources):
        source = progressing[0]
        evidence = f"broker {source} feeds {_names(sources[source].progressing)} at the expected rate"
        silent_s = _silent_s(steps)
        if silent_s >= SILENT_S_MIN:
            return _dead_replicas(destination, f"no bytes have arrived for {silent_s:.0f} s, while {evidence}")
        return _slow_destination(destination, evidence)
    if len(starving) == 1 and len(progressing) == len(sources) - 1:
        [source] = starving
        others = tuple(other for other in sources[source].stalled if other != destination)
        return _slow_source(source, f"its copies to {_names(others)} have stalled as well")
    only_sources_busy = bool(busy) and destination not in busy
    if len(sources) > 1 and not starving and not only_sources_busy:
        return _slow_destination(destination, f"{_names(tuple(sources))} all have room in their throttles towards it")
    suspects = sorted(busy & {destination, *sources})
    if len(suspects) == 1:
        [broker] = suspects
        evidence = f"its request handlers are idle only {100 * idle_ratios[broker]:.0f} % of the time"
        return _slow_destination(broker, evidence) if broker == destination else _slow_source(broker, evidence)
    return None


def _names(brokers: Sequence[int]) -> str:
    return formatting.brokers(brokers, _NAMES_MAX)


def _silent_s(steps: Sequence[MoveStep]) -> float:
    """Returns the seconds without bytes at the end of the known steps."""
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
        f"the replicas on broker {broker} are likely dead, although it is registered: {evidence}; check its log directories, and "
        "its log for partitions whose fetching has failed; restart it, or cancel its part of the move",
    )


def _slow_destination(broker: int, evidence: str) -> Bottleneck:
    return Bottleneck(
        Reason.STALLED_DESTINATION_BOUND,
        broker,
        f"the likely cause is broker {broker}, the destination: {evidence}; check its disks and its network",
    )


def _slow_source(broker: int, evidence: str) -> Bottleneck:
    return Bottleneck(
        Reason.STALLED_SOURCE_BOUND,
        broker,
        f"the likely cause is broker {broker}, the source: {evidence}; check its disks (old data is read from there) and its "
        "network",
    )
