"""The rule for recovering replicas: which of them are throttled, which run, and what their end leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tuner_cases import NOW_MS, STALL, F, L, broker_signal, live, move, move_signal, observation, throttle

from streaming.shared.contract import MoveStep, Side
from streaming.shared.move_order import IsrStanding
from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.control.throttle.decision import (
    AddPairs,
    AllowSteering,
    Hold,
    Reason,
    RemovePairs,
    RestoreRate,
    SetRate,
    StartRate,
)
from tuner.control.throttle.isr_recovery import sides_blocking_writes
from tuner.control.throttle.policy import decide
from tuner.control.throttle.recovery import (
    is_recovery,
    select_throttled,
    sides_at_min_isr,
    sides_of_recoveries,
    standing_of,
    with_recoveries,
    without_recoveries,
)
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.cluster import LiveCluster, PartitionMove
from tuner.core.throttle_limits import MB, ThrottleLimits

ACT = ThrottleLimits(
    rate_bytes_per_s_max=50 * MB,
    rate_bytes_per_s_min=1 * MB,
    closed_loop=True,
    throttles_all_moves=True,
    throttles_recoveries=True,
)
WATCH = replace(ACT, throttles_recoveries=False, reports_recoveries=True)
GB = 1_000 * MB


def recovery(
    partition: int = 0, isr: tuple[int, ...] = (1, 2), adding: tuple[int, ...] = (3,), topic: str = "orders"
) -> PartitionMove:
    return PartitionMove(topic, partition, 1, (1, 2, 3), adding, (), isr, recovering=adding)


def recovering(
    *recoveries: PartitionMove,
    minimum: int | None = 1,
    lacks: int | None = GB,
    moves: tuple[PartitionMove, ...] = (),
    lists: Mapping[str, TopicThrottle] | None = None,
) -> LiveCluster:
    return replace(
        live({}, moves=moves, lists=lists or {}),
        recoveries=recoveries,
        min_in_sync={} if minimum is None else {r.topic: minimum for r in recoveries},
        lacking_bytes={} if lacks is None else {(r.topic, r.partition): lacks for r in recoveries},
    )


@pytest.mark.parametrize(
    ("isr", "minimum", "expected"),
    [
        ((1, 2), 1, IsrStanding.ABOVE),
        ((1, 2), 2, IsrStanding.AT),
        ((1,), 2, IsrStanding.BELOW),
        ((1, 2), None, IsrStanding.BELOW),
    ],
)
def test_standing_compares_isr_with_minimum(isr: tuple[int, ...], minimum: int | None, expected: IsrStanding) -> None:
    assert standing_of(recovery(isr=isr), {} if minimum is None else {"orders": minimum}) is expected


@pytest.mark.parametrize(("isr", "minimum", "throttled"), [((1, 2), 1, True), ((1, 2), 2, True), ((1,), 2, False)])
def test_partitions_below_minimum_are_never_throttled(isr: tuple[int, ...], minimum: int, throttled: bool) -> None:
    cluster = recovering(recovery(isr=isr), minimum=minimum)
    assert bool(select_throttled(cluster, ACT, Memory())) is throttled


def test_listed_partition_that_falls_below_minimum_leaves_the_lists() -> None:
    listed = {"orders": throttle(leader=[(0, 1), (0, 2)], follower=[(0, 3)])}
    cluster = recovering(recovery(isr=(1,)), minimum=2, lists=listed)
    _, decisions = decide(observation(cluster, ()), Memory(listed=listed), ACT, STALL)
    (removal,) = [d for d in decisions if isinstance(d, RemovePairs)]
    assert removal.pairs == listed["orders"]
    assert removal.reason is Reason.ISR_RECOVERY
    assert "fewer than min.insync.replicas" in removal.text


def test_broker_that_lacks_little_is_not_throttled() -> None:
    """An idle quota lets twelve seconds of its rate pass at once."""
    assert not select_throttled(recovering(recovery(), lacks=12 * MB), ACT, Memory())
    assert select_throttled(recovering(recovery(), lacks=12 * MB + 1), ACT, Memory())


def test_broker_with_unknown_sizes_waits_for_them() -> None:
    assert not select_throttled(recovering(recovery(), lacks=None), ACT, Memory())


def test_first_small_partitions_run_until_the_budget_is_used() -> None:
    cluster = recovering(*(recovery(p) for p in range(5)), lacks=5 * MB)
    assert [r.partition for r in select_throttled(cluster, ACT, Memory())] == [2, 3, 4]


def test_listed_partition_stays_listed_until_in_sync() -> None:
    listed = {"orders": throttle(follower=[(0, 3)])}
    assert [r.partition for r in select_throttled(recovering(recovery(), lacks=MB), ACT, Memory(listed=listed))] == [0]


def test_recoveries_are_not_recorded_as_moving_replicas() -> None:
    memory, _ = decide(observation(recovering(recovery()), ()), Memory(), ACT, STALL)
    assert memory.moving_replicas == {}
    assert memory.throttled is False
    memory, _ = decide(observation(recovering(recovery(1), moves=(move(),)), ()), Memory(), ACT, STALL)
    assert memory.moving_replicas.keys() == {("orders", 0)}


def test_act_lists_both_sides_and_starts_low_rates() -> None:
    _, decisions = decide(observation(recovering(recovery()), ()), Memory(), ACT, STALL)
    starts = {(d.broker, d.side): d for d in decisions if isinstance(d, StartRate)}
    assert {side: d.value_bytes_per_s for side, d in starts.items()} == {
        (1, L): MB,
        (2, L): MB,
        (3, F): MB,
    }
    assert {d.reason for d in starts.values()} == {Reason.RECOVERY_FOUND}
    (adds,) = [d for d in decisions if isinstance(d, AddPairs)]
    assert adds.pairs == throttle(leader=[(0, 1), (0, 2)], follower=[(0, 3)])
    assert adds.reason is Reason.RECOVERY_FOUND
    assert "recover" in adds.text


@pytest.mark.parametrize("limits", [WATCH, replace(WATCH, reports_recoveries=False)])
def test_watch_and_off_change_nothing(limits: ThrottleLimits) -> None:
    memory, decisions = decide(observation(recovering(recovery()), ()), Memory(), limits, STALL)
    assert all(isinstance(d, Hold) for d in decisions)
    reasons = [d.reason for d in decisions]
    assert reasons == ([Reason.RECOVERY_WATCHED] if limits.reports_recoveries else [])
    assert memory.listed == {}


def test_watch_report_says_what_act_would_do() -> None:
    _, decisions = decide(
        observation(recovering(recovery(), recovery(1, isr=(1,)), minimum=2), ()), Memory(), WATCH, STALL
    )
    text = decisions[0].text
    assert "broker 3: 2 partitions" in text
    assert "1 are below min.insync.replicas" in text
    promise = (
        "with tuner.recovery: act it would put the replicas of 1 partition on the throttled-replica lists of 1 topic"
    )
    assert f"{promise}, and begin at 1.00 MB/s" in text


def test_steered_recovery_side_follows_clients() -> None:
    rates = {(1, L): 5 * MB, (3, F): 5 * MB}
    cluster = replace(
        recovering(recovery(), lists={"orders": throttle([(0, 1), (0, 2)], [(0, 3)])}), rates=live(rates).rates
    )
    memory = Memory(listed=cluster.lists, owned={side: OwnedRate(None, 5 * MB, (5 * MB,)) for side in rates})
    signals = (move_signal(1, L, steady_state=MB), move_signal(3, F, steady_state=MB))
    _, decisions = decide(observation(cluster, signals, (broker_signal(1), broker_signal(3))), memory, ACT, STALL)
    assert {(d.broker, d.side) for d in decisions if isinstance(d, AllowSteering)} == {(1, L), (3, F)}


def test_end_of_recovery_removes_lists_then_rates() -> None:
    lists = {"orders": throttle([(0, 1), (0, 2)], [(0, 3)])}
    rates = {(1, L): 5 * MB, (3, F): 5 * MB}
    memory = Memory(listed=lists, owned={side: OwnedRate(None, 5 * MB, (5 * MB,)) for side in rates})
    cluster = live(rates, moves=(), lists=lists)
    memory, decisions = decide(observation(cluster, ()), memory, ACT, STALL)
    assert [type(d) for d in decisions] == [RemovePairs]
    memory = replace(memory, listed={}, idle_snapshots=ACT.idle_snapshots_before_cleanup)
    _, decisions = decide(observation(live(rates, moves=(), lists={}), ()), memory, ACT, STALL)
    restores = [d for d in decisions if isinstance(d, RestoreRate)]
    assert {(d.broker, d.side): d.value_bytes_per_s for d in restores} == {(1, L): None, (3, F): None}


def test_end_of_recovery_keeps_lists_and_rates_of_others() -> None:
    wild = {"orders": TopicThrottle(ThrottledReplicas(all_replicas=True), ThrottledReplicas(all_replicas=True))}
    rates = {(1, L): 5 * MB}
    memory = Memory(idle_snapshots=ACT.idle_snapshots_before_cleanup, preexisting_rates={(1, L): 5 * MB})
    _, decisions = decide(observation(live(rates, moves=(), lists=wild), ()), memory, ACT, STALL)
    assert not decisions


def test_partition_that_moves_and_recovers_is_listed_for_both() -> None:
    moving = move(replicas=(4, 1, 2, 3), adding=(4,), removing=(1,), isr=(1, 2))
    cluster = replace(recovering(recovery(), moves=(moving,)), brokers=frozenset({1, 2, 3, 4}))
    (seen,) = with_recoveries(cluster, ACT, Memory()).moves
    assert seen.adding == (4, 3)
    assert seen.recovering == (3,)
    assert not is_recovery(seen)
    _, decisions = decide(observation(cluster, ()), Memory(), ACT, STALL)
    (adds,) = [d for d in decisions if isinstance(d, AddPairs)]
    assert adds.follower == ((0, 3), (0, 4))


def test_sides_at_minimum_are_reported_and_raised() -> None:
    cluster = with_recoveries(recovering(recovery(), minimum=2), ACT, Memory())
    assert sides_at_min_isr(cluster) == {(1, L), (3, F)}
    assert not sides_at_min_isr(with_recoveries(recovering(recovery(), minimum=1), ACT, Memory()))


def test_sides_with_moves_are_no_recovery_sides() -> None:
    assert sides_of_recoveries([recovery(), move(partition=1)]) == frozenset()
    assert sides_of_recoveries([recovery()]) == {(1, L), (2, L), (3, F)}


def test_lists_of_others_open_for_partitions_below_minimum_only() -> None:
    wild = TopicThrottle(ThrottledReplicas(all_replicas=True), ThrottledReplicas(all_replicas=True))
    cluster = recovering(recovery(isr=(1,)), minimum=2, lists={"orders": wild})
    assert with_recoveries(cluster, ACT, Memory()).lost_replica_sides == {1: frozenset({(1, L), (3, F)})}
    above = recovering(recovery(), minimum=1, lists={"orders": wild})
    assert with_recoveries(above, ACT, Memory()).lost_replica_sides == {}


def test_other_quota_samples_throttle_no_recovery() -> None:
    cluster = replace(recovering(recovery()), quota_sample_s={1: 5})
    assert with_recoveries(cluster, ACT, Memory()) is cluster
    _, decisions = decide(observation(cluster, ()), Memory(), ACT, STALL)
    assert not [d for d in decisions if isinstance(d, StartRate | AddPairs)]


def test_signal_without_recoveries_counts_only_moves() -> None:
    both = MoveStep(
        NOW_MS,
        5.0,
        70,
        30,
        900,
        recovering_gained_bytes=60,
        recovering_written_bytes=10,
        recovering_remaining_bytes=400,
    )
    recovery_only = replace(
        both, recovering_gained_bytes=70, recovering_written_bytes=30, recovering_remaining_bytes=900
    )
    mixed = replace(
        move_signal(3, F, remaining=900 * MB, moving=5, steps=(recovery_only, both)),
        recovering_partitions=2,
        recovering_bytes=400 * MB,
    )
    stripped = without_recoveries(mixed)
    assert (stripped.moving_partitions, stripped.remaining_bytes) == (3, 500 * MB)
    assert stripped.steps == (MoveStep(NOW_MS, 5.0, gained_bytes=10, written_bytes=20, remaining_bytes=500),)
    assert stripped.progress_age_s == (mixed.sampled_at_ms - NOW_MS) / 1000
    plain = move_signal(3, F)
    assert without_recoveries(plain) is plain


@pytest.mark.parametrize("limits", [WATCH, replace(WATCH, reports_recoveries=False)])
def test_stalled_move_beside_a_recovery_is_rescued(limits: ThrottleLimits) -> None:
    """The recovery on the same brokers copies without a throttle, and hides nothing."""
    limits = replace(limits, closed_loop=False, throttles_all_moves=False)
    steps = tuple(
        MoveStep(
            NOW_MS - 50_000 + 10_000 * i,
            10.0,
            200 * MB,
            0,
            50 * GB,
            recovering_gained_bytes=200 * MB,
            recovering_remaining_bytes=GB,
        )
        for i in range(6)
    )
    signals = [
        without_recoveries(
            replace(
                move_signal(*side, remaining=50 * GB, moving=2, steps=steps),
                recovering_partitions=1,
                recovering_bytes=1.0 * GB,
            )
        )
        for side in ((1, L), (3, F))
    ]
    cluster = live({(1, L): MB, (3, F): MB})
    brokers = [broker_signal(b) for b in (1, 2, 3)]
    memory, decisions = decide(observation(cluster, signals, brokers), Memory(), limits, STALL)
    assert memory.stalls[3].stalled
    assert {(d.broker, d.side) for d in decisions if isinstance(d, SetRate)} == {(1, L), (3, F)}


# -- recoveries that run without a throttle ----------------------------------------------------------------------------

LISTED = {"orders": throttle([(0, 1), (0, 2)], [(0, 3)])}
OWNED = {side: OwnedRate(None, MB, (MB,)) for side in ((1, L), (2, L), (3, F))}


def test_recovery_without_signals_is_let_go_after_a_minute() -> None:
    """The law cannot raise the rate without signals, so the replica would stay at the minimum rate for ever."""
    cluster = replace(recovering(recovery(), minimum=2, lists=LISTED), rates=live(dict.fromkeys(OWNED, MB)).rates)
    memory, decisions = decide(observation(cluster, ()), Memory(listed=LISTED, owned=OWNED), ACT, STALL)
    assert not [d for d in decisions if isinstance(d, RemovePairs)]
    later = replace(observation(cluster, ()), now_ms=NOW_MS + 61_000)
    memory, decisions = decide(later, memory, ACT, STALL)
    (removal,) = [d for d in decisions if isinstance(d, RemovePairs)]
    assert removal.pairs == LISTED["orders"]
    assert "1 catch up without a throttle, because they have had no fresh signals for a minute" in decisions[0].text
    # It is not listed again until it is measured.
    bare = replace(later, live=replace(cluster, lists={}), now_ms=NOW_MS + 120_000)
    memory, decisions = decide(bare, replace(memory, listed={}), ACT, STALL)
    assert not [d for d in decisions if isinstance(d, AddPairs)]
    signals = (move_signal(1, L), move_signal(3, F))
    measured = observation(replace(cluster, lists={}), signals, (broker_signal(1), broker_signal(3)))
    _, decisions = decide(measured, memory, ACT, STALL)
    assert [d for d in decisions if isinstance(d, AddPairs)]


def test_recovery_with_signals_stays_listed() -> None:
    cluster = replace(recovering(recovery(), minimum=2, lists=LISTED), rates=live(dict.fromkeys(OWNED, MB)).rates)
    signals = (move_signal(1, L), move_signal(3, F))
    seen = observation(cluster, signals, (broker_signal(1), broker_signal(3)))
    memory = Memory(listed=LISTED, owned=OWNED, recovery_unmeasured_since_ms={(3, F): NOW_MS - 100_000})
    memory, decisions = decide(seen, memory, ACT, STALL)
    assert not [d for d in decisions if isinstance(d, RemovePairs)]
    assert memory.recovery_unmeasured_since_ms == {}


@pytest.mark.parametrize("side", [(1, L), (3, F)])
def test_recovery_is_put_under_no_rate_that_must_stay(side: tuple[int, Side]) -> None:
    """Another owner's rate has no effect without lists; the tuner's list would make the replica copy at that rate."""
    cluster = replace(recovering(recovery(), minimum=2), rates=live({side: 100_000}).rates)
    preserving = replace(ACT, adopts_existing=False)
    foreign = Memory(externally_owned_until_ms={side: NOW_MS + 3_600_000})
    for memory, limits in ((Memory(), preserving), (foreign, ACT)):
        _, decisions = decide(observation(cluster, ()), memory, limits, STALL)
        assert not [d for d in decisions if isinstance(d, StartRate | AddPairs)]
    _, decisions = decide(observation(cluster, ()), Memory(), ACT, STALL)
    assert [d for d in decisions if isinstance(d, AddPairs)], "a rate that may be steered is no hindrance"


def test_rate_changed_by_others_keeps_a_listed_recovery() -> None:
    """Someone may have set the rate for this very recovery."""
    cluster = replace(recovering(recovery(), lists=LISTED), rates=live(dict.fromkeys(OWNED, 2 * MB)).rates)
    memory = Memory(listed=LISTED, externally_owned_until_ms=dict.fromkeys(OWNED, NOW_MS + 3_600_000))
    _, decisions = decide(observation(cluster, ()), memory, ACT, STALL)
    assert not [d for d in decisions if isinstance(d, RemovePairs)]


def test_list_of_others_below_minimum_gets_no_rate_and_needs_no_signal() -> None:
    """Without a rate the other tool's "*" has no effect; a rate for another topic would slow the urgent replica."""
    wild = TopicThrottle(ThrottledReplicas(all_replicas=True), ThrottledReplicas(all_replicas=True))
    urgent, other = recovery(isr=(1,), topic="billing"), recovery(topic="orders")
    cluster = replace(recovering(urgent, other, lists={"billing": wild}), min_in_sync={"billing": 2, "orders": 1})
    _, decisions = decide(observation(cluster, ()), Memory(), ACT, STALL)
    assert {(d.broker, d.side) for d in decisions if isinstance(d, StartRate)} == {(2, L)}
    seen = with_recoveries(cluster, ACT, Memory())
    assert sides_blocking_writes(seen, {}) == {(1, L), (3, F)}


def test_partition_with_two_recovering_replicas_counts_once() -> None:
    cluster = recovering(*(recovery(p, isr=(1,), adding=(2, 3)) for p in range(2)), lacks=10 * MB)
    assert not select_throttled(cluster, ACT, Memory()), "each broker lacks 10 MB"
