"""The picture: axes that can be read, limits that are gaps where none stands, and the same text for the same lines."""

from __future__ import annotations

import math
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheostat.plot import Line, Panel, _moments, _scale, svg
from rheostat.simulate.picture import picture
from rheostat.simulate.policies import policy_of
from rheostat.simulate.scenario_file import load_scenario
from rheostat.units import rate_text
from tuner.simulation.run import run

TIMES_S = [0.0, 10.0, 20.0, 30.0]
SVG = "{http://www.w3.org/2000/svg}"


def drawn(*lines: Line) -> ElementTree.Element:
    return ElementTree.fromstring(svg("a & b", "<none>", TIMES_S, [Panel("rates", lines, rate_text)]))


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def paths(root: ElementTree.Element) -> list[str]:
    return [element.attrib["d"] for element in root.iter(f"{SVG}path")]


def test_a_panel_has_axes_units_and_a_legend() -> None:
    root = drawn(Line("broker 1", [0.0, 40e6, 80e6, 20e6], "#000"), Line("throttle", [50e6] * 4, "#000", dashed=True))
    said = texts(root)
    assert said[:3] == ["a & b", "<none>", "rates"]
    assert {"20.0 MB/s", "80.0 MB/s", "0", "broker 1", "throttle", "5 s", "30 s", "simulated time"} <= set(said)
    assert "100 MB/s" not in said
    dashes = [element.attrib.get("stroke-dasharray") for element in root.iter(f"{SVG}path")]
    assert dashes == [None, "6 4"]


def test_a_point_lies_where_its_value_is() -> None:
    """720 wide from 90 on for 30 s; 148 high from 228 upwards for 80 MB/s."""
    root = drawn(Line("b", [0.0, 40e6, 80e6, 20e6], "#000"))
    assert paths(root) == ["M90.0 228.0 L330.0 154.0 L570.0 80.0 L810.0 191.0"]


def test_where_no_throttle_stands_there_is_a_gap() -> None:
    root = drawn(Line("t", [10e6, math.inf, 10e6, math.nan], "#000"))
    assert paths(root) == ["M90.0 80.0 M570.0 80.0"]


def test_nothing_to_draw_is_drawn() -> None:
    root = ElementTree.fromstring(svg("t", "s", [], [Panel("rates", (), rate_text)]))
    assert "rates" in texts(root)


@pytest.mark.parametrize(
    ("highest", "step", "top"),
    [(0.0, 1.0, 1.0), (1.0, 0.2, 1.0), (80e6, 20e6, 80e6), (101.0, 50.0, 150.0), (5.0, 1.0, 5.0), (0.3, 0.1, 0.3)],
)
def test_the_scale_has_round_steps(highest: float, step: float, top: float) -> None:
    assert _scale(highest) == pytest.approx((step, top))


@given(st.floats(1e-3, 1e15))
def test_no_value_leaves_the_panel(highest: float) -> None:
    step, top = _scale(highest)
    assert top >= highest * (1 - 1e-6)
    assert 1 <= round(top / step) <= 5


@pytest.mark.parametrize(
    ("end_s", "moments"),
    [(10.0, 11), (60.0, 7), (777.0, 7), (7200.0, 9), (864_000.0, 11)],
)
def test_the_time_axis_has_about_ten_round_moments(end_s: float, moments: int) -> None:
    assert len(_moments(0.0, end_s)) == moments


def test_a_run_is_drawn_with_its_throttles_and_the_objective() -> None:
    scenario = load_scenario("kip73-3node-2to1")
    _, policy = policy_of("as-is", scenario)
    trace = run(replace(scenario.world, duration_s_max=30.0), policy)
    found = picture(scenario, trace)
    said = texts(ElementTree.fromstring(found))
    assert found == picture(scenario, trace)
    assert said[:2] == ["kip73-3node-2to1", "policy as-is, seed 1: did not end; a point is 1 s"]
    assert {"broker 2", "broker 3: throttle", "broker 1", "broker 1: throttle", "objective", "slowest broker"} <= set(
        said
    )
    assert said.count("broker 1") == 1, "broker 1 takes and gives nothing"
    without, policy = policy_of("none", scenario)
    free = picture(scenario, run(replace(without.world, duration_s_max=30.0), policy))
    assert "throttle</text>" not in free.replace("throttles</text>", "")
