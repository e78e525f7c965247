"""Every field of every signal, from hand-written scrapes, compared with plain Python on the same numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest
from pyspark.sql import SparkSession
from stream_cases import MB, OURS, T0, TOPICS, Record, at, changed, decoded, newest, raw, records, scrape

from streaming.pipeline import Input, build
from streaming.shared.contract import (
    BrokerSignal,
    ControllerSignal,
    Metric,
    MoveSignal,
    MoveStep,
    MovingPartition,
    NodeRole,
    ReplicationSignal,
    Scrape,
    Side,
    Signal,
    TenantSignal,
    ThrottledBy,
    encode_signal,
    partition_labels,
    signal_key,
)

EVERY_S = 5.0
TIMES = (0.0, 5.0, 10.0, 15.0)
WINDOW_S = 30

Samples = Mapping[Any, float]
CASES: dict[str, list[Record]] = {}
HEAD = (
    "cluster",
    "broker",
    "node",
    "side",
    "user",
    "client_id",
    "window_end_ms",
    "sampled_at_ms",
    "samples",
    "completeness",
    "backlog",
)


def node_of(name: str) -> int:
    return 1 + list(CASES).index(name)


def case(name: str, *scrapes: Samples, role: NodeRole = NodeRole.BROKER, times: Sequence[float] = TIMES) -> str:
    """Adds a node with these scrapes; the test examines its newest signal."""
    node = 1 + len(CASES)
    CASES[name] = [scrape(at_s, one, node=node, role=role) for at_s, one in zip(times, scrapes, strict=False)]
    return name


@pytest.fixture(scope="module")
def measured(spark: SparkSession) -> list[Signal]:
    """The signals of all cases from one query, because planning takes seconds; ``decoded`` checks each key."""
    frame = build([(raw(spark, [one for scrapes in CASES.values() for one in scrapes]), OURS)], TOPICS).cache()
    assert records(frame, TOPICS.rejects) == {}
    return decoded(records(frame, TOPICS.signals))


def numbers(signal: Signal) -> dict[str, Any]:
    """Returns the measured fields and their values."""
    return {name: value for name, value in asdict(signal).items() if name not in HEAD}


def per_s(counts: Sequence[float], seconds: float = EVERY_S) -> float:
    gained = [q - p if q >= p else q for p, q in pairwise(counts)]
    return sum(gained) / (seconds * len(gained))


# -- brokers ---------------------------------------------------------------------------------------------------------

COUNTERS = {
    "replication_in_bytes_per_s": Metric.REPLICATION_IN,
    "replication_out_bytes_per_s": Metric.REPLICATION_OUT,
    "reassignment_in_bytes_per_s": Metric.REASSIGNMENT_IN,
    "reassignment_out_bytes_per_s": Metric.REASSIGNMENT_OUT,
    "client_in_bytes_per_s": Metric.CLIENT_IN,
    "client_out_bytes_per_s": Metric.CLIENT_OUT,
    "isr_shrinks_per_s": Metric.ISR_SHRINKS,
    "isr_expands_per_s": Metric.ISR_EXPANDS,
}
GAUGES: dict[str, Any] = {
    "leader_throttled_bytes_per_s": Metric.LEADER_THROTTLED,
    "follower_throttled_bytes_per_s": Metric.FOLLOWER_THROTTLED,
    "leader_rate_bytes_per_s": Metric.LEADER_RATE,
    "follower_rate_bytes_per_s": Metric.FOLLOWER_RATE,
    "produce_p99_ms": (Metric.TOTAL_TIME_P99, "request=Produce"),
    "fetch_p99_ms": (Metric.TOTAL_TIME_P99, "request=FetchConsumer"),
    "request_handler_idle_ratio": Metric.HANDLER_IDLE,
    "replica_lag_max_messages": Metric.REPLICA_LAG_MAX,
    "replica_lag_sum_messages": Metric.REPLICA_LAG_SUM,
    "under_min_isr_partitions": Metric.UNDER_MIN_ISR,
    "partitions": Metric.PARTITION_COUNT,
    "leaders": Metric.LEADER_COUNT,
    "metadata_lag_ms": Metric.BROKER_METADATA_LAG,
    "log_dir_copied_bytes_per_s": Metric.LOG_DIR_COPIED,
    "link_speed_bytes_per_s": (Metric.LINK_SPEED, "device=eth0"),
}
PRODUCE = "request=Produce"
PRODUCED, PRODUCED_MS = (
    (40_000_007, 40_000_019, 40_000_020, 40_000_107),
    (95_000_003, 95_000_403, 95_000_403, 95_009_453),
)
LISTENERS = ("listener=A,networkprocessor=0", "listener=A,networkprocessor=1", "listener=B,networkprocessor=2")


def count(index: int, k: int) -> float:
    """Returns a different count for each counter."""
    return 1000.0 * index + (index + 1) * (7 * k + k * k)


def answered(request: str, requests: float, ms: float) -> dict[Any, float]:
    """Returns count and mean since the node started, as in Kafka's histogram."""
    labels = f"request={request}"
    return {(Metric.TOTAL_TIME_COUNT, labels): requests, (Metric.TOTAL_TIME_MEAN, labels): ms / requests}


