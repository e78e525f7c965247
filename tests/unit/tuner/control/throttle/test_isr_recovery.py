"""Throttles of stalled moves, and of lost replicas that partitions need to accept writes."""

from __future__ import annotations

from dataclasses import replace

from test_steering_tick import loaded, seconds, steered
from tuner_cases import (
    LIMITS,
    SOURCE,
    STALL,
    STALLED,
    TARGET,
    WELL,
    F,
    L,
    broker_signal,
    live,
    move,
    observation,
    owned,
    throttle,
)

from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.control.throttle.decision import AllowSteering, Reason
from tuner.control.throttle.isr_recovery import (
    leaders_to_inspect,
    sides_blocking_writes,
    sides_of_stalled_moves,
    sides_possibly_blocking_writes,
)
from tuner.control.throttle.policy import decide
from tuner.control.throttle.state import Memory
from tuner.core.throttle_limits import MB


def test_sides_of_stalled_moves_are_leader_and_destination() -> None:
    cluster = live(moves=(move(), move(partition=1, leader=2, adding=(4,), replicas=(4, 1, 2))))
    assert sides_of_stalled_moves(cluster, Memory(stalls={3: STALLED, 4: WELL})) == {SOURCE, TARGET}
    assert sides_of_stalled_moves(cluster, Memory(stalls={3: WELL, 4: WELL})) == frozenset()


LOST = move(isr=(1,))
WAITING = {1: replace(broker_signal(1), under_min_isr_partitions=1.0), 3: broker_signal(3)}
STAR = {"orders": TopicThrottle(ThrottledReplicas(all_replicas=True), ThrottledReplicas(all_replicas=True))}


def test_sides_blocking_writes_ignore_added_replicas() -> None:
    assert sides_blocking_writes(live(), WAITING) == frozenset()
    assert sides_blocking_writes(live(moves=(LOST,)), WAITING) == {(1, L)}
    assert sides_blocking_writes(live(moves=(LOST,), lists=STAR), WAITING) == {(1, L), (2, F)}


def test_sides_blocking_writes_need_a_list_entry() -> None:
    assert sides_blocking_writes(live(moves=(LOST,), lists={}), WAITING) == frozenset()
    others = {"orders": throttle(leader=[(7, 1)], follower=[(0, 3)])}
    assert sides_blocking_writes(live(moves=(LOST,), lists=others), WAITING) == frozenset()


def test_sides_blocking_writes_need_a_partition_under_min_isr() -> None:
    well = {1: replace(broker_signal(1), under_min_isr_partitions=0.0), 2: broker_signal(2)}
    assert sides_blocking_writes(live(moves=(LOST,), lists=STAR), well) == frozenset()


def test_sides_blocking_writes_include_partitions_that_do_not_move() -> None:
    aside = {1: frozenset({(1, L), (2, F)}), 3: frozenset({(2, F)})}
    assert sides_blocking_writes(replace(live(), lost_replica_sides=aside), WAITING) == {(1, L), (2, F)}
    well = {1: broker_signal(1), 3: broker_signal(3)}
    assert sides_blocking_writes(replace(live(), lost_replica_sides=aside), well) == frozenset()
    assert sides_possibly_blocking_writes(replace(live(), lost_replica_sides=aside), {3: broker_signal(3)}) == {
        (1, L),
        (2, F),
    }
    assert sides_possibly_blocking_writes(replace(live(), lost_replica_sides=aside), well) == frozenset()


def test_lost_replicas_exclude_dead_brokers_and_leaderless_partitions() -> None:
    assert sides_blocking_writes(live(moves=(LOST,), brokers=(1, 3)), WAITING) == frozenset()
    assert sides_blocking_writes(live(moves=(move(leader=-1, isr=()),)), WAITING) == frozenset()


def test_isr_recovery_text_explains_why_the_throttle_opens() -> None:
    cluster = live(moves=(LOST,))
    seen = observation(cluster, brokers=WAITING.values())
    limits = replace(LIMITS, closed_loop=True)
    [steer, other] = [
        d for d in decide(seen, Memory(stalls={3: WELL}), limits, STALL)[1] if isinstance(d, AllowSteering)
    ]
    assert (steer.broker, steer.side, steer.reason) == (1, L, Reason.ISR_RECOVERY)
    assert "refuse writes until out-of-sync replicas are back in the ISR" in steer.text
    assert other.reason is Reason.FOLLOWS_CLIENTS


def test_control_law_opens_sides_that_block_writes() -> None:
    """From 10 MB/s to the operator's 50: clients would leave 30, and a guard stands a third above that."""
    rig = steered()
    rig.live.moves = (LOST,)
    rig.signals.brokers = {**rig.signals.brokers, 1: replace(loaded(1), under_min_isr_partitions=1.0)}
    rig.cycle()
    seconds(rig, 20)
    assert rig.throttles.rates[SOURCE] > 40 * MB
    assert rig.throttles.rates[TARGET] < 43 * MB


def test_leaders_to_inspect_include_those_under_min_isr() -> None:
    waiting = {1: WAITING[1], 3: broker_signal(3)}
    assert leaders_to_inspect(live(), Memory(), (), waiting) == {1}
    assert leaders_to_inspect(live(moves=()), Memory(owned={TARGET: owned(None, 5 * MB)}), (), waiting) == {1}
    assert leaders_to_inspect(live(moves=()), Memory(), (), waiting) == frozenset()
    assert leaders_to_inspect(None, Memory(), (), waiting) == frozenset()


def test_leaders_to_inspect_include_temporary_rates_unless_steered() -> None:
    memory = Memory(owned={TARGET: replace(owned(None, 50 * MB), restore_to_bytes_per_s=5 * MB)})
    for cluster in (live(moves=()), None):
        assert leaders_to_inspect(cluster, memory, (), {}) == {3}
        assert leaders_to_inspect(cluster, memory, (TARGET,), {}) == frozenset()
