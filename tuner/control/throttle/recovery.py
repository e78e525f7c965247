"""Decides which recovering replicas the tuner throttles, and at which lowest rate.

A replica recovers if it has left the ISR although its broker is alive: after a restart, or with an empty disk. Without a throttle
its copy takes the clients' bandwidth. The tuner puts recovering replicas on the throttled-replica lists, on the leader's and on the
follower's side, like replicas that a reassignment adds. The same control law sets the rates. The size of the partition's ISR
decides how far its replicas are throttled:

    below the minimum    Not at all. The tuner lists no replica of the partition. If another tool has listed one, the tuner raises
                         the rate of its side (isr_recovery.py). An unknown min.insync.replicas counts as below the minimum.
    exactly the minimum  As the objective demands. But the rate of the sides is at least ``AT_MIN_ISR_RATIO`` of the rate that the
                         link and the ceiling allow, because one more failure would stop the producers.
    above the minimum    As the objective demands.

Some recoveries run without a throttle:

- All recoveries of a broker that lacks few bytes: it is in sync before a throttle could help. So a rolling restart changes no
  setting.
- The first partitions of each other broker, which together lack at most the bytes that pass in 12 s at the minimum rate. Their
  order is that of plans (streaming/shared/move_order.py): first the topics that the operator names, then small partitions.
- Recoveries with a side that has had no fresh signal for ``UNMEASURED_S_MAX``. Without fresh signals the control law cannot raise
  the rate, so the recovery could stay at the minimum rate for ever.
- Recoveries with a side whose rate the tuner must not change, because another tool set it or existing rates are preserved. A
  recovery that is already listed stays listed, because this rate may be meant for it.

Invariants: a replica that is on a list of the tuner stays there until it is in sync, or until its partition is below the minimum.
Recoveries never enter ``Memory.moving_replicas``, so their end removes no list or rate of another tool.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from streaming.shared.contract import MoveSignal, MoveStep, Side
from streaming.shared.move_order import IsrStanding, isr_standing
from streaming.shared.throttle_settings import TopicThrottle
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide, LiveCluster, Observation, PartitionMove
from tuner.core.freshness import Freshness, fresh_signals, freshness
from tuner.core.reassignment_plan import TopicPartition
from tuner.core.throttle_limits import ThrottleLimits

# The lowest rate of a side with partitions exactly at min.insync.replicas ÷ the rate that the link and the ceiling allow.
AT_MIN_ISR_RATIO = 0.5
# The longest time without a fresh signal during which a recovery stays throttled. A broker that has just started has no signals
# yet.
UNMEASURED_S_MAX = 60.0
# An empty quota window passes the bytes of twelve seconds at once, so a throttle has no effect on fewer bytes.
_WINDOW_S = 12.0
_NO_LISTS = TopicThrottle()


def standing_of(recovery: PartitionMove, min_in_sync: Mapping[str, int]) -> IsrStanding:
    """Returns whether the size of a recovering partition's ISR is below, at or above min.insync.replicas (the minimum).

    A partition with an unknown minimum, or without a leader, counts as below.
    """
    if recovery.leader < 0:
        return IsrStanding.BELOW
    return isr_standing(len(recovery.isr), min_in_sync.get(recovery.topic))


def with_recoveries(live: LiveCluster, limits: ThrottleLimits, memory: Memory) -> LiveCluster:
    """Returns the snapshot for the throttle rules, in which recoveries that may be throttled are among the moves.

    Its ``lost_replica_sides`` and ``below_minimum_sides`` have the sides that slow replicas of partitions below
    min.insync.replicas. If the tuner throttles no recoveries, ``live`` is returned unchanged.
    """
    if not limits.throttles_recoveries or not live.recoveries or live.quota_sample_s:
        return live
    throttled = {_key(r): r for r in select_throttled(live, limits, memory)}
    moves = []
    for move in live.moves:
        recovery = throttled.pop(_key(move), None)
        moves.append(move if recovery is None else _merged(move, recovery.adding))
    moving = {_key(m) for m in live.moves}
    below = [
        r for r in live.recoveries if standing_of(r, live.min_in_sync) is IsrStanding.BELOW and _key(r) not in moving
    ]
    sides = _sides_listing(below, live.lists)
    return replace(
        live,
        moves=(*moves, *throttled.values()),
        lost_replica_sides=sides,
        below_minimum_sides=frozenset().union(*sides.values()),
    )


def select_throttled(live: LiveCluster, limits: ThrottleLimits, memory: Memory) -> list[PartitionMove]:
    """Returns the recoveries that may be throttled; the module docstring has the rules."""
    listed, unmeasured_sides = memory.listed, memory.unmeasured_recovery_sides
    fixed = live.rates.keys() & (memory.externally_owned_until_ms.keys() | _preserved_sides(live, limits, memory))
    lacking = lacking_bytes_by_broker(live)
    unlisted_bytes_max = _WINDOW_S * limits.rate_bytes_per_s_min
    listed_brokers = {b for r in live.recoveries for b in r.adding if _is_listed(r, b, listed)}
    throttled_brokers = {b for b, lacks in lacking.items() if lacks > unlisted_bytes_max} | listed_brokers
    # The bytes that may still be copied to a broker without a throttle.
    unlisted_bytes_left = dict.fromkeys(throttled_brokers, unlisted_bytes_max)
    throttled = []
    for recovery in live.recoveries:  # The most urgent first.
        if standing_of(recovery, live.min_in_sync) is IsrStanding.BELOW:
            continue
        brokers = [b for b in recovery.adding if b in throttled_brokers]
        sides = sides_of(recovery)
        if not brokers or not unmeasured_sides.isdisjoint(sides):
            continue
        lacks = live.lacking_bytes.get(_key(recovery))
        is_listed = any(_is_listed(recovery, b, listed) for b in brokers)
        if not is_listed and not fixed.isdisjoint(sides):
            continue
        if not is_listed and lacks is not None and all(lacks <= unlisted_bytes_left[b] for b in brokers):
            unlisted_bytes_left |= {b: unlisted_bytes_left[b] - lacks for b in brokers}
            continue
        throttled.append(recovery if len(brokers) == len(recovery.adding) else _narrowed(recovery, brokers))
    return throttled


def lacking_bytes_by_broker(live: LiveCluster) -> dict[int, int]:
    """Returns the bytes that the recovering replicas of each broker lacked when they were found, where this is known.

    The bytes of a partition with several recovering replicas are shared out equally.
    """
    lacking: dict[int, int] = {}
    for recovery in live.recoveries:
        lacks = live.lacking_bytes.get(_key(recovery))
        for broker in recovery.adding if lacks is not None else ():
            lacking[broker] = lacking.get(broker, 0) + (lacks or 0) // len(recovery.adding)
    return lacking


def track_unmeasured(
    observation: Observation, live: LiveCluster, memory: Memory, limits: ThrottleLimits
) -> Mapping[BrokerSide, int]:
    """Returns the sides of recoveries without fresh signals, and since when (epoch ms)."""
    if not limits.throttles_recoveries or not live.recoveries:
        return {}
    now_ms, age_s_max = observation.now_ms, limits.signal_age_s_max
    fresh = fresh_signals(observation.broker_signals, now_ms, age_s_max).keys()
    return {
        side: memory.recovery_unmeasured_since_ms.get(side, now_ms)
        for recovery in live.recoveries
        for side in sides_of(recovery)
        if side[0] not in fresh
        or freshness(observation.move_signals.get(side), now_ms, age_s_max) is not Freshness.FRESH
    }


def partitions_below_minimum(live: LiveCluster) -> frozenset[TopicPartition]:
    """Returns the recovering partitions below min.insync.replicas."""
    return frozenset(_key(r) for r in live.recoveries if standing_of(r, live.min_in_sync) is IsrStanding.BELOW)


def is_recovery(move: PartitionMove) -> bool:
    """Whether the partition is not being reassigned, so that all its copying replicas recover."""
    return bool(move.recovering) and move.recovering == move.adding and not move.removing


def sides_at_min_isr(live: LiveCluster) -> frozenset[BrokerSide]:
    """Returns the sides that copy recovering replicas of partitions exactly at min.insync.replicas.

    Args:
        live: the result of ``with_recoveries``.
    """
    sides: set[BrokerSide] = set()
    for move in live.moves if live.min_in_sync else ():  # Without recoveries no minimum is read.
        if move.recovering and standing_of(move, live.min_in_sync) is IsrStanding.AT:
            sides.add((move.leader, Side.LEADER))
            sides.update((broker, Side.FOLLOWER) for broker in move.recovering)
    return frozenset(sides)


def sides_of_recoveries(moves: Iterable[PartitionMove]) -> frozenset[BrokerSide]:
    """Returns the sides that only recoveries use, also those that recoveries would use after a change of leader."""
    recovering: set[BrokerSide] = set()
    reassigning: set[BrokerSide] = set()
    for move in moves:
        sides = recovering if is_recovery(move) else reassigning
        sides.update((broker, Side.LEADER) for broker in move.replicas if broker not in move.adding)
        sides.update((broker, Side.FOLLOWER) for broker in move.destinations)
    return frozenset(recovering - reassigning)


def without_recoveries(signal: MoveSignal) -> MoveSignal:
    """Returns the signal of a side without its recovering partitions, for a tuner that does not throttle them."""
    if not signal.recovering_partitions:
        return signal
    moving = max(0, signal.moving_partitions - signal.recovering_partitions)
    remaining = None
    if signal.remaining_bytes is not None and signal.recovering_bytes is not None:
        remaining = max(0.0, signal.remaining_bytes - signal.recovering_bytes)
    steps = [s for step in signal.steps if (s := _step_without_recoveries(step)) is not None] if moving else []
    gains_ms = [step.at_ms for step in steps if step.gained_bytes > 0]
    return replace(
        signal,
        moving_partitions=moving,
        remaining_bytes=remaining if moving else 0.0,
        remaining_slope_bytes_per_s=None,
        remaining_slope_r2=None,
        progress_age_s=(signal.sampled_at_ms - max(gains_ms)) / 1000 if gains_ms else None,
        steps=tuple(steps),
        largest=(),
    )


def _step_without_recoveries(step: MoveStep) -> MoveStep | None:
    """Returns the step with the bytes of reassigned partitions only; None if it has no such bytes."""
    gained = max(0.0, step.gained_bytes - step.recovering_gained_bytes)
    written = max(0.0, step.written_bytes - step.recovering_written_bytes)
    remaining = max(0.0, step.remaining_bytes - step.recovering_remaining_bytes)
    if not (gained or written or remaining):
        return None
    return MoveStep(step.at_ms, step.dt_s, gained_bytes=gained, written_bytes=written, remaining_bytes=remaining)


def _key(move: PartitionMove) -> TopicPartition:
    return move.topic, move.partition


def _is_listed(recovery: PartitionMove, broker: int, listed: Mapping[str, TopicThrottle]) -> bool:
    return listed.get(recovery.topic, _NO_LISTS).follower.includes(recovery.partition, broker)


def sides_of(recovery: PartitionMove) -> list[BrokerSide]:
    """Returns the sides through which a recovery copies."""
    return [(recovery.leader, Side.LEADER), *((broker, Side.FOLLOWER) for broker in recovery.adding)]


def _preserved_sides(live: LiveCluster, limits: ThrottleLimits, memory: Memory) -> set[BrokerSide]:
    """Returns the sides with a rate of another owner, if the tuner preserves such rates."""
    return set() if limits.adopts_existing else live.rates.keys() - memory.owned.keys()


def _narrowed(recovery: PartitionMove, brokers: Sequence[int]) -> PartitionMove:
    return replace(recovery, adding=tuple(brokers), recovering=tuple(brokers))


def _merged(move: PartitionMove, recovering: Collection[int]) -> PartitionMove:
    """Returns the move with the recovering replicas among its adding replicas, so that they are throttled alike."""
    lost = tuple(b for b in recovering if b not in move.adding)
    return replace(move, adding=(*move.adding, *lost), recovering=lost)


def _sides_listing(
    recoveries: Iterable[PartitionMove], lists: Mapping[str, TopicThrottle]
) -> dict[int, frozenset[BrokerSide]]:
    """Returns, by leader, the sides whose list names a recovering replica or the leader of its partition."""
    by_leader: dict[int, set[BrokerSide]] = {}
    for recovery in recoveries:
        throttle = lists.get(recovery.topic)
        if throttle is None:
            continue
        sides = by_leader.setdefault(recovery.leader, set())
        sides |= {(b, Side.FOLLOWER) for b in recovery.adding if throttle.follower.includes(recovery.partition, b)}
        if throttle.leader.includes(recovery.partition, recovery.leader):
            sides.add((recovery.leader, Side.LEADER))
    return {leader: frozenset(sides) for leader, sides in by_leader.items() if sides}
