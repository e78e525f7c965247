"""Scenario files: the worlds they describe, and the messages for invalid files."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from rheostat.config.yaml_file import _models_in
from rheostat.errors import BadInputError
from rheostat.simulate.policies import parse_policy
from rheostat.simulate.scenario_file import load_scenario, parse_scenario, shipped_scenarios
from rheostat.simulate.scenario_schema import ScenarioSchema
from streaming.shared.contract import Side
from tuner.core.throttle_limits import ThrottleLimits
from tuner.simulation.moves import NoSuchMove, apply_plan, drain, join, replace_brokers
from tuner.simulation.policy import LoopPolicy
from tuner.simulation.run import run
from tuner.simulation.scenario import (
    Scenario,
    Topic,
    lay_out,
    sum_side_loads,
    with_throttle,
    without_throttle,
)
from tuner.simulation.world import (
    BrokerLoss,
    ControllerStorm,
    InitialRate,
    LeaderMove,
    LinkStep,
    LoadStep,
    OperatorWrite,
    PartitionSpec,
    SignalOutage,
    TopicLists,
)

SMALL = """\
about: two words
brokers: 3
link: 1GB/s
disk: 500MB/s
topics:
  - {name: t, partitions: 4, size: 1GB, write: 2MB/s, replication: 2, brokers: [1, 2]}
move:
  add: [3]
