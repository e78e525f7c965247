"""The scale benchmark observes and decides every side, and reports exceeded bounds."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.scale import growth, missed
from benchmarks.sizes.cycle import STALL_CYCLES, STALLED, WELL, Tuner
from benchmarks.sizes.world import RATE_BYTES_PER_S, LargeCluster, records, sized
from streaming.shared import kafka_names
from streaming.shared.contract import BrokerSignal, MoveSignal, Side, decode_signal
from streaming.shared.kafka.values import Append, Subtract
from tuner.control.throttle.replica_lists.list_rules import required_by_topic
from tuner.core.cluster import LiveCluster, RateSetting
from tuner.runtime.observe.cluster_reader import ClusterReader


def look(cluster: LargeCluster, *, full: bool) -> Any:
    return ClusterReader(cluster).snapshot(full=full)  # type: ignore[arg-type]  # It knows the calls of a look and no other.


def row(brokers: int, cycle_ms: float, *, worst: float | None = None, rss: float = 200.0) -> dict[str, Any]:
    return {"brokers": brokers, "cycle_ms": cycle_ms, "cycle_ms_max": worst or cycle_ms, "rss_mb_peak": rss}


def found(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"sizes": list(rows), "growth": growth(rows)}


# -- the bounds --------------------------------------------------------------------------------------------------------


def test_linear_growth_within_the_bounds_reports_nothing() -> None:
    assert growth([row(1_000, 250.0), row(5_000, 1_250.0)]) == {"ratio": 1.0, "exponent": 1.0}
    assert missed(found(row(100, 900.0), row(1_000, 250.0, rss=300.0), row(5_000, 1_625.0))) == []


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ([row(1_000, 250.1)], ["cycle_ms", "cycle_ms_max"]),
        ([row(1_000, 100.0, worst=250.1)], ["cycle_ms_max"]),
        ([row(1_000, 100.0, rss=300.1)], ["rss_mb_peak"]),
        ([row(1_000, 100.0), row(5_000, 660.0)], ["a broker costs 1.32 × as much"]),
    ],
)
def test_each_bound_is_reported_by_name(rows: list[dict[str, Any]], named: list[str]) -> None:
    failures = missed(found(*rows))
    assert len(failures) == len(named)
    assert all(failure.startswith(name) for failure, name in zip(failures, named, strict=True))


def test_total_stall_is_judged_by_memory_only() -> None:
    answer = {"set": 2_000, "cycle_ms": 1_900.0, "rss_mb_peak": 300.0}
    assert missed(found(row(1_000, 200.0)) | {"rescue": answer}) == []
    [failure] = missed(found(row(1_000, 200.0)) | {"rescue": answer | {"rss_mb_peak": 300.1}})
    assert failure.startswith("rss_mb_peak of the stall of everything is 300.1")


def test_growth_needs_two_sizes() -> None:
    assert growth([row(1_000, 100.0)]) is None


# -- the cluster -------------------------------------------------------------------------------------------------------


def test_snapshot_has_the_requested_size() -> None:
    cluster = LargeCluster(sized(20), seed=1, throttled=True)
    live = look(cluster, full=True)
    assert isinstance(live, LiveCluster)
    assert (len(live.brokers), len(live.moves), len(live.lists)) == (20, 1_000, 40)
    assert len(live.rates) == 40
    assert set(live.rates.values()) == {RateSetting(RATE_BYTES_PER_S)}
    listed = [len(throttle.leader.pairs) + len(throttle.follower.pairs) for throttle in live.lists.values()]
    assert sum(listed) == 4_000 * 4  # Three replicas from before and the one that is added.
    assert all(move.leader not in move.destinations and len(set(move.replicas)) == 4 for move in live.moves)
    cluster.cycle = 1
    later = look(cluster, full=False)
    assert isinstance(later, LiveCluster)
    assert len(set(later.moves) - set(live.moves)) == 4  # One in 250 ended, and as many began.


def test_every_broker_and_side_has_a_signal() -> None:
    signals = [decode_signal(value) for value in records(sized(20), 3, drained=0.9)]
    assert {s.broker for s in signals if isinstance(s, BrokerSignal)} == set(range(20))
    moves = {(s.broker, s.side): s for s in signals if isinstance(s, MoveSignal)}
    assert set(moves) == {(broker, side) for broker in range(20) for side in Side}
    assert all(len(s.steps) == 5 and len(s.largest) == 5 for s in moves.values())


# -- the cycles --------------------------------------------------------------------------------------------------------


def test_unthrottled_cluster_has_no_rates_or_lists() -> None:
    cluster = LargeCluster(sized(20), seed=1, throttled=False)
    topic, key = "orders-00000", kafka_names.LEADER_REPLICAS
    cluster.alter_topic_configs({topic: {key: Append("0:1,1:2")}})
    cluster.alter_topic_configs({topic: {key: Append("1:2,2:3")}})
    assert cluster.topic_configs([topic, "orders-00001"], [key]) == {topic: {key: "0:1,1:2,2:3"}}
    cluster.alter_topic_configs({topic: {key: Subtract("0:1,1:2,2:3,9:9")}})
    assert cluster.topic_configs([topic], [key]) == {topic: {key: ""}}
    cluster.alter_topic_configs({topic: {key: None}})
    live = look(cluster, full=True)
    assert isinstance(live, LiveCluster)
    assert (live.rates, live.lists) == ({}, {})


def test_closed_loop_cycle_decides_every_side_and_writes() -> None:
    tuner = Tuner(10, 1, steers=True)
    told = [tuner.cycle(drained=WELL) for _ in range(5)]
    # First a rate on every side and the lists of six topics, then every side; one topic ends a move and one begins one.
    assert [cycle["decisions"] for cycle in told] == [26, 22, 22, 22, 22]
    assert told[1]["entries"] == 24
    assert all(cycle["cycle_ms"] > 0 and cycle["law_ms"] > 0 for cycle in told[1:])
    # The followers' throttles, which only guard, may stay where they are.
    assert set(tuner.loop.memory.owned) == {(broker, side) for broker in range(10) for side in Side}


def test_throttled_replica_lists_are_exact_in_every_cycle() -> None:
    tuner = Tuner(10, 1, steers=True)
    for _ in range(4):
        tuner.cycle(drained=WELL)
        seen = look(tuner.cluster, full=True)
        assert isinstance(seen, LiveCluster)
        needed = required_by_topic(seen)
        assert {topic: (lists.leader.pairs, lists.follower.pairs) for topic, lists in seen.lists.items()} == {
            topic: (each.leader, each.follower) for topic, each in needed.items()
        }
        assert sum(len(each.follower) for each in needed.values()) == 500


def test_stall_of_every_move_sets_every_throttle_in_one_cycle() -> None:
    tuner = Tuner(10, 2, steers=False)  # With seed 1, a move ends in the cycle of the stall.
    tuner.cycle(drained=WELL)
    assert max(tuner.cycle(drained=STALLED)["set"] for _ in range(STALL_CYCLES)) == 20
