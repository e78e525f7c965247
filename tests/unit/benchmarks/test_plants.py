"""Drawn plants: the same draw gives the same plant, T* is as drawn, and a plant survives its file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.laws.distribution import (
    NEVER,
    measure_plant,
    missed_on_plants,
    print_plants,
    save_plants,
    totals,
    worst_plants,
)
from benchmarks.laws.plants import CapacityTold, draw_plant
from benchmarks.laws.rivals import OURS
from rheostat.errors import BadInputError
from rheostat.simulate.scenario_file import load_scenario
from tuner.simulation.optimum import optimum_s
from tuner.simulation.policy import capacities
from tuner.simulation.world import P99Source
from tuner.simulation.world_json import read_world

SEED = 5
NUMBERS = range(6)


def test_same_draw_gives_the_same_plant() -> None:
    plants = [draw_plant(SEED, number) for number in NUMBERS]
    assert plants == [draw_plant(SEED, number) for number in NUMBERS]
    assert len({plant.to_json() for plant in plants}) == len(plants)


@pytest.mark.parametrize("number", NUMBERS)
def test_shortest_time_of_plant_is_as_drawn(number: int) -> None:
    found = optimum_s(draw_plant(SEED, number))
    assert found is not None
    assert 60 < found < 1_200


def test_told_capacity_changes_nothing_else() -> None:
    right, wrong, unknown = (draw_plant(SEED, 1, told) for told in CapacityTold)
    for plant in (wrong, unknown):
        assert replace(plant, brokers=right.brokers) == right
    told = capacities(right)
    assert told.keys() == {b.broker for b in right.brokers}
    ratios = [found.out_bytes_per_s / told[broker].out_bytes_per_s for broker, found in capacities(wrong).items()]
    assert all(0.4 <= ratio <= 2.0 for ratio in ratios)
    assert len(set(ratios)) == len(ratios)
    assert capacities(unknown) == {}


def test_objective_of_plant_is_at_least_twice_the_latency_of_an_idle_broker() -> None:
    latencies = [draw_plant(SEED, number).latency for number in range(20)]
    assert all(model.objective_ms >= 1.99 * model.base_ms for model in latencies)
    ratios = {model.queue_ratio for model in latencies}
    assert 1.0 in ratios, "random arrivals"
    assert min(ratios) < 0.5, "latency that hardly grows with the queue"


def test_plants_cover_sources_and_clusters() -> None:
    plants = [draw_plant(SEED, number) for number in range(20)]
    assert {plant.latency.p99_source for plant in plants} == set(P99Source)
    assert min(len(plant.brokers) for plant in plants) < 6
    assert max(len(plant.brokers) for plant in plants) > 20
    assert {plant.fetch.quota_samples for plant in plants} == {3, 11}


def row(policy: str, plant: int, ratio: float, slo_5s: float) -> dict[str, object]:
    figures = {"ratio": ratio, "slo_5s": slo_5s, "slo_1s": slo_5s, "writes": 3.0}
    return {"policy": policy, "plant": plant, **figures}


def test_distribution_counts_runs_that_never_end_and_better_rivals() -> None:
    ours = [row(OURS, plant, 1.0 + plant / 10, 0.01) for plant in range(10)]
    rival = [row("rival", plant, NEVER if plant else 0.9, 0.0) for plant in range(10)]
    found = {total["policy"]: total for total in totals([*ours, *rival])}
    assert found[OURS]["ratio_median"] == pytest.approx(1.4)
    assert found[OURS]["ratio_max"] == pytest.approx(1.9)
    assert found["rival"]["ratio_median"] == NEVER
    assert found["rival"]["beats_ours_ratio"] == 0.1
    sentences = missed_on_plants([*ours, *rival], CapacityTold.RIGHT)
    assert [s for s in sentences if s.startswith("rival is better in both on 10%")]
    assert any("median of the time" in s for s in sentences)
    assert worst_plants(ours)[0]["plant"] == 9


def test_distribution_of_calm_leaves_out_plants_without_throttle(capsys: pytest.CaptureFixture[str]) -> None:
    calm = {"variation": 2.0, "burst": 1.5, "undershoot": 0.2, "silence_s": 3.0, "p99_ratio": 1.4}
    rows = [row(OURS, plant, 1.2, 0.01) | calm | {"burst": 1.0 + plant} for plant in range(3)]
    none = row("none", 0, 0.9, 0.5) | dict.fromkeys(calm) | {"silence_s": 0.5}
    (total, free) = totals([*rows, none])
    assert (total["variation_median"], total["burst_median"], total["burst_max"]) == (2.0, 2.0, 3.0)
    assert (free["variation_median"], free["undershoot_mean"], free["silence_s_max"]) == (None, None, 0.5)
    facts = {"brokers": 3, "moving": 9, "p99_source": "step", "scrape_every_s": 5.0, "late_s": 1.0, "quota_samples": 11}
    print_plants([each | facts for each in (*rows, none)])
    printed = capsys.readouterr().out.splitlines()
    assert any(
        line.split() == [OURS, "2.00", "2.00", "2.0", "3.0", "20.0%", "20.0%", "3.0", "3.0", "1.40", "1.40"]
        for line in printed
    )
    assert any(line.split() == ["none", *["-"] * 6, "0.5", "0.5", "-", "-"] for line in printed)


def test_measured_plant_has_calm_and_clients() -> None:
    figures = measure_plant((SEED, 7, CapacityTold.RIGHT, True))[0]
    assert 0.0 < figures["variation"] < 60.0
    assert figures["burst"] > 0.5
    assert 0.0 < figures["undershoot"] < 1.0
    assert figures["p99_ratio"] >= 1.0
    assert figures["clients_before_bytes_per_s"] == figures["clients_during_bytes_per_s"], "clients come first"
    assert figures["clients_after_p99_ms"] < figures["clients_during_p99_ms"]


def test_saved_plant_is_a_scenario(tmp_path: Path) -> None:
    (path,) = save_plants(tmp_path / "worst", SEED, CapacityTold.WRONG, [{"plant": 3}])
    world = draw_plant(SEED, 3, CapacityTold.WRONG)
    assert read_world(path.read_text(encoding="utf-8")) == world
    assert load_scenario(str(path)).world == world


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[]", "expected a world"),
        ("{", "Expecting"),
        ('{"seed": 1, "brokers": [], "partitions": "no"}', "partitions"),
        ('{"seed": 1, "brokers": [], "partitions": [], "disturbances": [{"kind": "Flood"}]}', "LoadStep"),
        ('{"seed": 1, "brokers": [], "partitions": []}', "expected something to copy"),
    ],
)
def test_file_that_is_no_world_is_refused_by_name(tmp_path: Path, text: str, part: str) -> None:
    path = tmp_path / "plant.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInputError, match=part) as refused:
        load_scenario(str(path))
    assert str(path) in str(refused.value)
