"""Sizes and write rates of a plan's partitions."""

from __future__ import annotations

from tuner.control.reassignment.measurements import PartitionMeasurements, update_measurements
from tuner.core.reassignment_plan import CurrentAssignment, PlanPartition, ReassignmentSnapshot

KEY = ("t", 0)
PART = PlanPartition((1, 3), (1, 2), 500.0, 3.0)
STILL = CurrentAssignment(1, (1, 2), (1, 2))
MOVING = CurrentAssignment(1, (1, 3, 4, 2), (1, 2), adding=(3, 4), removing=(2,))


def look(now: CurrentAssignment, **sizes: int) -> ReassignmentSnapshot:
    return ReassignmentSnapshot(
        frozenset({1, 2, 3, 4}), {KEY: now}, {}, {int(b[1:]): {KEY: size} for b, size in sizes.items()}
    )


def test_plan_figures_apply_before_the_first_measurement() -> None:
    assert (PartitionMeasurements().size(KEY, PART), PartitionMeasurements().write_rate(KEY, PART)) == (500.0, 3.0)
    assert update_measurements(PartitionMeasurements(), look(STILL), 1000) == PartitionMeasurements()


def test_write_rate_is_log_growth() -> None:
    first = update_measurements(PartitionMeasurements(), look(STILL, b1=1000), 10_000)
    assert (first.size(KEY, PART), first.write_rate(KEY, PART)) == (1000.0, 3.0)
    second = update_measurements(first, look(STILL, b1=1600), 20_000)
    assert second.write_rate(KEY, PART) == 60.0
    third = update_measurements(second, look(STILL, b1=1600), 30_000)
    assert third.write_rate(KEY, PART) == 30.0


def test_shrinking_log_gives_no_write_rate() -> None:
    first = update_measurements(PartitionMeasurements(), look(STILL, b1=1000), 10_000)
    second = update_measurements(first, look(STILL, b1=1600), 20_000)
    third = update_measurements(second, look(STILL, b1=100), 30_000)
    assert (third.size(KEY, PART), third.write_rate(KEY, PART)) == (100.0, 60.0)


def test_remaining_bytes_are_missing_bytes_of_new_replicas() -> None:
    assert update_measurements(PartitionMeasurements(), look(MOVING, b1=1000, b3=400), 1000).remaining_bytes == {
        KEY: 600.0 + 1000.0
    }


def test_partial_snapshot_keeps_other_partitions() -> None:
    first = update_measurements(PartitionMeasurements(), look(STILL, b1=1000), 10_000)
    second = update_measurements(first, look(MOVING, b1=1000, b3=900, b4=900), 11_000, has_all_sizes=False)
    assert (second.size_bytes, second.remaining_bytes, second.at_ms) == ({KEY: 1000.0}, {KEY: 200.0}, 10_000)


def test_silent_leader_keeps_last_known_sizes() -> None:
    first = update_measurements(PartitionMeasurements(), look(MOVING, b1=1000), 10_000)
    assert update_measurements(first, look(MOVING, b3=900), 20_000).size(KEY, PART) == 500.0
