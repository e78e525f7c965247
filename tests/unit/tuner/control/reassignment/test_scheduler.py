"""The scheduler starts the slowest side first and its largest partition, within what the quotas can replicate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.shared.contract import MoveSignal, Side
from tuner.control.reassignment.scheduler import schedule
from tuner.control.reassignment.scheduler_limits import STEADY_STATE_SHARE_MAX
from tuner.control.reassignment.scheduler_model import (
    HeldBy,
    RunningStep,
    Schedule,
    SchedulerConstraints,
    WaitingPartition,
    pending_bytes,
    planned_partitions,
    slots_for_copy,
    slots_in_use,
    steady_state,
    waiting_by_side,
)
from tuner.core.batch_limits import BatchLimits
from tuner.core.cluster import BrokerSide
from tuner.core.partition_limits import PartitionCounts, PartitionLimits
from tuner.core.plan_backlog import add_pending_bytes
from tuner.core.reassignment_steps import PartitionTransition, ReassignmentStep, StepReason, WaitReason, next_step
from tuner.planning.fluid_bound import fluid_bound

MB = 1_000_000.0
L, F = Side.LEADER, Side.FOLLOWER
ONLINE = frozenset(range(1, 10))


def waits(
    number: int,
    *,
    on: tuple[int, ...] = (1, 2),
    to: tuple[int, ...] = (1, 3),
    mb: float = 1_000,
    write_mb: float = 0.0,
    topic: str = "orders",
    **of_way: object,
) -> WaitingPartition:
    way = PartitionTransition(topic, number, on, to, on[0], frozenset(on))
    return WaitingPartition(replace(way, **of_way), mb * MB, write_mb * MB)  # type: ignore[arg-type]  # by name, whatever a test sets


def runs(one: WaitingPartition, *, left_mb: float | None = None) -> RunningStep:
    step = next_step(one.transition, ONLINE)
    assert isinstance(step, ReassignmentStep)
    remaining = one.size_bytes if left_mb is None else left_mb * MB
    return RunningStep(one.transition, step, remaining, one.size_bytes, one.write_bytes_per_s)


def terms(
    slots: int | Mapping[BrokerSide, int] = 2, *, rate_mb: float | None = None, **others: object
) -> SchedulerConstraints:
    sides = [(b, side) for b in ONLINE for side in Side]
    of = dict.fromkeys(sides, slots) if isinstance(slots, int) else slots
    rates = {} if rate_mb is None else dict.fromkeys(sides, rate_mb * MB)
    found = SchedulerConstraints(ONLINE, BatchLimits(), of, cluster_max=1000, starts_max=1000, max_rates=rates)
    return replace(found, **others)  # type: ignore[arg-type]  # by name, whatever a test sets


def begun(found: Schedule) -> list[int]:
    return [start.step.partition for start in found.starts]


def test_largest_partition_goes_first_within_slots() -> None:
    found = schedule([waits(0, mb=100), waits(1, mb=300), waits(2, mb=200)], [], terms(2))
    assert begun(found) == [1, 2]
    assert found.held == {HeldBy.SLOTS: 1}


def test_partition_delayed_by_kip_limit_names_it() -> None:
    found = schedule([waits(0), waits(1)], [], terms(9, batch=BatchLimits(partition_movements_max=1)))
    assert (len(found.starts), found.held) == (1, {HeldBy.PARTITION_MOVEMENTS: 1})
    found = schedule([waits(0), waits(1)], [], terms(9, starts_max=1))
    assert (len(found.starts), found.held) == (1, {HeldBy.REQUEST: 1})


def test_copy_to_down_broker_frees_leader_slot() -> None:
    dead = runs(waits(9, to=(1, 3)))
    without = terms(1, online=ONLINE - {3})
    assert begun(schedule([waits(0, to=(1, 4))], [dead], terms(1))) == []
    assert begun(schedule([waits(0, to=(1, 4))], [dead], without)) == [0]
    assert (
        begun(schedule([waits(0, to=(1, 4))], [dead], replace(without, batch=BatchLimits(partition_movements_max=1))))
        == []
    )
    stuck = replace(dead, is_stuck=True)
    assert begun(
        schedule([waits(0, to=(1, 4))], [stuck], replace(without, batch=BatchLimits(partition_movements_max=1)))
    ) == [0]


def test_running_partitions_use_slots() -> None:
    assert begun(schedule([waits(0), waits(1)], [runs(waits(9))], terms(2))) == [0]
    assert begun(schedule([waits(0)], [runs(waits(8)), runs(waits(9))], terms(2))) == []


def test_slowest_side_goes_first() -> None:
    """Broker 5 has 800 MB to take in two pieces and broker 3 only one of 500; unless broker 3 has half the rate."""
    plan = [waits(0, mb=500), waits(1, on=(2, 1), to=(2, 5), mb=400), waits(2, on=(4, 1), to=(4, 5), mb=400)]
    even = terms(2, rate_mb=100, starts_max=1)
    assert begun(schedule(plan, [], even)) == [1]
    assert begun(schedule(plan, [], replace(even, max_rates={**even.max_rates, (3, F): 50 * MB}))) == [0]
    assert begun(schedule(plan, [], replace(even, other_steady_state={(3, F): 50 * MB}))) == [0]
    # What runs is left to be done as well.
    assert begun(schedule(plan, [runs(waits(9, on=(6, 1), to=(6, 3), mb=400))], even)) == [0]


def test_refill_with_two_leaders_as_slow_begins_from_both() -> None:
    """One leader's partitions alone would fill the slots of both destinations, and the other leader would send nothing."""
    from_1 = [waits(n, on=(1, 2), to=(3, 4), mb=50) for n in range(6)]
    from_2 = [waits(n, on=(2, 1), to=(3, 4), mb=49) for n in range(6, 12)]
    found = schedule(from_1 + from_2, [], terms(4, rate_mb=12, writes_known=False, setpoints={}))
    leaders = [start.transition.leader for start in found.starts]
    assert sorted(leaders) == [1, 2]


