"""Drawn controllers: the same draw gives the same plant, its physics are as drawn, and the tables tell the worst plants."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from benchmarks import ablation, controller
from benchmarks.controllers import distribution, neutral
from benchmarks.controllers.controller_queue import EVERYBODY_ELSE, ControllerQueue, OtherWork, QueueModel
from benchmarks.controllers.distribution import (
    NEVER,
    OPTIMUM,
    OURS,
    MaxMin,
    law_of,
    missed_on_plants,
    totals,
    worst_plants,
)
from benchmarks.controllers.forwarding_line import ForwardingLines
from benchmarks.controllers.plants import ControllerKind, demand_per_s, draw_controller
from benchmarks.controllers.queue_run import Fixed, QueueWorld, TenantSpec, run_queue
from benchmarks.controllers.queue_signals import ControllerStream, Delivery
from tuner.core.controller_cost import KRAFT, ControllerCost

SEED = 5
PLANTS = [draw_controller(SEED, number) for number in range(60)]


# -- the draw --------------------------------------------------------------------------------------------------------------


def test_same_draw_gives_the_same_controller() -> None:
    assert [draw_controller(SEED, number) for number in range(10)] == PLANTS[:10]
    assert len({plant.world.seed for plant in PLANTS}) == len(PLANTS)
    assert draw_controller(SEED + 1, 0) != PLANTS[0]


def test_plants_cover_kinds_sizes_and_measures() -> None:
    counts = [len(plant.world.tenants) for plant in PLANTS]
    assert min(counts) >= 2
    assert min(counts) < 10
    assert 300 < max(counts) <= 1_000
    assert {plant.kind for plant in PLANTS} == set(ControllerKind)
    for limit in ("apply_lag_ms_max", "create_probe_p90_ms_max", "forwarding_busy_ratio_max", "create_ms_max"):
        assert {getattr(plant.objective, limit) is None for plant in PLANTS} == {True, False}
    assert {plant.world.delivery.every for plant in PLANTS} == {1, 2}
    assert any(plant.world.fail_overs_at_s for plant in PLANTS)
    assert any(plant.world.model.other_work for plant in PLANTS)
    assert any(plant.world.delivery.silences for plant in PLANTS)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.world.seed)
def test_storms_ask_for_more_than_the_capacity(plant: Any) -> None:
    assert sum(map(demand_per_s, plant.storms)) > 0.7 * plant.capacity_per_s
    assert sum(map(demand_per_s, plant.quiet)) < plant.capacity_per_s
    assert all(0 < spec.requests_per_s <= 8 for spec in plant.world.tenants)
    if plant.kind is ControllerKind.ZOOKEEPER:
        assert plant.objective.forwarding_busy_ratio_max is None


# -- physics ---------------------------------------------------------------------------------------------------------------


def test_broker_forwards_one_request_at_a_time() -> None:
    lines = ForwardingLines(2)
    assert lines.join(0, (7, 1.0), 1.0) is None
    assert not lines.occupy(0, 1.5)
    assert lines.join(1, (8, 1.1), 1.1) is None, "the other broker is free"
    assert lines.join(0, (9, 1.2), 1.2) == 1.5
    assert lines.join(0, (10, 1.3), 1.3) == 0.0, "not the first that waits"
    assert lines.next_waiting(0) == (9, 1.2)
    assert lines.occupy(0, 1.9), "one more waits"
    assert ForwardingLines(0).join(0, (1, 1.0), 1.0) is None


def calm_s(brokers: int) -> float:
    """Returns the worst latency of a calm tenant beside a busy one, in s. With two brokers each tenant has its own."""
    tenants = (TenantSpec("busy", 20.0, 1, 4), TenantSpec("calm", 1.0, at_random=True))
    world = QueueWorld(1, QueueModel(KRAFT, brokers=brokers), tenants, 40.0)
    return max(took_s for _, took_s in run_queue(world, Fixed()).took_s["calm"])


def test_calm_tenant_waits_at_the_broker_of_a_busy_one() -> None:
    assert calm_s(brokers=2) < 0.06
    assert calm_s(brokers=1) > 0.075


def test_forwarding_ratio_is_requests_times_their_duration() -> None:
    seen: list[float] = []

    class Look:
        def deal(self, now_s: float, stream: ControllerStream, quotas: dict[str, float]) -> dict[str, float]:  # noqa: ARG002
            if stream.judged is not None and now_s >= 60:
                assert stream.judged[1].forwarding_busy_ratio is not None
                seen.append(stream.judged[1].forwarding_busy_ratio)
            return {}

    world = QueueWorld(1, QueueModel(KRAFT, brokers=4), (TenantSpec("busy", 10.0, 1, 1),), 90.0, probes=False)
    run_queue(world, Look())
    assert seen[-1] == pytest.approx(10.0 * 0.041 / 4, rel=0.02)


@pytest.mark.parametrize(("per_s", "grows"), [(90.0, False), (120.0, True)])
def test_apply_lag_grows_only_above_the_sustained_rate(per_s: float, grows: bool) -> None:
    queue = ControllerQueue(QueueModel(ControllerCost(per_partition_ms=0.05), apply_ms=10.0))
    lags = []
    for tick in range(1, 601):
        queue.ask(tick / 10, "storm", 1, round(per_s / 10))
        lags.append(queue.apply_lag_s(tick / 10 + 0.05))
    assert all(lag is not None for lag in lags)
    assert max(lag for lag in lags[:100] if lag is not None) < 2.0
    assert (max(lag for lag in lags if lag is not None) > 8.0) is grows
    assert ControllerQueue(QueueModel(KRAFT)).apply_lag_s(1.0) is None


def test_node_without_new_records_is_up_to_half_a_second_behind() -> None:
    queue = ControllerQueue(QueueModel(KRAFT, apply_ms=1.0, other_work=(OtherWork(20.0, 30.0, 0.5, 4.0),)))
    assert queue.apply_lag_s(10.4) == pytest.approx(0.4)
    assert queue.apply_lag_s(25.0) == 4.0
    queue.advance(30.0)
    assert queue.counted.busy_s == pytest.approx(5.0, abs=0.1)


def test_deletions_keep_the_number_of_partitions() -> None:
    signals = []

    class Look:
        def deal(self, now_s: float, stream: ControllerStream, quotas: dict[str, float]) -> dict[str, float]:  # noqa: ARG002
            if stream.newest is not None:
                signals.append(stream.newest[0])
            return {}

    tenant = TenantSpec("both", 2.0, 3, 4, deletes=True)
    delivery = Delivery(every=2, late_s=1.0, silences=((20.0, 35.0),))
    outcome = run_queue(QueueWorld(1, QueueModel(KRAFT), (tenant,), 60.0, delivery=delivery), Fixed())
    assert sum(count for _, count in outcome.partitions["both"]) > 1_000
    run_queue(QueueWorld(1, QueueModel(KRAFT), (tenant,), 60.0, delivery=delivery), Look())
    assert max(signal.partitions or 0.0 for signal in signals) <= 12
    times_s = sorted({signal.sampled_at_ms / 1000 % 1_000 for signal in signals})
    assert times_s == [10.0, 40.0, 50.0], "every second scrape, and none while signals are silent"


def test_optimum_gives_each_active_storm_its_share() -> None:
    plant = next(plant for plant in PLANTS if len(plant.storms) > 3 and any(s.until_s < 700 for s in plant.storms))
    quiet = sum(map(demand_per_s, plant.quiet))
    total = quiet + 0.5 * sum(map(demand_per_s, plant.storms))
    shares = plant.shares_per_s(total, 0.0, 1_000.0)
    assert sum(shares.values()) == pytest.approx(total - quiet)
    assert all(shares[spec.client_id] <= demand_per_s(spec) * 1.000001 for spec in plant.storms)
    ended = next(spec for spec in plant.storms if spec.until_s < 700)
    assert ended.client_id not in plant.shares_per_s(total, ended.until_s, ended.until_s + 5)
    dealer = MaxMin(plant, total)
    first = min(plant.storms, key=lambda spec: spec.at_s)
    written = dealer.deal(first.at_s - 4.0, None, {})  # type: ignore[arg-type]  # It looks at no signal.
    assert first.client_id in written
    assert EVERYBODY_ELSE not in written
    assert dealer.deal(first.at_s - 4.0, None, written) == {}  # type: ignore[arg-type]  # The same.


# -- the tables ------------------------------------------------------------------------------------------------------------


def row(policy: str, plant: int, **changes: Any) -> dict[str, Any]:
    return {
        "policy": policy, "plant": plant, "kind": "kraft", "tenants": 3, "storms": 1, "capacity_per_s": 50.0, "every_s": 5.0,
        "disturbed": False, "pressed_most_by": "queue", "pressure_p99": 0.9, "goodput_partitions_per_s": 40.0,
        "goodput_to_static": 1.0, "goodput_to_optimum": 0.95, "jain_index": 0.99, "well_behaved_ratio": 1.1, "settle_s": 40.0,
        "writes_per_tenant_min": 1.0, **changes,
    }  # fmt: skip


def test_distribution_is_sorted_towards_the_worst() -> None:
    ours = [row(OURS, i, pressure_p99=0.5 + i / 20, goodput_to_static=1.0 + i / 20) for i in range(20)]
    [total] = totals(ours)
    assert (total["pressure_p99_median"], total["pressure_p99_p95"], total["pressure_p99_worst"]) == (0.95, 1.4, 1.45)
    assert (total["goodput_to_static_median"], total["goodput_to_static_p95"]) == (1.5, 1.05)
    assert total["goodput_to_static_worst"] == 1.0
    assert worst_plants(ours, "pressure_p99")[0]["plant"] == 19
    assert worst_plants(ours, "goodput_to_static")[0]["plant"] == 0


def test_plant_that_never_settles_is_the_worst(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(OURS, 0, settle_s=NEVER), row(OURS, 1, jain_index=None), row(OPTIMUM, 0)]
    assert totals(rows)[0]["settle_s_worst"] == NEVER
    distribution.print_plants(rows)
    assert "never" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pressure_p99": 1.01}, "the median of pressure_p99 is 1.01, and the bound is 1"),
        ({"goodput_to_static": 0.89}, "the median of goodput_to_static is 0.89, and the bound is 0.9"),
        ({"jain_index": 0.9}, "the median of jain_index is 0.9, and the bound is 0.95"),
        ({"well_behaved_ratio": 1.6}, "the median of well_behaved_ratio is 1.6, and the bound is 1.5"),
        ({"writes_per_tenant_min": 3.0}, "the median of writes_per_tenant_min is 3, and the bound is 2"),
        ({"jain_index": None}, "the median of jain_index is -, and the bound is 0.95"),
    ],
)
def test_missed_bound_of_the_median_is_named(changes: dict[str, Any], said: str) -> None:
    assert missed_on_plants([row(OURS, 0), row("static", 0)]) == []
    assert missed_on_plants([row(OURS, 0, **changes), row("static", 0)]) == [said]


def test_benchmark_compares_each_plant_with_static_and_optimum(capsys: pytest.CaptureFixture[str]) -> None:
    assert controller.main(["--plants", "2", "--seed", "10", "--json"]) in (0, 1)
    found = json.loads(capsys.readouterr().out)
    assert [(r["plant"], r["policy"]) for r in found["rows"]] == [
        (plant, policy) for plant in (0, 1) for policy in (OURS, OPTIMUM, "static")
    ]
    for r in found["rows"]:
        # At a higher pressure than the objective allows, more than the optimum may pass.
        assert r["goodput_to_optimum"] <= 1.15 or r["pressure_p99"] > 1.0
        if r["policy"] != OURS:
            assert r["pressure_p99"] <= 1.0
    assert [r["goodput_to_optimum"] for r in found["rows"] if r["policy"] == OPTIMUM] == [1.0, 1.0]
    assert [r["goodput_to_static"] for r in found["rows"] if r["policy"] == "static"] == [1.0, 1.0]


# -- the ablation ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "value"), neutral.MUTATION_NEUTRAL.items())
def test_neutral_value_takes_a_mechanism_out(name: str, value: float | None) -> None:
    plant = next(plant for plant in PLANTS if getattr(plant.objective, name, 1.0) is not None)
    policy, changed = law_of(plant, {}).policy, law_of(plant, {name: value}).policy
    assert (changed.limits, changed.objective) != (policy.limits, policy.objective)


def test_ablation_of_mutations_compares_on_the_same_plants(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--mutations", "--plants", "2", "--seed", "10", "--constant", "deadband_ratio"]
    assert ablation.main([*arguments, "--json"]) == 0
    whole, without = json.loads(capsys.readouterr().out)
    assert (whole["without"], without["without"], without["neutral"]) == (None, "deadband_ratio", 0.0)
    assert whole["goodput_ratio"] == 1.0
    assert without["writes_mean"] > whole["writes_mean"], "each small change is written"
    neutral.print_mutations([whole, without])
    assert "deadband_ratio" in capsys.readouterr().out


def test_unknown_constant_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        ablation.main(["--mutations", "--constant", "reserve_ratio"])
    assert "reserve_ratio: expected one of create_probe_p90_ms_max" in capsys.readouterr().err


def test_goodput_of_ablation_is_relative_to_the_same_plant() -> None:
    whole = [row(OURS, 0, goodput_partitions_per_s=10.0), row(OURS, 1, goodput_partitions_per_s=1_000.0)]
    rows = [row(OURS, 0, goodput_partitions_per_s=5.0), row(OURS, 1, goodput_partitions_per_s=2_000.0, settle_s=NEVER)]
    entry = neutral._entry("learn_gain", rows, whole)
    assert entry["goodput_ratio"] == pytest.approx(1.0)
    assert entry["never_settled"] == 1
    assert entry["settle_mean_s"] == pytest.approx(40.0)
    assert not math.isnan(entry["well_behaved_mean"])
