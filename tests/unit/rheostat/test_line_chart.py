"""The line chart: readable axes, gaps without a value, marks, captions, and equal SVG for equal lines."""

from __future__ import annotations

import math
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheostat.errors import BadInputError
from rheostat.line_chart import (
    COLOURS,
    DARK_STYLE,
    GREY,
    Line,
    Mark,
    Panel,
    _scale,
    _time_ticks,
    check_plot_path,
    svg,
    write_plot,
)
from streaming.shared.units import rate_text

TIMES_S = [0.0, 10.0, 20.0, 30.0]
SVG = "{http://www.w3.org/2000/svg}"


def drawn(*lines: Line) -> ElementTree.Element:
    return ElementTree.fromstring(svg("a & b", "<none>", TIMES_S, [Panel("rates", lines, rate_text)]))


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def paths(root: ElementTree.Element) -> list[str]:
    return [element.attrib["d"] for element in root.iter(f"{SVG}path")]


def test_panel_has_axes_units_and_a_legend() -> None:
    root = drawn(Line("broker 1", [0.0, 40e6, 80e6, 20e6], "#000"), Line("throttle", [50e6] * 4, "#000", dashed=True))
    said = texts(root)
    assert said[:3] == ["a & b", "<none>", "rates"]
    assert {"20.0 MB/s", "80.0 MB/s", "0", "broker 1", "throttle", "5 s", "30 s", "simulated time"} <= set(said)
    assert "100 MB/s" not in said
    dashes = [element.attrib.get("stroke-dasharray") for element in root.iter(f"{SVG}path")]
    assert dashes == [None, "6 4"]


def test_point_is_drawn_at_its_scaled_position() -> None:
    """The panel is 720 wide from x = 90 for 30 s, and 148 high from y = 228 upwards for 80 MB/s."""
    root = drawn(Line("b", [0.0, 40e6, 80e6, 20e6], "#000"))
    assert paths(root) == ["M90.0 228.0 L330.0 154.0 L570.0 80.0 L810.0 191.0"]


def test_line_has_a_gap_without_throttle() -> None:
    root = drawn(Line("t", [10e6, math.inf, 10e6, math.nan], "#000"))
    assert paths(root) == ["M90.0 80.0 M570.0 80.0"]


def test_panel_without_lines_is_drawn() -> None:
    root = ElementTree.fromstring(svg("t", "s", [], [Panel("rates", (), rate_text)]))
    assert "rates" in texts(root)


@pytest.mark.parametrize(
    ("highest", "step", "top"),
    [(0.0, 1.0, 1.0), (1.0, 0.2, 1.0), (80e6, 20e6, 80e6), (101.0, 50.0, 150.0), (5.0, 1.0, 5.0), (0.3, 0.1, 0.3)],
)
def test_the_scale_has_round_steps(highest: float, step: float, top: float) -> None:
    assert _scale(highest) == pytest.approx((step, top))


@given(st.floats(1e-3, 1e15))
def test_scale_covers_the_highest_value(highest: float) -> None:
    step, top = _scale(highest)
    assert top >= highest * (1 - 1e-6)
    assert 1 <= round(top / step) <= 5


@pytest.mark.parametrize(
    ("end_s", "moments"),
    [(10.0, 11), (60.0, 7), (777.0, 7), (7200.0, 9), (864_000.0, 11)],
)
def test_the_time_axis_has_about_ten_round_moments(end_s: float, moments: int) -> None:
    assert len(_time_ticks(0.0, end_s)) == moments


def marked(*marks: Mark, caption: str = "") -> ElementTree.Element:
    lines = (Line("b", [1.0] * 4, "#000"),)
    return ElementTree.fromstring(
        svg("t", "s", TIMES_S, [Panel("rates", lines, rate_text)], marks=marks, caption=caption)
    )


def test_stepped_line_holds_each_value() -> None:
    root = drawn(Line("t", [40e6, 40e6, 80e6, math.nan], "#000", stepped=True))
    assert paths(root) == ["M90.0 154.0 L330.0 154.0 L570.0 154.0 L570.0 80.0"]


def test_marks_are_drawn_at_their_time_without_covering_each_other() -> None:
    root = marked(Mark(10.0, "stall found"), Mark(11.0, "raised"), Mark(25.0, "complete"))
    labels = {e.text: (e.attrib["x"], e.attrib["y"]) for e in root.iter(f"{SVG}text")}
    assert (labels["stall found"], labels["raised"], labels["complete"]) == (
        ("334.0", "68"),
        ("358.0", "85"),
        ("694.0", "68"),
    )
    lines = [e.attrib["d"] for e in root.iter(f"{SVG}path") if e.attrib.get("class") == "mark"]
    # Two rows of labels move the panel down, to 92; its title stays free, and every line reaches its bottom.
    assert lines == [
        "M330.0 58 V70 M330.0 110 V262",
        "M354.0 75 V87 M354.0 110 V262",
        "M690.0 58 V70 M690.0 110 V262",
    ]


def test_caption_is_wrapped_below_the_panels_without_parting_units() -> None:
    root = marked(caption="Broker 4 copies 744 MB/s & more. " * 8)
    height = float(root.attrib["height"])
    captions = [e for e in root.iter(f"{SVG}text") if "copies" in (e.text or "")]
    assert len(captions) == 3
    assert all(228 < float(e.attrib["y"]) < height and len(e.text or "") <= 118 for e in captions)
    assert "744\u00a0MB/s" in (captions[0].text or "")


def test_each_colour_is_readable_on_the_dark_background() -> None:
    """WCAG asks for a contrast of 3 for graphics, and 4.5 for text."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(one: str, other: str) -> float:
        low, high = sorted((luminance(one), luminance(other)))
        return (high + 0.05) / (low + 0.05)

    replaced = dict(re.findall(r'\[stroke="(#\w+)"\] { stroke: (#\w+) }', DARK_STYLE))
    background = re.search(r'rect\[fill="white"\] { fill: (#\w+) }', DARK_STYLE)
    assert background is not None
    for colour in (*COLOURS, GREY):
        assert contrast(replaced.get(colour, colour), background[1]) >= 4.5
    for text in re.findall(r"text\S* { fill: (#\w+) }", DARK_STYLE):
        assert contrast(text, background[1]) >= 4.5


def test_plot_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    check_plot_path(tmp_path / "a.svg")
    with pytest.raises(BadInputError, match=r"--plot .*gone.a\.svg: the folder .*gone does not exist"):
        check_plot_path(tmp_path / "gone" / "a.svg")
    with pytest.raises(BadInputError, match="cannot be written: Is a directory"):
        write_plot(tmp_path, "<svg/>")
    write_plot(tmp_path / "a.svg", "µ")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == "µ"
