"""Every metric of every process is defined, has a value, follows Prometheus' naming rules, and ends with its subject."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from typing import Any

import pytest
from metrics_rig import CLUSTER, Everything, F, L, StormSignals, memory, observation, plan, replication_signal
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from streaming.shared.contract import FetcherThreadLag, LagTrend
from streaming.shared.metric_def import SUFFIXES, MetricDef, Unit
from streaming.shared.metric_defs import ALL, BY_PROCESS
from streaming.shared.metric_page import render_page
from tuner.api.move_families import FetcherCollisions
from tuner.api.plan_status_store import PLANS_NAMED_MAX
from tuner.api.series_limit import SERIES_MAX
from tuner.control.throttle.decision import Hold, Reason
from tuner.control.throttle.state import Memory, StallState
from tuner.core.batch_limits import BatchLimits
from tuner.core.cluster import ClusterUnreadable, LiveCluster, Observation, PartitionMove, Setpoint
from tuner.core.operator_orders import Orders
from tuner.core.partition_limits import InternalPartitions, PartitionLimits
from tuner.core.reassignment_plan import DesiredPlanState
from tuner.core.throttle_limits import MB

NOW_S = 1_700_000_000.0
OF_PROCESS = {"collect": "collector", "stream": "stream", "tune": "tuner", "learn": "learn"}


@pytest.fixture
def everything() -> Everything:
    made = Everything(lambda: NOW_S)
    made.beat()
    made.beat()
    return made


# Some of the moves have stalled there.
WITHOUT_AN_END = "rheostat_move_expected_end_timestamp_seconds"


def series(everything: Everything, name: str) -> dict[tuple[str, ...], float]:
    """Label values but the cluster's → value."""
    return {
        tuple(value for label, value in sample.labels.items() if label != "cluster"): sample.value
        for metric in everything.registries()["tune"].collect()
        for sample in metric.samples
        if sample.name == name
    }


# -- the catalogue -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", OF_PROCESS)
def test_process_exports_exactly_its_defined_metrics(everything: Everything, part: str) -> None:
    defined = {d.name: d for d in (*BY_PROCESS["every process"], *BY_PROCESS[OF_PROCESS[part]])}
    told: dict[str, Any] = {}
    for metric in everything.registries()[part].collect():
        told[f"{metric.name}_total" if metric.type == "counter" else metric.name] = metric
    assert set(told) == set(defined)
    for name, metric in told.items():
        assert (metric.type, metric.documentation) == (defined[name].kind, defined[name].meaning)
        assert metric.samples or name == WITHOUT_AN_END, f"{name} has no value where everything has one"
        for sample in metric.samples:
            assert set(sample.labels) - {"le"} == set(defined[name].labels), name


@pytest.mark.parametrize("definition", ALL, ids=lambda d: d.name)
def test_metric_name_follows_prometheus_conventions(definition: MetricDef) -> None:
    assert definition.name.startswith("rheostat_")
    assert definition.name.endswith("_total") == (definition.kind == "counter")
    assert not definition.name.endswith(("_ms", "_milliseconds", "_percent", "_mb"))
    assert "_timestamp_" not in definition.name or definition.name.endswith("_timestamp_seconds")
    assert definition.meaning.endswith(".")
    assert definition.labels[0] == "cluster" or definition.name == "rheostat_build_info"


@pytest.mark.parametrize("definition", ALL, ids=lambda d: d.name)
def test_metric_name_ends_in_its_unit(definition: MetricDef) -> None:
    name = definition.name.removesuffix("_total")
    told = max((s for s in SUFFIXES.values() if name.endswith(s)), key=len, default=None)
    assert SUFFIXES.get(definition.unit) == told, "what has no unit in its name is counted, or is so or not"
    # One of two is said as such, and nothing else is.
    assert (definition.unit is Unit.TRUTH) == bool(re.match(r"1(,| while| once| for) ", f"{definition.meaning} "))
    if definition.unit is Unit.TRUTH:
        assert definition.kind == "gauge"


def test_every_unit_is_used_by_a_metric() -> None:
    assert {definition.unit for definition in ALL} == set(Unit)


@pytest.mark.parametrize("part", OF_PROCESS)
def test_boolean_metric_is_0_or_1(everything: Everything, part: str) -> None:
    units = {definition.name: definition.unit for definition in ALL}
    for metric in everything.registries()[part].collect():
        for sample in metric.samples:
            if units.get(sample.name) is Unit.TRUTH:
                assert sample.value in (0.0, 1.0), sample.name