def test_fast_growing_partition_waits_only_for_giants() -> None:
    """Of what is left of a side a giant has half or more where there is one slot: of 800 MB 400, of 1,400 MB 700."""
    hot, small = waits(0, mb=100, write_mb=1), waits(1, mb=100)
    large = [waits(2, mb=300), waits(3, mb=300)]
    assert begun(schedule([small, *large, hot], [], terms(1))) == [0]
    assert begun(schedule([small, hot, waits(2, mb=900), large[1]], [], terms(1))) == [2]
    # What grows more for its size, and not what is written to most.
    assert begun(schedule([hot, small, *(replace(one, write_bytes_per_s=2 * MB) for one in large)], [], terms(1))) == [
        0
    ]


def test_partition_with_steady_state_filling_quota_waits() -> None:
    """Keeping up with 2 MB/s to one in-sync follower and a new one takes 4 of the leader's quota; 5/6 of 10 is 8.3."""
    three = [waits(i, write_mb=2) for i in range(3)]
    found = schedule(three, [], terms(60, rate_mb=10))
    assert begun(found) == [0, 1]
    assert found.held == {HeldBy.QUOTA: 1}
    assert found.impossible == ()


def test_running_partitions_use_the_quota() -> None:
    found = schedule([waits(0, write_mb=2)], [], terms(9, rate_mb=10, other_steady_state={(1, L): 5 * MB}))
    assert begun(found) == []
    assert [held.by for held in found.impossible] == [HeldBy.QUOTA]


def test_partition_that_never_fits_is_reported() -> None:
    found = schedule([waits(0, write_mb=20)], [], terms(9, rate_mb=30))
    (held,) = found.impossible
    assert (held.topic, held.partition, held.side) == ("orders", 0, (1, L))
    assert held.text == (
        "orders-0: new writes alone take 40.0 MB/s of the broker 1 leader throttle, which may be at most 30.0 MB/s (ceiling, or "
        "--throttle of the plan), so the copy would not end. Raise this limit to 48.0 MB/s or more, or move the partition when less is written"
    )


def test_unthrottled_side_has_no_quota_limit() -> None:
    assert begun(schedule([waits(i, write_mb=500) for i in range(3)], [], terms(9))) == [0, 1, 2]


def test_urgent_partition_bypasses_slots_and_quota() -> None:
    refused = waits(5, isr=frozenset({1}), min_in_sync=2, write_mb=50)
    found = schedule([waits(0), refused], [runs(waits(9))], terms(1, rate_mb=10))
    assert begun(found) == [5]
    assert found.starts[0].step.reason is StepReason.MIN_IN_SYNC