def produced(requests: float, ms: float) -> dict[Any, float]:
    return answered("Produce", requests, ms)


def of_broker(k: int) -> dict[Any, float]:
    samples: dict[Any, float] = {name: count(i, k) for i, name in enumerate(COUNTERS.values())}
    samples |= {name: 0.25 + i + 100 * k for i, name in enumerate(GAUGES.values())}
    samples |= produced(PRODUCED[k], PRODUCED_MS[k])
    for i, labels in enumerate(LISTENERS):
        samples |= {(Metric.NETWORK_IN, labels): count(20 + i, k), (Metric.NETWORK_OUT, labels): count(30 + i, k)}
    return samples


case("a broker", *[of_broker(k) for k in range(4)])


def test_broker_signal_has_every_field(measured: list[Signal]) -> None:
    signal = newest(measured, BrokerSignal, broker=node_of("a broker"))
    expected: dict[str, Any] = {field: per_s([count(i, k) for k in range(4)]) for i, field in enumerate(COUNTERS)} | {
        field: 0.25 + i + 300 for i, field in enumerate(GAUGES)
    }
    for field, first in {"network_in_bytes_per_s": 20, "network_out_bytes_per_s": 30}.items():
        expected[field] = per_s([sum(count(first + i, k) for i in range(len(LISTENERS))) for k in range(4)])
    # What a broker fetches as a follower does not come through its listeners.
    expected["network_in_bytes_per_s"] += expected["replication_in_bytes_per_s"]
    # Of the last two scrapes alone.
    expected["step_s"] = 5.0
    index = {field: i for i, field in enumerate(COUNTERS)}
    for field in ("reassignment_in_bytes_per_s", "reassignment_out_bytes_per_s"):
        expected[f"step_{field}"] = per_s([count(index[field], k) for k in (2, 3)])
    for field, first in {"network_in_bytes_per_s": 20, "network_out_bytes_per_s": 30}.items():
        expected[f"step_{field}"] = per_s([sum(count(first + i, k) for i in range(len(LISTENERS))) for k in (2, 3)])
    expected["step_network_in_bytes_per_s"] += per_s([count(index["replication_in_bytes_per_s"], k) for k in (2, 3)])
    expected["throttled_by"] = ThrottledBy.QUOTA
    expected["produce_mean_ms"] = per_s(PRODUCED_MS) / per_s(PRODUCED)
    assert {f.name for f in fields(BrokerSignal)} == set(expected) | set(HEAD) - {"node", "side", "user", "client_id"}
    assert numbers(signal) == pytest.approx(expected)
    assert signal == replace(
        signal,
        cluster="c",
        window_end_ms=T0 + 20_000,
        sampled_at_ms=T0 + 15_000,
        samples=4,
        completeness=4 / 6,
        backlog=False,
    )


def a_slow_half_minute() -> Iterator[dict[Any, float]]:
    """400 requests/s at 4 ms for a year; those from 30 to 60 s took 250 ms."""
    requests, ms = 12_614_400_000.0, 50_457_600_000.0
    for at_s in range(0, 100, 5):
        yield produced(requests, ms)
        requests += 2_000
        ms += 2_000 * (250 if 30 <= at_s < 60 else 4)


case("slow for half a minute", *a_slow_half_minute(), times=range(0, 100, 5))


def test_produce_mean_covers_only_its_window(measured: list[Signal]) -> None:
    node = node_of("slow for half a minute")
    means = {
        s.window_end_ms - T0: s.produce_mean_ms for s in measured if isinstance(s, BrokerSignal) and s.broker == node
    }
    assert (means[30_000], means[60_000], means[90_000]) == (4.0, 250.0, 4.0)
    assert means[45_000] == pytest.approx((2 * 250 + 3 * 4) / 5), "samples at 15, 20, 25 and 30 s, then 35 and 40"


