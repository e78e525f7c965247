"""Each cause of lag is recognised, and followers that keep up are left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streaming.shared.contract import (
    BrokerSignal,
    FetcherThreadLag,
    LaggingPartition,
    LagTrend,
    ReplicationSignal,
    Side,
)
from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.control.replication_lag.decision import LagDiagnosis, LagReason
from tuner.control.replication_lag.judge import INCIDENT_MS, RETURNED_MS, LagMemory, judge
from tuner.control.replication_lag.reason_texts import LAG_REASON_TEXTS
from tuner.control.replication_lag.usual import SPAN_MS, UsualLag
from tuner.control.replication_lag.view import LagView
from tuner.core.cluster import LiveCluster, PartitionMove, RateSetting
from tuner.core.fetcher_load import FetchedPartition
from tuner.core.fetchers import fetcher_id

NOW_MS = 1_800_000_000_000
RISES = LagTrend(slope_messages_per_s=80.0, span_s=28.0, points=28, r2=0.99)
FALLS = replace(RISES, slope_messages_per_s=-80.0)
TOPIC = "timeline"
# LINE's slides, on six brokers: broker 3 copies partitions 0 and 6 from broker 5, broker 4 copies 1 and 7 from broker 0.
LAYOUT = [
    FetchedPartition(TOPIC, p, (5 + p) % 6, ((5 + p) % 6, (2 + p + p // 6) % 6, (3 + p + p // 6) % 6)) for p in range(8)
]
COLLIDING = fetcher_id(TOPIC, 0, 3)
WRITES = 400_000.0


def thread(source: int, fetcher: int, lag: float, *, fetched: float = WRITES, partitions: int = 1) -> FetcherThreadLag:
    return FetcherThreadLag(
        source, fetcher, partitions=partitions, lag_sum_messages=lag, lag_max_messages=lag, fetched_bytes_per_s=fetched
    )


def behind(partition: int, lag: float, source: int, fetcher: int) -> LaggingPartition:
    return LaggingPartition(
        TOPIC, partition, lag, source=source, fetcher=fetcher,
        write_messages_per_s=400, write_bytes_per_s=WRITES, lag_s=lag / 400,
    )  # fmt: skip


def signal(
    broker: int, threads: tuple[FetcherThreadLag, ...], worst: tuple[LaggingPartition, ...] = ()
) -> ReplicationSignal:
    lag = sum(t.lag_sum_messages or 0 for t in threads)
    return ReplicationSignal(
        "lab", broker, NOW_MS, NOW_MS, 30, 1.0,
        partitions=10, lag_sum_messages=lag, lag_max_messages=lag,
        trend=RISES if lag else replace(RISES, slope_messages_per_s=0.0),
        thread_count=len(threads), threads=threads, worst=worst,
    )  # fmt: skip


def view(*signals: ReplicationSignal, fetchers: int = 3, **changes: object) -> LagView:
    brokers = frozenset(range(6))
    live = LiveCluster(brokers, fetchers=dict.fromkeys(brokers, fetchers))
    made = LagView(NOW_MS, {s.broker: s for s in signals}, {}, live, layout=lambda: LAYOUT)
    return replace(made, **changes)  # type: ignore[arg-type]


NOTHING = LagMemory()


def only(seen: LagView, memory: LagMemory = NOTHING) -> LagDiagnosis:
    _, diagnoses = judge(seen, memory)
    assert len(diagnoses) == 1, diagnoses
    return diagnoses[0]


COLLISION = signal(
    3,
    (thread(5, COLLIDING, 4_700, fetched=640_000, partitions=2), thread(0, 1, 0), thread(1, 2, 3)),
    (behind(0, 2_400, 5, COLLIDING), behind(6, 2_300, 5, COLLIDING)),
)
IN_TIME = signal(2, (thread(5, COLLIDING, 2), thread(0, 0, 0)))


# -- who lags --------------------------------------------------------------------------------------------------------------


def test_judge_without_lag_reads_no_layout() -> None:
    def layout() -> None:
        raise AssertionError("the layout of a large cluster takes long to read")

    memory, diagnoses = judge(view(IN_TIME, layout=layout), LagMemory())
    assert diagnoses == ()
    assert memory.usual.keys() == {2}


def test_judge_lag_of_a_request_under_way_is_none() -> None:
    (worst, other) = COLLISION.worst
    assert judge(view(replace(COLLISION, worst=(replace(worst, lag_s=1.9), other))), LagMemory())[1] == ()


def test_judge_one_message_of_a_quiet_partition_is_no_lag() -> None:
    quiet = signal(3, (thread(5, 0, 1),), (replace(behind(0, 1, 5, 0), lag_s=100.0),))
    assert judge(view(quiet), LagMemory())[1] == ()
    assert only(view(replace(quiet, lag_sum_bytes=11e6))).lag_messages == 1  # Of large messages, few are a lag.


def usual_of(lag: float) -> LagMemory:
    spans = tuple((NOW_MS // SPAN_MS - n, lag) for n in range(1, 5))
    return LagMemory(usual={3: UsualLag(NOW_MS // SPAN_MS, (lag,), spans)})


def test_judge_usual_lag_that_does_not_grow_is_none() -> None:
    steady = replace(COLLISION, trend=FALLS)
    assert judge(view(steady), usual_of(4_500))[1] == ()
    above = only(view(steady), usual_of(100))
    assert (above.growing, above.usual_messages) == (False, 100)
    assert "higher than usual" in above.text
    assert only(view(steady)).usual_messages is None  # Without history, the lag in seconds decides.


def test_judge_usual_lag_that_grows_is_diagnosed() -> None:
    assert only(view(COLLISION), usual_of(4_500)).growing


def test_judge_trend_of_five_minutes_must_agree() -> None:
    recovers = replace(COLLISION, trend_5min=replace(FALLS, span_s=290.0))
    assert judge(view(recovers), usual_of(4_500))[1] == ()


def test_judge_stale_signal_and_dead_broker_are_left_out() -> None:
    assert judge(view(replace(COLLISION, sampled_at_ms=NOW_MS - 61_000)), LagMemory())[1] == ()
    assert judge(view(COLLISION, live=LiveCluster(frozenset({1, 2}))), LagMemory())[1] == ()


def test_judge_agent_without_partitions_uses_the_largest_lag() -> None:
    bare = replace(COLLISION, lag_sum_messages=None, lag_max_messages=5_000.0, threads=(), worst=())
    found = only(view(bare))
    assert (found.reason, found.lag_messages, found.sources) == (LagReason.UNKNOWN, 5_000, ())


def test_judge_remembers_when_the_lag_began() -> None:
    memory, _ = judge(view(COLLISION), LagMemory())
    later = view(replace(COLLISION, sampled_at_ms=NOW_MS + 15_000), now_ms=NOW_MS + 15_000)
    memory, (found,) = judge(later, memory)
    assert found.since_ms == NOW_MS
    memory, _ = judge(view(signal(3, (thread(5, 0, 0),))), memory)
    assert memory.since_ms == {}


def memory_of(run_s: int, *, lag_from_s: int, step_s: int = 60) -> LagMemory:
    """Returns the memory of a tuner that ran so long, while broker 3 lagged from a moment on."""
    memory = LagMemory()
    for at_s in range(0, run_s, step_s):
        at_ms = NOW_MS + 1000 * at_s
        seen = replace(COLLISION, sampled_at_ms=at_ms) if at_s >= lag_from_s else idle(at_ms)
        memory, _ = judge(view(seen, now_ms=at_ms), memory)
    return memory


def idle(at_ms: int) -> ReplicationSignal:
    return replace(signal(3, (thread(5, 0, 4),)), sampled_at_ms=at_ms)


INCIDENT_S = INCIDENT_MS // 1000


def test_judge_incident_is_not_usual_for_three_hours() -> None:
    started_within = memory_of(INCIDENT_S, lag_from_s=0)
    assert started_within.usual == {}
    assert started_within.since_ms == {3: NOW_MS}
    calm = memory_of(1800 + INCIDENT_S, lag_from_s=1800)
    assert [lag for _, lag in calm.usual[3].medians] + [*calm.usual[3].samples] == [4.0] * 12


def test_judge_lag_of_more_than_three_hours_becomes_usual() -> None:
    assert memory_of(INCIDENT_S + 3000, lag_from_s=0).usual[3].usual_messages() == 4_703


# -- recoveries --------------------------------------------------------------------------------------------------------

# As the tuner finds them: the replicas of broker 3 are out of sync.
RECOVERY = PartitionMove(TOPIC, 6, 5, (5, 3, 4), adding=(3,), removing=(), isr=(5, 4), recovering=(3,))
KNOWN = LagMemory(seen_since_ms={3: NOW_MS - RETURNED_MS, 2: NOW_MS - RETURNED_MS})
CATCHES_UP = replace(COLLISION, trend=FALLS)
SLOW = signal(3, (thread(5, 0, 4_000), thread(0, 0, 3_000), thread(1, 0, 3_500)), (behind(0, 4_000, 5, 0),))


def recovery(lagging: ReplicationSignal, **changes: object) -> LagView:
    seen = view(lagging, IN_TIME)
    return replace(seen, live=replace(seen.live, recoveries=(RECOVERY,), **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("falling", [replace(SLOW, trend=FALLS), CATCHES_UP])
def test_judge_recovery_whose_lag_falls_is_no_fault(falling: ReplicationSignal) -> None:
    found = only(recovery(falling), KNOWN)
    assert found.reason is LagReason.RECOVERING
    assert found.text.endswith(
        "higher than usual: they are out of sync and catch up; the lag ends with the recovery, and `rheostat status` shows what is "
        "left to copy"
    )
    assert (found.thread, found.better_fetchers) == (None, None)


def test_judge_recovery_comes_before_a_throttle() -> None:
    assert only(recovery(CATCHES_UP, lists=LISTED, rates=FOLLOWER_RATE), KNOWN).reason is LagReason.RECOVERING
    assert only(recovery(COLLISION, lists=LISTED, rates=FOLLOWER_RATE), KNOWN).reason is LagReason.THROTTLED


@pytest.mark.parametrize("side", [(3, Side.FOLLOWER), (5, Side.LEADER)])
def test_judge_recovery_that_rheostat_throttles_may_grow(side: tuple[int, Side]) -> None:
    listed = ThrottledReplicas(pairs=frozenset({(6, side[0])}))
    lists = {TOPIC: TopicThrottle(listed if side[1] is Side.LEADER else ThrottledReplicas(), ThrottledReplicas())}
    if side[1] is Side.FOLLOWER:
        lists = LISTED
    seen = recovery(COLLISION, lists=lists, rates={side: RateSetting(1_000_000)})
    found = only(replace(seen, managed=frozenset({side})), KNOWN)
    assert (found.reason, found.growing) == (LagReason.RECOVERING, True)
    assert "the lag grows: rheostat throttles their recovery to protect clients" in found.text
    assert only(seen, KNOWN).reason is not LagReason.RECOVERING


def test_judge_growing_lag_outside_the_isr_is_diagnosed() -> None:
    assert only(recovery(COLLISION), KNOWN).reason is LagReason.FETCHER_BOUND
    steady = replace(COLLISION, trend=replace(FALLS, r2=0.1))
    assert only(recovery(steady), KNOWN).reason is LagReason.FETCHER_BOUND


def test_judge_recovery_by_the_long_trend_unless_the_lag_rises_now() -> None:
    falls_long = replace(FALLS, span_s=290.0)
    uneven = replace(COLLISION, trend=replace(RISES, r2=0.1), trend_5min=falls_long)
    assert only(recovery(uneven), KNOWN).reason is LagReason.RECOVERING
    assert only(recovery(replace(uneven, trend=RISES)), KNOWN).reason is LagReason.FETCHER_BOUND
    short = replace(uneven, trend_5min=replace(falls_long, span_s=50.0))
    assert only(recovery(short), KNOWN).reason is LagReason.FETCHER_BOUND


def test_judge_first_minute_after_a_return_is_a_recovery() -> None:
    memory, (found,) = judge(recovery(COLLISION), LagMemory())
    assert found.reason is LagReason.RECOVERING
    later = replace(recovery(replace(COLLISION, sampled_at_ms=NOW_MS + RETURNED_MS)), now_ms=NOW_MS + RETURNED_MS)
    assert only(later, memory).reason is LagReason.FETCHER_BOUND
    gone, _ = judge(view(IN_TIME), memory)
    assert gone.seen_since_ms.keys() == {2}


def test_judge_stuck_replicas_are_no_recovery() -> None:
    seen = recovery(CATCHES_UP)
    stuck = replace(seen.live, recoveries=(), stuck_recoveries=frozenset({3}))
    assert only(replace(seen, live=stuck), KNOWN).reason is LagReason.FETCHER_BOUND


def test_judge_recovery_is_not_usual() -> None:
    memory, _ = judge(recovery(CATCHES_UP), KNOWN)
    assert memory.usual.keys() == {2}
    # Its lag is below three times its usual, so it has no diagnosis.
    memory, found = judge(recovery(CATCHES_UP), replace(usual_of(4_500), seen_since_ms=KNOWN.seen_since_ms))
    assert found == ()
    assert memory.usual[3] == usual_of(4_500).usual[3]


def test_judge_recovery_says_nothing_about_its_leader() -> None:
    lags, recovers = ALL_OF_ONE_SOURCE[0], replace(ALL_OF_ONE_SOURCE[1], trend=FALLS)
    seen = replace(recovery(recovers), layout=lambda: (), signals={2: lags, 3: recovers})
    _, found = judge(seen, KNOWN)
    assert {d.broker: d.reason for d in found} == {2: LagReason.UNKNOWN, 3: LagReason.RECOVERING}


# -- causes ----------------------------------------------------------------------------------------------------------------


def test_judge_collision_of_line_names_thread_partitions_and_value() -> None:
    found = only(view(COLLISION, IN_TIME))
    assert (found.reason, found.thread, found.better_fetchers) == (
        LagReason.FETCHER_BOUND,
        f"ReplicaFetcherThread-{COLLIDING}-5",
        4,
    )
    assert found.sources == (5,)
    assert (found.topic, found.partition) == (TOPIC, 0)
    assert found.text == (
        "the replicas on broker 3 lag 4,703 messages behind broker 5, most of all timeline-0 (6.0 s behind), and the lag grows: "
        f"one fetcher thread, ReplicaFetcherThread-{COLLIDING}-5, copies timeline-0, timeline-6 at 640 kB/s, while 2 other threads "
        "have room; with num.replica.fetchers=4 these partitions would have different threads: run `rheostat fetchers --apply`"
    )


def test_judge_collision_without_layout_is_still_named() -> None:
    found = only(view(COLLISION, IN_TIME, layout=lambda: None))
    assert (found.reason, found.better_fetchers) == (LagReason.FETCHER_BOUND, None)
    assert "run `rheostat fetchers`" in found.text


def test_judge_single_thread_that_is_full_is_fetcher_bound() -> None:
    one = signal(
        3,
        (thread(5, 0, 4_800, fetched=640_000, partitions=2), thread(0, 0, 0)),
        (behind(0, 2_500, 5, 0), behind(6, 2_300, 5, 0)),
    )
    found = only(view(one, IN_TIME, fetchers=1))
    assert (found.reason, found.better_fetchers) == (LagReason.FETCHER_BOUND, 4)
    assert "have room" not in found.text


def test_judge_one_partition_with_all_of_the_lag_is_hot() -> None:
    hot = replace(COLLISION, worst=(behind(0, 4_700, 5, COLLIDING), behind(6, 100, 5, COLLIDING)))
    found = only(view(hot, IN_TIME))
    assert found.reason is LagReason.HOT_PARTITION
    assert "timeline-0 (400 kB/s are written to this partition) has nearly all of the lag" in found.text


LISTED = {TOPIC: TopicThrottle(follower=ThrottledReplicas(pairs=frozenset({(6, 3)})))}
FOLLOWER_RATE = {(3, Side.FOLLOWER): RateSetting(1_000_000)}


def throttled(**changes: object) -> LagView:
    seen = view(COLLISION, IN_TIME)
    live = replace(seen.live, **{"lists": LISTED, "rates": FOLLOWER_RATE, **changes})  # type: ignore[arg-type]
    return replace(seen, live=live)


def test_judge_throttle_left_behind_comes_first() -> None:
    found = only(throttled())
    assert found.reason is LagReason.THROTTLED
    assert "the follower throttle of broker 3, 1.00 MB/s, holds back timeline-6" in found.text


def test_judge_leader_throttle_of_all_replicas_is_named() -> None:
    seen = throttled(lists={TOPIC: TopicThrottle(leader=ThrottledReplicas(all_replicas=True))})
    assert only(seen).reason is LagReason.FETCHER_BOUND  # The leader has no rate.
    live = replace(seen.live, rates={(5, Side.LEADER): RateSetting(2_000_000)})
    assert "the leader throttle of broker 5" in only(replace(seen, live=live)).text


def test_judge_throttle_of_a_move_or_of_rheostat_is_not_left_behind() -> None:
    move = PartitionMove(TOPIC, 6, 5, (5, 3, 4, 1), adding=(1,), removing=(4,), isr=(5, 3, 4))
    assert only(throttled(moves=(move,))).reason is LagReason.FETCHER_BOUND
    assert only(replace(throttled(), managed=frozenset(FOLLOWER_RATE))).reason is LagReason.FETCHER_BOUND


def busy(broker: int, **values: float) -> dict[int, BrokerSignal]:
    return {broker: BrokerSignal("lab", broker, NOW_MS, NOW_MS, 30, 1.0, **values)}  # type: ignore[arg-type]


ALL_OF_ONE_SOURCE = tuple(
    signal(
        b, (thread(5, 0, 4_000, fetched=9_000), thread(0, 0, 0)), (behind(b, 2_000, 5, 0), behind(b + 8, 2_000, 5, 0))
    )
    for b in (2, 3)
)


def test_judge_busy_handlers_of_the_source_or_the_follower() -> None:
    idle = {"request_handler_idle_ratio": 0.1}
    _, found = judge(view(*ALL_OF_ONE_SOURCE, fetchers=1, layout=lambda: None, brokers=busy(5, **idle)), LagMemory())
    assert [d.reason for d in found] == [LagReason.SOURCE_BUSY] * 2
    assert "broker 5 is busy: its request handlers are idle only 10 % of the time" in found[0].text
    _, found = judge(view(*ALL_OF_ONE_SOURCE, fetchers=1, layout=lambda: None, brokers=busy(3, **idle)), LagMemory())
    assert [d.reason for d in found] == [LagReason.SOURCE_SLOW, LagReason.DESTINATION_BUSY]


def test_judge_full_link_of_the_source() -> None:
    seen = view(
        *ALL_OF_ONE_SOURCE,
        fetchers=1,
        layout=lambda: None,
        brokers=busy(5, network_out_bytes_per_s=95e6),
        capacity_bytes_per_s=lambda _: (50e6, 100e6),
    )
    assert "it sends 95.0 MB/s, and its network capacity is 100 MB/s" in judge(seen, LagMemory())[1][0].text


def test_judge_all_followers_of_one_leader_lag_so_it_is_slow() -> None:
    _, found = judge(view(*ALL_OF_ONE_SOURCE, fetchers=3, layout=lambda: ()), LagMemory())
    assert [d.reason for d in found] == [LagReason.SOURCE_SLOW] * 2
    assert "all followers of broker 5 lag behind it (brokers 2, 3)" in found[0].text


def test_judge_all_threads_of_a_follower_lag_so_it_is_slow() -> None:
    slow = signal(3, (thread(5, 0, 4_000), thread(0, 0, 3_000), thread(1, 0, 3_500)), (behind(0, 4_000, 5, 0),))
    found = only(view(slow, IN_TIME, fetchers=1))
    assert found.reason is LagReason.FOLLOWER_SLOW
    assert found.sources == (5, 1, 0)


def test_judge_largest_lag_comes_first() -> None:
    _, found = judge(view(COLLISION, replace(COLLISION, broker=4, worst=(behind(1, 4_000, 0, 0),))), LagMemory())
    assert [d.broker for d in found] == [4, 3]


def test_every_lag_reason_is_in_the_catalogue() -> None:
    assert set(LAG_REASON_TEXTS) == set(LagReason)
