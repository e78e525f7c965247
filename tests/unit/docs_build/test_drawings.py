"""The drawn pictures of the documentation: well-formed, the same each time, with the names and times of the code."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from docs_build.architecture_drawing import draw_architecture
from docs_build.fail_over_drawing import TAKE_OVER_S_MAX, draw_fail_over
from docs_build.page import ROOT
from docs_build.rescue_plot import draw_rescue_plot, read_recording
from streaming.shared.contract import Topics
from streaming.shared.lease import SESSION_S
from tuner.runtime.fencing import PROOF_S_MAX

SVG = "{http://www.w3.org/2000/svg}"


def words_of(picture: str) -> set[str]:
    return {element.text or "" for element in ElementTree.fromstring(picture).iter(f"{SVG}text")}


@pytest.mark.parametrize("draw", [draw_architecture, draw_fail_over, draw_rescue_plot])
def test_picture_is_deterministic_and_keeps_within_its_frame(draw: Callable[[], str]) -> None:
    picture = draw()
    assert picture == draw()
    root = ElementTree.fromstring(picture)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for element in [*root.iter(f"{SVG}text"), *root.iter(f"{SVG}rect")]:
        x, y = float(element.attrib.get("x", 0)), float(element.attrib.get("y", 0))
        assert 0 <= x <= width - float(element.attrib.get("width", 0)) + 0.1
        assert 0 <= y <= height - float(element.attrib.get("height", 0)) + 0.1


def test_architecture_names_the_topics_of_the_code() -> None:
    topics = Topics.with_prefix("rheostat")
    words = words_of(draw_architecture())
    assert {topics.metrics, topics.signals, topics.history, topics.profiles, f"topic {topics.journal}"} <= words


def test_fail_over_shows_the_order_that_fencing_needs() -> None:
    assert PROOF_S_MAX < SESSION_S < TAKE_OVER_S_MAX
    checked = (ROOT / "tests" / "integration" / "test_one_hand.py").read_text(encoding="utf-8")
    assert f"\nTAKE_OVER_S_MAX = {TAKE_OVER_S_MAX}\n" in checked


def test_recorded_rescue_shows_what_the_caption_says() -> None:
    recording = read_recording()
    at_s = {event.label: round(event.at_s) for event in recording.events}
    assert list(at_s) == ["move starts", "tuner starts", "stall found", "move complete", "throttle removed"]
    remaining = [n or 0 for n in recording.remaining_bytes]
    assert remaining[at_s["stall found"]] > remaining[at_s["move starts"] + 2], "the bytes left to copy grow"
    stalled = recording.leader_throttle_bytes_per_s[at_s["stall found"] - 2]
    highest = max(rate or 0 for rate in recording.leader_throttle_bytes_per_s)
    assert stalled is not None
    assert stalled < recording.steady_state_bytes_per_s < highest
    assert recording.leader_throttle_bytes_per_s[-1] is None, "the throttle is removed"
    assert remaining[-1] == 0