# Scrapes → the mean over all of them.
PRODUCE_MEANS: dict[str, tuple[list[Samples], float | None]] = {
    "steady": ([produced(1_000, 3_000), produced(1_010, 3_070)], 7.0),
    "no request answered": ([produced(1_000, 3_000)] * 3, None),
    "one scrape": ([produced(1_000, 3_000)], None),
    "no mean, as an agent with rules of before": (
        [{(Metric.TOTAL_TIME_COUNT, PRODUCE): n} for n in (1_000.0, 1_010.0)],
        None,
    ),
    "no count": ([{(Metric.TOTAL_TIME_MEAN, PRODUCE): n} for n in (4.0, 5.0)], None),
    "of another request": (
        [{(name, "request=FetchConsumer"): v for (name, _), v in produced(n, 9 * n).items()} for n in (8, 9)],
        None,
    ),
    "restarted": ([produced(1_000, 3_000), produced(10, 200), produced(30, 600)], 20.0),
    "the first requests ever": ([{**produced(1, 0), (Metric.TOTAL_TIME_COUNT, PRODUCE): 0}, produced(4, 20)], 5.0),
    # Of 100,000 requests, one is counted between the readings of mean and count: 3 ms are there that nobody spent.
    "read while one was counted": (
        [
            {(Metric.TOTAL_TIME_COUNT, PRODUCE): 100_001.0, (Metric.TOTAL_TIME_MEAN, PRODUCE): 3.0},
            produced(100_001, 300_000),
            produced(100_011, 300_050),
        ],
        5.0,
    ),
}
# The same with the third request of all: 9 ms instead of 7. Half of that, and it would be a restart.
PRODUCE_MEANS["read while the third was counted"] = (
    [
        {(Metric.TOTAL_TIME_COUNT, PRODUCE): 3.0, (Metric.TOTAL_TIME_MEAN, PRODUCE): 3.0},
        produced(3, 7),
        produced(5, 17),
    ],
    5.0,
)
PRODUCE_MEANS["restarted, and soon as far again"] = (
    [produced(10, 40), produced(9, 18), produced(11, 30)],
    (18 + 12) / 11,
)


for _name, _told in PRODUCE_MEANS.items():
    case(f"produce: {_name}", *_told[0])


@pytest.mark.parametrize("name", PRODUCE_MEANS)
def test_produce_mean_weighs_samples_by_requests(measured: list[Signal], name: str) -> None:
    assert newest(measured, BrokerSignal, broker=node_of(f"produce: {name}")).produce_mean_ms == PRODUCE_MEANS[name][1]


REASSIGNED = {Metric.REASSIGNMENT_IN: 50.0, Metric.REASSIGNMENT_OUT: 500.0}
REPLICATED = {Metric.REPLICATION_IN: 70.0, Metric.REPLICATION_OUT: 700.0}
THROTTLED: dict[str, tuple[list[Samples], tuple[float | None, float | None, str | None]]] = {
    "both quotas": ([{Metric.LEADER_THROTTLED: 3.0, Metric.FOLLOWER_THROTTLED: 4.0}], (3.0, 4.0, "quota")),
    # Kafka has the follower's only where something was throttled.
    "the leader's quota": ([{Metric.LEADER_THROTTLED: 3.0}], (3.0, 0.0, "quota")),
    "the follower's quota": ([{Metric.FOLLOWER_THROTTLED: 4.0}], (0.0, 4.0, "quota")),
    "quota before counters": ([{**REASSIGNED, Metric.LEADER_THROTTLED: 3.0}] * 2, (3.0, 0.0, "quota")),
    "reassignment": (
        [dict.fromkeys({**REASSIGNED, **REPLICATED}, 0.0), {**REASSIGNED, **REPLICATED}],
        (100.0, 10.0, "reassignment"),
    ),
    "replication": ([dict.fromkeys(REPLICATED, 0.0), REPLICATED], (140.0, 14.0, "replication")),
    "replication at first": ([{**REPLICATED}], (None, None, None)),
    "nothing": ([{Metric.CLIENT_IN: 1.0}], (None, None, None)),
}
for _name, (_scrapes, _) in THROTTLED.items():
    case(f"throttled: {_name}", *_scrapes)


@pytest.mark.parametrize("name", THROTTLED)
def test_throttled_bytes_come_from_the_most_exact_metric(measured: list[Signal], name: str) -> None:
    signal = newest(measured, BrokerSignal, broker=node_of(f"throttled: {name}"))
    found = (signal.leader_throttled_bytes_per_s, signal.follower_throttled_bytes_per_s, signal.throttled_by)
    assert found == THROTTLED[name][1]


def about(number: float) -> Any:
    return pytest.approx(number)


# -- moves -----------------------------------------------------------------------------------------------------------