"""
# Too large to be run in a test.
LARGE = {"brokers-100", "brokers-1000"}


def scenario_of(more: str = "", text: str = SMALL) -> Scenario:
    return parse_scenario(text + more, "f.yaml", name="f")


def messages_for(more: str = "", text: str = SMALL) -> list[str]:
    with pytest.raises(BadInputError) as caught:
        scenario_of(more, text)
    assert caught.value.exit_code == 2
    return str(caught.value).splitlines()


# -- shipped scenarios -------------------------------------------------------------------------------------------------


def test_shipped_scenarios_have_known_names() -> None:
    assert set(shipped_scenarios()) == {
        "kip73-2node", "kip73-2node-produce", "kip73-3node-1to2", "kip73-3node-1to2-produce", "kip73-3node-2to1",
        "kip73-3node-2to1-produce", "broker-add", "broker-replace", "decommission", "hot-partition", "diurnal",
        "load-step", "disk-bound", "fetcher-collision", "infeasible-throttle", "flapping-isr", "stale-metrics",
        "brokers-100", "brokers-1000",
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(shipped_scenarios()))
def test_shipped_scenario_loads_with_description_moves_and_rates(name: str) -> None:
    scenario = load_scenario(name)
    assert scenario.about.endswith(".")
    assert scenario.world.moving
    assert scenario.world.rates, "each scenario begins under a throttle"


@pytest.mark.parametrize("name", sorted(set(shipped_scenarios()) - LARGE))
def test_small_shipped_scenario_runs_for_a_minute(name: str) -> None:
    scenario = load_scenario(name)
    trace = run(
        replace(scenario.world, duration_s_max=60.0),
        LoopPolicy(ThrottleLimits(scenario.rate_bytes_per_s_max)),
        settle_s=0.0,
    )
    assert trace.summary.caught_up_bytes > 0
    assert len(trace.remaining_bytes) <= 60


@pytest.mark.parametrize(
    ("name", "sources", "targets", "moved"),
    [
        ("kip73-2node", {1}, {2}, 100),
        ("kip73-3node-1to2", {1}, {2, 3}, 100),
        ("kip73-3node-2to1", {2, 3}, {1}, 66),
        ("brokers-100", set(range(1, 91)), set(range(91, 101)), 180),
    ],
)
def test_shipped_scenario_moves_data_between_named_brokers(
    name: str, sources: set[int], targets: set[int], moved: int
) -> None:
    moving = load_scenario(name).world.moving
    assert {p.replicas[0] for p in moving} <= sources
    assert {b for p in moving for b in p.adding} == targets
    assert sum(len(p.adding) for p in moving) == moved


def test_fetcher_collision_scenario_uses_one_fetcher_thread() -> None:
    from tuner.simulation.replicas import fetcher_id

    world = load_scenario("fetcher-collision").world
    assert world.fetch.fetchers == 4
    assert {(p.replicas[0], p.adding, fetcher_id(p.topic, p.partition, 4)) for p in world.moving} == {
        (1, (4,), fetcher_id("events", 0, 4))
    }


# -- the world of a file ---------------------------------------------------------------------------------------------------


def test_scenario_file_becomes_a_world() -> None:
    scenario = scenario_of("throttle: 50MB/s\n")
    world = scenario.world
    assert (scenario.name, scenario.about) == ("f", "two words")
    assert scenario.rate_bytes_per_s_max == 800e6, "80 % of the link"
    assert [b.broker for b in world.brokers] == [1, 2, 3]
    assert world.brokers[0].link_in_bytes_per_s == 1e9
    assert world.brokers[0].disk_write_bytes_per_s == 500e6
    assert world.duration_s_max == 3600.0
    assert [p.replicas for p in world.partitions] == [(1, 2), (2, 1), (1, 2), (2, 1)]
    # 8 replicas, 3 brokers: two go to the third; followers, one from each.
    assert [(p.partition, p.adding, p.removing) for p in world.moving] == [(0, (3,), (2,)), (1, (3,), (1,))]
    assert world.lists == (TopicLists("t", leader="0:1,0:2,1:2,1:1", follower="0:3,1:3"),)
    assert set(world.rates) == {InitialRate(b, side, 50_000_000) for b in (1, 2, 3) for side in Side}


def test_scenario_without_throttle_sets_no_rates_or_lists() -> None:
    assert scenario_of().world.rates == ()
    assert scenario_of().world.lists == ()


def test_brokers_may_be_listed_with_their_own_links() -> None:
    text = SMALL.replace("brokers: 3\n", "brokers: [1, {id: 2, link: 2Gbit/s}, {id: 3, disk: 100MB/s}]\n")
    brokers = scenario_of(text=text).world.brokers
    assert [b.link_out_bytes_per_s for b in brokers] == [1e9, 250e6, 1e9]
    assert [b.disk_read_bytes_per_s for b in brokers] == [500e6, 500e6, 100e6]
    assert scenario_of(text=text).rate_bytes_per_s_max == 200e6


def test_scenario_accepts_kafka_reassignment_json() -> None:
    plan = (
        '{"version": 1, "partitions": [{"topic": "t", "partition": 2, "replicas": [1, 3], "log_dirs": ["any", "any"]}]}'
    )
    moving = scenario_of(text=SMALL.replace("add: [3]", f"plan: {plan}")).world.moving
    assert [(p.partition, p.adding, p.removing) for p in moving] == [(2, (3,), (2,))]


def test_scenario_load_and_disturbances_are_parsed() -> None:
    world = scenario_of("""\
load:
  {writes: 10MB/s, reads: 20MB/s, reads_per_write: 2, daily: 20%, day: 30min, phase: 5min, noise: 5%,
   steps: [{at: 0, until: 1min, factor: 2, brokers: [1]}, {at: 1min, until: 2min, factor: 3}]}
disturbances:
  - {what: slow_link, at: 1s, until: 2s, factor: 0.5, brokers: [2]}
  - {what: broker_down, at: 1s, until: 2s, broker: 2}
  - {what: no_signals, at: 1s, until: 2s}
  - {what: controller_busy, at: 1s, until: 2s, operations_per_s: 100}
  - {what: leader_change, at: 1s, topic: t, partition: 0, to: 2}
  - {what: operator_sets, at: 1s, broker: 1, side: leader, rate: 5MB/s}
  - {what: operator_sets, at: 2s, broker: 1, side: follower, rate: null}
