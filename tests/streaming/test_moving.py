"""Move signals: remaining bytes, steady-state replication, steps, slope, age of progress; scrapes with literal numbers every 5 s."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from stream_cases import MB, T0, Record, newest, scrape, signals_of

from streaming.shared.contract import Metric, MoveSignal, MoveStep, Side, Signal, partition_labels

Samples = dict[tuple[str, str] | str, float]


def led(partition: int, size: float | None, counted: float, remaining: float | None = None) -> Samples:
    """A led partition, sizes in MB."""
    labels = partition_labels("orders", partition)
    samples: Samples = {(Metric.LED_COUNTED, labels): counted}
    if size is not None:
        samples[Metric.LED_SIZE, labels] = size * MB
    if remaining is not None:
        samples[Metric.LED_REMAINING, labels] = remaining * MB
    return samples


def followed(partition: int, own: float | None, leader: float | None, *, adding: int = 1, counted: int = 1) -> Samples:
    """A followed partition, sizes in MB."""
    labels = partition_labels("orders", partition)
    samples: Samples = {(Metric.FOLLOWED_COUNTED, labels): counted, (Metric.FOLLOWED_ADDING, labels): adding}
    if own is not None:
        samples[Metric.FOLLOWED_SIZE, labels] = own * MB
    if leader is not None:
        samples[Metric.FOLLOWED_LEADER_SIZE, labels] = leader * MB
    return samples


CASES: list[tuple[Side, tuple[Samples, ...]]] = []


def case(side: Side, *scrapes: Samples) -> pytest.MarkDecorator:
    """The test gets the newest signal of that side from these scrapes, 5 s apart."""
    CASES.append((side, scrapes))
    return pytest.mark.parametrize("signal", [len(CASES) - 1], indirect=True, ids=[side.value])


@pytest.fixture(scope="module")
def measured(spark: SparkSession) -> list[Signal]:
    """The signals of all cases from one query, because planning takes seconds; each case has its own broker."""
    return signals_of(
        spark,
        [
            scrape(5 * i, samples, node=node)
            for node, (_, scrapes) in enumerate(CASES)
            for i, samples in enumerate(scrapes)
        ],
    )


@pytest.fixture
def signal(request: pytest.FixtureRequest, measured: list[Signal]) -> Any:
    return newest(measured, MoveSignal, broker=request.param, side=CASES[request.param][0])


def step(index: int, gained: float, written: float, remaining: float) -> MoveStep:
    return MoveStep(T0 + 5_000 * index, 5.0, gained * MB, written * MB, remaining * MB)


@case(Side.LEADER, led(0, 100, 2), led(0, 115, 2), led(0, 130, 2))
def test_steady_state_is_write_rate_times_counted_replicas(signal: MoveSignal) -> None:
    assert signal.steady_state_bytes_per_s == 6 * MB
    assert (signal.listed_partitions, signal.moving_partitions) == (1, 0)
    assert (signal.remaining_bytes, signal.write_bytes_per_s) == (0.0, 0.0)
    assert signal.steps == ()


@case(
    Side.LEADER,
    led(0, 100, 3, remaining=80) | led(1, 50, 2),
    led(0, 105, 3, remaining=75) | led(1, 60, 2),
    led(0, 110, 3, remaining=70) | led(1, 70, 2),
)
def test_leader_side_of_a_move_has_every_figure(signal: MoveSignal) -> None:
    assert (signal.moving_partitions, signal.listed_partitions) == (1, 2)
    assert signal.remaining_bytes == 70 * MB
    assert signal.steady_state_bytes_per_s == (1 * 3 + 2 * 2) * MB
    assert signal.write_bytes_per_s == 1 * MB
    assert signal.steps == (step(1, 0, 5, 75), step(2, 0, 5, 70))
    assert (signal.remaining_slope_bytes_per_s, signal.remaining_slope_r2) == (-1 * MB, 1.0)
    assert signal.progress_age_s is None, "the leader does not see what followers gain"


@case(
    Side.FOLLOWER,
    followed(0, 10, 100) | followed(1, 40, 40, adding=0),
    followed(0, 30, 105) | followed(1, 50, 50, adding=0),
    followed(0, 50, 110) | followed(1, 60, 60, adding=0),
)
def test_follower_side_of_a_move_has_every_figure(signal: MoveSignal) -> None:
    assert (signal.moving_partitions, signal.listed_partitions) == (1, 2)
    assert signal.remaining_bytes == 60 * MB
    assert signal.steady_state_bytes_per_s == (1 + 2) * MB
    assert signal.write_bytes_per_s == 1 * MB
    assert signal.steps == (step(1, 20, 5, 75), step(2, 20, 5, 60))
    assert signal.remaining_slope_bytes_per_s == -3 * MB
    assert signal.progress_age_s == 0.0


@case(Side.FOLLOWER, followed(0, 10, 100))
def test_one_scrape_gives_remaining_bytes_but_no_rate(signal: MoveSignal) -> None:
    assert (signal.remaining_bytes, signal.moving_partitions, signal.samples) == (90 * MB, 1, 1)
    assert (signal.steady_state_bytes_per_s, signal.write_bytes_per_s) == (None, None)
    assert (signal.remaining_slope_bytes_per_s, signal.remaining_slope_r2, signal.progress_age_s) == (None, None, None)
    assert signal.steps == ()


@case(
    Side.FOLLOWER,
    followed(0, 10, 100),
    followed(0, 15, 100) | followed(1, 500, 900),
    followed(0, 20, 100) | followed(1, 510, 900),
)
def test_joining_partition_does_not_change_the_slope(signal: MoveSignal) -> None:
    assert signal.steps == (step(1, 5, 0, 85), step(2, 15, 0, 80 + 390))
    assert signal.remaining_bytes == (80 + 390) * MB
    assert signal.remaining_slope_bytes_per_s == pytest.approx(-2 * MB)


QUIET = led(0, 100, 2)


@case(Side.LEADER, QUIET, QUIET, QUIET, QUIET | led(1, 10, 2), QUIET | led(1, 25, 2))
def test_partition_joining_late_counts_with_its_write_rate(signal: MoveSignal) -> None:
    assert signal.steady_state_bytes_per_s == 6 * MB


@case(Side.LEADER, led(0, 0, 1) | led(1, 0, 1), led(0, 5, 1) | led(1, 500, 1), led(0, 10, 1))
def test_partition_that_left_no_longer_counts(signal: MoveSignal) -> None:
    assert (signal.listed_partitions, signal.steady_state_bytes_per_s) == (1, 1 * MB)


@case(Side.LEADER, led(0, 0, 1), led(1, 5, 1), led(0, 10, 1))
def test_partition_missing_in_a_scrape_has_no_rate(signal: MoveSignal) -> None:
    """The partition may have been deleted and created again."""
    assert (signal.listed_partitions, signal.steady_state_bytes_per_s) == (1, None)


@case(Side.FOLLOWER, followed(0, 80, 100), followed(0, 100, 100, adding=0))
def test_finished_partition_reduces_remaining_bytes_to_zero(signal: MoveSignal) -> None:
    assert signal.steps == (step(1, 20, 0, 0),)
    assert (signal.moving_partitions, signal.remaining_bytes) == (0, 0.0)
    assert (signal.remaining_slope_bytes_per_s, signal.remaining_slope_r2) == (-4 * MB, None)


@case(
    Side.FOLLOWER,
    followed(0, 50, 1000),
    followed(0, 55, 1015),
    followed(0, 20, 700),  # Retention on both.
    followed(0, 25, 715),
)
def test_shrunk_log_adds_neither_growth_nor_time(signal: MoveSignal) -> None:
    assert [(s.gained_bytes / MB, s.written_bytes / MB) for s in signal.steps] == [(5, 15), (0, 0), (5, 15)]
    assert signal.steady_state_bytes_per_s == 3 * MB


@case(Side.FOLLOWER, *(followed(0, own, 100) for own in (10, 20, 20, 20)))
def test_progress_age_counts_from_last_step_with_progress(signal: MoveSignal) -> None:
    assert signal.progress_age_s == 10.0


@case(Side.FOLLOWER, *(followed(0, 10, 100) for _ in range(4)))
def test_move_without_progress_has_zero_slope_and_no_age(signal: MoveSignal) -> None:
    assert (signal.remaining_slope_bytes_per_s, signal.remaining_slope_r2) == (0.0, 1.0)
    assert signal.progress_age_s is None


@case(Side.FOLLOWER, *(followed(0, own, 100) for own in (10, 20, 20, 40)))
def test_slope_of_uneven_progress_has_lower_r2(signal: MoveSignal) -> None:
    # Remaining 90, 80, 80, 60 MB at 0, 5, 10, 15 s. By hand: −225 ÷ 125 = −1.8 MB/s, r² = 225² ÷ (125 × 475).
    assert signal.remaining_slope_bytes_per_s == pytest.approx(-1.8 * MB)
    assert signal.remaining_slope_r2 == pytest.approx(0.852632, abs=1e-6)


@case(Side.FOLLOWER, followed(0, 10, 100), followed(0, None, 105) | followed(1, 1, 2))
def test_unknown_follower_size_makes_remaining_bytes_unknown(signal: MoveSignal) -> None:
    assert signal.remaining_bytes is None
    assert signal.steady_state_bytes_per_s == 1 * MB


@case(Side.FOLLOWER, followed(0, 10, None), followed(0, 20, None))
def test_unknown_leader_size_makes_remaining_bytes_unknown(signal: MoveSignal) -> None:
    assert (signal.remaining_bytes, signal.steady_state_bytes_per_s, signal.listed_partitions) == (None, None, 1)
    assert signal.steps[0].gained_bytes == 10 * MB


@case(Side.FOLLOWER, followed(0, 110, 100))
def test_follower_larger_than_leader_has_nothing_remaining(signal: MoveSignal) -> None:
    assert signal.remaining_bytes == 0.0


@case(Side.LEADER, led(0, 100, 0, remaining=50), led(0, 115, 0, remaining=40))
def test_unlisted_moving_partition_needs_no_quota(signal: MoveSignal) -> None:
    assert (signal.steady_state_bytes_per_s, signal.write_bytes_per_s) == (0.0, 3 * MB)
    assert (signal.listed_partitions, signal.moving_partitions) == (0, 1)


def recovers(samples: Samples) -> Samples:
    """The same partitions, led, with replicas that recover rather than being added."""
    return samples | {(Metric.LED_RECOVERING, key[1]): 1.0 for key in samples if key[0] == Metric.LED_REMAINING}


@case(
    Side.LEADER,
    recovers(led(0, 100, 2, remaining=50)) | led(1, 100, 2, remaining=10),
    recovers(led(0, 110, 2, remaining=40)) | led(1, 100, 2, remaining=5),
)
def test_leader_side_counts_recovering_partitions_apart(signal: MoveSignal) -> None:
    assert (signal.moving_partitions, signal.remaining_bytes) == (2, 45 * MB)
    assert (signal.recovering_partitions, signal.recovering_bytes) == (1, 40 * MB)
    # Written 10 MB, and 10 MB fewer remain: 20 MB were sent. Bytes of adding replicas are in Kafka's own metric.
    assert [step.gained_bytes for step in signal.steps] == [20 * MB]


@case(
    Side.FOLLOWER,
    followed(0, 50, 100, adding=2) | followed(1, 80, 100),
    followed(0, 70, 110, adding=2) | followed(1, 90, 100),
)
def test_follower_side_counts_recovering_partitions_apart(signal: MoveSignal) -> None:
    assert (signal.moving_partitions, signal.remaining_bytes) == (2, 50 * MB)
    assert (signal.recovering_partitions, signal.recovering_bytes) == (1, 40 * MB)
    assert [step.gained_bytes for step in signal.steps] == [30 * MB]


def awaits(samples: Samples) -> Samples:
    """The same partitions, followed, with replicas that have to read the state of the remote log first."""
    return samples | {
        (Metric.FOLLOWED_AWAITS_REMOTE, key[1]): 1.0 for key in samples if key[0] == Metric.FOLLOWED_ADDING
    }


@case(
    Side.FOLLOWER,
    awaits(followed(0, 0, 100)) | awaits(followed(1, 0, 50, adding=2)) | awaits(followed(2, 50, 50, adding=0)),
    awaits(followed(0, 0, 100)) | awaits(followed(1, 0, 50, adding=2)) | followed(3, 10, 80),
)
def test_follower_side_counts_replicas_without_remote_state(signal: MoveSignal) -> None:
    assert (signal.moving_partitions, signal.recovering_partitions, signal.await_remote_partitions) == (3, 1, 2)
    assert signal.remaining_bytes == 220 * MB


@case(Side.FOLLOWER, awaits(followed(0, 0, 100)), followed(0, 20, 100))
def test_replica_that_has_begun_to_copy_awaits_nothing(signal: MoveSignal) -> None:
    assert (signal.moving_partitions, signal.await_remote_partitions) == (1, 0)
    assert [step.gained_bytes for step in signal.steps] == [20 * MB]


@case(Side.FOLLOWER, followed(0, 130, 100, adding=2), followed(0, 130, 105, adding=2))
def test_recovering_log_longer_than_leaders_has_nothing_remaining(signal: MoveSignal) -> None:
    assert (signal.remaining_bytes, signal.recovering_bytes) == (0, 0)


@case(Side.LEADER, led(0, 1, 1) | followed(1, 1, 2))
def test_both_sides_of_one_broker_are_two_signals(signal: MoveSignal, measured: list[Signal]) -> None:
    assert newest(measured, MoveSignal, broker=signal.broker, side=Side.FOLLOWER).remaining_bytes == 1 * MB


@case(Side.LEADER, led(0, 1, 1))
def test_side_without_samples_has_no_signal(signal: MoveSignal, measured: list[Signal]) -> None:
    assert {s.side for s in measured if isinstance(s, MoveSignal) and s.broker == signal.broker} == {Side.LEADER}


def test_scrapes_delivered_twice_change_nothing(spark: SparkSession) -> None:
    scrapes: list[Record] = [scrape(5 * i, followed(0, 10 + 5 * i, 100 + i)) for i in range(3)]
    once = signals_of(spark, scrapes)
    assert sorted(map(repr, signals_of(spark, scrapes + scrapes[::-1]))) == sorted(map(repr, once))


HUGE = 9e17  # In MB; just below what the format lets in.


@case(Side.LEADER, led(0, 0, HUGE, 0), led(0, HUGE, HUGE, HUGE))
def test_overflowing_sum_is_unknown(signal: MoveSignal) -> None:
    assert signal.steady_state_bytes_per_s is None
    assert signal.remaining_bytes == HUGE * MB


def named(labels: str, megabytes: float) -> Samples:
    return {
        (Metric.LED_SIZE, labels): megabytes * MB,
        (Metric.LED_COUNTED, labels): 1,
        (Metric.LED_REMAINING, labels): megabytes * MB,
    }


NO_PARTITIONS = ("x=y", "topic=t,partition=0", "partition=99999999999,topic=t", "partition=,topic=t", "\n", ",", "=")


@case(Side.LEADER, {**led(0, 9, 2, 5), **{k: v for labels in NO_PARTITIONS for k, v in named(labels, 7).items()}})
def test_labels_without_a_partition_are_skipped(signal: MoveSignal) -> None:
    assert [(m.topic, m.partition, m.remaining_bytes) for m in signal.largest] == [("orders", 0, 5 * MB)]
