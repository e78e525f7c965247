"""Decides which recovering replicas a throttle may hold back, and how far.

A replica recovers if it is assigned, has left the ISR, and its broker is alive: after a restart, or with an empty disk. Kafka
copies without a limit then, and takes the clients' bandwidth. The tuner lists such replicas like replicas that a reassignment
adds, on the leader's and on the follower's side, and the same control law sets the rates. But durability comes first:

    below min.insync.replicas   nothing holds the replica back: it is on no list of the tuner, and the throttles of lists that
                                other tools made are opened (isr_recovery.py). An unknown minimum is treated as not reached.
    exactly at the minimum      throttled, but the rate of its sides is at least ``AT_MIN_ISR_RATIO`` of what the link and the
                                ceiling allow: one more failure would stop the producers.
    above the minimum           throttled as the objective demands.

Some recoveries run without a throttle:

- A broker that lacks little is in sync before a throttle could help, so a rolling restart changes no setting.
- On each other broker, the first partitions run unthrottled until together they lack 12 s of the minimum rate. Their order is
  that of plans (streaming/shared/move_order.py): the topics that the operator names, then small ones. The listed replicas share
  the two rates of their brokers, and Kafka decides in which order it serves them.
- Without fresh signals the control law cannot raise the rate, and a recovery could stay at the minimum rate for ever. So a recovery
  runs without a throttle if one of its sides has had none for ``UNMEASURED_S_MAX``.
- A side may have a rate that the tuner must not change: another tool set it, or existing rates are preserved. The tuner puts
  no recovery under such a rate. Those that were listed before stay listed, because that rate may be meant for them.

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

# The lowest rate of a side with partitions exactly at min.insync.replicas, as a share of what the link and the ceiling allow.
AT_MIN_ISR_RATIO = 0.5
# The time in which the signals of a recovery have to arrive: a broker that has just started sends its first ones.
UNMEASURED_S_MAX = 60.0
# An idle quota lets its whole window pass at once: twelve seconds of its rate. A throttle cannot hold back fewer bytes than that.
_WINDOW_S = 12.0
_NO_LISTS = TopicThrottle()


def standing_of(recovery: PartitionMove, min_in_sync: Mapping[str, int]) -> IsrStanding:
    """Returns the standing of a recovering partition. An unknown minimum, or a partition without a leader, counts as below."""
    if recovery.leader < 0:
        return IsrStanding.BELOW
    return isr_standing(len(recovery.isr), min_in_sync.get(recovery.topic))


def with_recoveries(live: LiveCluster, limits: ThrottleLimits, memory: Memory) -> LiveCluster:
    """Returns the snapshot as the throttle rules see it: recoveries that may be throttled are among its moves.

    ``lost_replica_sides`` and ``below_minimum_sides`` then have the sides that slow replicas of partitions below
    min.insync.replicas. The snapshot itself is returned if the tuner throttles no recoveries.
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
    """Returns the recoveries that a throttle may hold back."""
    listed, let_go = memory.listed, memory.unmeasured_recovery_sides
    fixed = live.rates.keys() & (memory.externally_owned_until_ms.keys() | _preserved_sides(live, limits, memory))
    lacking = lacking_bytes_by_broker(live)
    unlisted_bytes_max = _WINDOW_S * limits.rate_bytes_per_s_min
    listed_brokers = {b for r in live.recoveries for b in r.adding if _is_listed(r, b, listed)}
    large = {b for b, lacks in lacking.items() if lacks > unlisted_bytes_max} | listed_brokers
    left_bytes = dict.fromkeys(large, unlisted_bytes_max)
    throttled = []
    for recovery in live.recoveries:  # The most urgent first.
        if standing_of(recovery, live.min_in_sync) is IsrStanding.BELOW:
            continue
        brokers = [b for b in recovery.adding if b in large]
        sides = sides_of(recovery)
        if not brokers or not let_go.isdisjoint(sides):
            continue
        lacks = live.lacking_bytes.get(_key(recovery))
        is_listed = any(_is_listed(recovery, b, listed) for b in brokers)
        if not is_listed and not fixed.isdisjoint(sides):
            continue
        if not is_listed and lacks is not None and all(lacks <= left_bytes[b] for b in brokers):
            left_bytes |= {b: left_bytes[b] - lacks for b in brokers}
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
    """Returns the sides through which recoveries copy, or would after a change of leader, and no reassignment does."""
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
    """Returns the step of the reassigned partitions; None if there were none, or if nothing was left of them."""
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
    """Returns the move of a partition whose lost replicas are throttled like its adding ones."""
    lost = tuple(b for b in recovering if b not in move.adding)
    return replace(move, adding=(*move.adding, *lost), recovering=lost)


def _sides_listing(
    recoveries: Iterable[PartitionMove], lists: Mapping[str, TopicThrottle]
) -> dict[int, frozenset[BrokerSide]]:
    """Returns the sides whose list names a recovering replica or its leader, by leader."""
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
