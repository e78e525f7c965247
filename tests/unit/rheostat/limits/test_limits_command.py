"""`rheostat limits` as a person types it: what is full, what is asked for, and what is said to bad input."""

from __future__ import annotations

import io
import json

import pytest
from command_rig import Command
from rich.console import Console

from rheostat.errors import BadInputError
from rheostat.limits.command import plan_of, wanted_of
from rheostat.limits.overrides import LimitOverrides
from rheostat.limits.report import Fill, LimitsReport, as_record, report
from rheostat.limits.view import sentences, show
from streaming.shared.kafka.cluster import PartitionState
from tuner.core.partition_limits import UNLIMITED, PartitionCounts, PartitionLimits
from tuner.planning.placement import PlacementRequest
from tuner.settings.partition_limits import LimitsSettings

refused = Command("limits").refused

RACKS = {1: "a", 2: "b", 3: None}
COUNTS = PartitionCounts({1: 40, 2: 32, 3: 10, 4: 5})  # Broker 4 is down.


def made(*limits: int, binding: bool = True, **by_broker: int) -> LimitsReport:
    own = {int(name.removeprefix("broker_")): value for name, value in by_broker.items()}
    return report("a test", RACKS, COUNTS, PartitionLimits(*limits, by_broker=own), binding=binding)


def test_every_broker_has_its_room_and_the_one_that_is_down_is_there_too() -> None:
    found = made(40, 100)
    assert [(r.broker, r.partitions, r.headroom, r.fill.value, r.alive) for r in found.brokers] == [
        (1, 40, 0, "full", True), (2, 32, 8, "nearly_full", True), (3, 10, 30, "ok", True), (4, 5, 35, "ok", False),
    ]  # fmt: skip
    assert (found.cluster.partitions, found.cluster.headroom, found.cluster.fill) == (87, 13, Fill.NEARLY_FULL)
    assert found.exit_code() == 1


def test_eighty_percent_is_a_warning_and_an_excess_is_not_well() -> None:
    assert made(50, 1000).worst is Fill.NEARLY_FULL
    assert made(50, 1000).exit_code() == 0
    assert made(50, 1000, broker_1=39).worst is Fill.OVER
    assert made(50, 86).cluster.fill is Fill.OVER
    assert made(51, 1000).worst is Fill.OK
    assert made(0).brokers[2].share == 1.0


def test_it_is_said_in_sentences() -> None:
    assert sentences(made(40, 100)) == [
        "Limits: max.broker.partitions=40, max.partitions=100.",
        "The cluster has 87 partitions of 100, 87.0 %: room for 13 more.",
        "Broker 1 has 40 partitions of 40: what is there goes on working, and it gets no more.",
        "Broker 2 has 32 partitions of 40, 80.0 %: room for 8 more.",
    ]
    assert sentences(made(4000, 200_000, binding=False)) == [
        "No limits are given: compared with max.broker.partitions=4000, max.partitions=200000, the Kafka project's "
        "recommendation, which KIP-578 cites.",
        "There is room everywhere.",
    ]


def test_the_table_has_every_broker() -> None:
    out = io.StringIO()
    show(made(UNLIMITED, 100), Console(file=out, width=150, no_color=True))
    (four,) = [line.split() for line in out.getvalue().splitlines() if line.split()[:2] == ["broker", "4"]]
    assert four == ["broker", "4", "5", "unlimited", "down"]


def test_the_record_says_null_where_there_is_no_limit() -> None:
    found = json.loads(json.dumps(as_record(made(UNLIMITED, 100, broker_3=20))))
    assert (found["max.broker.partitions"], found["max.partitions"]) == (None, 100)
    assert found["cluster"] == {
        "partitions": 87,
        "limit": 100,
        "headroom": 13,
        "share": 0.87,
        "fill": "nearly_full",
        "projection": None,
    }
    assert found["brokers"][2] == {
        "broker": 3, "alive": True, "rack": None, "partitions": 10, "limit": 20, "headroom": 10, "share": 0.5, "fill": "ok",
        "projection": None,
    }  # fmt: skip
    assert (found["brokers"][0]["limit"], found["brokers"][0]["headroom"]) == (None, None)


# -- what is asked for -----------------------------------------------------------------------------------------------------


NOTHING_SET = LimitsSettings()


def test_limits_as_given() -> None:
    assert LimitOverrides().over(NOTHING_SET) is None
    assert LimitOverrides("kafka").over(NOTHING_SET) == PartitionLimits(4000, 200_000)
    assert LimitOverrides("msk.large", partitions_max=9).over(NOTHING_SET) == PartitionLimits(1000, 9)
    assert LimitOverrides(broker_partitions_max=5, by_broker=["3=7", "4=0"]).over(NOTHING_SET) == PartitionLimits(
        5, by_broker={3: 7, 4: 0}
    )