def followed(partition: int, own: float, leader: float, adding: int, lag: float | None = None) -> dict[Any, float]:
    labels = partition_labels("or.d-e_rs", partition)
    samples: dict[Any, float] = {
        (Metric.FOLLOWED_SIZE, labels): own * MB,
        (Metric.FOLLOWED_LEADER_SIZE, labels): leader * MB,
        (Metric.FOLLOWED_COUNTED, labels): 1,
        (Metric.FOLLOWED_ADDING, labels): adding,
    }
    return samples if lag is None else samples | {(Metric.FOLLOWED_LAG, labels): lag}


# Partitions 0 to 6 move, n of them by n + 1 MB/s; 7 has arrived at 10 s, and 8 follows along.
SIZES = {p: [(10.0 * p + 5 * (p + 1) * k, 500.0 + 100 * p + 2.5 * k) for k in range(4)] for p in range(7)}


def of_move(k: int) -> dict[Any, float]:
    samples: dict[Any, float] = {}
    for partition, sizes in SIZES.items():
        samples |= followed(partition, *sizes[k], adding=1, lag=1000 * partition + k if partition else None)
    samples |= followed(7, min(100, 90 + 5 * k), 100, adding=int(k < 2), lag=3)
    return samples | followed(8, 50 + 5 * k, 50 + 5 * k, adding=0, lag=77)


case("a move", *[of_move(k) for k in range(4)])


def test_move_signal_has_every_field(measured: list[Signal]) -> None:
    signal = newest(measured, MoveSignal, broker=node_of("a move"), side=Side.FOLLOWER)
    remaining = {p: [(leader - own) * MB for own, leader in sizes] for p, sizes in SIZES.items()}
    arrived = [10 * MB, 5 * MB, 0.0, 0.0]
    totals = [sum(remaining[p][k] for p in SIZES) + arrived[k] for k in range(4)]
    gained = sum(5.0 * (p + 1) for p in SIZES) * MB
    steps = tuple(
        MoveStep(T0 + round(TIMES[k] * 1000), EVERY_S, gained + (5 * MB if k <= 2 else 0), 7 * 2.5 * MB, totals[k])
        for k in range(1, 4)
    )
    largest = sorted(((remaining[p][3], p) for p in SIZES), reverse=True)[:5]
    slope, r2 = fitted(totals)
    expected = MoveSignal(
        "c",
        node_of("a move"),
        Side.FOLLOWER,
        T0 + 20_000,
        T0 + 15_000,
        samples=4,
        completeness=4 / 6,
        moving_partitions=7,
        listed_partitions=9,
        done_partitions=1,
        recovering_bytes=0.0,
        remaining_bytes=totals[3],
        lag_messages=sum(1000 * p + 3 for p in SIZES if p),
        remaining_slope_bytes_per_s=about(slope),
        remaining_slope_r2=about(r2),
        steady_state_bytes_per_s=about((7 * 0.5 + 1) * MB),
        write_bytes_per_s=about(7 * 0.5 * MB),
        progress_age_s=0.0,
        steps=steps,
        largest=tuple(MovingPartition("or.d-e_rs", p, bytes_, 0.5 * MB) for bytes_, p in largest),
    )
    assert signal == expected


def fitted(ys: Sequence[float]) -> tuple[float, float]:
    """Least squares by the textbook formula."""
    xs = [EVERY_S * k for k in range(len(ys))]
    mx, my = sum(xs) / len(xs), sum(ys) / len(ys)
    sxy = sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True))
    sxx, syy = sum((x - mx) ** 2 for x in xs), sum((y - my) ** 2 for y in ys)
    return sxy / sxx, sxy * sxy / (sxx * syy)


# -- controllers -----------------------------------------------------------------------------------------------------