def test_metric_names_are_unique() -> None:
    names = [definition.name for definition in ALL]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("part", OF_PROCESS)
def test_promtool_accepts_the_metrics_page(everything: Everything, part: str) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not on PATH: apt-get install prometheus")
    text = render_page(everything.registries()[part])
    done = subprocess.run([program, "check", "metrics"], input=text, capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("part", OF_PROCESS)
def test_metrics_page_equals_that_of_prometheus_client(everything: Everything, part: str) -> None:
    registry = everything.registries()[part]

    def read(text: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text.decode())
            for sample in family.samples
            if "process_cpu" not in sample.name and "resident" not in sample.name
        }

    ours = read(render_page(registry))
    assert ours == read(generate_latest(registry))
    assert len(ours) > 10


# -- what comes and goes -----------------------------------------------------------------------------------------------


def told(everything: Everything, observed: Observation, remembered: Memory, *decided: Hold) -> None:
    everything.board.record_cycle(observed, remembered, decided)


def test_vanished_broker_has_no_series_on_metrics_page(everything: Everything) -> None:
    assert 'broker="3"' in render_page(everything.registries()["tune"]).decode()
    now_ms = round(NOW_S * 1000)
    whole = observation(now_ms)
    assert isinstance(whole.live, LiveCluster)
    gone = replace(
        whole,
        live=replace(
            whole.live, brokers=frozenset({1, 2, 4}), moves=tuple(m for m in whole.live.moves if 3 not in m.adding),
            rates={side: rate for side, rate in whole.live.rates.items() if side[0] != 3},
        ),
        broker_signals={b: s for b, s in whole.broker_signals.items() if b != 3},
        move_signals={side: s for side, s in whole.move_signals.items() if side[0] != 3},
        replication_signals={b: s for b, s in whole.replication_signals.items() if b != 3},
        orders=Orders(),
    )  # fmt: skip
    told(everything, gone, Memory())
    text = render_page(everything.registries()["tune"]).decode()
    assert 'broker="3"' not in text
    assert 'broker="4"' in text


def test_stale_broker_signal_has_age_but_no_values(everything: Everything) -> None:
    everything.board._wall_clock = lambda: NOW_S + 14.0  # Its sample is 16 s old, and 15 are allowed.
    assert series(everything, "rheostat_signal_age_seconds") == dict.fromkeys([("1",), ("2",), ("3",), ("4",)], 16.0)
    for name in (
        "rheostat_produce_p99_seconds", "rheostat_under_min_isr_partitions", "rheostat_partitions",
        "rheostat_replication_lag_messages", "rheostat_fetcher_lag_messages",
    ):  # fmt: skip
        assert series(everything, name) == {}
    assert series(everything, "rheostat_input_age_seconds") == {
        ("cluster",): 14.0,
        ("broker_signals",): 16.0,
        ("move_signals",): 16.0,
        ("replication_signals",): 16.0,
        ("controller_signals",): 16.0,
        ("tenant_signals",): 16.0,
    }


def test_expired_orders_and_holds_have_no_series(everything: Everything) -> None:
    assert series(everything, "rheostat_override_until_timestamp_seconds") == dict.fromkeys(
        (("1", "leader"), ("3", "follower")), NOW_S + 600
    )
    assert series(everything, "rheostat_override_rate_bytes_per_second") == dict.fromkeys(
        (("1", "leader"), ("3", "follower")), 8e6
    )
    assert series(everything, "rheostat_external_change_hold_until_timestamp_seconds") == {
        ("2", "leader"): NOW_S + 3600
    }
    assert (series(everything, "rheostat_paused"), series(everything, "rheostat_released")) == ({(): 1.0}, {(): 1.0})
    everything.board._wall_clock = lambda: NOW_S + 601.0
    assert series(everything, "rheostat_override_until_timestamp_seconds") == {}
    assert series(everything, "rheostat_override_rate_bytes_per_second") == {}
    now_ms = round(NOW_S * 1000)
    told(everything, replace(observation(now_ms), orders=Orders()), memory(now_ms))
    assert (series(everything, "rheostat_paused"), series(everything, "rheostat_released")) == ({(): 0.0}, {(): 0.0})


def test_stall_bound_elsewhere_differs_from_throttle_bound_stall(everything: Everything) -> None:
    assert series(everything, "rheostat_move_stalled") == {("3",): 1.0, ("4",): 1.0}
    assert series(everything, "rheostat_move_bound_elsewhere") == {("3",): 0.0, ("4",): 1.0}