SET = LimitsSettings(preset="kafka", max_partitions=50_000, by_broker={3: 2000, 4: 100})


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        (LimitOverrides(), PartitionLimits(4000, 50_000, {3: 2000, 4: 100})),
        (LimitOverrides(broker_partitions_max=7), PartitionLimits(7, 50_000, {3: 2000, 4: 100})),
        (
            LimitOverrides("msk.large"),
            PartitionLimits(1000, 50_000, {3: 2000, 4: 100}),
        ),  # It says nothing of the cluster.
        (LimitOverrides("kafka"), PartitionLimits(4000, 200_000, {3: 2000, 4: 100})),
        (LimitOverrides("kafka", partitions_max=9), PartitionLimits(4000, 9, {3: 2000, 4: 100})),
        (LimitOverrides(by_broker=["4=200", "5=0"]), PartitionLimits(4000, 50_000, {3: 2000, 4: 200, 5: 0})),
    ],
)
def test_options_are_over_settings_number_by_number(given: LimitOverrides, limits: PartitionLimits) -> None:
    assert given.over(SET) == limits


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (LimitOverrides("huge"), "--preset: expected one of kafka, msk.t3.small, msk.large"),
        (LimitOverrides(by_broker=["3"]), "--broker-limit: expected BROKER=PARTITIONS such as 3=2000, found '3'"),
        (LimitOverrides(by_broker=["3=-1"]), "found '3=-1'"),
        (LimitOverrides(by_broker=["3=1", "3=2"]), "--broker-limit: broker 3 is given twice"),
    ],
)
def test_limits_that_are_none_are_refused(given: LimitOverrides, named: str) -> None:
    with pytest.raises(BadInputError) as refusal:
        given.check()
    assert named in str(refusal.value)


THERE = [PartitionState("orders", n, 1, (1, 2), (1, 2)) for n in range(4)]


def test_an_existing_topic_is_given_what_it_lacks_with_its_own_factor() -> None:
    assert wanted_of("orders", 10, None, THERE, 3) == PlacementRequest("orders", 6, 2)
    moving = [PartitionState("orders", 0, 1, (1, 2, 3), (1, 2), adding=(3,), removing=(2,))]
    assert wanted_of("orders", 2, 2, moving, 3) == PlacementRequest("orders", 1, 2)
    assert wanted_of("new", 3, 2, [], 3) == PlacementRequest("new", 3, 2)
    assert plan_of("orders", 4, [(1, 2), (3, 1)]) == {
        "version": 1,
        "partitions": [
            {"topic": "orders", "partition": 4, "replicas": [1, 2]}, {"topic": "orders", "partition": 5, "replicas": [3, 1]},
        ],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("topic", "partitions", "replication", "named"),
    [
        ("orders", 4, None, "--partitions: topic orders has 4 already"),
        ("orders", 5, 3, "--replication: topic orders exists with replication factor 2"),
        ("new", 5, None, "--replication: missing, and there is no topic new"),
        ("new", 5, 4, "INVALID_REPLICATION_FACTOR: 4 replicas need as many brokers, 3 are alive"),
        ("new", 10_001, 1, "--partitions: Kafka creates at most 10000 at a time, found 10001"),
    ],
)
def test_what_kafka_would_not_do_is_refused(topic: str, partitions: int, replication: int | None, named: str) -> None:
    with pytest.raises(BadInputError) as refusal:
        wanted_of(topic, partitions, replication, THERE if topic == "orders" else [], 3)
    assert named in str(refusal.value)


PLACE = ["place", "-c", "none.yaml"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "'--config': missing"),
        (["-c", "none.yaml"], "none.yaml: cannot be read: No such file or directory"),
        (["-c", "none.yaml", "--preset", "huge"], "--preset: expected one of kafka"),
        (["-c", "none.yaml", "--max-partitions", "-1"], "--max-partitions"),
        (["-c", "none.yaml", "--max-broker-partitions", "many"], "--max-broker-partitions"),
        (["--json", *PLACE], "'--json': options go behind place, not before it"),
        ([*PLACE, "--partitions", "3"], "--topic"),
        ([*PLACE, "--topic", "a"], "--partitions"),
        ([*PLACE, "--topic", "a", "--partitions", "0"], "--partitions"),
        ([*PLACE, "--topic", "a/b", "--partitions", "3"], "--topic: expected 1 to 249 letters, digits"),
        ([*PLACE, "--topic", "..", "--partitions", "3"], "and neither . nor .., found '..'"),
        (
            [*PLACE, "--topic", "a", "--partitions", "3", "--broker-limit", "x"],
            "--broker-limit: expected BROKER=PARTITIONS",
        ),
    ],
)
def test_bad_input_is_refused_by_name(arguments: list[str], named: str) -> None:
    assert named in " ".join(refused(*arguments).replace("│", " ").split())