CONTROLLER_GAUGES = {
    "active": Metric.ACTIVE_CONTROLLER,
    "event_queue_time_p99_ms": Metric.EVENT_QUEUE_TIME_P99,
    "event_processing_p99_ms": Metric.EVENT_PROCESSING_P99,
    "idle_ratio": Metric.CONTROLLER_IDLE,
    "metadata_lag_ms": Metric.METADATA_LAG,
    "topics": Metric.CLUSTER_TOPICS,
    "partitions": Metric.CLUSTER_PARTITIONS,
    "active_brokers": Metric.ACTIVE_BROKERS,
    "fenced_brokers": Metric.FENCED_BROKERS,
}
CONTROLLER_COUNTERS = {
    "operations_per_s": Metric.OPERATIONS_STARTED,
    "operations_timed_out_per_s": Metric.OPERATIONS_TIMED_OUT,
    "heartbeats_timed_out_per_s": Metric.HEARTBEATS_TIMED_OUT,
    "metadata_records_per_s": Metric.METADATA_COMMITTED,
}
EVENTS, QUEUED_MS = (3_000_001, 3_000_051, 3_000_107, 3_000_207), (7_000_003, 7_000_153, 7_001_153, 7_001_454)
PROCESSED, PROCESSED_MS = (2_999_999, 3_000_049, 3_000_100, 3_000_199), (900_001, 900_101, 900_701, 901_000)
CREATED, CREATED_MS = (70_001, 70_004, 70_004, 70_011), (2_100_017, 2_100_107, 2_100_107, 2_100_957)
DELETED, DELETED_MS = (31, 32, 35, 36), (930, 955, 1_105, 1_106)
ADDED, ADDED_MS = (5, 5, 7, 11), (100, 100, 180, 580)
# Old clients use versions below 6, 5 and 3. Version 2 of CreateTopics is first used after the first scrape.
VERSIONS: dict[tuple[str, int], tuple[float | None, ...]] = {
    ("CreateTopics", 2): (None, 4, 4, 8),
    ("CreateTopics", 5): (0, 1, 1, 3),
    ("CreateTopics", 6): (9, 9, 9, 9),
    ("CreateTopics", 7): (40, 43, 43, 50),
    ("DeleteTopics", 4): (1, 1, 1, 2),
    ("DeleteTopics", 6): (30, 31, 34, 34),
    ("CreatePartitions", 2): (1, 1, 1, 2),
    ("CreatePartitions", 3): (5, 5, 7, 11),
}
TOPIC_COUNTS = (400.0, 404.0, 390.0, 395.0)
PARTITION_COUNTS = (3_000.0, 3_020.0, 2_900.0, 2_930.0)
REJECTED = {"CreateTopics": (3, 7, 7, 12), "CreatePartitions": (100, 100, 103, 109), "DeleteTopics": (0, 0, 0, 1)}


def of_controller(k: int) -> dict[Any, float]:
    samples: dict[Any, float] = {name: count(i, k) for i, name in enumerate(CONTROLLER_COUNTERS.values())}
    samples |= {name: 0.5 + i + 10 * k for i, name in enumerate(CONTROLLER_GAUGES.values())}
    samples |= {
        Metric.EVENT_QUEUE_TIME_COUNT: EVENTS[k],
        Metric.EVENT_QUEUE_TIME_MEAN: QUEUED_MS[k] / EVENTS[k],
        Metric.EVENT_PROCESSING_COUNT: PROCESSED[k],
        Metric.EVENT_PROCESSING_MEAN: PROCESSED_MS[k] / PROCESSED[k],
    }
    samples |= answered("CreateTopics", CREATED[k], CREATED_MS[k]) | answered("DeleteTopics", DELETED[k], DELETED_MS[k])
    samples |= answered("CreatePartitions", ADDED[k], ADDED_MS[k])
    samples |= {
        (Metric.REQUESTS_BY_VERSION, f"request={request},version={version}"): answers
        for (request, version), counts in VERSIONS.items()
        if (answers := counts[k]) is not None
    }
    samples |= {
        Metric.CLUSTER_TOPICS: TOPIC_COUNTS[k],
        Metric.CLUSTER_PARTITIONS: PARTITION_COUNTS[k],
        Metric.ACTIVE_CONTROLLER: 1.0,
    }
    return samples | {(Metric.MUTATIONS_REJECTED, f"request={name}"): counts[k] for name, counts in REJECTED.items()}


case("a controller", *[of_controller(k) for k in range(4)], role=NodeRole.CONTROLLER)
case("an idle controller", *[of_controller(1)] * 4, role=NodeRole.CONTROLLER)
case("both roles", *[{**of_broker(k), **of_controller(k)} for k in range(4)], role=NodeRole.BROKER)