def test_partition_without_copy_takes_no_slot() -> None:
    order = waits(0, on=(1, 2), to=(2, 1))
    drop = waits(1, on=(1, 2, 3), to=(1, 2))
    found = schedule([order, drop], [runs(waits(9))], terms(1))
    assert begun(found) == [0, 1]


def test_finished_partition_is_skipped() -> None:
    assert schedule([waits(0, on=(1, 3))], [], terms()) == Schedule((), (), {}, ())


def test_blocked_partitions_are_explained() -> None:
    """Broker 7 is away: one partition waits for it, another has no leader; the third goes."""
    up = ONLINE - {7}
    found = schedule(
        [waits(0, to=(1, 7)), waits(1, on=(7, 2), to=(2, 3), isr=frozenset({7})), waits(2)], [], terms(online=up)
    )
    assert begun(found) == [2]
    assert [(w.partition, w.reason) for w in found.waits] == [
        (0, WaitReason.BROKERS_OFFLINE),
        (1, WaitReason.NO_LEADER),
    ]


def test_small_partitions_share_a_slot() -> None:
    """At 100 MB/s a slot holds the copies of one second: two of 50 MB, and at most sixteen of any smaller size."""
    assert len(schedule([waits(i, mb=50) for i in range(9)], [], terms(1, rate_mb=100)).starts) == 2
    assert len(schedule([waits(i, mb=0) for i in range(50)], [], terms(1, rate_mb=100)).starts) == 16
    assert slots_for_copy(30 * MB, 100 * MB) == pytest.approx(0.3)
    # Where no rate is known, 10 MB/s is assumed.
    assert slots_for_copy(5 * MB, None) == pytest.approx(0.5)
    assert slots_for_copy(500 * MB, None) == 1.0
    assert slots_for_copy(1.0, 0.0) == 1.0


TEN_AND_FORTY = [waits(i, mb=100) for i in range(10)] + [waits(i, mb=1) for i in range(10, 50)]


def test_small_partitions_run_throughout_the_plan() -> None:
    """10 large ones and 40 small ones, 1,040 MB at 10 MB/s: 104 s, so of the small ones four are due every tenth of it."""
    often = terms(2, rate_mb=10, since_last_request_s=3.0)  # 40 × 3 ÷ 104 is 1.2.
    assert begun(schedule(TEN_AND_FORTY, [], often)) == [10, 0, 1]
    assert begun(schedule(TEN_AND_FORTY, [], replace(often, since_last_request_s=2.0))) == [0, 1], "not one is due yet"
    assert begun(schedule(TEN_AND_FORTY, [], replace(often, since_last_request_s=1e6)))[:2] == [10, 0], (
        "no longer than one waits"
    )
    assert begun(schedule(TEN_AND_FORTY, [], terms(2, rate_mb=10))) == [0, 1], "nothing has gone by"
    hot = [*TEN_AND_FORTY, waits(50, mb=1, write_mb=0.1)]
    assert begun(schedule(hot, [], often))[0] == 50, "of them first who grows most"
    ends = [waits(0, mb=15), *(waits(i, mb=1) for i in range(1, 4))]
    assert begun(schedule(ends, [], replace(often, since_last_request_s=4.0))) == [1, 2, 3, 0]


@pytest.mark.parametrize(("on", "to"), [((1, 2), (1, 3)), ((5, 2), (5, 3)), ((5, 9), (5, 1))])
def test_small_partitions_are_due_for_any_broker_ids(on: tuple[int, int], to: tuple[int, int]) -> None:
    """Also where all goes to one broker, which is the slowest and would fill its slots with what is large."""
    plan = [
        replace(one, transition=replace(one.transition, replicas=on, target=to, leader=on[0], isr=frozenset(on)))
        for one in TEN_AND_FORTY
    ]
    assert begun(schedule(plan, [], terms(2, rate_mb=10, since_last_request_s=3.0))) == [10, 0, 1]
    many = [waits(i, on=(1 + i % 4, 9), to=(1 + i % 4, 8), mb=100 if i < 10 else 1) for i in range(50)]
    found = begun(schedule(many, [], terms(2, rate_mb=10, since_last_request_s=3.0)))
    assert len([p for p in found if p >= 10]) == 1, "broker 8 needs 104 s, its leaders a fourth of that"