latency: {base: 10ms, objective: 40ms}
signals: {every: 10s, delay: 0, delay_max: 1s, loss: 50%}
fetch: {threads: 2, quota_samples: 3}
begin: 10s
seed: 5
""").world
    load = world.loads[0]
    assert (load.in_bytes_per_s, load.out_bytes_per_s, load.reads_per_write) == (10e6, 20e6, 2.0)
    assert (load.daily_ratio, load.day_s, load.daily_phase_s, load.noise_ratio) == (0.2, 1800.0, 300.0, 0.05)
    assert world.disturbances == (
        LoadStep(0.0, 60.0, (1,), 2.0),
        LoadStep(60.0, 120.0, (1, 2, 3), 3.0),
        LinkStep(1.0, 2.0, (2,), 0.5),
        BrokerLoss(1.0, 2.0, 2),
        SignalOutage(1.0, 2.0, (1, 2, 3)),
        ControllerStorm(1.0, 2.0, 100.0),
        LeaderMove(1.0, "t", 0, 2),
        OperatorWrite(1.0, 1, Side.LEADER, 5_000_000),
        OperatorWrite(2.0, 1, Side.FOLLOWER, None),
    )
    assert world.latency.objective_utilisation == 0.75
    assert world.latency.objective_ms == pytest.approx(40.0)
    assert (world.delivery.scrape_every_s, world.delivery.delay_s_min, world.delivery.loss_ratio) == (10.0, 0.0, 0.5)
    assert (world.fetch.fetchers, world.fetch.quota_samples) == (2, 3)
    assert (world.moves_begin_s, world.seed) == (10.0, 5)


def test_seed_determines_spread_of_partition_sizes() -> None:
    text = SMALL.replace("partitions: 4", "partitions: 2000, spread: 50%")

    def sizes(seed: int) -> list[float]:
        return [p.size_bytes for p in parse_scenario(text, "f", name="f", seed=seed).world.partitions]

    assert sizes(1) == sizes(1)
    assert sizes(1) != sizes(2)
    assert sum(sizes(1)) / 2000 == pytest.approx(1e9, rel=0.05)
    assert {p.size_bytes for p in scenario_of().world.partitions} == {1e9}


# -- moves ---------------------------------------------------------------------------------------------------------------

BROKERS = tuple(range(1, 9))  # Enough to drain two brokers of partitions with six replicas.


@st.composite
def layouts(draw: st.DrawFn) -> list[PartitionSpec]:
    on = tuple(range(1, draw(st.integers(2, 6)) + 1))
    leaders = tuple(sorted(draw(st.sets(st.sampled_from(on), min_size=1))))
    replication = draw(st.integers(1, len(on)))
    return lay_out([Topic("t", draw(st.integers(1, 40)), 1e9, 1e6, replication, on, leaders)], seed=1)


def replicas_after(p: PartitionSpec) -> tuple[int, ...]:
    return tuple(b for b in (*p.replicas, *p.adding) if b not in p.removing)


def assert_moves_are_valid(before: list[PartitionSpec], moved: list[PartitionSpec]) -> None:
    for old, new in zip(before, moved, strict=True):
        assert old.replicas == new.replicas
        assert len(set(old.replicas)) == len(old.replicas)
        assert len(set(replicas_after(new))) == len(replicas_after(new)) == len(old.replicas)
        assert not set(new.adding) & set(old.replicas)


@given(layouts())
def test_joining_brokers_take_an_even_share(before: list[PartitionSpec]) -> None:
    moved = join(before, [7, 8])
    assert_moves_are_valid(before, moved)
    held = {b for p in before for b in p.replicas}
    share = sum(len(p.replicas) for p in before) // (len(held) + 2)
    taken = [sum(b in p.adding for p in moved) for b in (7, 8)]
    assert all(t <= share for t in taken)
    # A partition moves once: with few partitions, the shares are smaller.
    assert sum(taken) == min(2 * share, len(before))


@given(layouts(), st.sets(st.integers(1, 6), min_size=1, max_size=2))
def test_drained_brokers_keep_no_replica(before: list[PartitionSpec], leaving: set[int]) -> None:
    moved = drain(before, sorted(leaving), BROKERS)
    assert_moves_are_valid(before, moved)
    assert not any(leaving & set(replicas_after(p)) for p in moved)


def test_drained_replicas_go_to_least_loaded_brokers() -> None:
    before = [PartitionSpec("t", p, 1e9, 0.0, (1, 2)) for p in range(4)]
    assert [p.adding for p in drain(before, [2], [1, 2, 3, 4])] == [(3,), (4,), (3,), (4,)]


def test_drained_replicas_of_one_partition_go_to_different_brokers() -> None:
    """Broker 4 still has the smallest load after the first replica, but cannot hold two of one partition."""
    busy = [PartitionSpec("u", p, 1e9, 0.0, (3,)) for p in range(5)]
    moved = drain([PartitionSpec("t", 0, 1e9, 0.0, (1, 2)), *busy], [1, 2], [1, 2, 3, 4])
    assert moved[0].adding == (4, 3)


def test_replaced_broker_hands_over_its_replicas() -> None:
    before = [PartitionSpec("t", 0, 1e9, 0.0, (1, 2)), PartitionSpec("t", 1, 1e9, 0.0, (2, 3))]
    assert [(p.adding, p.removing) for p in replace_brokers(before, {1: 4})] == [((4,), (1,)), ((), ())]
    with pytest.raises(NoSuchMove, match="without a replica of t-0, found 2"):
        replace_brokers(before, {1: 2})


def test_plan_sets_exactly_the_requested_replicas() -> None:
    before = [PartitionSpec("t", 0, 1e9, 0.0, (1, 2, 3))]
    (moved,) = apply_plan(before, {("t", 0): (4, 2)})
    assert (moved.adding, moved.removing) == ((4,), (1, 3))
    (shrunk,) = apply_plan(before, {("t", 0): (2, 3)})
    assert (shrunk.replicas, shrunk.adding) == ((2, 3), ())


def test_steady_state_of_leader_side_counts_every_follower() -> None:
    loads = sum_side_loads(scenario_of().world)
    # Partition 0 is led by 1 and fetched by 2 and 3 at 2 MB/s each.
    assert loads[1, Side.LEADER].steady_state_bytes_per_s == 4e6
    assert loads[3, Side.FOLLOWER].steady_state_bytes_per_s == 4e6
    assert loads[3, Side.FOLLOWER].remaining_bytes == 2e9


def test_throttle_can_be_added_and_removed() -> None:
    world = scenario_of().world
    assert {r.rate_bytes_per_s for r in with_throttle(world, 7).rates} == {7}
    assert without_throttle(with_throttle(world, 7)) == world


# -- bad input -----------------------------------------------------------------------------------------------------------


def test_every_fault_is_named_with_its_line() -> None:
    assert messages_for(
        "lod: {writes: 1}\nthrottle: -3MB/s\nload: {noise: 120%}\nsignals: {every: 0}\nseed: 1.5\n"
    ) == [
        "f.yaml:11: load.noise: expected a share from 0% to 100%, or from 0 to 1, found '120%'",
        "f.yaml:10: throttle: expected a rate such as 50MB/s, 1.5GiB/s, 10Gbit/s, or a plain number of bytes/s, found '-3MB/s'",
        "f.yaml:13: seed: input should be a valid integer, got a number with a fractional part, found 1.5",
        "f.yaml:12: signals.every: expected a time above 0 such as 90s, 45min, 1h30m, or a plain number of seconds, found '0'",
        "f.yaml:9: lod: unknown key: did you mean load?",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("link: 1GB/s\n", "", "f.yaml:1: link: is missing: network rate of a broker in each direction"),
        ("write: 2MB/s", "write: 2Mb/s", "f.yaml:6: topics[0].write: expected a rate such as"),
        ("write: 2MB/s", "wrte: 2MB/s", "f.yaml:6: topics[0].wrte: unknown key: did you mean write?"),
        ("size: 1GB, ", "", "f.yaml:6: topics[0].size: is missing: size of each partition"),
        ("partitions: 4, ", "", "f.yaml:6: topics[0].partitions: is missing: give the number of partitions"),
        ("add: [3]", "add: [3]\nload: {reads_per_write: .inf}", "load.reads_per_write: input should be a finite number, found inf"),
        ("brokers: 3", "brokers: 0", "f.yaml:2: brokers: expected 1 to 10000 brokers, found 0"),
        ("brokers: 3", "brokers: three", "f.yaml:2: brokers: expected a number of brokers, or a list of them, found 'three'"),
        ("brokers: 3", "brokers: [1, 2, 3, 2]", "f.yaml:2: brokers[3]: broker 2 is listed twice"),
        ("brokers: [1, 2]", "brokers: [1, 7]", "f.yaml:6: topics[0].brokers: unknown broker 7, there are 1, 2, 3"),
        ("brokers: [1, 2]", "brokers: [1]", "topics[0].brokers: expected at least as many brokers as replicas (2), found 1"),
        ("brokers: [1, 2]", "replicas: [[1, 1]]", "f.yaml:6: topics[0].replicas[0][1]: replica on broker 1 is listed twice"),
        ("brokers: [1, 2]", "replicas: [[1, 2]]", "topics[0].partitions: expected not to be set together with replicas"),
        ("brokers: [1, 2]", "leaders: [3]", "topics[0].leaders: expected only brokers that hold the topic (1, 2), found 3"),
        ("  add: [3]", "  add: [4]", "f.yaml:8: move.add: unknown broker 4, there are 1, 2, 3"),
        ("  add: [3]", "  add: [2]", "f.yaml:8: move.add: expected brokers that hold nothing yet, found 2"),
        ("  add: [3]", "  add: []", "f.yaml:8: move.add: expected at least one, found none"),
        ("  add: [3]", "  {}", "f.yaml:7: move: expected exactly one of add, drain, replace and plan; found none"),
        ("  add: [3]", "  {add: [3], drain: [1]}", "move: expected exactly one of add, drain, replace and plan; found add and drain"),
        ("  add: [3]", "  drain: [1, 2, 3]", "f.yaml:8: move.drain: expected a broker that can take t-0 from broker 1"),
        ("  add: [3]", "  drain: [3]", "f.yaml:7: move: expected something to copy"),
        ("  add: [3]", "  replace: {1: 9}", "f.yaml:8: move.replace[1]: unknown broker 9, there are 1, 2, 3"),
        (
            "  add: [3]",
            "  plan: {partitions: [{topic: u, partition: 0, replicas: [1]}]}",
            "f.yaml:8: move.plan.partitions[0].topic: unknown topic u, there are t",
        ),
        (
            "  add: [3]",
            "  plan: {partitions: [{topic: t, partition: 9, replicas: [1, 1]}]}",
            "f.yaml:8: move.plan.partitions[0].partition: t has no partition 9, there are 0 to 3",
        ),
        ("about: two words", "about: a\nabout: b", "f.yaml:2: about is repeated; it is already in line 1"),
        ("about: two words", "about: [", "f.yaml:3: not YAML: "),
    ],
)  # fmt: skip
def test_invalid_scenario_key_is_refused_with_its_line(old: str, new: str, message: str) -> None:
    assert message in "\n".join(messages_for(text=SMALL.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("{what: broker_down, at: 1s, until: 2s, broker: 9}", "disturbances[0].broker: unknown broker 9, there are 1, 2, 3"),
        ("{what: broker_down, at: 3s, until: 2s, broker: 1}", "disturbances[0]: expected `until` to be later than `at`, found 2.0 s and 3.0 s"),
        ("{what: broker_down, at: 2h, until: 3h, broker: 1}", "disturbances[0].at: expected a time before the end (1 h)"),
        ("{what: broker_down, at: 1s, until: 2s}", "disturbances[0].broker: is missing: the broker that is down"),
        ("{what: broker_up, at: 1s}", "disturbances[0].what: expected one of slow_link, broker_down, no_signals,"),
        ("{at: 1s}", "disturbances[0].what: expected the kind of this item, found none"),
        ("{what: broker_down, at: 1s, until: 2s, brokr: 1}", "disturbances[0].brokr: unknown key: did you mean broker?"),
        ("{what: leader_change, at: 1s, topic: t, partition: 4, to: 1}", "t has no partition 4, there are 0 to 3"),
    ],
)  # fmt: skip
def test_impossible_disturbance_is_refused_with_its_line(more: str, message: str) -> None:
    found = messages_for(f"disturbances:\n  - {more}\n")
    assert any(line.startswith("f.yaml:10: ") and message in line for line in found)


def test_deadline_below_fastest_possible_schedule_is_refused() -> None:
    """2 GB go to broker 3, whose disk has 0.9 × 500 − 4 MB/s left: 4.5 s."""
    (message,) = messages_for("deadline: 4s\n")
    assert message == "f.yaml:9: deadline: expected at least 4.5 s, the fastest possible schedule, found 4.0 s"
    assert scenario_of("deadline: 5s\n").deadline_s == 5.0


def test_duration_with_too_many_samples_is_refused() -> None:
    assert messages_for("duration: 100d\n") == [
        "f.yaml:9: duration: expected at most 77 d 4 h with 3 brokers, found 100 d"
    ]


@pytest.mark.parametrize("text", ["", "- 1\n", "just words\n"])
def test_file_without_mapping_is_refused(text: str) -> None:
    (message,) = messages_for(text=text)
    assert message.startswith("f.yaml:1: expected keys and values, found ")


@given(st.text(max_size=60), st.sampled_from(["{}", SMALL + "{}", SMALL.replace("1GB", "{}")]))
def test_any_text_is_parsed_or_refused(text: str, place: str) -> None:
    """The only error that may be raised is the one that names the faults."""
    with contextlib.suppress(BadInputError):
        scenario_of(text=place.replace("{}", text))


def test_missing_scenario_file_names_the_shipped_ones() -> None:
    with pytest.raises(
        BadInputError, match=r"no-such-file: cannot be read: .*\nexpected a file, or one of broker-add, "
    ):
        load_scenario("no-such-file")


@pytest.mark.parametrize(
    ("name", "moved_bytes", "steady_state_bytes_per_s"),
    [
        ("kip73-2node", 10e9, 0.0),
        ("kip73-2node-produce", 10e9, 10e6),
        ("kip73-3node-1to2", 10e9, 0.0),
        ("kip73-3node-1to2-produce", 10e9, 20e6),  # To an in-sync follower, too.
        ("kip73-3node-2to1", 6.6e9, 0.0),
        ("kip73-3node-2to1-produce", 6.6e9, 6.6e6),
    ],
)
def test_kip_73_moves_run_at_quota_minus_steady_state(
    name: str, moved_bytes: float, steady_state_bytes_per_s: float
) -> None:
    scenario, policy = parse_policy("as-is", load_scenario(name))
    trace = run(scenario.world, policy, settle_s=0.0)
    expected_s = moved_bytes / (50e6 - steady_state_bytes_per_s)
    assert trace.summary.completed
    assert 0.97 * expected_s <= trace.summary.duration_s <= 1.15 * expected_s


def test_manual_names_every_scenario_key() -> None:
    manual = (Path(__file__).resolve().parents[4] / "docs" / "how-to" / "simulate-a-move.md").read_text()

    def keys(model: type[BaseModel]) -> Iterator[str]:
        for key, field in model.model_fields.items():
            yield key
            for inner in _models_in(field.annotation):
                yield from keys(inner)

    prose = re.sub(r"```.*?```", "", manual, flags=re.S)
    words = set(re.findall(r"[a-z_0-9]+", " ".join(re.findall(r"`[^`]+`", prose))))
    assert set(keys(ScenarioSchema)) <= words