@pytest.mark.parametrize("name", ["a controller", "both roles"])
def test_controller_signal_has_every_field(measured: list[Signal], name: str) -> None:
    signal = newest(measured, ControllerSignal, node=node_of(name))
    events, waited_ms = per_s(EVENTS), per_s(QUEUED_MS)
    expected = (
        {field: per_s([count(i, k) for k in range(4)]) for i, field in enumerate(CONTROLLER_COUNTERS)}
        | {field: 0.5 + i + 30 for i, field in enumerate(CONTROLLER_GAUGES)}
        | {
            "events_per_s": events,
            "event_queue_time_mean_ms": waited_ms / events,
            "event_processing_mean_ms": per_s(PROCESSED_MS) / per_s(PROCESSED),
            "queue_depth_mean": waited_ms / 1000,
            "create_mean_ms": (2_100_957 - 2_100_017) / 10,
            "delete_mean_ms": (1_106 - 930) / 5,
            "addition_mean_ms": 480 / 6,
            "topic_requests_in_progress_mean": (per_s(CREATED_MS) + per_s(DELETED_MS) + per_s(ADDED_MS)) / 1000,
            "create_requests_per_s": per_s(CREATED),
            "delete_requests_per_s": per_s(DELETED),
            "addition_requests_per_s": per_s(ADDED),
            # The sum over versions is counted from scrape to scrape, so a new version adds all of its requests.
            "old_create_requests_per_s": (5 + 0 + 6) / 15,
            "old_delete_requests_per_s": 1 / 15,
            "old_addition_requests_per_s": 1 / 15,
            "refusable_requests_per_s": (10 + 4 + 6) / 15,
            "partitions_created_per_s": (20 + 30) / 15,
            "partitions_deleted_per_s": 120 / 15,
            "topics_created_per_s": (4 + 5) / 15,
            "topics_deleted_per_s": 14 / 15,
            "topics": TOPIC_COUNTS[3],
            "partitions": PARTITION_COUNTS[3],
            "active": 1.0,
            "mutations_rejected_per_s": sum(per_s(counts) for counts in REJECTED.values()),
        }
    )
    assert {f.name for f in fields(ControllerSignal)} == set(expected) | set(HEAD) - {
        "broker",
        "side",
        "user",
        "client_id",
    }
    assert numbers(signal) == pytest.approx(expected)
    assert (signal.window_end_ms, signal.sampled_at_ms, signal.samples) == (T0 + 20_000, T0 + 15_000, 4)


def test_controller_without_events_has_empty_queue_and_unknown_means(measured: list[Signal]) -> None:
    signal = newest(measured, ControllerSignal, node=node_of("an idle controller"))
    assert (signal.events_per_s, signal.queue_depth_mean, signal.mutations_rejected_per_s) == (0.0, 0.0, 0.0)
    assert (signal.event_queue_time_mean_ms, signal.event_processing_mean_ms) == (None, None)
    assert (signal.create_mean_ms, signal.delete_mean_ms, signal.metadata_records_per_s) == (None, None, 0.0)
    assert signal.topic_requests_in_progress_mean == 0.0


# A broker answers the clients' requests too, after the controller has answered it; its times are longer by a hop.
case(
    "a broker that forwards",
    *[of_broker(k) | answered("CreateTopics", 10 + k, 500 + 90 * k) for k in range(4)],
)


def test_broker_that_forwards_creations_yields_no_controller_signal(measured: list[Signal]) -> None:
    node = node_of("a broker that forwards")
    ours = [s for s in measured if getattr(s, "broker", getattr(s, "node", None)) == node]
    assert {type(s) for s in ours} == {BrokerSignal}


def a_storm() -> Iterator[dict[Any, float]]:
    """One creation a second at 30 ms; from 30 to 60 s forty a second at 400 ms."""
    requests, ms, offset = 1_000_000.0, 30_000_000.0, 9_000_000.0
    for at_s in range(0, 100, 5):
        yield answered("CreateTopics", requests, ms) | {
            Metric.METADATA_COMMITTED: offset,
            Metric.ACTIVE_CONTROLLER: 1.0,
        }
        stormy = 30 <= at_s < 60
        requests += 200 if stormy else 5
        ms += 200 * 400 if stormy else 5 * 30
        offset += 200 * 9 if stormy else 5 * 9 + 10


case("a storm", *a_storm(), role=NodeRole.CONTROLLER, times=range(0, 100, 5))


def test_creation_storm_is_undiluted_and_ends_with_its_window(measured: list[Signal]) -> None:
    node = node_of("a storm")
    found = {s.window_end_ms - T0: s for s in measured if isinstance(s, ControllerSignal) and s.node == node}
    assert [found[end].create_mean_ms for end in (30_000, 60_000, 90_000)] == [30.0, 400.0, 30.0]
    assert [found[end].metadata_records_per_s for end in (30_000, 60_000, 90_000)] == [11.0, 360.0, 11.0]


def test_combined_node_has_both_signals_controller_only_its_own(measured: list[Signal]) -> None:
    def of(name: str) -> set[str]:
        node = node_of(name)
        return {type(s).__name__ for s in measured if getattr(s, "broker", getattr(s, "node", None)) == node}

    assert of("both roles") == {"BrokerSignal", "ControllerSignal"}
    assert of("a controller") == {"ControllerSignal"}
    assert newest(measured, BrokerSignal, broker=node_of("both roles")).partitions == 0.25 + 10 + 300
    assert newest(measured, ControllerSignal, node=node_of("both roles")).partitions == PARTITION_COUNTS[3]


# A controller that starts counts up from 0 while it loads the metadata log; then it becomes active, and later another does.
def a_start(active: tuple[float, ...], partitions: tuple[float, ...]) -> list[dict[Any, float]]:
    return [
        {Metric.ACTIVE_CONTROLLER: is_active, Metric.CLUSTER_PARTITIONS: count, Metric.CLUSTER_TOPICS: 1.0}
        for is_active, count in zip(active, partitions, strict=True)
    ]