@pytest.mark.parametrize(
    ("reason", "elsewhere"),
    [
        (Reason.STALLED_UNTHROTTLED, 1.0),
        (Reason.STALLED_FETCHER_BOUND, 1.0),
        (Reason.STALLED_SOURCE_BOUND, 1.0),
        (Reason.STALLED_DESTINATION_BOUND, 1.0),
        (Reason.STALLED_REPLICA_DEAD, 1.0),
        (Reason.STALLED_THROTTLE_BOUND, 0.0),
        (Reason.BROKER_DOWN, 0.0),
    ],
)
def test_stall_reason_decides_bound_elsewhere(everything: Everything, reason: Reason, elsewhere: float) -> None:
    now_ms = round(NOW_S * 1000)
    told(everything, observation(now_ms), memory(now_ms), Hold(4, F, reason, "so"))
    assert series(everything, "rheostat_move_bound_elsewhere")[("4",)] == elsewhere
    told(everything, observation(now_ms), Memory(), Hold(4, F, reason, "so"))
    assert series(everything, "rheostat_move_bound_elsewhere") == {}, "nothing is stalled"


def test_sides_are_counted_by_last_decision(everything: Everything) -> None:
    assert series(everything, "rheostat_sides") == {
        ("set", "stalled_throttle_bound"): 1.0,
        ("hold", "stalled_not_throttle_bound"): 1.0,
        ("allow_steering", "follows_clients"): 1.0,
        ("relinquish", "external_change"): 1.0,
    }
    assert series(everything, "rheostat_throttle_needs_attention") == {
        ("4", "follower", "stalled_not_throttle_bound"): 1.0
    }


def test_hundred_unhealthy_sides_are_named_and_all_counted(everything: Everything) -> None:
    blind = [Hold(broker, L, Reason.SIGNALS_STALE, "old") for broker in range(1, 1_001)]
    told(everything, Observation(round(NOW_S * 1000), ClusterUnreadable("away")), Memory(), *blind)
    assert len(series(everything, "rheostat_throttle_needs_attention")) == SERIES_MAX
    assert series(everything, "rheostat_sides") == {("hold", "signals_stale"): 1_000.0}


def test_configured_number_of_largest_partitions_is_named() -> None:
    for named, count in ((0, 0), (1, 1), (3, 3), (1_000, 4)):
        everything = Everything(lambda: NOW_S, named=named)
        everything.beat()
        found = series(everything, "rheostat_move_partition_remaining_bytes")
        assert len(found) == count
        if named == 1:
            assert found == {("4", "orders", "0"): 4e8}


def test_default_capacity_has_no_broker_label(everything: Everything) -> None:
    assert series(everything, "rheostat_capacity_bytes_per_second") == {
        ("", "in"): 1.25e8,
        ("4", "in"): 6e7,
        ("", "out"): 1.25e8,
        ("4", "out"): 1.25e8,
    }


def test_standby_tuner_exports_no_cluster_metrics(everything: Everything) -> None:
    everything.board.become_standby()
    everything.quotas.clear()
    assert series(everything, "rheostat_sides") == {}
    assert series(everything, "rheostat_throttle_needs_attention") == {}
    assert series(everything, "rheostat_input_age_seconds") == {}
    assert series(everything, "rheostat_tuner_last_cycle_timestamp_seconds") == {}
    assert series(everything, "rheostat_tuner_active") == {(): 0.0}
    assert 'broker="3"' not in render_page(everything.registries()["tune"]).decode()


def test_labels_are_escaped_as_prometheus_reads_them(everything: Everything) -> None:
    from metrics_rig import quota_memory, quota_view, turn

    from tuner.control.mutation_quota.entity import Tenant

    odd = 'a"b\\c\nd'
    made = turn()
    shares = tuple(replace(share, tenant=Tenant(odd)) for share in made.shares)
    everything.quotas.publish(quota_view(round(NOW_S * 1000)), replace(made, shares=shares), quota_memory())
    everything.mutations.update(StormSignals(round(NOW_S * 1000), odd), round(NOW_S * 1000))
    text = render_page(everything.registries()["tune"]).decode()
    users = {
        sample.labels["user"]
        for metric in text_string_to_metric_families(text)
        for sample in metric.samples
        if "user" in sample.labels
    }
    assert users == {odd}
    assert f'cluster="{CLUSTER}"' in text


