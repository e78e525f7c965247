"""A stall that no throttle makes, in words: of a crowd on a fetcher thread, of a source, of a destination, or of nobody known."""

from __future__ import annotations

from streaming.shared.contract import Side
from streaming.shared.units import rate_text
from tuner.control.throttle.decision import Reason
from tuner.control.throttle.diagnosis.bottleneck import Bottleneck, SourceProgress, find_bottleneck
from tuner.control.throttle.diagnosis.fetcher_bound import FetcherCollision
from tuner.control.throttle.state import Memory
from tuner.control.throttle.view import MovesView
from tuner.core import formatting
from tuner.core.cluster import BrokerSide
from tuner.core.throttle_limits import StallLimits


class BottleneckFinder:
    """By destination; each is looked for once, where it is asked for."""

    def __init__(self, view: MovesView, memory: Memory, limits: StallLimits) -> None:
        self._view = view
        self._stalls = memory.stalls
        self._limits = limits
        self._found: dict[int, Bottleneck | None] = {}
        self._feeds: dict[int, SourceProgress] = {}  # By source; large clusters ask for each of a thousand times.

    def of(self, destination: int) -> Bottleneck | None:
        if destination not in self._found:
            self._found[destination] = self._look(destination)
        return self._found[destination]

    def _look(self, destination: int) -> Bottleneck | None:
        view = self._view
        signal = view.fresh_signal((destination, Side.FOLLOWER))
        # Where threads are crowded that is the cause, also on the way from other sources.
        if signal is None or view.fetcher_collision(destination) is not None:
            return None
        sources = view.leaders_of(destination)
        idle = {b: ratio for b in (destination, *sources) if (ratio := view.idle_ratio(b)) is not None}
        return find_bottleneck(destination, {source: self._feeds_of(source) for source in sources}, signal.steps, idle)

    def _feeds_of(self, source: int) -> SourceProgress:
        """Whom a throttle holds, or who has not been seen for long enough, says nothing of the source."""
        if source not in self._feeds:
            heard = sorted(self._view.measured_destinations((source, Side.LEADER)))
            judged = [d for d in heard if self._stalls[d].observed_s >= self._limits.observed_s_min]
            well = tuple(d for d in judged if not self._stalls[d].stalled)
            stalled = (d for d in judged if self._stalls[d].stalled and self._view.first_bound(d) is None)
            self._feeds[source] = SourceProgress(well, tuple(stalled))
        return self._feeds[source]


def explain_unthrottled_stall(
    side: BrokerSide, current_bytes_per_s: int, stalled: list[int], view: MovesView, causes: BottleneckFinder
) -> tuple[Reason, str]:
    """What is said of a throttle through which ``stalled`` destinations copy, none of them bound by one."""
    measured = view.measured_bytes_per_s(side)
    used = "how much of it is used is not measured" if measured is None else f"only {rate_text(measured)} of it is used"
    of_it = f"{rate_text(current_bytes_per_s)}, {used}"
    head = f"the move onto {formatting.brokers(stalled)} has stalled, but not by the throttle ({of_it}): "
    crowd = next(
        (found for d in stalled if (found := view.fetcher_collision(d)) is not None and _passes(side, found)), None
    )
    if crowd is not None:
        why = "a higher throttle does not help: change it with `rheostat fetchers --apply`, once nothing moves"
        return Reason.STALLED_FETCHER_BOUND, f"{head}it is the fetcher threads: {crowd}; {why}"
    cause = next((one for d in stalled if (one := causes.of(d)) is not None and _concerns(side, one)), None)
    if cause is not None:
        return cause.reason, f"{head}{cause.text}"
    return Reason.STALLED_NOT_THROTTLE_BOUND, (
        f"{head}look at the source's disk, the network, the fetchers, and whether the destination is alive"
    )


def _passes(side: BrokerSide, crowd: FetcherCollision) -> bool:
    """Whether what the crowd copies goes through this side."""
    return side in ((crowd.leader, Side.LEADER), (crowd.destination, Side.FOLLOWER))


def _concerns(side: BrokerSide, cause: Bottleneck) -> bool:
    """A source that is slow says nothing of other sources."""
    return side[1] is Side.FOLLOWER or cause.reason is not Reason.STALLED_SOURCE_BOUND or side[0] == cause.broker
