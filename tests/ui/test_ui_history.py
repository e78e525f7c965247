"""The history of a broker in a real browser: charts, zoom and pan, the address, marks, keyboard, phone, axe, a long sleep."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from ui_kit import READ_TOKEN, OpenPage, open_pages

from benchmarks.pages.tuner import SimulatedTuner
from tuner.control.throttle.order_events import OrderEvent
from tuner.core.throttle_limits import MB, ThrottleLimits
from tuner.journal.entries import order_entry
from tuner.journal.term_entries import begin_term_entry, settings_in_force

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from week_cases import history_week

BROKER = 1
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
HOSTILE = "<img src=x onerror=alert(1)>\u202eトピック-" + "ж" * 200


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens pages, also without the token that they need."""
    with open_pages(browser, "401") as opened:
        yield opened


@pytest.fixture
def past_tuner(open_tuner: SimulatedTuner) -> SimulatedTuner:
    """A tuner during a rescue, with a history of twenty days, an earlier fail-over, and a pause."""
    tuner = open_tuner
    now_ms = round(tuner.now_s() * 1000)
    for period in history_week(tuner.board.cluster, (BROKER,), now_ms, 20):
        tuner.weeks.add(period, now_ms)
    tuner.weeks.mark_older_read()
    ceilings = {"host-a:1": (now_ms - 3 * DAY_MS, 30 * MB), "host-b:2": (now_ms - 5 * HOUR_MS, 600 * MB)}
    for holder, (at_ms, ceiling) in ceilings.items():
        settings = settings_in_force(ThrottleLimits(rate_bytes_per_s_max=ceiling), None)
        tuner.record(begin_term_entry(holder, "0.9", settings, at_ms, dry_run=False))
    tuner.record(order_entry(OrderEvent(f"rheostat is paused, by order of {HOSTILE}"), now_ms - 2 * HOUR_MS))
    return tuner


def ready(page: Page) -> None:
    expect(page.locator("#history-charts canvas")).to_have_count(4)
    expect(page.locator("#history-marks li").first).to_be_visible()


