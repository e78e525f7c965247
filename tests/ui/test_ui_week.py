"""The week of a broker in a real browser: charts, texts, keyboard, phone, axe, what it waits for."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from ui_kit import OpenPage, Seat

from benchmarks.pages.tuner import SimulatedTuner

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from week_cases import broker_profile, change_event, history_week

BROKER = 3
IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"


def remember(tuner: SimulatedTuner, days: float = 7.0) -> None:
    """Gives the tuner a history, a profile and a change of the broker."""
    now_ms, cluster = round(tuner.now_s() * 1000), tuner.board.cluster
    for period in history_week(cluster, (BROKER,), now_ms, days):
        tuner.weeks.add(period, now_ms)
    profile, event = broker_profile(cluster, BROKER, now_ms), change_event(cluster, BROKER, now_ms)
    tuner.weeks.profiles = {BROKER: profile}
    tuner.weeks.events = (event,)


def test_week_opens_from_the_broker_and_closes_by_keyboard(open_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    remember(open_tuner)
    page = open_page(open_tuner, "/brokers").page
    link = page.get_by_role("link", name="Week of broker 3")
    link.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Week of broker 3")
    expect(dialog.locator("canvas")).to_have_count(3)
    assert page.url.endswith("#week-3")
    expect(dialog).to_contain_text("110 MB/s in (seen 3 h ago), 900 MB/s out (seen 1 d 2 h ago)")
    expect(dialog).to_contain_text("the model with the most weight is hour yesterday")
    expect(dialog.locator("#week-events li")).to_have_text([re.compile("has changed from 8.00 to 14.5 ms since")])
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page).not_to_have_url(re.compile("#"))
    expect(page.locator("#week-of-3")).to_be_focused()


def test_charts_have_history_forecast_and_limits(open_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    remember(open_tuner)
    page = open_page(open_tuner, "/brokers#week-3").page
    chart = page.locator("#week-in")
    expect(chart.locator("canvas")).to_be_visible()
    times, low, high, clients, _, forecast, capacity, _ = page.evaluate("week.data('week-in')")
    assert len(times) >= 1007 + 167
    history, ahead = [value for value in clients if value is not None], [v for v in forecast if v is not None]
    assert (len(history), len(ahead)) == (1007, 168)
    assert all(15 <= value <= 45 for value in (*history, *ahead))
    widths = [b - a for a, b in zip(low, high, strict=True) if a is not None]
    assert len(widths) == 168
    assert (
        2 <= widths[0] <= widths[-1] == pytest.approx(8.0, abs=0.01)
    )  # Twice the mean error, which grows with the horizon.
    assert set(capacity) == {110}
    said = r"received in a week: clients [\d.]+ MB/s, replication [\d.]+ MB/s, forecast at the end [\d.]+ MB/s, capacity 110 MB/s, ceiling"
    expect(chart).to_have_attribute("aria-label", re.compile(said))
    # The capacity of the other direction is far above its load, so the upper edge names it.
    expect(page.locator("#week-out")).to_have_attribute("data-above", re.compile(r"↑ capacity 900 MB/s"))
    _, p99, baseline, objective = page.evaluate("week.data('week-latency')")
    assert sum(value is not None for value in p99) == 1007
    assert sum(value is not None for value in baseline) == sum(value is not None for value in objective) >= 2 * 167


def test_moves_are_shaded(open_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    remember(open_tuner)
    page = open_page(open_tuner, "/brokers#week-3").page
    expect(page.locator("#week-in canvas")).to_be_visible()
    share = page.evaluate("""() => {
      const canvas = document.querySelector('#week-in canvas');
      const ground = getComputedStyle(document.documentElement).getPropertyValue('--warn-ground').trim();
      const [r, g, b] = ground.match(/[0-9a-f]{2}/gi).map((each) => parseInt(each, 16));
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      const columns = new Set();
      for (let at = 0; at < data.length; at += 4)
        if (data[at] === r && data[at + 1] === g && data[at + 2] === b && data[at + 3] === 255) columns.add((at / 4) % canvas.width);
      return columns.size / (document.querySelector('#week-in .u-over').clientWidth * devicePixelRatio);
    }""")
    # A quarter of the history is shaded, and the history is half of the plot, less the blurred edges of each day's shade.
    # The width of the axes' letters differs by machine, so the axes are left out.
    assert 0.08 < share < 0.13


def test_short_history_leaves_a_day_to_the_forecast(open_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    remember(open_tuner, days=0.25)
    page = open_page(open_tuner, "/brokers#week-3").page
    expect(page.locator("#week-in canvas")).to_be_visible()
    forecast = page.evaluate("week.data('week-in')")[5]
    assert sum(value is not None for value in forecast) == 24


def test_empty_history_says_when_it_begins(open_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    seat = open_page(open_tuner, "/brokers#week-3")
    expect(seat.page.locator("#week-said")).to_contain_text(
        "The history is empty. It begins about ten minutes after the stream starts"
    )
    expect(seat.page.locator("#week-charts")).to_be_hidden()
    expect(seat.page.locator("#week-facts")).to_contain_text("rheostat learn has not published")
    assert seat.axe() == []
    remember(open_tuner)
    seat.page.evaluate("location.hash = ''")
    expect(seat.page.locator("#week")).to_be_hidden()
    seat.page.evaluate("location.hash = '#week-3'")
    expect(seat.page.locator("#week-in canvas")).to_be_visible()
    expect(seat.page.locator("#week-said")).to_be_empty()


def test_former_address_leads_to_the_week(open_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(open_tuner, "/#week-3").page
    expect(page.get_by_role("dialog", name="Week of broker 3")).to_be_visible()
    expect(page).to_have_url(re.compile("/brokers#week-3$"))


def test_unknown_broker_is_named(open_tuner: SimulatedTuner, browser: Browser) -> None:
    seat = Seat(browser, open_tuner.address, "/brokers#week-99")
    expect(seat.page.locator("#week-said")).to_contain_text("Broker 99 is not alive; alive are 1, 2, 3.")
    seat.close()


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_week_passes_axe_and_fits_a_phone(
    open_tuner: SimulatedTuner, open_page: OpenPage, width: int, dark: bool
) -> None:
    remember(open_tuner)
    seat = open_page(open_tuner, "/brokers#week-3", width=width, dark=dark)
    expect(seat.page.locator("#week-latency canvas")).to_be_visible()
    assert seat.axe() == []
    assert seat.page.evaluate(
        "document.querySelector('#week').scrollWidth <= document.querySelector('#week').clientWidth"
    )
    assert seat.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "wider than the screen"
    if width > 1000 and os.environ.get("RHEOSTAT_SCREENSHOTS"):  # `make screenshots`
        seat.page.set_viewport_size({"width": width, "height": 1180})
        seat.page.locator("#week").screenshot(path=IMAGES / "week.png")