def test_fraction_due_carries_to_next_request() -> None:
    terms_now = terms(2, rate_mb=10, since_last_request_s=2.0)  # 40 × 2 ÷ 104 is 0.77.
    found = schedule(TEN_AND_FORTY, [], terms_now)
    assert found.carried_small_share == pytest.approx(40 * 2 / 104)
    found = schedule(TEN_AND_FORTY, [], replace(terms_now, carried_small_share=found.carried_small_share))
    assert begun(found) == [10, 0, 1]
    assert found.carried_small_share == pytest.approx(2 * 40 * 2 / 104 - 1)
    # Who finds no slot comes to be due again by himself; what waits for more is asked for with all that has gone by until then.
    full = [runs(waits(90, mb=1_000)), runs(waits(91, mb=1_000))]
    assert schedule(TEN_AND_FORTY, full, replace(terms_now, carried_small_share=0.5)).carried_small_share < 1.0
    gathering = replace(
        terms(8, rate_mb=10, since_last_request_s=2.0), snapshot_interval_s=1.0, carried_small_share=0.5
    )
    busy = schedule(TEN_AND_FORTY, [runs(waits(90 + i, mb=1_000)) for i in range(5)], gathering)
    assert (begun(busy), busy.carried_small_share) == ([], 0.5)


def test_small_partitions_use_half_request_at_setpoint() -> None:
    plan = [*TEN_AND_FORTY, *(waits(i, mb=1) for i in range(50, 1_000))]
    found = begun(schedule(plan, [], terms(9, rate_mb=10, since_last_request_s=4.5, starts_max=6)))
    assert len([p for p in found if p >= 10]) == 3
    # At a tenth of the ceiling 5 MB take five seconds, and are not small; and there are ten times as many to go.
    plan = [waits(i, mb=100) for i in range(10)] + [waits(i, mb=5) for i in range(10, 50)]
    often = terms(2, rate_mb=10, since_last_request_s=4.5)
    assert begun(schedule(plan, [], often))[0] == 10
    assert begun(schedule(plan, [], replace(often, setpoints=terms(rate_mb=1).max_rates))) == [0, 1]
    assert begun(schedule(TEN_AND_FORTY, [], replace(often, setpoints=terms(rate_mb=1.5).max_rates))) == [0, 1]


def test_partition_small_only_by_ceiling_waits() -> None:
    plan = [waits(i, mb=100) for i in range(10)] + [waits(i, mb=5) for i in range(10, 1_000)]
    on_time = terms(2, rate_mb=10, since_last_request_s=4.5, carried_small_share=0.9)
    assert begun(schedule(plan, [], on_time))[0] == 10
    assert begun(schedule(plan, [], replace(on_time, setpoints=terms(rate_mb=1).max_rates))) == [0, 1], (
        "five seconds each are not small"
    )


def test_carry_stays_below_one_partition() -> None:
    none_may = terms(2, rate_mb=10, since_last_request_s=4.5, carried_small_share=0.9, cluster_max=0)
    found = schedule(TEN_AND_FORTY, [], none_may)
    assert begun(found) == []
    assert 0.99 < found.carried_small_share < 1.0


def test_small_partitions_are_due_at_once_without_copies() -> None:
    """Empty partitions; and the end of a plan, where empty ones are what is left."""
    on_time = terms(8, rate_mb=10, since_last_request_s=1.0)
    assert sorted(begun(schedule([waits(i, mb=0) for i in range(4)], [], on_time))) == [0, 1, 2, 3]
    assert begun(schedule([waits(0, mb=0)], [runs(waits(9, mb=1), left_mb=0)], on_time)) == [0]


def test_single_slot_is_not_always_given_to_small_partitions() -> None:
    plan = [*TEN_AND_FORTY, *(waits(i, mb=1) for i in range(50, 1_000))]
    assert begun(
        schedule(plan, [], terms(9, rate_mb=10, since_last_request_s=4.5, carried_small_share=0.9, starts_max=1))
    ) == [0]


def test_unthrottled_small_partitions_assume_slow_network() -> None:
    found = schedule(TEN_AND_FORTY, [], terms(2, since_last_request_s=3.0))
    assert begun(found) == [10, 0, 1], "104 s at 10 MB/s, as where that stands"


