"""`rheostat limits`: the report, the limits that apply, placement requests, and refused input."""

from __future__ import annotations

import io
import json

import pytest
from command_rig import Command
from rich.console import Console

from rheostat.errors import BadInputError
from rheostat.limits.command import open_racks, placement_json, placement_request
from rheostat.limits.overrides import LimitOverrides
from rheostat.limits.report import Fill, LimitsReport, as_record, build_report
from rheostat.limits.view import describe_report, show
from rheostat.plan.cluster_layout import ClusterLayout
from streaming.shared.kafka.cluster import PartitionState
from tuner.core.partition_limits import UNLIMITED, PartitionCounts, PartitionLimits
from tuner.planning.placement import PlacementRequest
from tuner.settings.partition_limits import LimitsSettings

refused = Command("limits").refused

RACKS = {1: "a", 2: "b", 3: None}
COUNTS = PartitionCounts({1: 40, 2: 32, 3: 10, 4: 5})  # Broker 4 is down.


def make_report(*limits: int, are_set: bool = True, by_broker: dict[int, int] | None = None) -> LimitsReport:
    return build_report("a test", RACKS, COUNTS, PartitionLimits(*limits, by_broker=by_broker or {}), are_set=are_set)


def test_report_has_headroom_of_every_broker_also_offline() -> None:
    report = make_report(40, 100)
    assert [(r.broker, r.partitions, r.headroom, r.fill.value, r.alive) for r in report.brokers] == [
        (1, 40, 0, "full", True), (2, 32, 8, "nearly_full", True), (3, 10, 30, "ok", True), (4, 5, 35, "ok", False),
    ]  # fmt: skip
    assert (report.cluster.partitions, report.cluster.headroom, report.cluster.fill) == (87, 13, Fill.NEARLY_FULL)
    assert report.exit_code() == 1
    assert make_report(0).brokers[2].share == 1.0


@pytest.mark.parametrize(
    ("report", "worst", "exit_code"),
    [
        (make_report(51, 1000), Fill.OK, 0),
        (make_report(50, 1000), Fill.NEARLY_FULL, 0),  # 80 %.
        (make_report(50, 1000, by_broker={1: 39}), Fill.OVER, 1),
        (make_report(50, 86), Fill.OVER, 1),  # The cluster.
    ],
)
def test_worst_fill_decides_the_exit_code(report: LimitsReport, worst: Fill, exit_code: int) -> None:
    assert (report.worst, report.exit_code()) == (worst, exit_code)


def test_describe_report_names_limits_and_full_brokers() -> None:
    assert describe_report(make_report(40, 100)) == [
        "Limits: max.broker.partitions=40, max.partitions=100.",
        "The cluster has 87 partitions of 100, 87.0 %: room for 13 more.",
        "Broker 1 has 40 partitions of 40: existing partitions keep working, and new ones are refused.",
        "Broker 2 has 32 partitions of 40, 80.0 %: room for 8 more.",
    ]
    assert describe_report(make_report(4000, 200_000, are_set=False)) == [
        "No limits are set: compared with max.broker.partitions=4000, max.partitions=200000, the Kafka project's "
        "recommendation, which KIP-578 cites.",
        "There is room everywhere.",
    ]


def test_table_has_offline_broker_without_limit() -> None:
    out = io.StringIO()
    show(make_report(UNLIMITED, 100), Console(file=out, width=150, no_color=True))
    (row,) = [line.split() for line in out.getvalue().splitlines() if line.split()[:2] == ["broker", "4"]]
    assert row == ["broker", "4", "5", "unlimited", "down"]


def test_record_without_limit_has_null() -> None:
    record = json.loads(json.dumps(as_record(make_report(UNLIMITED, 100, by_broker={3: 20}))))
    assert (record["max.broker.partitions"], record["max.partitions"]) == (None, 100)
    assert record["cluster"] == {
        "partitions": 87, "limit": 100, "headroom": 13, "share": 0.87, "fill": "nearly_full", "forecast": None,
    }  # fmt: skip
    assert record["brokers"][2] == {
        "broker": 3, "alive": True, "rack": None, "partitions": 10, "limit": 20, "headroom": 10, "share": 0.5, "fill": "ok",
        "forecast": None,
    }  # fmt: skip
    assert (record["brokers"][0]["limit"], record["brokers"][0]["headroom"]) == (None, None)


