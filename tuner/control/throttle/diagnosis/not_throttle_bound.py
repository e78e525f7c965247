"""Explains a stall that no throttle causes: a fetcher collision, a slow source or destination, or an unknown cause."""

from __future__ import annotations

from collections.abc import Sequence

from streaming.shared.contract import Side
from streaming.shared.units import count_text, rate_text
from tuner.control.throttle.decision import Reason
from tuner.control.throttle.diagnosis.bottleneck import Bottleneck, SourceProgress, find_bottleneck
from tuner.control.throttle.diagnosis.fetcher_bound import FetcherCollision
from tuner.control.throttle.state import Memory
from tuner.control.throttle.view import MovesView
from tuner.core import formatting
from tuner.core.cluster import BrokerSide
from tuner.core.throttle_limits import StallLimits


class BottleneckFinder:
    """Finds the bottleneck of each destination on first request and keeps it for the rest of the cycle."""

    def __init__(self, view: MovesView, memory: Memory, limits: StallLimits) -> None:
        self._view = view
        self._stalls = memory.stalls
        self._limits = limits
        self._bottlenecks: dict[int, Bottleneck | None] = {}  # By destination.
        # By source. Kept, because on a large cluster each source is looked up a thousand times.
        self._progress: dict[int, SourceProgress] = {}

    def bottleneck_of(self, destination: int) -> Bottleneck | None:
        if destination not in self._bottlenecks:
            self._bottlenecks[destination] = self._find(destination)
        return self._bottlenecks[destination]

    def _find(self, destination: int) -> Bottleneck | None:
        view = self._view
        signal = view.fresh_signal((destination, Side.FOLLOWER))
        # A fetcher collision is the cause of the stall, so no other bottleneck is searched.
        if signal is None or view.fetcher_collision(destination) is not None:
            return None
        sources = view.leaders_of(destination)
        idle_ratios = {b: ratio for b in (destination, *sources) if (ratio := view.idle_ratio(b)) is not None}
        progress_by_source = {source: self._progress_of(source) for source in sources}
        return find_bottleneck(destination, progress_by_source, signal.steps, idle_ratios)

    def _progress_of(self, source: int) -> SourceProgress:
        """Returns the source's progress. Leaves out destinations that a throttle limits or that were observed too briefly."""
        if source not in self._progress:
            measured = sorted(self._view.measured_destinations((source, Side.LEADER)))
            observed = [d for d in measured if self._stalls[d].observed_s >= self._limits.observed_s_min]
            progressing = tuple(d for d in observed if not self._stalls[d].stalled)
            stalled = (d for d in observed if self._stalls[d].stalled and self._view.first_bound_side(d) is None)
            self._progress[source] = SourceProgress(progressing, tuple(stalled))
        return self._progress[source]


def explain_remote_storage(stalled: Sequence[int], view: MovesView) -> str | None:
    """Returns the text about stalled destinations whose replicas wait for the remote storage (KIP-405); None: none waits."""
    waiting = {d: count for d in stalled if (count := view.awaiting_remote(d))}
    if not waiting:
        return None
    replicas = count_text(sum(waiting.values()), "replica")
    return (
        f"the move onto {formatting.brokers([*waiting])} has stalled because of the remote storage, not because of a throttle: "
        f"{replicas} of tiered topics cannot begin to copy before the broker has read the state of the remote log; check that the "
        "broker reaches the remote storage (its log has the error), and that the topic __remote_log_metadata is available; the "
        "copy then begins by itself"
    )


def explain_unthrottled_stall(
    side: BrokerSide, current_bytes_per_s: int, stalled: list[int], view: MovesView, finder: BottleneckFinder
) -> tuple[Reason, str]:
    """Returns the reason and the text for one throttle.

    Args:
        stalled: stalled destinations that copy through this side; no throttle limits their moves.
    """
    if (remote := explain_remote_storage(stalled, view)) is not None:
        return Reason.STALLED_REMOTE_STORAGE, remote
    measured = view.measured_bytes_per_s(side)
    usage = "its use is not measured" if measured is None else f"only {rate_text(measured)} of it is used"
    head = (
        f"the move onto {formatting.brokers(stalled)} has stalled, but not because of the throttle "
        f"({rate_text(current_bytes_per_s)}, {usage}): "
    )
    collisions = (view.fetcher_collision(d) for d in stalled)
    collision = next((c for c in collisions if c is not None and _is_copied_through(side, c)), None)
    if collision is not None:
        advice = (
            "a higher throttle does not help: change num.replica.fetchers with `rheostat fetchers --apply` when no "
            "partition moves"
        )
        return Reason.STALLED_FETCHER_BOUND, f"{head}the cause is the fetcher threads: {collision}; {advice}"
    bottlenecks = (finder.bottleneck_of(d) for d in stalled)
    bottleneck = next((b for b in bottlenecks if b is not None and _explains(b, side)), None)
    if bottleneck is not None:
        return bottleneck.reason, f"{head}{bottleneck.text}"
    return Reason.STALLED_NOT_THROTTLE_BOUND, (
        f"{head}check the source's disk, the network, the fetchers, and whether the destination is alive"
    )


def _is_copied_through(side: BrokerSide, collision: FetcherCollision) -> bool:
    """Returns whether the colliding partitions are copied through this side."""
    return side in ((collision.leader, Side.LEADER), (collision.destination, Side.FOLLOWER))


def _explains(bottleneck: Bottleneck, side: BrokerSide) -> bool:
    """Returns whether the bottleneck explains the stall on this side. A slow source does not explain a stall of another source."""
    is_other_source = side[1] is Side.LEADER and side[0] != bottleneck.broker
    return not (is_other_source and bottleneck.reason is Reason.STALLED_SOURCE_BOUND)