case("a start", *a_start((0, 0, 1, 1), (0, 3_000, 3_005, 3_015)), role=NodeRole.CONTROLLER)
case("a standby", *a_start((0, 0, 0, 0), (0, 3_000, 3_005, 3_015)), role=NodeRole.CONTROLLER)
case("an end", *a_start((1, 1, 0, 0), (3_000, 2_990, 3_500, 4_000)), role=NodeRole.CONTROLLER)


def test_changes_of_partition_count_count_only_while_active(measured: list[Signal]) -> None:
    def changes(name: str) -> tuple[float | None, float | None]:
        signal = newest(measured, ControllerSignal, node=node_of(name))
        return signal.partitions_created_per_s, signal.partitions_deleted_per_s

    without_versions = newest(measured, ControllerSignal, node=node_of("a storm"))
    assert (without_versions.old_create_requests_per_s, without_versions.refusable_requests_per_s) == (None, None)
    assert changes("a start") == (10 / 5, 0.0)
    assert changes("a standby") == (None, None)
    assert changes("an end") == (0.0, 10 / 5)


# -- tenants ---------------------------------------------------------------------------------------------------------

ODD = "CN=kafka,OU=a|b %2C~+ü日"
TENANTS: dict[str, tuple[str | None, str | None]] = {
    "user": ("alice", None),
    "client-id": (None, "app-1"),
    "both": ("alice", "app-1"),
    "odd": (ODD, ODD[::-1]),
    "with words of ours": ("user=x,client_id=y", "client_id=z"),
}


def sanitized(name: str) -> str:
    """Kafka's Sanitizer: URLEncoder, then codes for +, * and ~."""
    return quote(name, safe="-_.").replace("~", "%7E")


def labels_of(user: str | None, client_id: str | None) -> str:
    named = {"client_id": client_id, "user": user}
    return ",".join(f"{key}={sanitized(value)}" for key, value in named.items() if value is not None)


THROTTLE_TIME, NO_THROTTLE_TIME = 12.25, 123456.5


def _with_nan(one: Scrape) -> bytes:
    """Replaces a mean by NaN, Kafka's mean without events."""
    assert b"123456.5" in one.value()
    return one.value().replace(b"123456.5", b"NaN")


def of_tenants(k: int) -> dict[Any, float]:
    samples: dict[Any, float] = {}
    for i, (user, client_id) in enumerate(TENANTS.values()):
        labels = labels_of(user, client_id)
        samples |= {(Metric.MUTATION_RATE, labels): 5 * i + k, (Metric.MUTATION_TOKENS, labels): -10.5 * i - k}
        samples[Metric.MUTATION_THROTTLE_TIME, labels] = THROTTLE_TIME if i else NO_THROTTLE_TIME
    return samples


case("tenants", *[of_tenants(k) for k in range(4)], role=NodeRole.CONTROLLER)
CASES["tenants"] = [
    one
    for k, t in enumerate(TIMES)
    for one in at(t, _with_nan(scrape(t, of_tenants(k), node=len(CASES), role=NodeRole.CONTROLLER)))
]


@pytest.mark.parametrize("name", TENANTS)
def test_tenant_signal_has_every_field(measured: list[Signal], name: str) -> None:
    user, client_id = TENANTS[name]
    i = list(TENANTS).index(name)
    signal = newest(measured, TenantSignal, node=node_of("tenants"), user=user, client_id=client_id)
    assert signal == TenantSignal(
        "c",
        node_of("tenants"),
        T0 + 20_000,
        T0 + 15_000,
        samples=4,
        completeness=4 / 6,
        user=user,
        client_id=client_id,
        mutation_rate_per_s=5 * i + 3,
        tokens=-10.5 * i - 3,
        throttle_time_ms=THROTTLE_TIME if i else None,
    )


def test_tenant_metrics_alone_yield_only_tenant_signals(measured: list[Signal]) -> None:
    ours = [s for s in measured if getattr(s, "broker", getattr(s, "node", None)) == node_of("tenants")]
    assert {type(s) for s in ours} == {TenantSignal}
    assert len(ours) == 4 * len(TENANTS)


# -- all -------------------------------------------------------------------------------------------------------------


def test_signal_keys_are_unique_and_signals_encodable(measured: list[Signal]) -> None:
    keys = [signal_key(one) for one in measured]
    assert len(keys) == len(set(keys))
    assert all(encode_signal(one) for one in measured)