def test_plan_partitions_are_counted_by_state(everything: Everything) -> None:
    found = {state: count for (_, state), count in series(everything, "rheostat_plan_partitions").items()}
    assert found == {
        "arrived": 1.0, "moving": 2.0, "waiting": 1.0, "electing": 0.0, "unconfirmed": 0.0, "externally_owned": 0.0, "dropped": 1.0,
    }  # fmt: skip
    assert series(everything, "rheostat_plan_paused") == {("move-7",): 0.0}
    assert series(everything, "rheostat_plan_cordoned_targets") == {("move-7",): 0.0}
    (decision,) = everything.plans.snapshot().plans
    later = replace(decision.plan, head=replace(decision.plan.head, not_before_ms=2**50))
    everything.plans.record_step((replace(decision, plan=later),), BatchLimits())
    scheduled = {state: n for (_, state), n in series(everything, "rheostat_plan_partitions").items()}
    assert (scheduled["scheduled"], scheduled["waiting"], scheduled["moving"]) == (1.0, 0.0, 2.0)
    many = tuple(plan(f"plan-{number}") for number in range(PLANS_NAMED_MAX + 5))
    everything.plans.record_step(many, BatchLimits())
    assert len(series(everything, "rheostat_plan_paused")) == PLANS_NAMED_MAX
    paused, cancelled = (
        replace(each, plan=replace(each.plan, head=replace(each.plan.head, desired=wanted)))
        for each, wanted in zip(many[:2], (DesiredPlanState.PAUSED, DesiredPlanState.CANCELLING), strict=True)
    )
    everything.plans.record_step((paused, cancelled), BatchLimits(partition_movements_max=9))
    assert series(everything, "rheostat_plan_paused") == {("plan-0",): 1.0, ("plan-1",): 0.0}
    assert series(everything, "rheostat_plan_cancelling") == {("plan-0",): 0.0, ("plan-1",): 1.0}
    assert series(everything, "rheostat_plan_movements_max")[("partition",)] == 9.0
    everything.plans.clear()
    for name in ("partitions", "paused", "cancelling", "movements_max"):
        assert series(everything, f"rheostat_plan_{name}") == {}


# -- arithmetic --------------------------------------------------------------------------------------------------------


def test_fetchers_of_a_large_move_are_counted_once_a_minute() -> None:
    def live(partitions: int, onto: int) -> LiveCluster:
        moves = tuple(PartitionMove("t", p, 1, (onto, 1), (onto,), (), (1,)) for p in range(partitions))
        return LiveCluster(frozenset({1, 3, 4}), moves, fetchers={3: 2, 4: 2})

    small = FetcherCollisions()
    assert list(small.count(live(30, 3), 0)) == [3]
    assert list(small.count(live(30, 4), 1)) == [4], "a small one is counted at once"
    large = FetcherCollisions()
    assert list(large.count(live(2_001, 3), 0)) == [3]
    assert list(large.count(live(2_001, 4), 59_000)) == [3]
    assert list(large.count(live(2_001, 4), 60_000)) == [4]
    assert list(large.count(live(0, 4), 61_000)) == [], "nothing moves any more"


# -- a page that stays readable ----------------------------------------------------------------------------------------


def many(everything: Everything, no_headroom: set[int], under_min: dict[int, float]) -> None:
    """A move over 150 brokers."""
    now_ms, count = round(NOW_S * 1000), 150
    whole = observation(now_ms)
    crowd = replace(
        whole,
        broker_signals={
            b: replace(whole.broker_signals[1], broker=b, under_min_isr_partitions=under_min.get(b, 0.0))
            for b in range(count)
        },
        setpoints={
            (b, side): Setpoint(5.0 * MB, no_headroom=b in no_headroom) for b in range(count) for side in (L, F)
        },
    )
    told(everything, crowd, Memory())


def test_no_headroom_metric_names_hundred_sides_unhealthy_first(everything: Everything) -> None:
    many(everything, {3, 149}, {})
    found = series(everything, "rheostat_throttle_no_headroom")
    assert len(found) == SERIES_MAX
    assert {side for side, value in found.items() if value} == {
        (broker, side) for broker in ("3", "149") for side in ("leader", "follower")
    }
    many(everything, set(range(150)), {})
    again = series(everything, "rheostat_throttle_no_headroom")
    assert (len(again), set(again.values())) == (SERIES_MAX, {1.0})
    many(everything, set(range(150)), {})
    assert series(everything, "rheostat_throttle_no_headroom") == again, "the same hundred"