def test_long_snapshot_interval_counts_in_full() -> None:
    seldom = terms(2, rate_mb=10, since_last_request_s=20.0, snapshot_interval_s=20.0)
    assert begun(schedule(TEN_AND_FORTY, [], replace(seldom, slots=terms(20).slots)))[:8] == [*range(10, 17), 0]


def test_side_at_steady_state_does_not_block_small_partitions() -> None:
    stuck = waits(99, on=(6, 7), to=(6, 8), mb=1_000, write_mb=5)
    hot = [runs(waits(98, on=(6, 7), to=(6, 8), mb=1_000, write_mb=20))]
    assert begun(schedule([stuck, *TEN_AND_FORTY], hot, terms(2, rate_mb=10, since_last_request_s=3.0)))[0] == 10


def test_written_partition_takes_extra_slots_while_it_lasts() -> None:
    """Of five slots two take a tenth of the quota for keeping up, and there is enough under way; what nobody writes to goes beside
    them only where they leave a slot."""
    written = [waits(i, mb=300, write_mb=0.75) for i in range(4)]
    assert slots_for_copy(300 * MB, 30 * MB, 1.5 * MB) == pytest.approx(2.5)
    assert begun(schedule([*written, waits(9, mb=20)], [], terms(5, rate_mb=30))) == [0, 1]
    assert len(schedule(written, [], terms(6, rate_mb=30)).starts) == 3
    # The extra slots last as long as the remaining copy; near its end no longer than those of an unwritten partition.
    assert slots_for_copy(108 * MB, 30 * MB, 1.5 * MB) == pytest.approx(2.0)
    assert slots_for_copy(9 * MB, 30 * MB, 1.5 * MB) == pytest.approx(0.3)
    # A giant leaves a slot to what is small, however much is written to it.
    giant = waits(0, mb=500_000, write_mb=2)
    assert slots_for_copy(500_000 * MB, 30 * MB, 4 * MB) == 4.0
    assert begun(schedule([giant, *(waits(i, mb=0.1) for i in (1, 2, 3))], [], terms(5, rate_mb=30))) == [0, 1, 2, 3]
    # An unknown write rate counts as a high one.
    quiet = [waits(i, mb=300) for i in range(9)]
    assert len(schedule(quiet, [], terms(5, rate_mb=30)).starts) == 5
    unknown = terms(5, rate_mb=30, writes_known=False)
    assert len(schedule(quiet, [], unknown).starts) == 2
    # Of what runs no more is known: else the next look would begin more beside it.
    under_way = [runs(waits(i, mb=300), left_mb=290) for i in (7, 8)]
    assert begun(schedule(quiet[:5], under_way, unknown)) == []
    assert len(schedule(quiet[:5], under_way, terms(5, rate_mb=30)).starts) == 3
    # Where no throttle stands there is no quota to take of.
    assert slots_for_copy(120 * MB, None, 1.5 * MB) == 1.0


def test_large_partition_near_its_end_frees_slots() -> None:
    near = runs(waits(9), left_mb=20)
    assert slots_in_use([near], {(1, L): 100 * MB, (3, F): 100 * MB}) == {
        (1, L): pytest.approx(0.2),
        (3, F): pytest.approx(0.2),
    }
    assert begun(schedule([waits(0, mb=500)], [near], terms(1, rate_mb=100))) == [0]
    assert begun(schedule([waits(0, mb=500)], [replace(near, remaining_bytes=1e9)], terms(1, rate_mb=100))) == []


def test_kip_limits_are_never_exceeded() -> None:
    leaders = [waits(i, on=(1, 2), to=(3, 2)) for i in range(3)]
    assert begun(schedule(leaders, [], terms(9, batch=BatchLimits(leader_movements_max=1)))) == [0]
    few = terms(9, batch=BatchLimits(partition_movements_max=2))
    assert begun(schedule([waits(i) for i in range(3)], [runs(waits(9))], few)) == [0]
    one = schedule([waits(0, on=(1, 2, 3), to=(4, 5, 6))], [], terms(9, batch=BatchLimits(replica_movements_max=1)))
    assert one.starts[0].step.adding == (4,)