# -- overrides and requests ------------------------------------------------------------------------------------------------


NOT_SET = LimitsSettings()
SET = LimitsSettings(preset="kafka", max_partitions=50_000, by_broker={3: 2000, 4: 100})


@pytest.mark.parametrize(
    ("settings", "overrides", "limits"),
    [
        (NOT_SET, LimitOverrides(), None),
        (NOT_SET, LimitOverrides("kafka"), PartitionLimits(4000, 200_000)),
        (NOT_SET, LimitOverrides("msk.large", partitions_max=9), PartitionLimits(1000, 9)),
        (
            NOT_SET, LimitOverrides(broker_partitions_max=5, by_broker=["3=7", "4=0"]),
            PartitionLimits(5, by_broker={3: 7, 4: 0}),
        ),
        (SET, LimitOverrides(), PartitionLimits(4000, 50_000, {3: 2000, 4: 100})),
        (SET, LimitOverrides(broker_partitions_max=7), PartitionLimits(7, 50_000, {3: 2000, 4: 100})),
        (SET, LimitOverrides("msk.large"), PartitionLimits(1000, 50_000, {3: 2000, 4: 100})),  # No limit of the cluster.
        (SET, LimitOverrides("kafka"), PartitionLimits(4000, 200_000, {3: 2000, 4: 100})),
        (SET, LimitOverrides("kafka", partitions_max=9), PartitionLimits(4000, 9, {3: 2000, 4: 100})),
        (SET, LimitOverrides(by_broker=["4=200", "5=0"]), PartitionLimits(4000, 50_000, {3: 2000, 4: 200, 5: 0})),
    ],
)  # fmt: skip
def test_overrides_replace_settings_number_by_number(
    settings: LimitsSettings, overrides: LimitOverrides, limits: PartitionLimits | None
) -> None:
    assert overrides.apply_to(settings) == limits


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (LimitOverrides("huge"), "--preset: expected one of kafka, msk.t3.small, msk.large"),
        (LimitOverrides(by_broker=["3"]), "--broker-limit: expected BROKER=PARTITIONS such as 3=2000, found '3'"),
        (LimitOverrides(by_broker=["3=-1"]), "found '3=-1'"),
        (LimitOverrides(by_broker=["3=1", "3=2"]), "--broker-limit: broker 3 is given twice"),
    ],
)
def test_malformed_overrides_are_refused(overrides: LimitOverrides, message: str) -> None:
    with pytest.raises(BadInputError) as refusal:
        overrides.check()
    assert message in str(refusal.value)


ORDERS = [PartitionState("orders", n, 1, (1, 2), (1, 2)) for n in range(4)]
MOVING = [PartitionState("orders", 0, 1, (1, 2, 3), (1, 2), adding=(3,), removing=(2,))]


@pytest.mark.parametrize(
    ("topic", "partitions", "replication", "existing", "request_"),
    [
        ("orders", 10, None, ORDERS, PlacementRequest("orders", 6, 2)),
        ("orders", 2, 2, MOVING, PlacementRequest("orders", 1, 2)),
        ("new", 3, 2, [], PlacementRequest("new", 3, 2)),
    ],
)
def test_placement_request_has_missing_partitions_and_existing_factor(
    topic: str, partitions: int, replication: int | None, existing: list[PartitionState], request_: PlacementRequest
) -> None:
    assert placement_request(topic, partitions, replication, existing, (1, 2, 3), ()) == request_


