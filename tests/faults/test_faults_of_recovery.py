"""A broker comes back with an empty disk while the tuner throttles recoveries: killed tuners, flapping and dying brokers."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from stage import BROKER_SETTINGS, MakeStage, Stage

from rheostat.lab.cluster import LabSpec
from streaming.shared.contract import Side
from streaming.shared.throttle_settings import LIST_KEYS, ThrottledReplicas

Tell = Callable[[str, object], None]

pytestmark = [pytest.mark.campaign]

# Small fetches, one batch each: without a throttle the copy takes many seconds, so the tuner has time to act.
BULK_BYTES, MEGABYTES = 4_000, 60
_FETCH = {"replica.fetch.max.bytes": "16000", "replica.fetch.response.max.bytes": "16000"}
LAB = LabSpec(brokers=4, heap_mb=320, broker_settings=BROKER_SETTINGS | _FETCH)
RETURNING = 2
SIDES = ((1, Side.LEADER), (RETURNING, Side.FOLLOWER))
IN_FORCE_S_MAX = 12.0


def listed(stage: Stage, side: Side) -> ThrottledReplicas:
    configs = stage.client.topic_configs([stage.topic], LIST_KEYS.values()).get(stage.topic, {})
    return ThrottledReplicas.parse(configs.get(LIST_KEYS[side], ""))


def is_in_force(stage: Stage) -> bool:
    follower, leader = listed(stage, Side.FOLLOWER), listed(stage, Side.LEADER)
    lists_set = all(follower.includes(p, RETURNING) and leader.includes(p, 1) for p in (0, 1))
    return lists_set and set(SIDES) <= stage.rates().keys()


def has_first_bytes(stage: Stage) -> bool:
    data = stage.lab.nodes[RETURNING].home / "data"
    return any(log.stat().st_size for log in data.glob(f"{stage.topic}-*/*.log"))


def isr_of(stage: Stage, partition: int) -> tuple[int, ...]:
    (isr,) = (s.isr for s in stage.client.partitions([stage.topic]) if s.partition == partition)
    return isr


def is_in_sync(stage: Stage, broker: int = RETURNING) -> bool:
    return all(broker in state.isr for state in stage.client.partitions([stage.topic]))


def test_wiped_broker_is_throttled_at_once_and_leaves_nothing_after_kill(
    make_stage: MakeStage, record_property: Tell
) -> None:
    stage = make_stage("wiped", recovery="act", megabytes=MEGABYTES, bulk_bytes=BULK_BYTES)
    tuner = stage.start_tuner()
    stage.until("the tuner acts", tuner.acts, 60)
    stage.return_with_empty_disk(RETURNING)
    stage.until("the first bytes", lambda: has_first_bytes(stage), 120)
    copied_at_s = time.monotonic()
    stage.until("both sides are throttled", lambda: is_in_force(stage), 60)
    in_force_s = time.monotonic() - copied_at_s
    assert in_force_s <= IN_FORCE_S_MAX
    assert not is_in_sync(stage)
    stage.until("the law has the sides", lambda: tuner.decided("recovery_at_min_isr"), 30)
    tuner.kill()
    stage.free_lease_of_killed_tuner()
    stage.start_tuner()
    stage.until("it is in sync", lambda: is_in_sync(stage), 180)
    stage.end()
    record_property("told", f"in force {in_force_s:.1f} s after the first byte; nothing left after a kill")


def test_partition_below_minimum_leaves_the_lists(make_stage: MakeStage, record_property: Tell) -> None:
    """While broker 2 recovers, broker 3 dies: the partitions refuse writes, so nothing holds broker 2 back."""
    stage = make_stage("below", recovery="act", megabytes=MEGABYTES, bulk_bytes=BULK_BYTES)
    tuner = stage.start_tuner()
    stage.until("the tuner acts", tuner.acts, 60)
    stage.return_with_empty_disk(RETURNING)
    stage.until("both sides are throttled", lambda: is_in_force(stage), 90)
    stage.lab.nodes[3].kill()
    stage.until("no list names it", lambda: not (listed(stage, Side.FOLLOWER) or listed(stage, Side.LEADER)), 60)
    stage.until("it is in sync", lambda: is_in_sync(stage), 60)
    stage.lab.start_again(3)
    stage.until("all are in sync", lambda: is_in_sync(stage, 3), 180)
    stage.end()
    record_property("told", "off the lists once below min.insync.replicas, and in sync")


def test_broker_that_dies_again_keeps_its_list_entries(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("flapping", recovery="act", megabytes=MEGABYTES, bulk_bytes=BULK_BYTES)
    tuner = stage.start_tuner()
    stage.until("the tuner acts", tuner.acts, 60)
    stage.return_with_empty_disk(RETURNING)
    stage.until("both sides are throttled", lambda: is_in_force(stage), 90)
    partitions = {p for p in (0, 1) if RETURNING not in isr_of(stage, p)}
    assert partitions, "it is in sync before it dies: write more"
    stage.lab.nodes[RETURNING].kill()
    stage.until("it is away", lambda: RETURNING not in {e.node for e in stage.client.brokers()}, 60)
    cycles_s = time.monotonic() + 5.0
    stage.until("some cycles have run", lambda: time.monotonic() > cycles_s, 30)
    assert all(listed(stage, Side.FOLLOWER).includes(p, RETURNING) for p in partitions)
    stage.lab.start_again(RETURNING)
    stage.until("it is in sync", lambda: is_in_sync(stage), 240)
    stage.end()
    record_property("told", "its entries stay on the lists while it is away")