def test_request_and_cluster_limits_apply() -> None:
    plenty = [waits(i) for i in range(1_500)]
    found = schedule(plenty, [], terms(10_000, cluster_max=10_000, starts_max=10_000))
    assert len(found.starts) == 1_000
    assert found.held == {HeldBy.REQUEST: 500}
    assert len(schedule(plenty, [], terms(10_000, starts_max=7)).starts) == 7
    assert len(schedule(plenty, [runs(waits(9))], terms(10_000, cluster_max=3)).starts) == 2


def test_partition_limits_hold_but_not_for_internal_topics() -> None:
    full = terms(9, limits=PartitionLimits(10), hosted=PartitionCounts({3: 9}))
    assert begun(schedule([waits(0), waits(1)], [], full)) == [0]
    own = [waits(i, topic="__consumer_offsets") for i in range(2)]
    assert begun(schedule(own, [], full)) == [0, 1]


def test_side_without_slot_setting_has_one_slot() -> None:
    assert len(schedule([waits(0), waits(1)], [], terms({})).starts) == 1


def test_waiting_partitions_and_needed_bytes_by_side() -> None:
    one = waits(0, on=(1, 2), to=(3, 4), mb=100, write_mb=1)
    assert waiting_by_side([one]) == {(1, L): 2, (3, F): 1, (4, F): 1}
    assert steady_state([runs(one)]) == {(1, L): 3 * MB, (3, F): MB, (4, F): MB}
    assert pending_bytes([one]) == {(1, L): 200 * MB, (3, F): 100 * MB, (4, F): 100 * MB}
    first = next_step(one.transition, ONLINE, 1)
    assert isinstance(first, ReassignmentStep)
    assert pending_bytes([], [RunningStep(one.transition, first, 1.0, 100 * MB, 0.0)]) == {
        (1, L): 100 * MB,
        (4, F): 100 * MB,
    }


def test_remaining_plan_is_passed_to_the_controller() -> None:
    move = MoveSignal("c", 3, F, 0, 0, 1, 1.0, 1, 1, remaining_bytes=5 * MB)
    blind = replace(move, remaining_bytes=None)
    assert add_pending_bytes({(3, F): move}, {(3, F): 2 * MB})[3, F].remaining_bytes == 7 * MB
    assert add_pending_bytes({(3, F): blind}, {(3, F): 2 * MB})[3, F] is blind


def test_fluid_bound_copies_hot_partitions_first() -> None:
    """600 MB through one leader at 10 MB/s is a minute; hot ones first, which cost their keep-up while they are copied."""
    cold = [waits(i, to=(1, 3 + i), mb=300) for i in range(2)]
    found = fluid_bound(planned_partitions(cold), {(1, L): 10 * MB, (3, F): 10 * MB})
    assert (found.time_s, found.slowest, found.at_once_s, found.copied_bytes) == (60.0, (1, L), 60.0, 600 * MB)
    # Alone 300 ÷ (10 − 2 × 2) = 50 s, then 30 s; together 600 ÷ 6 = 100 s.
    hot = [waits(0, mb=300, write_mb=2), cold[1]]
    found = fluid_bound(planned_partitions(hot), {(1, L): 10 * MB})
    assert (found.time_s, found.at_once_s) == (80.0, 100.0)
    # The second has grown by 33 MB when its turn comes: 300 ÷ 9 and 333.3 ÷ 9.
    grow = [waits(i, mb=300, write_mb=1) for i in range(2)]
    assert fluid_bound(planned_partitions(grow), {(3, F): 10 * MB}).time_s == pytest.approx(33.33 + 37.04, abs=0.01)
    never = fluid_bound(planned_partitions([waits(0, write_mb=5)]), {(1, L): 10 * MB})
    assert (never.time_s, never.never, never.at_once_s) == (None, (("orders", 0, (1, L)),), None)
    assert fluid_bound([], {}).time_s == 0.0


_BROKERS = st.permutations(list(ONLINE))


@st.composite
def plans(draw: st.DrawFn) -> list[WaitingPartition]:
    found = []
    for number in range(draw(st.integers(1, 30))):
        order = draw(_BROKERS)
        on, to = tuple(order[:3]), tuple(draw(st.permutations(order))[:3])
        mb, write_mb = draw(st.floats(0, 5_000)), draw(st.floats(0, 5))
        found.append(waits(number, on=on, to=to, mb=mb, write_mb=write_mb))
    return found


