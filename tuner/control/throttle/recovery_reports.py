"""Reports in sentences which brokers have recovering replicas, and what the tuner does with them, or would do."""

from __future__ import annotations

from collections.abc import Mapping

from streaming.shared.contract import Side
from streaming.shared.move_order import IsrStanding
from streaming.shared.short_lists import join_names
from streaming.shared.units import count_text, rate_text, size_text
from tuner.control.throttle.decision import Hold, Reason
from tuner.control.throttle.recovery import lacking_bytes_by_broker, select_throttled, sides_of, standing_of
from tuner.control.throttle.state import Memory
from tuner.core import formatting
from tuner.core.cluster import LiveCluster, Observation, PartitionMove
from tuner.core.throttle_limits import ThrottleLimits

_NAMES_MAX = 5


def report_recoveries(
    observation: Observation, live: LiveCluster, memory: Memory, limits: ThrottleLimits
) -> list[Hold]:
    """Returns holds about brokers with recovering or stuck replicas; empty if there are none, or if recoveries are ignored."""
    if not (limits.throttles_recoveries or limits.reports_recoveries):
        return []
    return [*_report_recovering(observation, live, memory, limits), *_report_stuck(live)]


def _report_stuck(live: LiveCluster) -> list[Hold]:
    if not live.stuck_recoveries:
        return []
    text = (
        f"replicas on {formatting.brokers(sorted(live.stuck_recoveries), _NAMES_MAX)} are out of sync and have received nothing "
        "for ten minutes: no throttle limits them any more. Look for a failed disk or a dead fetcher thread in the broker's "
        "log, and restart the broker"
    )
    return [Hold(None, None, Reason.RECOVERY_STUCK, text)]


def _report_recovering(
    observation: Observation, live: LiveCluster, memory: Memory, limits: ThrottleLimits
) -> list[Hold]:
    if not live.recoveries:
        return []
    throttled = select_throttled(live, limits, memory)
    acts = "The tuner throttles" if limits.throttles_recoveries else "The tuner could throttle"
    head = f"{_describe_brokers(observation, live)}. {_describe_classes(live, throttled, memory, acts)}"
    if limits.throttles_recoveries:
        return [Hold(None, None, Reason.RECOVERY_THROTTLED, head)]
    text = f"{head}. tuner.recovery is watch, so the tuner writes nothing for them"
    if throttled:
        text = f"{text}; with tuner.recovery: act it would {_describe_actions(throttled, limits)}"
        if not limits.closed_loop:
            text += ", but only with a latency objective (now tuner.objective is off)"
    return [Hold(None, None, Reason.RECOVERY_WATCHED, text)]


def _describe_brokers(observation: Observation, live: LiveCluster) -> str:
    partitions: dict[int, int] = {}
    for recovery in live.recoveries:
        for broker in recovery.adding:
            partitions[broker] = partitions.get(broker, 0) + 1
    lacking = lacking_bytes_by_broker(live)
    names = []
    for broker, count in sorted(partitions.items()):
        signal = observation.move_signals.get((broker, Side.FOLLOWER))
        left_bytes = signal.recovering_bytes if signal is not None and signal.recovering_partitions else None
        lacks = left_bytes if left_bytes is not None else lacking.get(broker)
        amount = "an unknown number of bytes" if lacks is None else size_text(lacks)
        noun = "partition" if count == 1 else "partitions"
        names.append(f"broker {broker}: {count} {noun}, {amount}")
    return f"replicas catch up after they left the ISR ({join_names(names, _NAMES_MAX)})"


def _describe_classes(live: LiveCluster, throttled: list[PartitionMove], memory: Memory, acts: str) -> str:
    standings = [standing_of(recovery, live.min_in_sync) for recovery in live.recoveries]
    below = standings.count(IsrStanding.BELOW)
    unmeasured = sum(
        standing is not IsrStanding.BELOW and not memory.unmeasured_recovery_sides.isdisjoint(sides_of(recovery))
        for recovery, standing in zip(live.recoveries, standings, strict=True)
    )
    others = len(live.recoveries) - below - len(throttled) - unmeasured
    at_minimum = sum(standing_of(recovery, live.min_in_sync) is IsrStanding.AT for recovery in throttled)
    at_min_isr = "exactly min.insync.replicas of their replicas are in sync"
    parts = [
        f"{acts} {count_text(len(throttled), 'partition')}"
        + (f", {at_minimum} of them at a higher rate, because {at_min_isr}" if at_minimum else ""),
        f"{unmeasured} catch up without a throttle, because they have had no fresh signals for a minute: check that the agents of "
        "their brokers, the collector and the stream run",
        f"{others} catch up without a throttle: they are the most urgent partitions of their broker, have little left to copy, or "
        "are on brokers with a rate that the tuner must not change",
        f"{below} are below min.insync.replicas, and catch up without a throttle",
    ]
    counts: tuple[int, ...] = (len(throttled), unmeasured, others, below)
    if live.recoveries_left_out:
        parts.append(
            f"{live.recoveries_left_out} more catch up without a throttle, because the tuner cannot observe so many"
        )
        counts = (*counts, live.recoveries_left_out)
    return "; ".join(part for part, count in zip(parts, counts, strict=True) if count)


def _describe_actions(throttled: list[PartitionMove], limits: ThrottleLimits) -> str:
    sides: Mapping[str, set[int]] = {
        "leader": {recovery.leader for recovery in throttled},
        "follower": {broker for recovery in throttled for broker in recovery.adding},
    }
    topics = len({recovery.topic for recovery in throttled})
    return (
        f"put the replicas of {count_text(len(throttled), 'partition')} on the throttled-replica lists of "
        f"{count_text(topics, 'topic')}, and begin at {rate_text(limits.rate_bytes_per_s_min)} on "
        f"the leader side of {formatting.brokers(sorted(sides['leader']))} and the follower side of "
        f"{formatting.brokers(sorted(sides['follower']))}"
    )