def test_backlog_signals_are_marked_as_backlog(spark: SparkSession) -> None:
    scrapes = [*CASES["both roles"], *CASES["tenants"], *CASES["a move"], scrape(0, {Metric.LAG_SUM: 1})]
    frame = build([(raw(spark, scrapes), OURS)], TOPICS, backlog=True)
    found = decoded(records(frame, TOPICS.signals))
    assert {type(s) for s in found} == {
        BrokerSignal, ControllerSignal, TenantSignal, MoveSignal, ReplicationSignal,
    }  # fmt: skip
    assert {s.backlog for s in found} == {True}


def parts(at_s: float, node: int, *cuts: Samples) -> list[Record]:
    """Returns one scrape in several records with their own milliseconds, as some collectors send it."""
    return [changed(scrape(at_s, cut, node=node), ts=T0 + round(at_s * 1000) + 40 * i) for i, cut in enumerate(cuts)]


def test_link_speed_is_that_of_the_fastest_interface(spark: SparkSession) -> None:
    """Node 1 gets the speeds in its scrapes; node 2 in records of their own, a second later; node 3 in those alone."""
    link = Metric.LINK_SPEED
    speeds: Samples = {(link, "device=eth0"): 125e6, (link, "device=bond0"): 250e6, (link, "device=eth1"): 125e6}
    own: list[Record] = []
    others: list[Record] = []
    for k in range(4):
        t = 5 * k
        client = {Metric.CLIENT_IN: 100.0 * t, Metric.PARTITION_COUNT: 1.0}
        own += [scrape(t, client | speeds, node=1), scrape(t, client, node=2)]
        if k < 3:
            one_by_one = [{labels: speed} for labels, speed in speeds.items()]
            others += at(t + 1, *(scrape(t + 1, one, node=node) for node in (2, 3) for one in one_by_one))
    found = decoded(records(build([(raw(spark, [*own, *others]), OURS)], TOPICS), TOPICS.signals))
    for node in (1, 2):
        signal = newest(found, BrokerSignal, broker=node)
        assert signal.link_speed_bytes_per_s == 250e6
        # The speeds are no scrape of the broker.
        assert (signal.sampled_at_ms, signal.samples) == (T0 + 15_000, 4)
        assert (signal.client_in_bytes_per_s, signal.step_s) == (100.0, newest(found, BrokerSignal, broker=1).step_s)
    assert {s.broker for s in found if isinstance(s, BrokerSignal)} == {1, 2}


@pytest.mark.parametrize("every_s", [5, 10])
def test_scrape_parts_are_joined_and_gauges_expire_when_overdue(spark: SparkSession, every_s: int) -> None:
    """Node 1 sends whole scrapes, 2 sends parts, 3 misses the second scrape, 4 has a gauge in the first only."""
    whole: list[Record] = []
    count_of = WINDOW_S // every_s
    for k in range(count_of):
        t = k * every_s
        idle, partitions = {Metric.HANDLER_IDLE: 0.5 + k / 100}, {Metric.PARTITION_COUNT: 10.0 + k}
        counter = {Metric.CLIENT_IN: 100.0 * t}
        whole.append(scrape(t, {**idle, **partitions, **counter}, node=1))
        whole += at(t, *parts(t, 2, idle, counter, partitions, {Metric.LEADER_COUNT: 3.0}))
        if k != 1:
            whole.append(scrape(t, {**idle, **counter}, node=3))
        whole.append(scrape(t, {**counter, **(idle if k == 0 else {})}, node=4))
    our = Input(OURS.format, OURS.source, every_ms=every_s * 1000)
    found = decoded(records(build([(raw(spark, whole), our)], TOPICS), TOPICS.signals))

    last_s = (count_of - 1) * every_s
    for node in (1, 2):
        signal = newest(found, BrokerSignal, broker=node)
        assert (signal.samples, signal.completeness) == (count_of, 1.0)
        assert (signal.client_in_bytes_per_s, signal.partitions) == (100.0, 10.0 + count_of - 1)
        assert signal.request_handler_idle_ratio == 0.5 + (count_of - 1) / 100
    assert newest(found, BrokerSignal, broker=2).leaders == 3.0
    gap = newest(found, BrokerSignal, broker=3)
    assert (gap.samples, gap.completeness) == (count_of - 1, pytest.approx(1 - 1 / count_of))
    gauges = {
        s.sampled_at_ms - T0: s.request_handler_idle_ratio
        for s in found
        if isinstance(s, BrokerSignal) and s.broker == 4
    }
    # At the next scrape it is one interval old, at the one after two.
    expected = {k * every_s * 1000: 0.5 if k <= 1 else None for k in range(count_of)}
    assert gauges == expected
    assert last_s * 1000 in gauges
