"""The chart of a simulated run: its panels, its caption, and equal SVG for equal runs."""

from __future__ import annotations

import math
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from rheostat.simulate.chart import draw_run, panels
from rheostat.simulate.policies import parse_policy
from rheostat.simulate.scenario_file import load_scenario
from tuner.simulation.run import run
from tuner.simulation.scenario import Scenario
from tuner.simulation.trace import RunSummary, Trace
from tuner.simulation.world import BrokerSpec, World

SVG = "{http://www.w3.org/2000/svg}"


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def paths(root: ElementTree.Element) -> list[str]:
    return [element.attrib["d"] for element in root.iter(f"{SVG}path")]


def test_run_is_drawn_with_throttles_and_objective() -> None:
    scenario = load_scenario("kip73-3node-2to1")
    _, policy = parse_policy("as-is", scenario)
    trace = run(replace(scenario.world, duration_s_max=30.0), policy)
    found = draw_run(scenario, trace)
    said = texts(ElementTree.fromstring(found))
    assert found == draw_run(scenario, trace)
    assert said[:2] == ["kip73-3node-2to1", "policy as-is, seed 1: did not end; a point is 1 s"]
    assert {"broker 2", "broker 3: throttle", "broker 1", "broker 1: throttle", "objective", "slowest broker"} <= set(
        said
    )
    assert said.count("broker 1") == 1, "broker 1 takes and gives nothing"
    assert any("the objective of 50" in text for text in said), "the caption"
    without, policy = parse_policy("none", scenario)
    free = draw_run(scenario, run(replace(without.world, duration_s_max=30.0), policy))
    assert "throttle</text>" not in free.replace("throttles</text>", "")


# -- what the panels of a run show: four seconds of three brokers, every number by hand ---------------------------------------

SOURCES = [[30e6, 0.0, 10e6], [30e6, 0.0, 10e6], [20e6, 0.0, 0.0], [20e6, 0.0, 0.0]]
TARGETS = [[0.0, 40e6, 0.0], [0.0, 40e6, 0.0], [0.0, 20e6, 0.0], [0.0, 20e6, 0.0]]
LEADERS = [[50e6, math.inf, 50e6], [40e6, math.inf, math.inf], [30e6, math.inf, 20e6], [20e6, math.inf, 20e6]]
FOLLOWERS = [[math.inf, 60e6, math.inf]] * 4
P99_MS = [[5.0, 10.0, 6.0], [5.0, 60.0, 7.0], [5.0, 20.0, 9.0], [5.0, 20.0, 8.0]]
LEFT = [100e6, 60e6, 40e6, 0.0]


def example_trace() -> Trace:
    summary = RunSummary(True, 4.0, 2.0, 2.0, 0.0, 0.0, 1.0, 0.0, 0.0, 100e6)
    world = World(seed=7, brokers=tuple(BrokerSpec(b, 125e6, 125e6, 400e6, 400e6) for b in (1, 2, 3)), partitions=())
    nothing = np.zeros((4, 3))
    return Trace(
        world, "by hand", summary, utilisation=nothing, p99_ms=np.array(P99_MS), client_in_bytes_per_s=nothing,
        client_out_bytes_per_s=nothing, catch_up_in_bytes_per_s=np.array(TARGETS), catch_up_out_bytes_per_s=np.array(SOURCES),
        leader_rate_bytes_per_s=np.array(LEADERS), follower_rate_bytes_per_s=np.array(FOLLOWERS), remaining_bytes=np.array(LEFT),
    )  # fmt: skip


def shown(bin_s: int) -> list[tuple[str, dict[str, tuple[list[float], bool]]]]:
    """Returns each panel's title, and by legend name the values and whether the line is dashed."""
    return [
        (panel.title, {line.label: (list(line.values), line.dashed) for line in panel.lines})
        for panel in panels(example_trace(), bin_s)
    ]


def test_each_panel_has_its_expected_series() -> None:
    inf = math.inf
    assert shown(1) == [
        (
            "Copied out of brokers, and the leader throttles",
            {
                "broker 1": ([30e6, 30e6, 20e6, 20e6], False),
                "broker 1: throttle": ([50e6, 40e6, 30e6, 20e6], True),
                "broker 3": ([10e6, 10e6, 0.0, 0.0], False),
                "broker 3: throttle": ([50e6, inf, 20e6, 20e6], True),
            },
        ),
        (
            "Copied into brokers, and the follower throttles",
            {"broker 2": ([40e6, 40e6, 20e6, 20e6], False), "broker 2: throttle": ([60e6] * 4, True)},
        ),
        ("Left to copy", {"all moves": ([100e6, 60e6, 40e6, 0.0], False)}),
        (
            "Clients' p99, the worst second of each point",
            {
                "slowest broker": ([10.0, 60.0, 20.0, 20.0], False),
                "median broker": ([6.0, 7.0, 9.0, 8.0], False),
                "objective": ([pytest.approx(50.0)] * 4, True),
            },
        ),
    ]


def test_point_is_mean_of_seconds_but_worst_latency() -> None:
    out, _, left, p99 = (lines for _, lines in shown(2))
    assert out["broker 1"][0] == [30e6, 20e6]
    assert out["broker 1: throttle"][0] == [45e6, 25e6]
    assert out["broker 3: throttle"][0] == [math.inf, 20e6], "where none stood for a second there is a gap"
    assert left["all moves"][0] == [80e6, 20e6]
    assert p99["slowest broker"][0] == [60.0, 20.0]
    assert len(p99["objective"][0]) == 2
    assert [len(values) for _, lines in shown(3) for values, _ in lines.values()] == [2] * 10


def test_drawn_panels_keep_order_and_position() -> None:
    """The throttle of broker 2 is constantly 60 of 80 MB/s: a line at three quarters of the second panel."""
    root = ElementTree.fromstring(draw_run(Scenario("s", "", example_trace().world, 1e8), example_trace()))
    said = texts(root)
    titles = [title for title, _ in shown(1)]
    assert [text for text in said if text in titles] == titles
    drawn_as = dict(zip([name for _, lines in shown(1) for name in lines], paths(root), strict=True))
    # 148 high from 444 upwards, for 60 MB/s in steps of 20.
    assert drawn_as["broker 2: throttle"] == "M90.0 296.0 L330.0 296.0 L570.0 296.0 L810.0 296.0"
    assert drawn_as["broker 2"] == "M90.0 345.3 L330.0 345.3 L570.0 394.7 L810.0 394.7"
    assert drawn_as["all moves"] == "M90.0 512.0 L330.0 571.2 L570.0 600.8 L810.0 660.0"


def test_panel_shows_only_the_busiest_brokers() -> None:
    trace = example_trace()
    wide = np.tile([[1e6, 5e6, 0.0, 3e6, 4e6, 2e6]], (4, 1))
    world = replace(trace.world, brokers=tuple(BrokerSpec(b, 1e8, 1e8, 1e8, 1e8) for b in range(1, 7)))
    free = np.full((4, 6), math.inf)
    trace = replace(
        trace, world=world, catch_up_out_bytes_per_s=wide, catch_up_in_bytes_per_s=wide, leader_rate_bytes_per_s=free,
        follower_rate_bytes_per_s=free, p99_ms=wide,
    )  # fmt: skip
    first = panels(trace, 1)[0]
    assert first.title == "Copied out of brokers, and the leader throttles (the busiest 4 of 5)"
    assert [line.label for line in first.lines] == ["broker 2", "broker 4", "broker 5", "broker 6"]