def parts_by_side(running: list[RunningStep], rates: Mapping[BrokerSide, float]) -> dict[BrokerSide, list[float]]:
    found: dict[BrokerSide, list[float]] = {}
    for one in running:
        for side, part in slots_in_use([one], rates).items():
            found.setdefault(side, []).append(part)
    return found


@given(
    plans(),
    st.integers(1, 6),
    st.floats(5, 100),
    st.integers(1, 3),
    st.integers(1, 10),
    st.sampled_from([math.inf, 0.0, 1.0, 60.0]),
)
def test_refill_exceeds_no_limit_in_generated_plans(
    plan: list[WaitingPartition], slots: int, rate_mb: float, replicas: int, leaders: int, ago_s: float
) -> None:
    """Refilled until nothing starts any more, as if every step ended before the next look."""
    asked = terms(slots, rate_mb=rate_mb, batch=BatchLimits(leaders, 12, replicas), since_last_request_s=ago_s)
    left, rounds = plan, 0
    while True:
        found = schedule(left, [], asked)
        running = [runs(next(w for w in left if w.transition is start.transition)) for start in found.starts]
        running = [replace(one, step=start.step) for one, start in zip(running, found.starts, strict=True)]
        assert len(running) <= 12
        assert sum(one.step.moves_leader for one in running) <= leaders
        # The last one to come may be more than the part that was left.
        for side, parts in parts_by_side(running, asked.max_rates).items():
            assert sum(parts) - max(parts) < slots, side
        for side, used in steady_state(running).items():
            assert used <= STEADY_STATE_SHARE_MAX * asked.max_rates[side] * 1.000001
        again = schedule(left, running, replace(asked, batch=BatchLimits(), starts_max=0))
        assert again.starts == ()
        if not found.starts:
            break
        ended = {start.step.partition: start.step for start in found.starts}
        left = [
            WaitingPartition(
                replace(w.transition, replicas=ended[w.transition.partition].replicas, isr=frozenset(ended[w.transition.partition].replicas),
                        leader=ended[w.transition.partition].replicas[0]),
                w.size_bytes, w.write_bytes_per_s,
            ) if w.transition.partition in ended else w
            for w in left
        ]  # fmt: skip
        rounds += 1
        assert rounds < 500
    never = {(held.topic, held.partition) for held in found.impossible}
    assert all(
        w.transition.replicas == w.transition.target or (w.transition.topic, w.transition.partition) in never
        for w in left
    )


def test_named_topics_go_before_larger_partitions() -> None:
    waiting = [waits(0, mb=900), waits(1, mb=10, topic="payments-eu"), waits(2, mb=20, topic="clicks")]
    found = schedule(waiting, [], terms(1, first_topics=("clicks", "payments-*")))
    assert begun(found) == [2]
    found = schedule(waiting, [], terms(2, first_topics=("clicks", "payments-*")))
    assert begun(found)[:2] == [2, 1]


def test_partition_at_minimum_goes_before_named_and_larger() -> None:
    lost = {"isr": frozenset({1, 2}), "min_in_sync": 2, "replicas": (1, 2, 4), "target": (1, 2, 3)}
    waiting = [waits(0, mb=900), waits(1, mb=500, topic="orders-eu"), waits(2, mb=10, **lost)]
    assert begun(schedule(waiting, [], terms(1, first_topics=("orders-eu",)))) == [2]


def test_sides_of_a_waiting_named_partition_are_reserved() -> None:
    # Broker 3 has no free slot for the named partition, and broker 1 would otherwise take the other one.
    running = [runs(waits(9, on=(5, 6), to=(5, 3)))]
    waiting = [waits(0, mb=10, topic="first"), waits(1, mb=900, to=(1, 4))]
    assert begun(schedule(waiting, running, terms(1, first_topics=("first",)))) == []
    assert begun(schedule(waiting, running, terms(1))) == [1]


def test_named_partitions_do_not_wait_for_each_other() -> None:
    # Broker 1 is full as a leader. The other partition of the same topic needs no slot of it.
    running = [runs(waits(9, on=(1, 6), to=(1, 4)))]
    waiting = [waits(0, mb=900, topic="first"), waits(1, mb=10, on=(5, 6), to=(5, 3), topic="first")]
    assert begun(schedule(waiting, running, terms(1, first_topics=("first",)))) == [1]