def test_under_min_isr_metric_names_every_affected_broker(everything: Everything) -> None:
    bad = {broker: 1.0 + broker for broker in range(20, 150)}
    many(everything, set(), bad)
    found = series(everything, "rheostat_under_min_isr_partitions")
    assert found == {(str(broker),): value for broker, value in bad.items()}
    many(everything, set(), {7: 2.0})
    found = series(everything, "rheostat_under_min_isr_partitions")
    assert (len(found), sum(found.values()), found[("7",)]) == (SERIES_MAX, 2.0, 2.0)


def test_lag_metric_names_brokers_with_largest_lag(everything: Everything) -> None:
    assert series(everything, "rheostat_move_lag_messages") == {("3",): 60_000.0, ("4",): 60_000.0}
    now_ms = round(NOW_S * 1000)
    whole = observation(now_ms)
    some = whole.move_signals[(3, F)]
    crowd = {(b, F): replace(some, broker=b, lag_messages=float(b) if b % 2 else None) for b in range(300)}
    told(everything, replace(whole, move_signals=crowd), Memory())
    found = series(everything, "rheostat_move_lag_messages")
    assert found == {(str(b),): float(b) for b in range(101, 300, 2)}, "who has not told is not at 0"


def test_stall_score_names_hundred_brokers_that_lost_most(everything: Everything) -> None:
    lost = {b: StallState(lost_s=float(b), stalled=b > 15) for b in range(300)}
    told(everything, observation(round(NOW_S * 1000)), Memory(stalls=lost))
    assert series(everything, "rheostat_move_stall_score_seconds") == {(str(b),): float(b) for b in range(200, 300)}
    assert len(series(everything, "rheostat_move_stalled")) == 300


def test_lag_metrics_name_fifty_largest_and_sum_names_all(everything: Everything) -> None:
    now_ms = round(NOW_S * 1000)
    trend = LagTrend(slope_messages_per_s=0.0, span_s=25.0, points=6, r2=0.5)
    crowd = {
        b: replace(
            replication_signal(b, now_ms),
            lag_sum_messages=float(b),
            lag_max_messages=float(b),
            threads=(FetcherThreadLag(1, 0, 100.0, float(b), None, None, None, 10.0 * b),),
            trend=replace(trend, slope_messages_per_s=-float(b)),
            trend_5min=replace(trend, slope_messages_per_s=float(b)),
        )
        for b in range(150)
    }
    told(everything, replace(observation(now_ms), replication_signals=crowd), Memory())
    last_fifty = range(100, 150)
    for name, found in {
        "replication_lag_messages": {(str(b),): float(b) for b in range(1, 150)},
        "replication_lag_max_messages": {(str(b),): float(b) for b in last_fifty},
        "replication_lag_slope_messages_per_second": {(str(b), "5min"): float(b) for b in last_fifty}
        | {(str(b), "window"): -float(b) for b in range(50)},
        "replication_lag_slope_fit_ratio": {(str(b), "5min"): 0.5 for b in last_fifty},
        "fetcher_lag_messages": {(str(b), "1", "0"): float(b) for b in last_fifty},
        "fetcher_bytes_per_second": {(str(b), "1", "0"): 10.0 * b for b in last_fifty},
    }.items():
        assert series(everything, f"rheostat_{name}") == found, name


def test_shared_partition_limit_has_one_series(everything: Everything) -> None:
    assert series(everything, "rheostat_partitions_limit") == {("",): 4_000.0}
    everything.board.partition_limits = PartitionLimits(4_000, 9_000, {2: 500, 77: 1})
    assert series(everything, "rheostat_partitions_limit") == {("",): 4_000.0, ("2",): 500.0}, "77 is not there"
    everything.board.partition_limits = PartitionLimits(by_broker={2: 500})
    assert series(everything, "rheostat_partitions_limit") == {("2",): 500.0}


def test_partition_metrics_leave_out_internal_topics(everything: Everything) -> None:
    before, total = series(everything, "rheostat_partitions"), series(everything, "rheostat_cluster_partitions")[()]
    everything.board.read_internal = lambda: InternalPartitions(4, {1: 4})
    after = series(everything, "rheostat_partitions")
    assert after[("1",)] == before[("1",)] - 4
    assert {broker: count for broker, count in after.items() if broker != ("1",)} == {
        broker: count for broker, count in before.items() if broker != ("1",)
    }
    assert series(everything, "rheostat_cluster_partitions") == {(): total - 4}