def test_history_opens_from_the_broker_with_charts_and_marks(past_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    seat = open_page(past_tuner, "/brokers")
    page = seat.page
    page.get_by_role("link", name="History of broker 1").click()
    ready(page)
    marks = page.locator("#history-marks")
    expect(marks).to_contain_text("fail-over")
    expect(marks).to_contain_text("order of an operator")
    expect(marks).to_contain_text("host-b:2 became active")
    leader = page.locator("#history-leader")
    expect(leader).to_have_attribute("aria-label", re.compile(r"leader side: replication .* throttle .* ceiling"))
    assert seat.axe() == []


def test_chart_draws_the_ceiling_of_each_time(past_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(past_tuner, "/brokers/1").page
    ready(page)
    held = page.evaluate("brokerHistory.answer().in_force.map((each) => each.rate_bytes_per_s_max)")
    assert held == [30 * MB, 600 * MB]
    ceilings = page.evaluate("[...new Set(brokerHistory.data('history-follower')[3])]")
    assert ceilings == [30, None]  # The present ceiling is far above the other lines, so the upper edge names it.
    expect(page.locator("#history-follower")).to_have_attribute("data-above", "↑ ceiling 600 MB/s")


def test_drag_zooms_and_the_address_keeps_the_range(past_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(past_tuner, "/brokers/1?last=7d").page
    ready(page)
    shown = page.locator("#history-range")
    expect(shown).to_contain_text("UTC: 7 d")
    over = page.locator("#history-latency .u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60, steps=5)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"\?from=.*&to="))
    expect(shown).to_contain_text(re.compile("UTC: 4[0-4] h"))
    zoomed = page.url
    page.go_back()
    expect(shown).to_contain_text("UTC: 7 d")
    other = open_page(past_tuner, zoomed.removeprefix(past_tuner.address)).page
    expect(other.locator("#history-range")).to_contain_text(re.compile("UTC: 4[0-4] h"))


def test_keyboard_and_buttons_move_in_time(past_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(past_tuner, "/brokers/1").page
    ready(page)
    shown = page.locator("#history-range")
    before = shown.text_content() or ""
    page.locator("#history-leader").focus()
    page.keyboard.press("ArrowLeft")
    expect(shown).not_to_have_text(before)
    expect(shown).to_contain_text("UTC: 24 h")
    page.locator("#history-leader").focus()
    page.keyboard.press("+")
    expect(shown).to_contain_text("UTC: 12 h")
    page.get_by_role("button", name="Zoom out").click()
    expect(shown).to_contain_text("UTC: 24 h")
    page.get_by_role("link", name="5 weeks").click()
    expect(shown).to_contain_text("UTC: 35 d")
    expect(page.get_by_role("link", name="5 weeks")).to_have_attribute("aria-current", "")


def test_click_on_a_mark_opens_its_decision(past_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    seat = open_page(past_tuner, "/brokers/1?last=6h")
    page = seat.page
    ready(page)
    share = page.evaluate("""() => {
      const { marks, from_ms, to_ms } = brokerHistory.answer();
      return (marks.find((mark) => mark.kind === 'fail_over').at_ms - from_ms) / (to_ms - from_ms);
    }""")
    box = page.locator("#history-lag .u-over").bounding_box()
    assert box is not None
    page.locator("#history-lag .u-over").click(position={"x": box["width"] * share, "y": 40})
    expect(page).to_have_url(re.compile("/decisions/[0-9]+$"))
    # Only the journal has this decision: the tuner that made it has ended.
    expect(page.locator("#decision")).to_contain_text("The tuner host-b:2 became active")
    assert seat.axe() == []


def test_click_on_the_line_opens_the_decision_before_it(past_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    past_tuner.advance(30)
    page = open_page(past_tuner, "/brokers/1").page
    ready(page)
    page.get_by_role("link", name="6 hours").click()
    expect(page.locator("#history-range")).to_contain_text("UTC: 6 h")
    box = page.locator("#history-leader .u-over").bounding_box()
    assert box is not None
    page.locator("#history-leader .u-over").click(position={"x": box["width"] - 4, "y": 40})
    # One decision ended the move, about all throttles.
    expect(page.locator("#decision")).to_contain_text("move_ended")
    page.get_by_role("region", name="Rates of this decision").get_by_role("link", name="1", exact=True).first.click()
    ready(page)
    expect(page.locator("#history-range")).to_contain_text(re.compile("UTC: (2 h|1[01][0-9] min|[0-9]{1,2} min)"))


def test_names_of_every_script_are_text(past_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(past_tuner, "/brokers/1").page
    ready(page)
    expect(page.locator("#history-marks")).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.locator("#history-marks img").count() == 0


def test_any_address_shows_a_range(past_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(past_tuner, "/brokers/1").page
    for address in ("?last=0h", "?last=9999d", "?from=x&to=y", "?from=2999-01-01&to=2999-01-02", "?last=%00"):
        page.goto(f"{past_tuner.address}/brokers/1{address}")
        expect(page.locator("#history-charts canvas")).to_have_count(4)
        expect(page.locator("#history-range")).to_contain_text("UTC")


def test_browser_that_slept_for_a_day_shows_the_present(past_tuner: SimulatedTuner, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.clock.install()
    page.goto(f"{past_tuner.address}/brokers/1?last=6h")
    ready(page)
    before_ms = page.evaluate("brokerHistory.answer().now_ms")
    past_tuner.advance(20)
    with page.expect_response(re.compile("/api/v1/brokers/1/history")) as answered:
        page.clock.fast_forward(DAY_MS)
    assert answered.value.json()["now_ms"] > before_ms
    expect(page.locator("#history-range")).to_contain_text("UTC: 6 h")
    context.close()


def test_history_waits_for_a_token(guarded_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    seat = open_page(guarded_tuner, "/brokers/1")
    page = seat.page
    page.get_by_role("textbox", name="Token").fill(READ_TOKEN)
    page.get_by_role("button", name="Use token").click()
    expect(page.locator("#history-charts canvas")).to_have_count(4)


def test_token_that_expires_on_the_page_is_asked_for_and_the_range_stays(
    guarded_tuner: SimulatedTuner, open_page: OpenPage
) -> None:
    page = open_page(guarded_tuner, "/brokers/1").page
    token = page.get_by_role("textbox", name="Token")
    token.fill(READ_TOKEN)
    page.get_by_role("button", name="Use token").click()
    expect(page.locator("#history-range")).to_contain_text("UTC: 24 h")
    page.evaluate("sessionStorage.setItem('rheostat-token', 'expired-0123456789abcdef')")
    page.get_by_role("link", name="Week", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text="The tuner refuses this token")).to_be_visible()
    token.fill(READ_TOKEN)
    page.get_by_role("button", name="Use token").click()
    expect(page.locator("#history-range")).to_contain_text("UTC: 7 d")
    expect(page).to_have_url(re.compile(r"\?last=7d$"))


def test_page_without_javascript_leads_to_the_history_in_words(past_tuner: SimulatedTuner, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{past_tuner.address}/brokers/1")
    page.get_by_role("link", name="The last day of this broker in words").click()
    expect(page.locator("body")).to_contain_text("throttle, leader")
    expect(page.locator("body")).to_contain_text("fail-over")
    context.close()


@pytest.mark.parametrize(("width", "dark"), [(1280, True), (390, False)])
def test_history_passes_axe_and_fits_a_phone(
    past_tuner: SimulatedTuner, open_page: OpenPage, width: int, dark: bool
) -> None:
    seat = open_page(past_tuner, "/brokers/1", width=width, dark=dark)
    ready(seat.page)
    assert seat.axe() == []
    assert seat.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "wider than the screen"
