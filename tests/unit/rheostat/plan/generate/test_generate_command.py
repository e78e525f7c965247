"""`rheostat plan generate`: the plans, their costs, and the refusals of bad input."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import replace

import pytest
from command_rig import Command

from rheostat.errors import BadInputError, CommandError
from rheostat.plan.cluster_layout import ClusterLayout, find_dead_leaders
from rheostat.plan.estimate.report import EstimateOptions
from rheostat.plan.generate.command import check_nothing_moves, estimate_generated, leaderless_note, make_loads
from rheostat.plan.generate.report import GeneratedPlanReport, plan_json, sentences, to_record
from rheostat.plan.generate.request import PlanRequest
from streaming.shared.kafka.cluster import PartitionState
from tuner.core.partition_limits import PartitionLimits
from tuner.planning.generate import GeneratedPlan, drain_brokers
from tuner.planning.kip73 import Kip73Figures
from tuner.planning.plan_file import PlanFile
from tuner.planning.plan_json import PlanFileError

refused = Command("plan generate").refused

MB = 1_000_000
STATES = [
    PartitionState("orders", 0, 2, (2, 1), (2, 1)),
    PartitionState("orders", 1, 1, (1, 2), (1, 2)),
    PartitionState("clicks", 0, 1, (1, 3), (1, 3)),
    PartitionState("lost", 0, -1, (2,), ()),
]
STANDING = ClusterLayout("a test", {1: "x", 2: "y", 3: "y"}, {(s.topic, s.partition): s for s in STATES})
SIZES = {("orders", 0): 40 * MB, ("orders", 1): 60 * MB, ("clicks", 0): 10 * MB}


def made(times: EstimateOptions = EstimateOptions(20 * MB), write: float = 1.0 * MB) -> GeneratedPlanReport:  # noqa: B008 - frozen
    loads = make_loads(STANDING, SIZES, PartitionLimits())
    before, hosted = dict(loads.held_bytes), dict(loads.hosted)
    plan = drain_brokers(loads, [2])
    found = estimate_generated(STANDING, SIZES, before, plan, dict.fromkeys(SIZES, write), times)
    return GeneratedPlanReport("a test", plan, before, hosted, found, leaderless_note(STANDING))


def test_sentences_drained_broker_has_cost_and_time() -> None:
    assert sentences(made()) == [
        "2 partitions move, with 100 MB to copy.",
        "  broker 2: 100 MB → 0 B, 3 → 1 partitions",
        "  broker 3: 10.0 MB → 110 MB, 1 → 3 partitions",
        "At 20.0 MB/s (20000000 bytes/s) the move takes 5.6 s.",
        "The plan leaves out partitions without a leader: lost-0. Start one of their brokers to include them.",
    ]


def test_plan_json_has_format_of_kafkas_tool() -> None:
    assert plan_json(made().plan) == {
        "version": 1,
        "partitions": [
            {"topic": "orders", "partition": 0, "replicas": [3, 1]}, {"topic": "orders", "partition": 1, "replicas": [1, 3]},
        ],
    }  # fmt: skip


def test_record_has_slowest_side_and_kip73_estimate() -> None:
    found = json.loads(json.dumps(to_record(made())))
    assert found["copied_bytes"] == 100 * MB
    assert found["estimate"]["per_side"]["slowest_side"] == {"broker": 3, "side": "follower"}  # 100 MB at 20 − 2 MB/s.
    assert found["estimate"]["per_side"]["time_s"] == pytest.approx(100 / 18)
    assert found["estimate"]["kip73"]["move_ratio"] == 2 / 4
    assert [row["held_bytes"] for row in found["brokers"]] == [110 * MB, 0, 110 * MB]
    assert (found["on_fewer_racks"], len(found["notes"])) == ([], 1)


def test_estimate_generated_too_low_throttle_exits_with_1() -> None:
    found = made(EstimateOptions(2 * MB), 3.0 * MB)
    assert found.estimate is not None
    assert found.estimate.exit_code() == 1
    assert "the move never ends" in "\n".join(sentences(found))


def test_estimate_generated_kip73_figures_cover_the_cluster() -> None:
    found = made().estimate
    assert found is not None
    assert found.figures.kip73 == Kip73Figures(0.5, (110 + 100 + 10) * MB / 3, 3, 2.0 * MB)


def test_sentences_empty_plan_and_fewer_racks() -> None:
    nothing = GeneratedPlanReport("a test", GeneratedPlan((), 0.0, {}, {}, ()), {}, {}, None)
    assert sentences(nothing) == ["There is nothing to move: the cluster already is as requested."]
    assert to_record(nothing)["plan"] is None
    together = tuple(("a", n) for n in range(7))
    crowded = GeneratedPlanReport("a test", GeneratedPlan(made().plan.targets, 0.0, {}, {}, together), {}, {}, None)
    assert sentences(crowded)[-1] == (
        "These partitions would be on fewer racks than before, because the other racks have no room: a-0, a-1, a-2, a-3, a-4 and 2 more."
    )


def test_check_nothing_moves_refuses_reassignments() -> None:
    check_nothing_moves(STANDING)
    moving = PartitionState("orders", 0, 2, (2, 1, 3), (2, 1), adding=(3,), removing=(1,))
    with pytest.raises(CommandError, match=r"1 partitions are being reassigned, orders-0 among them") as stopped:
        check_nothing_moves(ClusterLayout("a test", {1: None}, {("orders", 0): moving}))
    assert stopped.value.exit_code == 1


def test_find_dead_leaders_finds_leader_that_is_not_alive() -> None:
    assert find_dead_leaders(STANDING) == [], "lost-0 has no leader at all"
    assert find_dead_leaders(ClusterLayout("a test", {2: None}, STANDING.partitions)) == [1]


# -- which move ------------------------------------------------------------------------------------------------------------

ALIVE, KNOWN = (1, 2, 3), (1, 2, 3, 9)


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (PlanRequest(), "Give exactly one of --add-broker, --drain-broker, --replace, --rebalance; found none"),
        (PlanRequest(add=[4], rebalance=True), "found --add-broker and --rebalance"),
        (PlanRequest(drain=[4, 4]), "--drain-broker: broker 4 is given twice"),
        (PlanRequest(drain=[4], tolerance=0.1), "--tolerance: --drain-broker does not rebalance"),
        (PlanRequest(replace=["2"]), "--replace: expected OLD=NEW such as 2=5, found '2'"),
        (PlanRequest(replace=["2=x"]), "found '2=x'"),
        (PlanRequest(replace=["2=3", "2=4"]), "--replace: broker 2 is given twice"),
        (
            PlanRequest(replace=["2=3", "3=4"]),
            "--replace: broker 3 cannot be replaced and be a replacement at the same time",
        ),
        (PlanRequest(replace=["2=2"]), "--replace: broker 2 cannot be replaced and be a replacement at the same time"),
    ],
)
def test_plan_request_check_names_wrong_option(asked: PlanRequest, named: str) -> None:
    with pytest.raises(BadInputError) as refusal:
        asked.check()
    assert named in str(refusal.value)


@pytest.mark.parametrize(
    ("asked", "alive", "named"),
    [
        (PlanRequest(add=[9]), ALIVE, "--add-broker: broker 9 is not alive: expected one of 1, 2, 3"),
        (PlanRequest(drain=[7]), ALIVE, "--drain-broker: broker 7 does not exist: expected one of 1, 2, 3, 9"),
        (PlanRequest(replace=["7=3"]), ALIVE, "--replace: broker 7 does not exist"),
        (PlanRequest(replace=["2=9"]), ALIVE, "--replace: broker 9 is not alive"),
        (PlanRequest(add=[1, 2, 3]), ALIVE, "--add-broker: there is no other broker"),
        (PlanRequest(drain=[1, 2, 3]), ALIVE, "--drain-broker: no living broker would be left"),
    ],
)
def test_plan_request_check_brokers_names_missing_broker(
    asked: PlanRequest, alive: Collection[int], named: str
) -> None:
    asked.check()
    with pytest.raises(BadInputError) as refusal:
        asked.check_brokers(alive, KNOWN)
    assert named in str(refusal.value)


def test_plan_request_check_brokers_accepts_dead_source() -> None:
    PlanRequest(drain=[9]).check_brokers(ALIVE, KNOWN)
    PlanRequest(replace=["9=3"]).check_brokers(ALIVE, KNOWN)


def test_plan_request_generate_each_kind() -> None:
    def planned(asked: PlanRequest) -> int:
        return len(asked.generate(make_loads(STANDING, SIZES, PartitionLimits())).targets)

    assert planned(PlanRequest(drain=[2])) == 2
    assert planned(PlanRequest(replace=["2=3"])) == 2
    assert planned(PlanRequest(add=[3])) == 1
    assert planned(PlanRequest(rebalance=True)) == 1
    assert planned(PlanRequest(rebalance=True, tolerance=1.0)) == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--rebalance"], "'--config'"),
        (["-c", "none.yaml"], "Give exactly one of --add-broker"),
        (["-c", "none.yaml", "--add-broker", "four"], "--add-broker"),
        (["-c", "none.yaml", "--add-broker", "-1"], "--add-broker"),
        (["-c", "none.yaml", "--rebalance", "--tolerance", "10"], "'--tolerance': expected a share from 0% to 100%"),
        (["-c", "none.yaml", "--rebalance", "--throttle", "0"], "'--throttle': expected more than 0"),
        (["-c", "none.yaml", "--rebalance", "--within", "soon"], "'--within': expected a time"),
        (["-c", "none.yaml", "--rebalance", "--preset", "huge"], "--preset: expected one of kafka"),
        (["-c", "none.yaml", "--rebalance"], "none.yaml: cannot be read"),
    ],
)
def test_bad_input_is_refused_by_name(arguments: list[str], named: str) -> None:
    assert named in " ".join(refused(*arguments).replace("│", " ").split())


def test_cordon_is_in_the_plan_file_and_told() -> None:
    report = replace(made(), cordon=(2,))
    assert plan_json(report.plan, report.cordon)["cordon"] == [2]
    assert to_record(report)["plan"]["cordon"] == [2]
    assert any(
        line.startswith("`rheostat reassign start` cordons broker 2 before the first step")
        for line in sentences(report)
    )
    assert PlanFile(json.dumps(plan_json(report.plan, report.cordon)), "plan.json").cordon == (2,)
    assert PlanFile(json.dumps(plan_json(report.plan)), "plan.json").cordon == ()


@pytest.mark.parametrize("cordon", ["[]", "3", "[-1]", "[3, 3]", '["3"]'])
def test_plan_file_with_wrong_cordon_is_refused_with_its_line(cordon: str) -> None:
    moves = '[{"topic": "t", "partition": 0, "replicas": [1]}]'
    text = f'{{"version": 1,\n"partitions": {moves},\n"cordon": {cordon}}}'
    with pytest.raises(PlanFileError, match=r"plan.json:3: cordon"):
        PlanFile(text, "plan.json")


@pytest.mark.parametrize(
    ("request_", "cordoned", "message"),
    [
        (PlanRequest(add=(3,)), {3}, "--add-broker: broker 3 is cordoned, so it takes no new replicas"),
        (PlanRequest(replace=("1=3",)), {3}, "--replace: broker 3 is cordoned, so it takes no new replicas"),
        (PlanRequest(drain=(1,)), {2, 3}, "--drain-broker: every other living broker is cordoned"),
    ],
)
def test_cordoned_broker_of_the_request_is_refused(request_: PlanRequest, cordoned: set[int], message: str) -> None:
    with pytest.raises(BadInputError, match=re.escape(message)):
        request_.check_brokers({1, 2, 3}, {1, 2, 3}, cordoned)
    request_.check_brokers({1, 2, 3}, {1, 2, 3}, ())


def test_cordon_needs_brokers_that_the_plan_empties() -> None:
    with pytest.raises(BadInputError, match="--cordon: --rebalance empties no broker"):
        PlanRequest(rebalance=True, cordon=True).check()
    assert PlanRequest(replace=("2=5",), cordon=True).cordoned == (2,)
    assert PlanRequest(drain=(4, 3), cordon=True).cordoned == (3, 4)