def test_placement_json_numbers_new_partitions_after_existing_ones() -> None:
    assert placement_json("orders", 4, [(1, 2), (3, 1)]) == {
        "version": 1,
        "partitions": [
            {"topic": "orders", "partition": 4, "replicas": [1, 2]}, {"topic": "orders", "partition": 5, "replicas": [3, 1]},
        ],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("topic", "partitions", "replication", "message"),
    [
        ("orders", 4, None, "--partitions: topic orders already has 4"),
        ("orders", 5, 3, "--replication: topic orders exists with replication factor 2"),
        ("new", 5, None, "--replication: missing, and topic new does not exist"),
        ("new", 5, 4, "INVALID_REPLICATION_FACTOR: 4 replicas need 4 brokers, and 3 are alive"),
        ("new", 10_000, 1, "--partitions: Kafka creates at most 9999 partitions with one request, found 10000"),
        ("orders", 10_005, 2, "--partitions: Kafka creates at most 10000 partitions with one request, found 10001"),
    ],
)
def test_placement_request_that_kafka_refuses_is_bad_input(
    topic: str, partitions: int, replication: int | None, message: str
) -> None:
    with pytest.raises(BadInputError) as refusal:
        placement_request(topic, partitions, replication, ORDERS if topic == "orders" else [], (1, 2, 3), ())
    assert message in str(refusal.value)


def test_placement_counts_only_brokers_without_a_cordon() -> None:
    with pytest.raises(
        BadInputError, match=r"3 replicas need 3 brokers, and 2 are alive and not cordoned \(cordoned by cordoned"
    ):
        placement_request("new", 5, 3, [], (1, 2, 3), (3,))
    layout = ClusterLayout("here", {1: "a", 2: None, 3: "b"}, {})
    assert open_racks(layout, {3}) == {1: "a", 2: None}


PLACE = ["place", "-c", "none.yaml"]
CREATE = ["create", "-c", "none.yaml", "--topic", "a"]
CREATE_ALL = [*CREATE, "--partitions", "3", "--replication", "2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "'--config': no settings file is given"),
        (["-c", "none.yaml"], "none.yaml: cannot be read: No such file or directory"),
        (["-c", "none.yaml", "--preset", "huge"], "--preset: expected one of kafka"),
        (["-c", "none.yaml", "--max-partitions", "-1"], "--max-partitions"),
        (["-c", "none.yaml", "--max-broker-partitions", "many"], "--max-broker-partitions"),
        (["--json", *PLACE], "'--json': this option stands before the command `place`"),
        ([*PLACE, "--partitions", "3"], "--topic"),
        ([*PLACE, "--topic", "a"], "--partitions"),
        ([*PLACE, "--topic", "a", "--partitions", "0"], "--partitions"),
        ([*PLACE, "--topic", "a/b", "--partitions", "3"], "--topic: expected 1 to 249 letters, digits"),
        ([*PLACE, "--topic", "..", "--partitions", "3"], "and neither . nor .., found '..'"),
        ([*PLACE, "--topic", "a", "--partitions", "3", "--broker-limit", "x"], "--broker-limit: expected BROKER=PARTITIONS"),
        (CREATE, "--partitions"),
        ([*CREATE, "--partitions", "3"], "--replication"),
        ([*CREATE, "--partitions", "0", "--replication", "1"], "--partitions"),
        ([*CREATE_ALL, "--topic", "a b"], "--topic: expected 1 to 249 letters, digits"),
        ([*CREATE_ALL, "--preset", "huge"], "--preset: expected one of kafka"),
        ([*CREATE_ALL, "--topic-config", "retention.ms"], "--topic-config: expected KEY=VALUE such as retention.ms=86400000"),
        ([*CREATE_ALL, "--topic-config", "=5"], "--topic-config: expected KEY=VALUE"),
        ([*CREATE_ALL, "--topic-config", "a=1", "--topic-config", "a=2"], "--topic-config: a is given twice"),
        (CREATE_ALL, "none.yaml: cannot be read: No such file or directory"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_by_name(arguments: list[str], message: str) -> None:
    assert message in " ".join(refused(*arguments).replace("│", " ").split())
