"""Small clusters as inputs of decisions. The default is healthy: one move from 1 to 3, throttled on both sides, half done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streaming.shared.contract import BrokerSignal, MoveSignal, MoveStep, ReplicationSignal, Side
from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.control.throttle.state import OwnedRate, StallState
from tuner.core.cluster import (
    BrokerSide,
    LiveCluster,
    Observation,
    PartitionMove,
    RateSetting,
    Setpoint,
)
from tuner.core.throttle_limits import MB, StallLimits, ThrottleLimits

NOW_MS = 1_700_000_000_000
CLUSTER = "lab"
L, F = Side.LEADER, Side.FOLLOWER
SOURCE: BrokerSide = (1, L)  # The leader of the standard move.
TARGET: BrokerSide = (3, F)  # Its destination.

LIMITS = ThrottleLimits(
    rate_bytes_per_s_max=50 * MB, idle_snapshots_before_cleanup=2
)  # The default is 3; see test_policy.
STALL = StallLimits()

WELL = StallState(judged_until_ms=NOW_MS, observed_s=60.0)
STALLED = StallState(
    lost_s=20.0, stalled=True, stalled_since_ms=NOW_MS - 5_000, judged_until_ms=NOW_MS, observed_s=60.0
)
UNSEEN = StallState()


def move(
    topic: str = "orders",
    partition: int = 0,
    *,
    leader: int = 1,
    replicas: tuple[int, ...] = (3, 2, 1),
    adding: tuple[int, ...] = (3,),
    removing: tuple[int, ...] = (1,),
    isr: tuple[int, ...] = (1, 2),
) -> PartitionMove:
    return PartitionMove(topic, partition, leader, replicas, adding, removing, isr)


def move_signal(
    broker: int,
    side: Side,
    *,
    remaining: float | None = 600 * MB,
    steady_state: float | None = 6 * MB,
    listed: int = 1,
    moving: int = 1,
    age_s: float = 2.0,
    steps: tuple[MoveStep, ...] = (),
    slope: float | None = -2.0 * MB,
) -> MoveSignal:
    sampled_at_ms = NOW_MS - round(age_s * 1000)
    return MoveSignal(
        CLUSTER,
        broker,
        side,
        window_end_ms=sampled_at_ms + 3_000,
        sampled_at_ms=sampled_at_ms,
        samples=6,
        completeness=1.0,
        moving_partitions=moving,
        listed_partitions=listed,
        remaining_bytes=remaining,
        remaining_slope_bytes_per_s=slope,
        steady_state_bytes_per_s=steady_state,
        steps=steps,
    )


def broker_signal(
    broker: int,
    *,
    leader: float | None = None,
    follower: float | None = None,
    age_s: float = 2.0,
    p99: float | None = 9.0,
) -> BrokerSignal:
    sampled_at_ms = NOW_MS - round(age_s * 1000)
    return BrokerSignal(
        CLUSTER,
        broker,
        window_end_ms=sampled_at_ms + 3_000,
        sampled_at_ms=sampled_at_ms,
        samples=6,
        completeness=1.0,
        leader_throttled_bytes_per_s=leader,
        follower_throttled_bytes_per_s=follower,
        produce_p99_ms=p99,
    )


def rates(by_side: Mapping[BrokerSide, float]) -> dict[BrokerSide, RateSetting]:
    return {side: RateSetting(round(value)) for side, value in by_side.items()}


def throttle(leader: Iterable[tuple[int, int]] = (), follower: Iterable[tuple[int, int]] = ()) -> TopicThrottle:
    return TopicThrottle(
        ThrottledReplicas(pairs=frozenset(leader)),
        ThrottledReplicas(pairs=frozenset(follower)),
    )


# As kafka-reassign-partitions makes them: the replicas from before on the leader side, the new ones on the other.
OWN_LISTS = {"orders": throttle(leader=[(0, 1), (0, 2)], follower=[(0, 3)])}
SEEN = {("orders", 0): frozenset({1, 2, 3})}


def live(
    by_side: Mapping[BrokerSide, float] | None = None,
    *,
    moves: tuple[PartitionMove, ...] | None = None,
    brokers: Iterable[int] = (1, 2, 3),
    lists: Mapping[str, TopicThrottle] | None = None,
    unreadable: Iterable[int] = (),
) -> LiveCluster:
    return LiveCluster(
        brokers=frozenset(brokers),
        moves=(move(),) if moves is None else moves,
        rates=rates({SOURCE: 10 * MB, TARGET: 10 * MB} if by_side is None else by_side),
        lists=OWN_LISTS if lists is None else lists,
        unreadable=frozenset(unreadable),
    )


def observation(
    cluster: LiveCluster,
    signals: Iterable[MoveSignal] | None = None,
    brokers: Iterable[BrokerSignal] | None = None,
    *,
    replication: Iterable[ReplicationSignal] = (),
    busy: Iterable[BrokerSide] = (),
    now_ms: int = NOW_MS,
    courses: Mapping[BrokerSide, Setpoint] | None = None,
    eta_ratios: Mapping[BrokerSide, float] | None = None,
) -> Observation:
    if signals is None:
        signals = (move_signal(*SOURCE), move_signal(*TARGET, steady_state=3 * MB))
    if brokers is None:
        brokers = (broker_signal(1, leader=9.5 * MB), broker_signal(3, follower=6 * MB))
    return Observation(
        now_ms,
        cluster,
        broker_signals={s.broker: s for s in brokers},
        move_signals={(s.broker, s.side): s for s in signals},
        ramping=frozenset(busy),
        setpoints=courses or {},
        replication_signals={s.broker: s for s in replication},
        eta_ratios=eta_ratios or {},
    )


def owned(before: int | None, wanted: int, *may_stand: int) -> OwnedRate:
    return OwnedRate(before, wanted, may_stand or (wanted,))


def traced(
    gained_bytes_per_s: Iterable[float],
    *,
    write_bytes_per_s: float = 0.0,
    dt_s: float = 5.0,
    remaining_bytes: float = 2_000 * MB,
    start_ms: int = NOW_MS,
) -> list[MoveStep]:
    """Returns one step of ``dt_s`` for each rate; the remaining bytes follow from gained and written bytes."""
    steps = []
    for i, rate in enumerate(gained_bytes_per_s, start=1):
        gained, written = rate * dt_s, write_bytes_per_s * dt_s
        remaining_bytes = max(0.0, remaining_bytes + written - gained)
        steps.append(MoveStep(start_ms + round(i * dt_s * 1000), dt_s, gained, written, remaining_bytes))
    return steps
