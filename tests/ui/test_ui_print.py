"""The page on paper and at a wall: black on white without buttons, and charts that are read from two metres."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect
from test_ui_week import remember
from ui_kit import OPERATE_TOKEN, Seat

from benchmarks.pages.tuner import SimulatedTuner

# The luminance of each visible text against white; black is 0.
_LIGHTEST_TEXT = """() => Math.max(...[...document.querySelectorAll('main *')]
  .filter((place) => place.checkVisibility() && [...place.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
  .map((place) => Math.max(...getComputedStyle(place).color.match(/[0-9.]+/g).slice(0, 3).map(Number))))"""


@pytest.mark.parametrize("path", ["/", "/moves", "/brokers", "/controller"])
def test_printed_view_is_black_on_white_without_buttons(
    browser: Browser, guarded_tuner: SimulatedTuner, path: str
) -> None:
    seat = Seat(browser, guarded_tuner.address, path, dark=True)
    page = seat.page
    page.get_by_role("textbox", name="Token").fill(OPERATE_TOKEN)
    page.get_by_role("button", name="Use token").click()
    expect(page.locator("#link")).to_have_text("Live")
    expect(page.locator("main section div").first).not_to_be_empty()
    page.emulate_media(media="print")
    assert page.evaluate(_LIGHTEST_TEXT) <= 0x33
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("button:visible, form:visible, nav:visible").count() == 0
    assert page.pdf()[:5] == b"%PDF-"
    seat.close()


def test_broker_alone_has_charts_for_two_metres(browser: Browser, open_tuner: SimulatedTuner) -> None:
    seat = Seat(browser, open_tuner.address, "/brokers", width=1920, height=1080)
    page = seat.page
    chart = page.locator("#chart-3-follower")
    expect(chart.locator("canvas")).to_be_visible()
    small = chart.bounding_box()
    find = page.get_by_role("search", name="Brokers").get_by_label("Broker")
    find.fill("3")
    find.press("Tab")
    expect(page.locator("#brokers .card")).to_have_count(1)
    expect(chart.locator("canvas")).to_have_css("height", "320px")
    large = chart.bounding_box()
    assert small is not None
    assert large is not None
    assert large["height"] >= 2 * small["height"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert seat.wrong == []
    seat.close()


@pytest.mark.parametrize(
    ("path", "chart"), [("/brokers/3?last=7d", "#history-follower"), ("/brokers#week-3", "#week-in")]
)
@pytest.mark.parametrize(("width", "letters", "height"), [(1920, "20px", 256), (390, "13px", None)])
def test_charts_of_days_are_read_from_two_metres_and_on_a_phone(
    browser: Browser, open_tuner: SimulatedTuner, path: str, chart: str, width: int, letters: str, height: int | None
) -> None:
    """The letters of a canvas cannot be seen from outside, so the test notes the fonts that the page draws with."""
    remember(open_tuner)
    seat = Seat(browser, open_tuner.address, "/runbook", width=width, height=1080)
    seat.page.add_init_script("""
        window.fonts = new Set();
        const { fillText } = CanvasRenderingContext2D.prototype;
        CanvasRenderingContext2D.prototype.fillText = function (...given) { fonts.add(this.font); return fillText.apply(this, given); };
    """)
    seat.page.goto(f"{open_tuner.address}{path}")
    canvas = seat.page.locator(f"{chart} canvas")
    expect(canvas).to_be_visible()
    assert any(letters in font for font in seat.page.evaluate("[...fonts]"))
    if height is not None:
        expect(canvas).to_have_css("height", f"{height}px")
    assert seat.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert seat.wrong == []
    seat.close()
